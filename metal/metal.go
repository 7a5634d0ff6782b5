// Package metal is the small part of Apple's Metal that an engine needs, under Metal's names: a
// device makes libraries of kernels from source text, pipelines from kernels, and buffers; commands
// record dispatches and run them. It knows nothing of models.
//
// Two packages implement it: metal/darwin drives a Mac's GPU, metal/sim compiles the same sources
// with clang and runs them on Linux, looking for mistakes while it does. What holds on both is said
// here; every method's page at Apple is linked in metal/darwin.
//
//	d            Device        darwin.Open() or sim.Open(...)
//	lib          d.NewLibrary(name, source, headers)
//	pipe         lib.Pipeline("rms_norm")
//	c            d.NewCommands(); c.SetPipeline(pipe); c.SetBuffers(0, ...); c.Dispatch("rms_norm", groups, threads)
//	             c.Barrier() between dispatches that share memory; c.Commit(nil); c.Wait()
package metal

import (
	"fmt"
	"io/fs"

	"headroom/metal/msl"
)

// Device is one GPU. Its methods may be called from several goroutines.
type Device interface {
	Facts() Facts
	// NewLibrary compiles source, whose `#include "x"` are taken from headers (nil if it has none).
	// name stands in messages.
	NewLibrary(name, source string, headers fs.FS) (Library, error)
	// NewBuffer allocates memory that host and GPU share. What it holds at first is not defined.
	// Buffers are meant to live as long as the device: make them once, not while work runs.
	NewBuffer(label string, bytes int) (Buffer, error)
	// WrapBuffer makes memory that the caller keeps mapped visible to the GPU without a copy. Its
	// address and length must be multiples of Facts().PageBytes.
	WrapBuffer(label string, memory []byte) (Buffer, error)
	// MakeResident keeps buffers wired for the GPU, as one set, from now until the device is
	// closed, where the system can (macOS 15); elsewhere it does nothing. A few large stable sets
	// are better than many.
	MakeResident(label string, buffers []Buffer) error
	// NewCommands makes a recorder. Each may be used again after Wait; two of them let the host
	// record while the GPU runs.
	NewCommands() Commands
	// Close frees everything made by the device. Wait for all work before.
	Close()
}

// Allocator is a Device whose GPU does not work on the system's memory at speed: what host and GPU
// share must come from it, not be wrapped. Its methods may be called as a Device's.
type Allocator interface {
	// Allocate is zeroed memory for host and GPU.
	Allocate(label string, bytes int) (Buffer, error)
	// Free gives back memory of Allocate before the device is closed. No work may use it, then or
	// later.
	Free(b Buffer)
}

// Facts are what a device says about itself. They are read, never computed.
type Facts struct {
	Name          string
	Families      []string // as "Apple7", "Metal3"
	UnifiedMemory bool
	// bytes that the GPU may use without harm to speed; 0 if the device knows no such limit
	RecommendedMaxWorkingSetSize uint64
	MaxBufferLength              uint64 // bytes
	MaxThreadgroupMemoryLength   int    // bytes
	PageBytes                    int
	System                       string // operating system and version
}

// Library is the kernels of one source.
type Library interface {
	// Program is the source as read: kernels, arguments, structs.
	Program() *msl.Program
	// Log is what the compiler said beside errors, "" if nothing.
	Log() string
	// Pipeline prepares a kernel for dispatch, with a value for each of the source's function
	// constants. Asking again for the same gives the same pipeline.
	Pipeline(kernel string, constants ...ConstantValue) (Pipeline, error)
}

// Pipeline is a kernel ready to run. It is immutable.
type Pipeline interface {
	Facts() PipelineFacts
	// Kernel is the kernel as declared.
	Kernel() *msl.Kernel
}

// PipelineFacts are what the device made of a kernel.
type PipelineFacts struct {
	ThreadExecutionWidth          int // threads of a simdgroup
	MaxTotalThreadsPerThreadgroup int // fewer than asked for when the kernel needs many registers
	// StaticThreadgroupMemoryLength is the bytes of the kernel's own threadgroup variables; the
	// simulated device knows them only after the first dispatch, and says 0 before.
	StaticThreadgroupMemoryLength int
}

// Buffer is a run of memory.
type Buffer interface {
	// Bytes is the host's view. It must not be read while work that writes it is under way, nor
	// written while work uses it.
	Bytes() []byte
	Label() string
}

// Binding is what a buffer argument is set to: Buffer from Offset on. Bytes is how much of it the
// kernel may touch, for the simulated device's checks; 0 means up to the end. A nil Buffer binds
// nothing, for an argument that the kernel will not touch.
type Binding struct {
	Buffer Buffer
	Offset int
	Bytes  int
}

// Size is a count of threads or threadgroups in three dimensions, each at least 1.
type Size struct{ X, Y, Z int }

// Count is the product of the dimensions.
func (s Size) Count() int { return s.X * s.Y * s.Z }

func (s Size) String() string { return fmt.Sprintf("(%d, %d, %d)", s.X, s.Y, s.Z) }

// Commands records dispatches and runs them. One goroutine uses it at a time; from the first call
// after making or waiting, up to Commit, it must be the same one. Mistakes in recording are
// returned by Wait, the first of them. What one Commands writes, those committed later on the same
// device see.
type Commands interface {
	SetPipeline(p Pipeline)
	// SetBuffers sets buffer arguments first, first+1, ... They stay set until Commit.
	SetBuffers(first int, bindings ...Binding)
	// SetThreadgroupMemory sets the length of threadgroup argument index: a multiple of 16.
	SetThreadgroupMemory(index, bytes int)
	// Dispatch runs groups threadgroups of threads threads each. label names it in messages and
	// traces. Dispatches between two barriers run in any order, at the same time.
	Dispatch(label string, groups, threads Size)
	// Barrier makes what was written before visible to what is dispatched after.
	Barrier()
	// Commit sends what was recorded to the device. done, unless nil, is called once from some
	// goroutine or thread when it has run or failed; it must not wait.
	Commit(done func(error))
	// Wait returns when what was committed has run, with what went wrong. After it the Commands may
	// record again.
	Wait() error
	// GPUTime is the seconds that the last work waited for took on the device.
	GPUTime() float64
}

// ConstantValue is the value of a function constant.
type ConstantValue struct {
	Name  string
	Value any // bool, int32, uint32 or float32
}
