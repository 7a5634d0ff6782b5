package convert

// Reading rows of the source. Plain tensors are read with system calls, so that the memory of the
// process does not grow with the file. Packed ones are unpacked from the mapping.

import (
	"fmt"
	"io"
	"sync"

	"headroom/engine/checkpoint"
	"headroom/engine/gguf"
	"headroom/engine/gguf/original"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// reader reads the values of a checkpoint. Its methods are safe for concurrent use.
type reader struct {
	weights *checkpoint.Weights

	// Of a GGUF file, instead of weights:
	gguf   *gguf.File
	blocks map[*checkpoint.Values]*original.Tensor

	replaced map[*checkpoint.Values]*safetensors.File // values that are not of the model's files

	mu     sync.Mutex
	files  map[*safetensors.File]io.ReaderAt
	opened []io.Closer
	// unpacked has the packed values that were opened last. Some methods copy their codes, so only
	// a few are kept.
	unpacked []unpackedValues
}

type unpackedValues struct {
	values *checkpoint.Values
	weight *kernels.Weight
}

// maxUnpacked is how many packed values stay open.
const maxUnpacked = 16

func newReader(w *checkpoint.Weights) *reader {
	return &reader{weights: w, files: map[*safetensors.File]io.ReaderAt{},
		replaced: map[*checkpoint.Values]*safetensors.File{}}
}

func (r *reader) close() {
	for _, f := range r.opened {
		_ = f.Close()
	}
}

// file returns what reads a file; nil: its mapping must be read.
func (r *reader) file(f *safetensors.File) io.ReaderAt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.files[f]; ok {
		return at
	}
	r.files[f] = nil
	if opened, err := f.Reader(); err == nil {
		r.files[f], r.opened = opened, append(r.opened, opened)
	}
	return r.files[f]
}

// unpack returns packed values.
func (r *reader) unpack(v *checkpoint.Values) (*kernels.Weight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.unpacked {
		if u.values == v {
			return u.weight, nil
		}
	}
	w, err := r.weights.Unpack(v)
	if err != nil {
		return nil, err
	}
	if len(r.unpacked) == maxUnpacked {
		r.unpacked = r.unpacked[1:]
	}
	r.unpacked = append(r.unpacked[:len(r.unpacked):len(r.unpacked)], unpackedValues{v, w})
	return w, nil
}

// scratch is the memory of one worker.
type scratch struct {
	in, cast    []byte
	matrix      []byte
	row, sorted []float32
	floats      []float32 // of a piece of a GGUF file
	out         [3][]byte
}

// grow returns a slice of n bytes, in the memory of b if it has enough.
func grow[T any](b *[]T, n int) []T {
	if cap(*b) < n {
		*b = make([]T, n)
	}
	return (*b)[:n]
}

// rows returns rows [from, to) of t in its type, or as they are in the file if t is raw. The result
// is valid until s is used again.
func (r *reader) rows(t *tensor, from, to int, s *scratch) ([]byte, error) {
	if r.gguf != nil {
		return r.blockRows(t, from, to, s)
	}
	if v := t.values[0]; v.Packing != "" {
		return r.unpackRows(t, from, to, s)
	}
	dtype := t.values[0].Tensor.DType
	size := t.cols * dtype.Bytes()
	in := grow(&s.in, (to-from)*size)
	var err error
	if t.transposed {
		err = r.readTransposed(t, from, to, in, s)
	} else {
		err = r.readRows(t, from, to, in, size)
	}
	if err != nil || t.isRaw {
		return in, err
	}
	if !checkpoint.AreFinite(dtype, in) {
		return nil, notFinite(t)
	}
	if floatTypes[dtype] == t.dtype && !t.changes() && t.fusion == nil {
		return in, nil
	}
	out := t.cast(in, floatTypes[dtype], from, s)
	return out, t.checkRange(out)
}

// checkRange returns a Problem if elements of t are too large for its type.
func (t *tensor) checkRange(b []byte) error {
	if d := fileTypes[t.dtype]; !checkpoint.AreFinite(d, b) {
		return problem.New(problem.BadRequest, "This model cannot have the type "+t.dtype.String(),
			"tensor "+t.name+" has a value that is too large for it",
			"Choose bfloat16 or float32.")
	}
	return nil
}

func notFinite(t *tensor) error {
	return problem.New(problem.ModelBroken, "The model's weights are damaged",
		fmt.Sprintf("tensor %s has a value that is not a finite number", t.values[0].Name),
		"Download the model again.")
}

