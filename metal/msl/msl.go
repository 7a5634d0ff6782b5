// Package msl reads Metal Shading Language sources: it inlines their includes, so that every device
// compiles one text; reflects their kernels (arguments, parameter structs, function constants), so
// that the host's side is checked against the kernel's; and translates them to C++ for OpenCL 2021,
// which clang compiles for machines without Metal.
//
// It is no compiler. It reads declarations, trusts clang with the rest, and holds authors to
// conventions that make reading declarations enough (CONTRIBUTING.md, "Add a Metal kernel"). What
// it refuses, it refuses with file and line.
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

// Program is what a source declares. It is immutable.
type Program struct {
	Kernels   []*Kernel  // what a host can ask for by name, in order of appearance
	Constants []Constant // function constants
	structs   []Struct
	opencl    string
}

// Kernel is one entry point: a kernel function, or an instantiation of a kernel template under its
// host_name.
type Kernel struct {
	Name       string // as the host asks for it
	Expression string // as C++ names it: "matvec<half, 64>"
	Arguments  []Argument
	MaxThreads int // of [[max_total_threads_per_threadgroup]], MaxThreadsPerThreadgroup without it
}

// ArgumentKind says how an argument reaches the kernel.
type ArgumentKind uint8

// The kinds of arguments.
const (
	BufferArgument ArgumentKind = iota // [[buffer(i)]]: memory
	// [[threadgroup(i)]]: threadgroup memory whose length the host sets
	ThreadgroupArgument
	// [[thread_position_in_grid]] and the like: Attribute names it
	PositionArgument
)

// Argument is one parameter of a kernel.
type Argument struct {
	Name      string
	Type      string // as written, words parted by spaces: "device const float *"
	Kind      ArgumentKind
	Index     int    // of a buffer or threadgroup argument
	Attribute string // of a position argument
	Constant  bool   // in the constant address space
	ReadOnly  bool   // the kernel cannot write it: constant, or a pointer to const
	Reference bool   // T& rather than T*: one element
	// the function constant that switches the argument on, "" for one that is always there
	Optional string
}

// Constant is one function constant: a value that the host gives when it makes a pipeline.
type Constant struct {
	Name  string
	Type  string // bool, int, uint or float
	Index int
}

// Kernel returns the kernel of that name, nil if there is none.
func (p *Program) Kernel(name string) *Kernel {
	for _, k := range p.Kernels {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// KernelNames lists the kernels for a message.
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

// OpenCL is the program as C++ for OpenCL, to be compiled behind this package's Headers and a
// device's own. Lines are the source's.
//
// A device's header defines two macros for what only it can do:
//
//	MSL_FUNCTION_CONSTANT(type, name, index)   declares msl_constant_NAME(), the value of a function constant
//	MSL_THREADGROUP(id, name, dims, type...)   declares a threadgroup variable `type name dims`
func (p *Program) OpenCL() string { return p.opencl }
