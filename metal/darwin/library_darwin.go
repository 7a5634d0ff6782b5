package darwin

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego/objc"

	"headroom/metal"
	"headroom/metal/msl"
)

type library struct {
	d       *device
	id      objc.ID
	name    string
	program *msl.Program
	log     string

	mu        sync.Mutex
	pipelines map[string]*pipeline
}

// Program implements metal.Library.
func (l *library) Program() *msl.Program { return l.program }

// Log implements metal.Library.
func (l *library) Log() string { return l.log }

// dataTypes are MTLDataType's values (https://developer.apple.com/documentation/metal/mtldatatype).
var dataTypes = map[string]uintptr{"float": 3, "int": 29, "uint": 33, "bool": 53}

type pipeline struct {
	id     objc.ID
	kernel *msl.Kernel
	facts  metal.PipelineFacts
}

// Facts implements metal.Pipeline.
func (p *pipeline) Facts() metal.PipelineFacts { return p.facts }

// Kernel implements metal.Pipeline.
func (p *pipeline) Kernel() *msl.Kernel { return p.kernel }

// Pipeline implements metal.Library
// (https://developer.apple.com/documentation/metal/mtldevice/makecomputepipelinestate(descriptor:options:reflection:)).
func (l *library) Pipeline(kernel string, constants ...metal.ConstantValue) (metal.Pipeline,
	error) {
	k := l.program.Kernel(kernel)
	if k == nil {
		return nil, fmt.Errorf("%s has no kernel %s; it has %s", l.name, kernel,
			l.program.KernelNames())
	}
	bits, err := metal.ConstantBits(l.program, constants)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := fmt.Sprint(kernel, bits)
	if p := l.pipelines[key]; p != nil {
		return p, nil
	}
	var p *pipeline
	inPool(func() { p, err = l.newPipeline(k, bits) })
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
	}
	l.pipelines[key] = p
	return p, nil
}

// newPipeline runs inside a pool.
// https://developer.apple.com/documentation/metal/mtllibrary/makefunction(name:constantvalues:)
func (l *library) newPipeline(k *msl.Kernel, bits []uint32) (*pipeline, error) {
	values := send(class("MTLFunctionConstantValues"), "new")
	defer release(values)
	for i, c := range l.program.Constants {
		// https://developer.apple.com/documentation/metal/mtlfunctionconstantvalues/setconstantvalue(_:type:index:)
		send(values, "setConstantValue:type:atIndex:", uintptr(unsafe.Pointer(&bits[i])),
			dataTypes[c.Type], uintptr(c.Index))
	}
	var problem objc.ID
	function := send(l.id, "newFunctionWithName:constantValues:error:", uintptr(nsString(k.Name)),
		uintptr(values), uintptr(unsafe.Pointer(&problem)))
	if function == 0 {
		return nil, nsError(problem)
	}
	defer release(function)
	descriptor := send(class("MTLComputePipelineDescriptor"), "new")
	defer release(descriptor)
	send(descriptor, "setLabel:", uintptr(nsString(k.Name)))
	send(descriptor, "setComputeFunction:", uintptr(function))
	var reflection objc.ID
	id := send(l.d.id, "newComputePipelineStateWithDescriptor:options:reflection:error:",
		uintptr(descriptor), optionBindingInfo,
		uintptr(unsafe.Pointer(&reflection)), uintptr(unsafe.Pointer(&problem)))
	if id == 0 {
		return nil, nsError(problem)
	}
	l.d.own(id)
	if err := checkReflection(k, l.program, reflection); err != nil {
		return nil, err
	}
	// https://developer.apple.com/documentation/metal/mtlcomputepipelinestate
	return &pipeline{id: id, kernel: k, facts: metal.PipelineFacts{
		ThreadExecutionWidth:          int(send(id, "threadExecutionWidth")),
		MaxTotalThreadsPerThreadgroup: int(send(id, "maxTotalThreadsPerThreadgroup")),
		StaticThreadgroupMemoryLength: int(send(id, "staticThreadgroupMemoryLength")),
	}}, nil
}

// checkReflection holds Metal's view of the arguments against ours: names, and the sizes of
// parameter structs (https://developer.apple.com/documentation/metal/mtlbufferbinding).
func checkReflection(k *msl.Kernel, program *msl.Program, reflection objc.ID) error {
	if !responds(reflection, "bindings") {
		return nil
	}
	bindings := send(reflection, "bindings")
	for i := range uintptr(send(bindings, "count")) {
		b := send(bindings, "objectAtIndex:", i)
		if send(b, "type") != bindingTypeBuffer {
			continue
		}
		index, name := int(send(b, "index")), goString(send(b, "name"))
		a := k.Buffer(index)
		if a == nil || a.Name != name {
			return fmt.Errorf("buffer %d is %q to Metal, %v to us: a fault in metal/msl", index,
				name, a)
		}
		if size, ok := program.StructBytes(a); ok && a.Reference && responds(b, "bufferDataSize") &&
			int(send(b, "bufferDataSize")) != size {
			return fmt.Errorf("argument %s has %d bytes to Metal, %d to us: a fault in metal/msl",
				a, int(send(b, "bufferDataSize")), size)
		}
	}
	return nil
}
