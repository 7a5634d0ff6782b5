package gpu

// Kernels, operands, and the checks of a dispatch.

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"headroom/kernels"
	"headroom/metal"
)

// Source is the text of a .metal file, embedded beside its operators.
type Source struct {
	Name string // "norm/rms_norm.metal"
	Text string
}

// Kernel is a kernel of a source. P is its parameter struct, with fields of type uint32, int32 and
// float32 as in the struct of [[buffer(0)]] in the source. Its operands are the buffers 1, 2, ...
// in order. Kernels are package-level variables.
type Kernel[P any] struct{ k kernel }

type kernel struct {
	source    *Source
	name      string
	constants []metal.ConstantValue
	params    reflect.Type
}

// NewKernel returns the kernel of s with the given name and values of the source's function
// constants.
func NewKernel[P any](s *Source, name string, constants ...metal.ConstantValue) *Kernel[P] {
	return &Kernel[P]{kernel{source: s, name: name, constants: constants,
		params: reflect.TypeFor[P]()}}
}

// Grid is the size of a dispatch.
type Grid struct {
	Groups, Threads  metal.Size // threadgroups, and threads of a threadgroup
	ThreadgroupBytes int        // of [[threadgroup(0)]], 0 if the kernel has none
}

// Rows returns a grid with one threadgroup of threads threads for each row.
func Rows(rows, threads int) Grid {
	return Grid{Groups: metal.Size{X: rows, Y: 1, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1}}
}

// Operand is memory that a kernel reads or writes.
type Operand struct {
	memory *memory
	from   int // bytes within memory
	bytes  int
	write  bool
	table  []int32 // host data copied with the dispatch, instead of memory
}

// Read returns an operand that the kernel only reads. The zero Tensor binds nothing, for a kernel
// that does not access the operand.
func Read(t kernels.Tensor) Operand { return operand(t, false) }

// Write returns an operand that the kernel writes and may read.
func Write(t kernels.Tensor) Operand { return operand(t, true) }

// ReadBytes returns bytes [from, to) of b as an operand that the kernel only reads.
func ReadBytes(b *kernels.Buffer, from, to int) Operand { return bytesOf(b, from, to, false) }

// WriteBytes returns bytes [from, to) of b as an operand that the kernel writes and may read.
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
		panic(fmt.Sprintf("gpu: an operand's buffer belongs to another device (%T): make it with "+
			"NewBuffer or WrapBuffer of this device", b.Handle))
	}
	if from < 0 || to < from || to > b.Size {
		panic(fmt.Sprintf("gpu: operand of bytes [%d, %d) in a buffer of %d: the operator's Check "+
			"must return an error", from, to, b.Size))
	}
	return Operand{memory: m, from: m.offset + from, bytes: to - from, write: write}
}

// Dispatch records k with grid g. With an empty grid it does nothing. The device's Sync returns
// errors.
func (k *Kernel[P]) Dispatch(c *Context, p P, g Grid, operands ...Operand) {
	c.dispatch(&k.k, unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), g, operands)
}

// ready is a kernel's pipeline on one device. Its source has been checked against the Go
// declarations.
type ready struct {
	pipeline metal.Pipeline
	writes   []bool // whether the source lets the kernel write operand i

	threads, threadgroupBytes int // largest of all dispatches
}

// prepare compiles k's source, makes the pipeline and checks the kernel's declaration.
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

// check compares the operands of a dispatch with the declarations in the source.
func (r *ready) check(k *kernel, operands []Operand, g Grid) error {
	if len(operands) != len(r.writes) {
		return fmt.Errorf(
			"%s: %s: got %d operands, the source has %d buffers after its parameters",
			k.source.Name, k.name, len(operands), len(r.writes))
	}
	for i, o := range operands {
		if o.write != r.writes[i] {
			a := r.pipeline.Kernel().Buffer(i + 1)
			return fmt.Errorf(
				"%s: %s: operand %d, %s: written is %t, its type says %t: use gpu.Write for "+
					"pointers without const, gpu.Read for others",
				k.source.Name, k.name, i, a, o.write, r.writes[i])
		}
	}
	if most := r.pipeline.Facts().MaxTotalThreadsPerThreadgroup; g.Threads.Count() > most {
		return fmt.Errorf("%s: %s: %s threads in a threadgroup, this device allows %d",
			k.source.Name, k.name, g.Threads, most)
	}
	return nil
}
