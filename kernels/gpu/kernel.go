package gpu

// Kernels as Go sees them.

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"headroom/kernels"
	"headroom/metal"
)

// Source is the text of a .metal file, embedded beside the operators that it serves.
type Source struct {
	Name string // "norm/rms_norm.metal"
	Text string
}

// Kernel is one kernel of a source, with parameters of type P: a struct of uint32, int32 and
// float32 fields, the same as the struct behind [[buffer(0)]] in the source. Its operands are
// buffers 1, 2, ... in order. Make Kernels as package-level variables.
type Kernel[P any] struct{ k kernel }

type kernel struct {
	source    *Source
	name      string
	constants []metal.ConstantValue
	params    reflect.Type
}

// NewKernel is the kernel of that name in s, with values for the source's function constants.
func NewKernel[P any](s *Source, name string, constants ...metal.ConstantValue) *Kernel[P] {
	return &Kernel[P]{kernel{source: s, name: name, constants: constants,
		params: reflect.TypeFor[P]()}}
}

// Grid is the size of a dispatch.
type Grid struct {
	Groups, Threads  metal.Size // threadgroups, and threads of each
	ThreadgroupBytes int        // of [[threadgroup(0)]], 0 if the kernel has none
}

// Rows is a grid of one threadgroup of threads threads for each of rows rows.
func Rows(rows, threads int) Grid {
	return Grid{Groups: metal.Size{X: rows, Y: 1, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1}}
}

// Operand is memory that a kernel reads or writes.
type Operand struct {
	memory *memory
	from   int // bytes within memory's buffer
	bytes  int
	write  bool
	table  []int32 // in place of memory: host data that goes with the dispatch
}

// Read is an operand that the kernel only reads. The zero Tensor is bound to nothing, for a kernel
// that will not touch it.
func Read(t kernels.Tensor) Operand { return operand(t, false) }

// Write is an operand that the kernel writes, and may read.
func Write(t kernels.Tensor) Operand { return operand(t, true) }

// ReadBytes is bytes [from, to) of b, for kernels whose operands are no tensors.
func ReadBytes(b *kernels.Buffer, from, to int) Operand { return bytesOf(b, from, to, false) }

// WriteBytes is ReadBytes for memory that the kernel writes.
func WriteBytes(b *kernels.Buffer, from, to int) Operand { return bytesOf(b, from, to, true) }

func operand(t kernels.Tensor, write bool) Operand {
	if t.IsNone() || t.Rows == 0 || t.Cols == 0 {
		return Operand{write: write}
	}
	return bytesOf(t.Buffer, t.Offset, t.Offset+((t.Rows-1)*t.Stride+t.Cols)*t.DType.Size(), write)
}

func bytesOf(b *kernels.Buffer, from, to int, write bool) Operand {
	m, ok := b.Handle.(*memory)
	if !ok {
		panic(
			fmt.Sprintf(
				"gpu: an operand's buffer is of another device (%T): make it with this device's "+
					"NewBuffer or WrapBuffer", b.Handle))
	}
	if from < 0 || to < from || to > b.Size {
		panic(
			fmt.Sprintf(
				"gpu: operand of bytes [%d, %d) in a buffer of %d: the operator's Check must "+
					"refuse that", from, to, b.Size))
	}
	return Operand{memory: m, from: m.offset + from, bytes: to - from, write: write}
}

// Dispatch records k over g. An empty grid is nothing to do. Mistakes are returned by the device's
// Sync.
func (k *Kernel[P]) Dispatch(c *Context, p P, g Grid, operands ...Operand) {
	c.dispatch(&k.k, unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), g, operands)
}

// ready is a kernel's pipeline on one device, after its source has been checked against Go's side.
type ready struct {
	pipeline metal.Pipeline
	writes   []bool // of operand i: the source lets the kernel write it

	threads, threadgroupBytes int // the most that were dispatched
}

// prepare compiles k's source and makes the pipeline; once per kernel and device.
func (c *Context) prepare(k *kernel) (*ready, error) {
	lib := c.libraries[k.source]
	if lib == nil {
		var err error
		began := time.Now()
		if lib, err = c.m.NewLibrary(k.source.Name, k.source.Text, Headers); err != nil {
			return nil, err
		}
		c.libraries[k.source], c.compiling[k.source] = lib, time.Since(began)
	}
	pipeline, err := lib.Pipeline(k.name, k.constants...)
	if err != nil {
		return nil, err
	}
	r := &ready{pipeline: pipeline}
	if err := lib.Program().CheckStruct(pipeline.Kernel(), 0, k.params); err != nil {
		return nil, fmt.Errorf("%s: %w", k.source.Name, err)
	}
	if a := pipeline.Kernel().Buffer(0); !a.Constant || !a.Reference {
		return nil, fmt.Errorf("%s: %s: buffer 0 is %s, expected constant Params& p", k.source.Name,
			k.name, a)
	}
	for i := 1; pipeline.Kernel().Buffer(i) != nil; i++ {
		r.writes = append(r.writes, !pipeline.Kernel().Buffer(i).ReadOnly)
	}
	return r, nil
}

// check compares what the caller says of its operands with what the source says.
func (r *ready) check(k *kernel, operands []Operand, g Grid) error {
	if len(operands) != len(r.writes) {
		return fmt.Errorf(
			"%s: %s: got %d operands, the source has %d buffers behind its parameters",
			k.source.Name, k.name, len(operands), len(r.writes))
	}
	for i, o := range operands {
		if o.write != r.writes[i] {
			a := r.pipeline.Kernel().Buffer(i + 1)
			return fmt.Errorf(
				"%s: %s: operand %d, %s, is given as written: %t, its type says %t: use gpu.Write "+
					"for pointers without const, gpu.Read for others",
				k.source.Name, k.name, i, a, o.write, r.writes[i])
		}
	}
	if most := r.pipeline.Facts().MaxTotalThreadsPerThreadgroup; g.Threads.Count() > most {
		return fmt.Errorf("%s: %s: %s threads in a threadgroup, this device allows %d",
			k.source.Name, k.name, g.Threads, most)
	}
	return nil
}
