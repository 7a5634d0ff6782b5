//go:build linux

package nv

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"headroom/metal"
	"headroom/metal/msl"
)

// library is the kernels of one source.
type library struct {
	d       *Device
	name    string
	program *msl.Program

	mu        sync.Mutex
	pipelines map[string]*pipeline
}

// Program implements metal.Library.
func (l *library) Program() *msl.Program { return l.program }

// Log implements metal.Library: warnings are the other devices' to tell.
func (l *library) Log() string { return "" }

// pipeline is a kernel with its function constants, loaded.
type pipeline struct {
	library *library
	kernel  *msl.Kernel
	values  []uint32 // of the program's function constants
	f       uintptr  // the driver's function
	facts   metal.PipelineFacts
}

// Facts implements metal.Pipeline.
func (p *pipeline) Facts() metal.PipelineFacts { return p.facts }

// Kernel implements metal.Pipeline.
func (p *pipeline) Kernel() *msl.Kernel { return p.kernel }

// absent tells an argument that the pipeline's function constants switch off.
func (p *pipeline) absent(
	a *msl.Argument) bool {
	return metal.Absent(p.library.program, p.values, a)
}

// Pipeline implements metal.Library: it compiles the kernel, or takes it from the cache, and loads
// it.
func (l *library) Pipeline(kernel string, constants ...metal.ConstantValue) (metal.Pipeline,
	error) {
	k := l.program.Kernel(kernel)
	if k == nil {
		return nil, fmt.Errorf("%s has no kernel %s; it has %s", l.name, kernel,
			l.program.KernelNames())
	}
	values, err := metal.ConstantBits(l.program, constants)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
	}
	key := fmt.Sprint(kernel, values)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pipelines[key]; p != nil {
		return p, nil
	}
	code, err := l.d.compiler.kernel(l.name, l.program, k, values)
	if err != nil {
		return nil, err
	}
	p := &pipeline{library: l, kernel: k, values: values}
	p.facts = metal.PipelineFacts{ThreadExecutionWidth: msl.SimdgroupThreads,
		MaxTotalThreadsPerThreadgroup: k.MaxThreads}
	if l.d.driver != nil {
		if err := p.load(l.d.driver, code); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
		}
	}
	l.pipelines[key] = p
	return p, nil
}

// load gives code to the driver and asks what became of it.
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
	p.facts.MaxTotalThreadsPerThreadgroup = min(p.kernel.MaxThreads, int(threads))
	p.facts.StaticThreadgroupMemoryLength = int(static)
	return errors.Join(err, err2)
}
