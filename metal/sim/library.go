//go:build linux && amd64

package sim

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

// library holds the compiled kernels of one source, loaded into the process.
type library struct {
	*base.Library[*pipeline]
	handle uintptr
	image  [2]uint64 // address range of the loaded library
	path   string    // of the library's file
}

func loadLibrary(name string, program *msl.Program, path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%s: loading the compiled kernels: %w", name, err)
	}
	l := &library{handle: handle, path: path}
	l.Library = base.NewLibrary(name, program, l.newPipeline)
	var image func(unsafe.Pointer)
	purego.RegisterLibFunc(&image, handle, "msl_image")
	image(unsafe.Pointer(&l.image))
	return l, nil
}

// Log implements metal.Library. It is empty: warnings are errors on this device.
func (l *library) Log() string { return "" }

// pipeline implements metal.Pipeline.
type pipeline struct {
	base.Function
	library   *library
	entry     uintptr
	constants []uint64 // the function constants' values by index, for the kernels
	layout    []layout // of each argument of the kernel

	mu          sync.Mutex
	staticBytes int
}

// layout is the size and alignment of an argument's element type, 0 for a position.
type layout struct{ size, align uint32 }

func (l *library) newPipeline(f base.Function) (*pipeline, error) {
	k := f.Kernel()
	p := &pipeline{Function: f, library: l, constants: make([]uint64, 1)}
	for i, c := range f.Program().Constants {
		p.constants = append(p.constants, make([]uint64, max(0, c.Index+1-len(p.constants)))...)
		p.constants[c.Index] = uint64(f.Constants()[i])
	}
	var err error
	if p.entry, err = purego.Dlsym(l.handle, "msl_entry_"+k.Name); err != nil {
		return nil, err
	}
	table, err := purego.Dlsym(l.handle, "msl_layout_"+k.Name)
	if err != nil {
		return nil, err
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
		MaxTotalThreadsPerThreadgroup: p.Kernel().MaxThreads,
		StaticThreadgroupMemoryLength: p.staticBytes}
}

// entries returns the C++ source of each kernel's entry point: see include/sim_entry.h.
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
