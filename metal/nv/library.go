//go:build nv && linux

package nv

import (
	"errors"
	"io/fs"
	"runtime"
	"unsafe"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

// library holds the kernels of one source. A kernel is compiled when a pipeline is made from it.
type library struct {
	*base.Library[*pipeline]
	d    *Device
	name string
}

// Log implements metal.Library. It is empty: this device does not report warnings.
func (l *library) Log() string { return "" }

// pipeline implements metal.Pipeline.
type pipeline struct {
	base.Function
	f     uintptr // CUfunction
	facts metal.PipelineFacts
}

// Facts implements metal.Pipeline.
func (p *pipeline) Facts() metal.PipelineFacts { return p.facts }

// NewLibrary implements metal.Device.
func (d *Device) NewLibrary(name, source string, headers fs.FS) (metal.Library, error) {
	_, program, err := base.ReadSource(name, source, headers)
	if err != nil {
		return nil, err
	}
	l := &library{d: d, name: name}
	l.Library = base.NewLibrary(name, program, l.newPipeline)
	return l, nil
}

// newPipeline compiles a kernel, or finds it in the cache, and loads it into the driver.
func (l *library) newPipeline(f base.Function) (*pipeline, error) {
	k := f.Kernel()
	code, err := l.d.compiler.kernel(l.name, f.Program(), k, f.Constants())
	if err != nil {
		return nil, err
	}
	p := &pipeline{Function: f}
	p.facts = metal.PipelineFacts{ThreadExecutionWidth: msl.SimdgroupThreads,
		MaxTotalThreadsPerThreadgroup: k.MaxThreads}
	if l.d.driver == nil {
		return p, nil
	}
	return p, p.load(l.d.driver, code)
}

// load loads compiled code into the driver and reads the kernel's limits.
func (p *pipeline) load(v *driver, code []byte) error {
	leave, err := v.enter()
	if err != nil {
		return err
	}
	defer leave()
	module, err := get[uintptr](v, "cuModuleLoadData", v.moduleLoad,
		uintptr(unsafe.Pointer(unsafe.SliceData(code))))
	runtime.KeepAlive(code)
	if err != nil {
		return err
	}
	name := append([]byte(entryName), 0)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&name[0])
	p.f, err = get[uintptr](v, "cuModuleGetFunction", v.moduleGetFunction, module,
		uintptr(unsafe.Pointer(&name[0])))
	if err != nil {
		return err
	}
	threads, err := get[int32](v, "cuFuncGetAttribute", v.funcGetAttribute, funcMaxThreads, p.f)
	static, err2 := get[int32](v, "cuFuncGetAttribute", v.funcGetAttribute, funcSharedBytes, p.f)
	p.facts.MaxTotalThreadsPerThreadgroup = min(p.Kernel().MaxThreads, int(threads))
	p.facts.StaticThreadgroupMemoryLength = int(static)
	return errors.Join(err, err2)
}
