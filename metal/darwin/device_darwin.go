package darwin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego/objc"

	"headroom/metal"
	"headroom/metal/base"
)

// Values of Metal's enumerations.
const (
	resourceStorageShared     = 0      // MTLResourceStorageModeShared
	resourceHazardUntracked   = 1 << 8 // MTLResourceHazardTrackingModeUntracked
	languageVersion31         = 3<<16 | 1
	mathModeSafe              = 0 // MTLMathModeSafe
	optionBindingInfo         = 1 // MTLPipelineOptionBindingInfo
	bindingTypeBuffer         = 0 // MTLBindingTypeBuffer
	dispatchConcurrent        = 1 // MTLDispatchTypeConcurrent
	barrierBuffers            = 1 // MTLBarrierScopeBuffers
	statusCompleted           = 4 // MTLCommandBufferStatusCompleted
	errorTimeout              = 2 // MTLCommandBufferErrorTimeout
	errorOptionEncoderDetails = 1 // MTLCommandBufferErrorOptionEncoderExecutionStatus
)

// errorDomain is MTLCommandBufferErrorDomain
// (https://developer.apple.com/documentation/metal/mtlcommandbuffererror-swift.struct).
const errorDomain = "MTLCommandBufferErrorDomain"

// families are the GPU families that Facts reports
// (https://developer.apple.com/documentation/metal/mtlgpufamily).
var families = []struct {
	name  string
	value uintptr
}{{"Apple7", 1007}, {"Apple8", 1008}, {"Apple9", 1009}, {"Apple10", 1010}, {"Metal3", 5001},
	{"Metal4", 5002}}

