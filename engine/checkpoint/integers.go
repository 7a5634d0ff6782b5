package checkpoint

// Integers that another program has packed, each (code - zero)*scale with a scale and a zero point
// for a group of a row. That is code*scale + bias with bias = -zero*scale, so loading packs them as
// MLX does, and kernels need not know of it. A method that packs such integers has a file, which
// reads its tensors, and a row in methods.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// integers is a matrix [n, k] of integers. An operand of kernels that is none is not in the files,
// so that loading computes it.
type integers struct {
	n, k, bits int
	group      int            // elements of a row with the same scale; n, k and group are not 0
	codes      kernels.Tensor // in the mapping, packed as in kernels
	scales     kernels.Tensor // in the mapping, of groups as in kernels
	dtype      kernels.DType  // of scales and biases in kernels
	writeCodes func(to kernels.Tensor)
	// order has the input of each column of kernels; nil: columns are in the order of inputs.
	order       []int32
	orderTensor kernels.Tensor // order in the memory of the device, or none

	// groups sets the scales and the zero points of group g in rows [from, from+len(scales)).
	groups func(scales []float32, zeros []int, from, g int) error
}

// kernelGroups are the sizes of groups that kernels have.
var kernelGroups = []int{128, 64, 32}

// kernelGroup returns the largest size of a group in kernels that divides those of the file, or 0.
func (x *integers) kernelGroup() int {
	for _, size := range kernelGroups {
		if x.group%size == 0 && x.k%size == 0 {
			return size
		}
	}
	return 0
}

// checkGroup returns an error unless kernels have groups of which those of x consist.
func (x *integers) checkGroup() error {
	if x.kernelGroup() == 0 {
		return problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("a matrix of width %d is quantized in groups of %d, expected multiples "+
				"of 32", x.k, x.group), otherWeights)
	}
	return nil
}

// allocator returns memory for an operand of kernels.
type allocator func(dtype kernels.DType, rows, cols int) kernels.Tensor

// device allocates memory of the device.
func (s Scope) device(dtype kernels.DType, rows, cols int) kernels.Tensor {
	return kernels.NewTensor(s.w.Device, dtype, rows, cols)
}

// temporary allocates memory that only loading reads. In a dry run it has no bytes.
func (s Scope) temporary(dtype kernels.DType, rows, cols int) kernels.Tensor {
	t := kernels.Tensor{DType: dtype, Rows: rows, Cols: cols, Stride: cols,
		Buffer: &kernels.Buffer{Size: rows * cols * dtype.Size()}}
	if _, dry := s.w.Device.(*kernels.DryRun); !dry {
		t.Buffer.Bytes = make([]byte, t.Buffer.Size)
	}
	return t
}

// hasCodes reports whether the method of config.json has packed the module name as integers.
func (s Scope) hasCodes(name string) bool {
	m := s.w.Config.Quantization.method
	if m == nil || s.w.files == nil {
		return false
	}
	t, ok := s.w.files.Tensor(s.path + name + m.codes)
	return ok && t.DType == safetensors.I32
}

// integers returns a module that hasCodes. After an error, which it records, it has no values.
func (s Scope) integers(name string, n, k int) *integers {
	s.w.read[s.path+name+weightSuffix] = true // the name that HasRead knows
	x := &integers{n: n, k: k}
	err := s.w.Config.Quantization.method.open(s, name, x)
	if err == nil {
		err = x.checkGroup()
	}
	if err == nil {
		err = s.checkScheme(name, x)
	}
	if err != nil {
		s.w.refuse(err)
	}
	return x
}

// checkScheme returns an error unless config.json says the same about a module as its tensors.
func (s Scope) checkScheme(name string, x *integers) error {
	q := &s.w.Config.Quantization
	stated, got := q.of(s.path+name), pack{Bits: x.bits, Group: x.group}
	expected := stated
	if expected.Group == 0 || expected.Group > x.k {
		expected.Group = got.Group
	}
	if expected.Bits != 0 && expected != got && !s.inBlock {
		return s.mismatch("%s%s is packed as %s, but config.json says %s", s.path, name, got,
			stated)
	}
	if x.group == x.k && stated.Group == 0 { // a group is a row, which is said nowhere
		got.Group = 0
	}
	if !s.inBlock {
		s.w.notePacking(Quantization{pack: got, method: q.method}.String(), x.n*x.k)
	}
	return nil
}