// readRows reads rows that are rows of the source. Those that follow each other are read at once.
func (r *reader) readRows(t *tensor, from, to int, in []byte, size int) error {
	per := t.perValue()
	for i := from; i < to; {
		v, row := t.values[i/per], t.pick.row(i%per)
		n := 1
		for i+n < to && (i+n)/per == i/per && t.pick.row((i+n)%per) == row+n {
			n++
		}
		if err := r.read(v, row*size, in[(i-from)*size:(i-from+n)*size]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// read reads bytes of a plain tensor from offset on.
func (r *reader) read(v *checkpoint.Values, offset int, to []byte) error {
	t := &v.Tensor
	if offset < 0 || offset+len(to) > len(t.Data) {
		return fmt.Errorf("tensor %s has %d bytes, and %d from %d on are needed", t.Name,
			len(t.Data), len(to), offset)
	}
	file := r.replaced[v]
	if file == nil {
		file = r.weights.FileOf(t.Name)
	}
	if at := r.file(file); at != nil {
		if _, err := at.ReadAt(to, int64(t.From+offset)); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		return nil
	}
	copy(to, t.Data[offset:])
	return nil
}

// readTransposed reads rows that are columns of matrices. [from, to) is within one matrix.
func (r *reader) readTransposed(t *tensor, from, to int, in []byte, s *scratch) error {
	p, size := t.pick, t.values[0].Tensor.DType.Bytes()
	shape := t.values[0].Shape
	width, g := shape[len(shape)-1], from/p.take
	matrix := grow(&s.matrix, t.cols*width*size)
	if err := r.read(t.values[0], g*p.skip*width*size, matrix); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		column := p.first + i%p.take*p.step
		row := in[(i-from)*t.cols*size:][:t.cols*size]
		for k := range t.cols {
			copy(row[k*size:(k+1)*size], matrix[(k*width+column)*size:])
		}
	}
	return nil
}

// unpackRows returns rows of packed values in the type of t.
func (r *reader) unpackRows(t *tensor, from, to int, s *scratch) ([]byte, error) {
	per, out := t.perValue(), grow(&s.cast, (to-from)*t.cols*t.dtype.Size())
	shape := t.values[0].Shape
	width := shape[len(shape)-1]
	row, sorted := grow(&s.row, width), grow(&s.sorted, width)
	if t.transposed {
		w, err := r.unpack(t.values[0])
		if err != nil {
			return nil, err
		}
		g := from / t.pick.take
		for k := range t.cols {
			checkpoint.UnpackRow(w, row, sorted, g*t.pick.skip+k)
			for i := from; i < to; i++ {
				v := row[t.pick.first+i%t.pick.take*t.pick.step]
				if v-v != 0 {
					return nil, notFinite(t)
				}
				quantize.PutFloat(out, (i-from)*t.cols+k, v, t.dtype)
			}
		}
		if t.fusion != nil {
			row = grow(&s.row, t.cols)
			for i := from; i < to; i++ {
				decode(row, out[(i-from)*t.cols*t.dtype.Size():], t.dtype)
				t.fuse(row, i)
				for k, v := range row {
					quantize.PutFloat(out, (i-from)*t.cols+k, v, t.dtype)
				}
			}
		}
		return out, t.checkRange(out)
	}
	for i := from; i < to; i++ {
		w, err := r.unpack(t.values[i/per])
		if err != nil {
			return nil, err
		}
		checkpoint.UnpackRow(w, row, sorted, t.pick.row(i%per))
		for _, v := range row {
			if v-v != 0 {
				return nil, notFinite(t)
			}
		}
		t.change(row, i)
		t.fuse(row, i)
		for k, v := range row {
			quantize.PutFloat(out, (i-from)*t.cols+k, v, t.dtype)
		}
	}
	return out, t.checkRange(out)
}

// changes reports whether elements of t differ from those of the source.
func (t *tensor) changes() bool { return t.add != 0 || t.scale != nil }

// change changes elements of a row.
func (t *tensor) change(values []float32, row int) {
	if t.scale != nil {
		factor := t.scale(row)
		for i := range values {
			values[i] *= factor
		}
	}
	if t.add != 0 {
		for i := range values {
			values[i] += t.add
		}
	}
}

// fuse adds the adapter's part to a row.
func (t *tensor) fuse(values []float32, row int) {
	if t.fusion != nil {
		t.fusion.Add(values, row)
	}
}

// cast returns elements of the source, of rows from the given one on, in the type of t. Sums and
// products are rounded to the type of the source first, as mlx-lm does.
func (t *tensor) cast(in []byte, from kernels.DType, first int, s *scratch) []byte {
	n := len(in) / from.Size()
	values, out := grow(&s.row, t.cols), grow(&s.cast, n*t.dtype.Size())
	for at := 0; at < n; at += t.cols {
		decode(values, in[at*from.Size():], from)
		if t.changes() {
			t.change(values, first+at/t.cols)
			for i, v := range values {
				quantize.PutFloat(in, at+i, v, from)
			}
			decode(values, in[at*from.Size():], from)
		}
		t.fuse(values, first+at/t.cols)
		for i, v := range values {
			quantize.PutFloat(out, at+i, v, t.dtype)
		}
	}
	return out
}

// decode reads elements of a type as float32.
func decode(to []float32, from []byte, dtype kernels.DType) {
	n := len(to)
	kernels.Tensor{Buffer: &kernels.Buffer{Bytes: from, Size: len(from)}, DType: dtype, Rows: 1,
		Cols: n, Stride: n}.DecodeRow(to, 0)
}
