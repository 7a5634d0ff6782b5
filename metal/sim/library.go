//go:build linux && amd64

package sim

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"headroom/metal"
	"headroom/metal/msl"
)

// library is the kernels of one source, loaded.
type library struct {
	d       *device
	name    string
	program *msl.Program
	handle  uintptr
	image   [2]uint64 // where it lies in memory
	lines   *lineTable

	mu        sync.Mutex
	pipelines map[string]*pipeline
}

func loadLibrary(d *device, name string, program *msl.Program, path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%s: loading the compiled kernels: %w", name, err)
	}
	l := &library{d: d, name: name, program: program, handle: handle, lines: &lineTable{path: path},
		pipelines: map[string]*pipeline{}}
	var image func(unsafe.Pointer)
	purego.RegisterLibFunc(&image, handle, "msl_image")
	image(unsafe.Pointer(&l.image))
	return l, nil
}

// Program implements metal.Library.
func (l *library) Program() *msl.Program { return l.program }

// Log implements metal.Library: warnings are errors here.
func (l *library) Log() string { return "" }

// Pipeline implements metal.Library.
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
	p, err := l.newPipeline(k, values)
	if err == nil {
		l.pipelines[key] = p
	}
	return p, err
}

// pipeline is a kernel with its function constants.
type pipeline struct {
	library   *library
	kernel    *msl.Kernel
	entry     uintptr
	values    []uint32 // of the program's function constants
	constants []uint64 // the same by index, as kernels ask for them
	layout    []layout // of each argument of the kernel

	mu          sync.Mutex
	staticBytes int
}

// layout is the size and alignment of what an argument points to, 0 for others.
type layout struct{ size, align uint32 }

func (l *library) newPipeline(k *msl.Kernel, values []uint32) (*pipeline, error) {
	p := &pipeline{library: l, kernel: k, values: values, constants: make([]uint64, 1)}
	for i, c := range l.program.Constants {
		p.constants = append(p.constants, make([]uint64, max(0, c.Index+1-len(p.constants)))...)
		p.constants[c.Index] = uint64(values[i])
	}
	var err error
	if p.entry, err = purego.Dlsym(l.handle, "msl_entry_"+k.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	table, err := purego.Dlsym(l.handle, "msl_layout_"+k.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	p.layout = append(p.layout,
		unsafe.Slice(*(**layout)(unsafe.Pointer(&table)), len(k.Arguments))...)
	return p, nil
}

// Facts implements metal.Pipeline.
func (p *pipeline) Facts() metal.PipelineFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return metal.PipelineFacts{ThreadExecutionWidth: msl.SimdgroupThreads,
		MaxTotalThreadsPerThreadgroup: p.kernel.MaxThreads,
		StaticThreadgroupMemoryLength: p.staticBytes}
}

// Kernel implements metal.Pipeline.
func (p *pipeline) Kernel() *msl.Kernel { return p.kernel }

// absent tells an argument that the pipeline's function constants switch off.
func (p *pipeline) absent(
	a *msl.Argument) bool {
	return metal.Absent(p.library.program, p.values, a)
}

// entries is the C++ that makes every kernel callable: see include/msl_entry.h.
func entries(program *msl.Program) string {
	var b strings.Builder
	b.WriteString(
		"\n#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable\n#line 1 \"entries\"\n")
	for _, k := range program.Kernels {
		var arguments, layouts []string
		for i, a := range k.Arguments {
			memory := fmt.Sprintf("MSL_MEMORY_OF(msl_function_%s, %d)", k.Name, i)
			switch a.Kind {
			case msl.BufferArgument:
				arguments = append(arguments,
					fmt.Sprintf("%s::at(c->buffers[%d])", memory, a.Index))
			case msl.ThreadgroupArgument:
				arguments = append(arguments,
					fmt.Sprintf("%s::at(c->threadgroups[%d])", memory, a.Index))
			default:
				arguments = append(arguments, "c->"+a.Attribute)
				layouts = append(layouts, "0, 0")
				continue
			}
			layouts = append(layouts, fmt.Sprintf("%s::size, %s::align", memory, memory))
		}
		layouts = append(layouts, "0")
		fmt.Fprintf(&b, "typedef decltype(%s) msl_function_%s;\n", k.Expression, k.Name)
		fmt.Fprintf(&b, "MSL_EXPORT __constant uint msl_layout_%s[] = {%s};\n", k.Name,
			strings.Join(layouts, ", "))
		fmt.Fprintf(&b,
			"MSL_EXPORT __attribute__((no_sanitize(\"thread\"))) void msl_entry_%s(__private "+
				"msl::context *c) { %s(%s); }\n", k.Name, k.Expression,
			strings.Join(arguments, ", "))
	}
	return b.String()
}