// weight returns x as an operand of kernels, with memory for what loading computes. What the files
// have is a view of the mapping.
func (x *integers) weight(experts int, allocate allocator, views bool) *kernels.Weight {
	w := &kernels.Weight{Experts: experts, N: x.n, K: x.k, Bits: x.bits, Group: x.kernelGroup(),
		Data: x.codes, Scales: x.scales}
	rows := experts * x.n
	if !views || x.codes.IsNone() {
		w.Data = allocate(kernels.U32, rows, x.k*x.bits/32)
	}
	if !views || x.scales.IsNone() {
		w.Scales = allocate(x.dtype, rows, x.k/w.Group)
	}
	w.Biases = allocate(x.dtype, rows, x.k/w.Group)
	w.Order = x.orderTensor
	return w
}

// write computes rows [row, row+x.n) of w, except what is a view of the mapping.
func (x *integers) write(w *kernels.Weight, row int) error {
	if w.Biases.Buffer.Bytes == nil { // a dry run
		return nil
	}
	part := *w
	for _, t := range []*kernels.Tensor{&part.Data, &part.Scales, &part.Biases} {
		*t = t.RowRange(row, row+x.n)
	}
	switch {
	case x.codes.IsNone():
		x.writeCodes(part.Data)
		x.sortCodes(part.Data)
	case w.Data.Buffer != x.codes.Buffer:
		copy(part.Data.Bytes(), x.codes.Bytes())
	}
	computed := w.Scales.Buffer != x.scales.Buffer
	var first atomic.Pointer[error]
	parallel(x.n, scaleRows, func(from, to int) {
		if err := x.writeGroups(&part, computed, from, to); err != nil {
			first.CompareAndSwap(nil, &err)
		}
	})
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// scaleRows is the number of rows whose scales are computed at a time.
const scaleRows = 64

// errScale is in the error about a scale, or a bias, that is not finite in its type.
var errScale = errors.New("a scale is not a finite number")

// writeGroups computes the biases of rows [from, to) of w, and the scales if they are not in the
// mapping.
func (x *integers) writeGroups(w *kernels.Weight, scales bool, from, to int) error {
	var values, biases [scaleRows]float32
	var zeros [scaleRows]int
	rows, most := to-from, float32(math.MaxFloat32)
	if x.dtype == kernels.F16 {
		most = maxFloat16
	}
	for g := range w.Scales.Cols {
		if err := x.groups(values[:rows], zeros[:rows], from, g*w.Group/x.group); err != nil {
			return err
		}
		for i, v := range values[:rows] {
			biases[i] = -float32(zeros[i]) * v
			if !(max(v, -v) <= most && max(biases[i], -biases[i]) <= most) {
				return errScale
			}
		}
		if scales {
			putColumn(w.Scales, from, g, values[:rows])
		}
		putColumn(w.Biases, from, g, biases[:rows])
	}
	return nil
}

// putColumn sets column c of rows from row on. Values must be exact in the type of t.
func putColumn(t kernels.Tensor, row, c int, values []float32) {
	size := t.DType.Size()
	b := t.Bytes()[(row*t.Stride+c)*size:]
	for i, v := range values {
		at := b[i*t.Stride*size:]
		switch t.DType {
		case kernels.F32:
			binary.LittleEndian.PutUint32(at, math.Float32bits(v))
		case kernels.BF16:
			binary.LittleEndian.PutUint16(at, uint16(math.Float32bits(v)>>16))
		case kernels.F16:
			binary.LittleEndian.PutUint16(at, float16Bits(v))
		}
	}
}

// damaged returns the Problem of a module with values that write refuses.
func (s Scope) damaged(name string, err error) error {
	return problem.Wrap(problem.ModelBroken, fmt.Errorf("%s%s: %w", s.path, name, err),
		"The model's weights are damaged", "Download or convert the model again.")
}

// loadIntegers loads a module for use in kernels.
func (s Scope) loadIntegers(name string, n, k int) *kernels.Weight {
	w, x := s.readIntegers(name, n, k, s.device)
	if !x.codes.IsNone() {
		w.Data = s.keep(w.Data)
	}
	if !x.scales.IsNone() {
		w.Scales = s.keep(w.Scales)
	}
	return w
}

// viewIntegers loads a module for Pick.
func (s Scope) viewIntegers(name string, n, k int) *kernels.Weight {
	w, _ := s.readIntegers(name, n, k, s.temporary)
	return w
}

func (s Scope) readIntegers(name string, n, k int, allocate allocator) (*kernels.Weight,
	*integers) {
	x := s.integers(name, n, k)
	if s.w.err != nil {
		return &kernels.Weight{Experts: 1, N: n, K: k}, x
	}
	w := x.weight(1, allocate, true)
	if err := x.write(w, 0); err != nil {
		s.w.refuse(s.damaged(name, err))
	}
	if err := w.Check(); err != nil {
		s.w.Failf("%s%s: %v", s.path, name, err)
	}
	return w, x
}

// stackIntegers loads the modules name(0) to name(e-1) into one weight of e experts.
func (s Scope) stackIntegers(e int, name func(int) string, n, k int) *kernels.Weight {
	return stackPacked(s, e, name, n, k, func(name string) *integers {
		if !s.hasCodes(name) {
			return nil
		}
		x := s.integers(name, n, k)
		if x.order != nil {
			s.w.refuse(problem.New(problem.UnknownArchitecture,
				"This quantization is not supported", s.path+name+" is an expert whose inputs "+
					"are sorted by their activation (desc_act)", otherWeights))
		}
		return x
	})
}

// packedAs implements packedCodes.
func (x *integers) packedAs(y *integers) bool {
	return x.bits == y.bits && x.dtype == y.dtype && x.kernelGroup() == y.kernelGroup()
}

// describe implements packedCodes.
func (x *integers) describe() string {
	p := pack{Bits: x.bits, Group: x.group}
	return fmt.Sprintf("packed as %s, scales of type %s", p, x.dtype)
}

// parallel calls do for ranges of up to step of [0, n), on all cores.
func parallel(n, step int, do func(from, to int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+step-1)/step) {
		workers.Go(func() {
			for {
				from := int(next.Add(int64(step))) - step
				if from >= n {
					return
				}
				do(from, min(from+step, n))
			}
		})
	}
	workers.Wait()
}