// Open returns the system's default GPU
// (https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice()). The error says
// what is missing.
func Open() (metal.Device, error) {
	if err := loadFrameworks(); err != nil {
		return nil, err
	}
	d := &device{}
	var err error
	inPool(func() {
		if d.id = createDevice(); d.id == 0 {
			err = errors.New("this Mac has no Metal device")
			return
		}
		// https://developer.apple.com/documentation/metal/mtldevice/makecommandqueue()
		d.queue = send(d.id, "newCommandQueue")
		// https://developer.apple.com/documentation/metal/mtldevice/makefence()
		d.fence = send(d.id, "newFence")
		if d.queue == 0 || d.fence == 0 {
			err = errors.New("Metal returned no command queue or fence")
			return
		}
		// https://developer.apple.com/documentation/metal/mtlcommandqueue/label
		send(d.queue, "setLabel:", uintptr(nsString("Headroom")))
		d.facts = facts(d.id)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

type device struct {
	id, queue objc.ID
	fence     objc.ID // orders Commands: Metal does not order access to untracked buffers
	facts     metal.Facts

	mu    sync.Mutex
	owned []objc.ID // released by Close
	sets  []objc.ID // MTLResidencySet, released by Close
}

// own keeps an object for Close to release.
func (d *device) own(o objc.ID) objc.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owned = append(d.owned, o)
	return o
}

// facts reads the properties of a device
// (https://developer.apple.com/documentation/metal/mtldevice).
func facts(id objc.ID) metal.Facts {
	f := metal.Facts{
		Name:                         goString(send(id, "name")),
		UnifiedMemory:                truth(send(id, "hasUnifiedMemory")),
		RecommendedMaxWorkingSetSize: uint64(send(id, "recommendedMaxWorkingSetSize")),
		MaxBufferLength:              uint64(send(id, "maxBufferLength")),
		MaxThreadgroupMemoryLength:   int(send(id, "maxThreadgroupMemoryLength")),
		PageBytes:                    os.Getpagesize(),
		// https://developer.apple.com/documentation/foundation/processinfo/operatingsystemversionstring
		System: "macOS " + goString(
			send(send(class("NSProcessInfo"), "processInfo"), "operatingSystemVersionString")),
	}
	for _, family := range families {
		// https://developer.apple.com/documentation/metal/mtldevice/supportsfamily(_:)
		if truth(send(id, "supportsFamily:", family.value)) {
			f.Families = append(f.Families, family.name)
		}
	}
	return f
}

// Facts implements metal.Device.
func (d *device) Facts() metal.Facts { return d.facts }

// NewLibrary implements metal.Device
// (https://developer.apple.com/documentation/metal/mtldevice/makelibrary(source:options:)). The
// math mode is safe: floating-point operations are not reassociated, and NaNs are respected
// (https://developer.apple.com/documentation/metal/mtlmathmode).
func (d *device) NewLibrary(name, source string, headers fs.FS) (metal.Library, error) {
	text, program, err := base.ReadSource(name, source, headers)
	if err != nil {
		return nil, err
	}
	l := &library{d: d}
	l.Library = base.NewLibrary(name, program, l.newPipeline)
	inPool(func() {
		options := send(class("MTLCompileOptions"), "new")
		defer release(options)
		send(options, "setLanguageVersion:", languageVersion31)
		if responds(options, "setMathMode:") {
			send(options, "setMathMode:", mathModeSafe)
		} else {
			// before macOS 15:
			// https://developer.apple.com/documentation/metal/mtlcompileoptions/fastmathenabled
			send(options, "setFastMathEnabled:", 0)
		}
		var problem objc.ID
		l.id = send(d.id, "newLibraryWithSource:options:error:", uintptr(nsString(text)),
			uintptr(options), uintptr(unsafe.Pointer(&problem)))
		if l.id == 0 {
			err = fmt.Errorf("%s: Metal's compiler: %w", name, nsError(problem))
			return
		}
		if problem != 0 { // warnings
			l.log = nsError(problem).Error()
		}
		// https://developer.apple.com/documentation/metal/mtllibrary/label
		send(l.id, "setLabel:", uintptr(nsString(name)))
		d.own(l.id)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

type buffer struct {
	d      *device
	id     objc.ID
	label  string
	memory []byte
}

func (b *buffer) Bytes() []byte { return b.memory }
func (b *buffer) Label() string { return b.label }

// NewBuffer implements metal.Device
// (https://developer.apple.com/documentation/metal/mtldevice/makebuffer(length:options:)).
func (d *device) NewBuffer(label string, bytes int) (metal.Buffer, error) {
	if err := base.CheckLength(label, bytes, d.facts.MaxBufferLength); err != nil {
		return nil, err
	}
	b := &buffer{d: d, label: label}
	inPool(func() {
		b.id = send(d.id, "newBufferWithLength:options:", uintptr(bytes),
			resourceStorageShared|resourceHazardUntracked)
		if b.id != 0 { // https://developer.apple.com/documentation/metal/mtlbuffer/contents()
			b.memory = unsafe.Slice((*byte)(pointer(send(b.id, "contents"))), bytes)
		}
	})
	return d.keep(b, bytes)
}

// WrapBuffer implements metal.Device
// (https://developer.apple.com/documentation/metal/mtldevice/makebuffer(bytesnocopy:length:options:deallocator:)).
func (d *device) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if err := base.CheckLength(label, len(memory), d.facts.MaxBufferLength); err != nil {
		return nil, err
	}
	if err := base.CheckPages(label, memory, d.facts.PageBytes); err != nil {
		return nil, err
	}
	start := unsafe.Pointer(unsafe.SliceData(memory))
	b := &buffer{d: d, label: label, memory: memory}
	inPool(func() {
		b.id = send(d.id, "newBufferWithBytesNoCopy:length:options:deallocator:", uintptr(start),
			uintptr(len(memory)), resourceStorageShared|resourceHazardUntracked, 0)
	})
	return d.keep(b, len(memory))
}

// keep labels a new buffer (https://developer.apple.com/documentation/metal/mtlresource/label) and
// keeps it for Close.
func (d *device) keep(b *buffer, bytes int) (metal.Buffer, error) {
	if b.id == 0 {
		return nil, fmt.Errorf("buffer %q: Metal refused %d bytes", b.label, bytes)
	}
	inPool(func() { send(b.id, "setLabel:", uintptr(nsString(b.label))) })
	d.own(b.id)
	return b, nil
}

// Free implements metal.Device.
func (d *device) Free(b metal.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, ok := b.(*buffer)
	if !ok || own.d != d {
		return
	}
	if i := slices.Index(d.owned, own.id); i >= 0 {
		d.owned = slices.Delete(d.owned, i, i+1)
		release(own.id)
	}
	own.id, own.memory = 0, nil // SetBuffers refuses it from now on
}

// MakeResident implements metal.Device
// (https://developer.apple.com/documentation/metal/mtlresidencyset), from macOS 15 on.
func (d *device) MakeResident(label string, buffers []metal.Buffer) error {
	if !responds(d.id, "newResidencySetWithDescriptor:error:") {
		return nil
	}
	var err error
	inPool(func() {
		descriptor := send(class("MTLResidencySetDescriptor"), "new")
		defer release(descriptor)
		send(descriptor, "setLabel:", uintptr(nsString(label)))
		send(descriptor, "setInitialCapacity:", uintptr(len(buffers)))
		var problem objc.ID
		set := send(d.id, "newResidencySetWithDescriptor:error:", uintptr(descriptor),
			uintptr(unsafe.Pointer(&problem)))
		if set == 0 {
			err = fmt.Errorf("residency set %q: %w", label, nsError(problem))
			return
		}
		d.keepSet(set)
		for _, b := range buffers {
			own, ok := b.(*buffer)
			if !ok || own.d != d {
				err = fmt.Errorf("residency set %q: buffer %q belongs to another device", label,
					b.Label())
				return
			}
			// https://developer.apple.com/documentation/metal/mtlresidencyset/addallocation(_:)
			send(set, "addAllocation:", uintptr(own.id))
		}
		// https://developer.apple.com/documentation/metal/mtlresidencyset/commit()
		send(set, "commit")
		// https://developer.apple.com/documentation/metal/mtlresidencyset/requestresidency()
		send(set, "requestResidency")
		// https://developer.apple.com/documentation/metal/mtlcommandqueue/addresidencyset(_:)
		send(d.queue, "addResidencySet:", uintptr(set))
	})
	return err
}

// keepSet keeps a residency set for Close.
func (d *device) keepSet(set objc.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sets = append(d.sets, set)
}

// Close implements metal.Device. Residency sets end before their buffers are released.
func (d *device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, set := range d.sets {
		// https://developer.apple.com/documentation/metal/mtlresidencyset/endresidency()
		send(set, "endResidency")
		// https://developer.apple.com/documentation/metal/mtlcommandqueue/removeresidencyset(_:)
		send(d.queue, "removeResidencySet:", uintptr(set))
		release(set)
	}
	d.sets = nil
	for i := len(d.owned) - 1; i >= 0; i-- {
		release(d.owned[i])
	}
	d.owned = nil
	for _, o := range []*objc.ID{&d.fence, &d.queue, &d.id} {
		release(*o)
		*o = 0
	}
}
