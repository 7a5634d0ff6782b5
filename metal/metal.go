// Package metal is the part of Apple's Metal that an inference engine needs, under Metal's names. A
// Device makes a Library of kernels from source text, a Pipeline from a kernel, and buffers.
// Commands record dispatches and run them. The package knows nothing of models.
//
// Package metal/darwin implements it on a Mac's GPU. Package metal/sim compiles the same sources
// with clang, runs them on the CPU and looks for mistakes while it does. Package metal/nv runs them
// on an NVIDIA GPU; it is a development tool. Comments here hold for all of them. The comments of
// metal/darwin link to Apple's pages.
//
//	device, err := darwin.Open()
//	library, err := device.NewLibrary(name, source, headers)
//	pipeline, err := library.Pipeline("rms_norm")
//	commands := device.NewCommands()
//	commands.SetPipeline(pipeline)
//	commands.SetBuffers(0, bindings...)
//	commands.Dispatch("rms_norm", groups, threads)
//	commands.Barrier() // between dispatches that share memory
//	commands.Commit(nil)
//	err = commands.Wait()
package metal

import (
	"errors"
	"fmt"
	"io/fs"

	"headroom/metal/msl"
)

// Device is one GPU (MTLDevice). Its methods may be called from several goroutines.
type Device interface {
	Facts() Facts
	// NewLibrary compiles source. Its `#include "x"` lines are resolved in headers, which may be
	// nil if it has none. name identifies the source in messages.
	NewLibrary(name, source string, headers fs.FS) (Library, error)
	// NewBuffer allocates memory that host and GPU share. Its contents are undefined. The buffer
	// lives until Free or Close. Allocate buffers up front rather than while work runs. The error
	// wraps ErrBufferLength if bytes is not in [1, Facts().MaxBufferLength].
	NewBuffer(label string, bytes int) (Buffer, error)
	// WrapBuffer makes the caller's memory visible to the GPU without a copy. Its address and
	// length must be multiples of Facts().PageBytes. The caller keeps it mapped until the buffer is
	// freed or the device is closed. Several buffers may wrap the same memory. Its length has the
	// limits of NewBuffer.
	WrapBuffer(label string, memory []byte) (Buffer, error)
	// Free releases a buffer before the device is closed. No work and no residency set may use it.
	Free(b Buffer)
	// MakeResident adds buffers to a residency set, which stays resident until the device is
	// closed. It does nothing where the system has no residency sets (before macOS 15). Prefer a
	// few large sets that do not change.
	MakeResident(label string, buffers []Buffer) error
	// NewCommands returns a recorder. It can be used again after Wait. With two of them the host
	// records while the GPU runs.
	NewCommands() Commands
	// Close frees everything that the device has made. Wait for all work first.
	Close()
}

// Allocator is implemented by a Device whose GPU cannot use the system's memory at full speed.
// Memory that host and GPU share must then come from Allocate instead of WrapBuffer. Several
// goroutines may call it.
type Allocator interface {
	// Allocate returns zeroed memory that host and GPU share.
	Allocate(label string, bytes int) (Buffer, error)
}

// ErrBufferLength is wrapped by errors about memory that is longer than one buffer can be.
var ErrBufferLength = errors.New("the length is beyond the limits of a Metal buffer")

// ErrTimeout is wrapped by the error of Commands.Wait if the system has ended the work because it
// took too long (MTLCommandBufferErrorTimeout). The device is of no use afterwards.
var ErrTimeout = errors.New("the system has ended the GPU's work because it took too long")

// Facts are the properties that a device reports.
type Facts struct {
	Name          string
	Families      []string // GPU families, such as "Apple7" and "Metal3"
	UnifiedMemory bool
	// RecommendedMaxWorkingSetSize is the number of bytes that the GPU can use without slowing
	// down; 0 if the device reports no limit.
	RecommendedMaxWorkingSetSize uint64
	MaxBufferLength              uint64 // bytes of the longest buffer
	MaxThreadgroupMemoryLength   int    // bytes
	PageBytes                    int
	System                       string // operating system and version
}

// Library holds the kernels of one source (MTLLibrary).
type Library interface {
	// Program returns what the source declares: kernels, arguments, structs.
	Program() *msl.Program
	// Log returns the compiler's warnings, "" if there are none.
	Log() string
	// Pipeline prepares a kernel for dispatch, with a value for each of the source's function
	// constants. Equal arguments return the same pipeline.
	Pipeline(kernel string, constants ...ConstantValue) (Pipeline, error)
}

// Pipeline is a kernel ready to run (MTLComputePipelineState). It is immutable.
type Pipeline interface {
	Facts() PipelineFacts
	// Kernel returns the kernel's declaration.
	Kernel() *msl.Kernel
}

// PipelineFacts are the properties of a compiled kernel.
type PipelineFacts struct {
	ThreadExecutionWidth int // threads of a simdgroup
	// MaxTotalThreadsPerThreadgroup is less than the kernel declares if it needs many registers.
	MaxTotalThreadsPerThreadgroup int
	// StaticThreadgroupMemoryLength is the size in bytes of the kernel's threadgroup variables. The
	// simulated device reports 0 before the first dispatch.
	StaticThreadgroupMemoryLength int
}

// Buffer is memory that host and GPU share (MTLBuffer).
type Buffer interface {
	// Bytes returns the host's view of the memory. The host must not read it while the GPU may
	// write it, nor write it while the GPU may use it.
	Bytes() []byte
	Label() string
}

// Binding sets a buffer argument to Buffer from Offset on. Bytes is how much the kernel may access,
// which the simulated device checks; 0 means up to the end. A nil Buffer binds nothing, for an
// argument that the kernel does not access.
type Binding struct {
	Buffer Buffer
	Offset int
	Bytes  int
}

// Size is a number of threads or threadgroups in three dimensions (MTLSize), each at least 1.
type Size struct{ X, Y, Z int }

// Count returns the product of the dimensions.
func (s Size) Count() int { return s.X * s.Y * s.Z }

func (s Size) String() string { return fmt.Sprintf("(%d, %d, %d)", s.X, s.Y, s.Z) }

// Commands records dispatches and runs them: a command buffer (MTLCommandBuffer) with one compute
// command encoder (MTLComputeCommandEncoder). Only one goroutine may use it at a time, and a
// recording must stay on one goroutine from its first call to Commit. Wait returns the first
// mistake made while recording. Commands that are committed later on the same device see what
// earlier ones wrote.
type Commands interface {
	SetPipeline(p Pipeline)
	// SetBuffers sets the buffer arguments first, first+1, ... They stay set until Commit.
	SetBuffers(first int, bindings ...Binding)
	// SetThreadgroupMemory sets the length of the threadgroup argument index, a multiple of 16.
	SetThreadgroupMemory(index, bytes int)
	// Dispatch runs groups threadgroups of threads threads each. label names the dispatch in
	// messages and GPU traces. Dispatches that no barrier separates run concurrently, in any order.
	Dispatch(label string, groups, threads Size)
	// Barrier makes earlier writes visible to later dispatches.
	Barrier()
	// Commit submits the recording to the device. done, unless nil, is called once when the work
	// has run or failed, on any goroutine or thread. It must not block.
	Commit(done func(error))
	// Wait waits until the committed work has run and returns its error. The Commands can then
	// record again.
	Wait() error
	// GPUTime returns the seconds that the GPU took for the work of the last Wait.
	GPUTime() float64
}

// ConstantValue is the value of a function constant.
type ConstantValue struct {
	Name  string
	Value any // bool, int32, uint32 or float32
}
