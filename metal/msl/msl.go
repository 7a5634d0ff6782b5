// Package msl reads Metal Shading Language sources. Inline resolves their includes, so that every
// device compiles one text. Parse reads the declarations of kernels (arguments, parameter structs,
// function constants), so that the host's calls can be checked against them. Program.OpenCL
// translates a source to C++ for OpenCL 2021, which clang compiles on machines without Metal.
//
// The package is not a compiler. It reads declarations only and leaves the rest to clang. The rules
// in CONTRIBUTING.md, "Add a Metal kernel", make that sufficient. Errors have file and line.
//
// Source: Apple, "Metal Shading Language Specification"
// (https://developer.apple.com/metal/Metal-Shading-Language-Specification.pdf).
package msl

import (
	"fmt"
	"strings"
)

// Limits of every Apple GPU (Apple, "Metal Feature Set Tables").
const (
	MaxBuffers                = 31        // buffer arguments of one kernel, indices 0 to 30
	MaxThreadsPerThreadgroup  = 1024      // threads of one threadgroup
	MaxThreadgroupMemoryBytes = 32 * 1024 // static and dynamic threadgroup memory together
	SimdgroupThreads          = 32        // threads of a simdgroup
)

// Program holds the declarations of a source. It is immutable.
type Program struct {
	Kernels   []*Kernel  // in order of appearance
	Constants []Constant // function constants
	structs   []Struct
	opencl    string
}

// Kernel is a kernel function, or an instantiation of a kernel template under its host_name.
type Kernel struct {
	Name       string // the host passes it to Library.Pipeline
	Expression string // in C++, such as "matvec<half, 64>"
	Arguments  []Argument
	MaxThreads int // [[max_total_threads_per_threadgroup]], or MaxThreadsPerThreadgroup
}

// ArgumentKind is the kind of a kernel's argument.
type ArgumentKind uint8

// The kinds of arguments.
const (
	BufferArgument ArgumentKind = iota // [[buffer(i)]]
	// [[threadgroup(i)]]: the host sets its length
	ThreadgroupArgument
	// [[thread_position_in_grid]] and the like: see Argument.Attribute
	PositionArgument
)

// Argument is one parameter of a kernel.
type Argument struct {
	Name      string
	Type      string // as written, with a space between words: "device const float *"
	Kind      ArgumentKind
	Index     int    // of a buffer or threadgroup argument
	Attribute string // of a position argument
	Constant  bool   // in the constant address space
	ReadOnly  bool   // in the constant address space, or a pointer to const
	Reference bool   // T&, which is one element, rather than T*
	// Optional is the function constant that enables the argument, "" if it is always present.
	Optional string
}

// Constant is a function constant. The host gives its value when it makes a pipeline.
type Constant struct {
	Name  string
	Type  string // bool, int, uint or float
	Index int
}

// Kernel returns the kernel called name, nil if there is none.
func (p *Program) Kernel(name string) *Kernel {
	for _, k := range p.Kernels {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// KernelNames returns the names of the kernels, separated by commas.
func (p *Program) KernelNames() string {
	var names []string
	for _, k := range p.Kernels {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// Buffer returns k's buffer argument of that index, nil if there is none.
func (k *Kernel) Buffer(index int) *Argument { return k.argument(BufferArgument, index) }

// Threadgroup returns k's threadgroup argument of that index, nil if there is none.
func (k *Kernel) Threadgroup(index int) *Argument { return k.argument(ThreadgroupArgument, index) }

func (k *Kernel) argument(kind ArgumentKind, index int) *Argument {
	for i := range k.Arguments {
		if a := &k.Arguments[i]; a.Kind == kind && a.Index == index {
			return a
		}
	}
	return nil
}

func (a *Argument) String() string { return fmt.Sprintf("%s (%s)", a.Name, a.Type) }

// OpenCL returns the program as C++ for OpenCL. This package's Headers and the device's headers
// must be included before it. It has the line numbers of the source.
//
// The device's headers define two macros:
//
//	// declares msl_constant_NAME(), which returns the value of a function constant
//	MSL_FUNCTION_CONSTANT(type, name, index)
//	// declares a threadgroup variable `type name dims`
//	MSL_THREADGROUP(id, name, dims, type...)
func (p *Program) OpenCL() string { return p.opencl }