// packedTensor returns a tensor of a module as rows of elements. dtypes are those that it may
// have. It returns an error unless it has the given shape.
func (s Scope) packedTensor(name string, rows, cols int,
	dtypes ...safetensors.DType) (safetensors.Tensor, error) {
	t, ok := s.w.files.Tensor(s.path + name)
	if !ok {
		return t, s.mismatch("tensor %s%s is missing", s.path, name)
	}
	s.w.read[t.Name] = true
	match := len(t.Shape) == 2 && t.Shape[0] == rows && t.Shape[1] == cols
	if rows == 1 && len(t.Shape) == 1 {
		match = t.Shape[0] == cols
	}
	for _, dtype := range dtypes {
		if match && t.DType == dtype {
			return t, s.w.checkTensor(t.Name)
		}
	}
	return t, s.mismatch("tensor %s is %s, expected %s of shape %s", t.Name, kindOf(t),
		anyOf(dtypes), safetensors.ShapeText(rows, cols))
}

// kindOf returns the type and the shape of a tensor in words, such as "F32 of shape 3 x 4096".
func kindOf(t safetensors.Tensor) string {
	return fmt.Sprintf("%s of shape %s", t.DType, safetensors.ShapeText(t.Shape...))
}

// anyOf returns types in words, such as "F16, BF16 or F32".
func anyOf(dtypes []safetensors.DType) string {
	text := make([]string, len(dtypes))
	for i, d := range dtypes {
		text[i] = string(d)
	}
	if last := len(text) - 1; last > 0 {
		return strings.Join(text[:last], ", ") + " or " + text[last]
	}
	return strings.Join(text, "")
}

// mismatch returns the Problem of tensors that do not match config.json.
func (s Scope) mismatch(format string, args ...any) error {
	return problem.New(problem.ModelBroken, "The model's weights do not match its config.json",
		fmt.Sprintf(format, args...), "Download or convert the model again.")
}

// operand returns a tensor of words in the mapping, or of scales, as an operand of kernels.
func (s Scope) operand(t safetensors.Tensor, dtype kernels.DType) kernels.Tensor {
	return kernels.Tensor{Buffer: s.w.mappings[s.w.files.FileOf(t.Name)], Offset: t.From,
		DType: dtype, Rows: t.Shape[0], Cols: t.Shape[1], Stride: t.Shape[1]}
}

// floats are the types that scales may have.
var floats = []safetensors.DType{safetensors.F16, safetensors.BF16, safetensors.F32}

// floatAt returns a function that returns an element of a tensor of scales.
func floatAt(t safetensors.Tensor) func(i int) float32 {
	b := t.Data
	switch t.DType {
	case safetensors.F8E8M0, safetensors.U8:
		return func(i int) float32 { return powerOfTwo(b[i]) }
	case safetensors.F16:
		return func(i int) float32 { return float16(binary.LittleEndian.Uint16(b[2*i:])) }
	case safetensors.BF16:
		return func(i int) float32 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	}
	return func(i int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// codeAt returns code i of a stream of codes, of up to 8 bits each, lowest bit first.
func codeAt(stream []byte, i, bits int) int {
	at := i * bits
	v := int(stream[at/8])
	if at/8+1 < len(stream) {
		v |= int(stream[at/8+1]) << 8
	}
	return v >> (at % 8) & (1<<bits - 1)
}
