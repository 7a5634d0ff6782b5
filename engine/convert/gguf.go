package convert

// Conversions of GGUF files. Without options, the result keeps the codes of the file wherever a
// block is a group of MLX's affine mode; see engine/gguf, affine.go. Other blocks are packed in the
// nearest format, and what that loses is measured while it is written.

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"headroom/engine/checkpoint"
	"headroom/engine/gguf"
	"headroom/engine/gguf/original"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// nearest is the format of types that have no affine groups of 32: Q6_K, whose scales are those of
// 16 elements. In 8 bits, a step is a quarter of the step of the file.
var nearest = quantize.Format{Mode: kernels.Affine, Bits: 8, Group: gguf.AffineGroup}

// RunGGUF is Run for a GGUF file, or any file of a split one. With the zero Options, codes stay
// as they are, and their scales and biases become float16; Options.DType says otherwise. With
// Quantize or Dequantize, it is as if the file had been unpacked first.
func RunGGUF(ctx context.Context, path, dest string, o Options) (Result, error) {
	model, err := original.Open(path)
	if err != nil {
		return Result{}, err
	}
	return run(ctx, &conversion{model: model}, dest, o)
}

// PlanGGUF returns the size of what RunGGUF would write with the zero Options, or why the file
// cannot be converted. It reads the header and small tensors, and writes nothing. Errors are
// Problems.
func PlanGGUF(path string) (bytes int64, err error) {
	model, err := original.Open(path)
	if err != nil {
		return 0, err
	}
	return planned(&conversion{model: model})
}

// openGGUF opens the tensors of the file.
func (c *conversion) openGGUF() error {
	data, err := c.model.ReadFile("config.json")
	if err != nil {
		return err
	}
	if c.config, err = checkpoint.ParseConfig(data); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	c.reads = newReader(nil)
	c.reads.gguf = c.model.File
	return nil
}

// plainTypes maps the types of floats.
var plainTypes = map[gguf.Type]safetensors.DType{gguf.F32: safetensors.F32,
	gguf.F16: safetensors.F16, gguf.BF16: safetensors.BF16}

// ggufValues returns the tensors of the file as numbers.
func (c *conversion) ggufValues() []checkpoint.Values {
	all := make([]checkpoint.Values, len(c.model.Tensors))
	c.reads.blocks = map[*checkpoint.Values]*original.Tensor{}
	for i := range c.model.Tensors {
		t := &c.model.Tensors[i]
		all[i] = checkpoint.Values{Name: t.Name, Shape: t.Shape}
		if t.Type().Plain() {
			all[i].Tensor = safetensors.Tensor{Name: t.Name, DType: plainTypes[t.Type()],
				Shape: t.Shape}
		} else {
			all[i].Packing = t.Type().String()
		}
		c.reads.blocks[&all[i]] = t
	}
	return all
}

// keepsCodes reports whether the codes of the file stay as they are where they can.
func (c *conversion) keepsCodes() bool {
	return c.model != nil && !c.o.Quantize && !c.o.Dequantize
}

// ggufTypes sets the types of elements and scales that no option says. Scales and unpacked blocks
// are float16, the type of the scales in the file. Vectors and small matrices in float32 get the
// type of the others if that changes no element: MLX computes in the widest type that it meets.
func (c *conversion) ggufTypes() error {
	main := c.mainType()
	for _, t := range c.tensors {
		from := c.reads.blocks[t.values[0]]
		switch dtype, plain := floatTypes[plainTypes[from.Type()]]; {
		case from.Type() == gguf.MXFP4: // has two significant bits, and more exponents than F16
			t.dtype = kernels.BF16
		case !plain || !from.Type().Plain():
			t.dtype = kernels.F16
		case dtype == kernels.F32 && t.rows*t.cols <= maxChecked && !c.family.keeps(t.name):
			values, err := c.model.File.Floats(from.From)
			if err != nil {
				return wrap(err, "The GGUF file cannot be read")
			}
			if t.dtype = dtype; isExactIn(values, from, main) {
				t.dtype = main
			}
		default:
			t.dtype = dtype
		}
	}
	return nil
}

// maxChecked is the number of elements of the largest tensor whose elements are looked at before
// the conversion.
const maxChecked = 4 << 20

// mainType returns the type of the scales, or else that of most elements of matrices. The scales of
// MXFP4 are exponents.
func (c *conversion) mainType() kernels.DType {
	count := map[kernels.DType]int{}
	for _, t := range c.tensors {
		from := c.reads.blocks[t.values[0]]
		if from.Type() == gguf.MXFP4 {
			continue
		}
		if !from.Type().Plain() {
			return kernels.F16
		}
		if len(t.shape) > 1 {
			count[floatTypes[plainTypes[from.Type()]]] += t.rows * t.cols
		}
	}
	main := kernels.F32
	for _, d := range []kernels.DType{kernels.BF16, kernels.F16} {
		if count[d] > count[main] {
			main = d
		}
	}
	return main
}

// isExactIn reports whether a type holds what all values become.
func isExactIn(values []float32, from *original.Tensor, dtype kernels.DType) bool {
	var b [4]byte
	var back [1]float32
	from.Change(values)
	for _, v := range values {
		quantize.PutFloat(b[:], 0, v, dtype)
		if decode(back[:], b[:dtype.Size()], dtype); back[0] != v {
			return false
		}
	}
	return true
}

// keepFormats sets the formats of a conversion that keeps the codes. That of most elements is the
// one of config.json, and others are its entries.
func (c *conversion) keepFormats() {
	count := map[quantize.Format]int{}
	for _, t := range c.tensors {
		module, ok := strings.CutSuffix(t.name, ".weight")
		from := c.reads.blocks[t.values[0]]
		if !ok || from.Type().Plain() || len(t.shape) < 2 || !c.formats.canPack(module) ||
			t.transposed { // the groups of its rows are columns of blocks
			continue
		}
		format := nearest
		asIs := !t.changes() && !from.Changes() && from.Run()%gguf.AffineGroup == 0
		if bits := from.Type().AffineBits(); bits > 0 {
			format.Bits, t.kept = bits, asIs
		}
		if from.Type() == gguf.MXFP4 {
			format, t.kept = quantize.Defaults[kernels.MXFP4.String()], asIs
		}
		t.format = &format
		count[format] += t.rows * t.cols
	}
	if len(count) == 0 {
		return
	}
	most := slices.MaxFunc(slices.SortedFunc(maps.Keys(count), func(a, b quantize.Format) int {
		return b.Bits - a.Bits
	}), func(a, b quantize.Format) int { return count[a] - count[b] })
	c.formats.all = &most
	for _, t := range c.tensors {
		if t.format != nil && *t.format != most {
			c.formats.entries[strings.TrimSuffix(t.name, ".weight")] = entryOf(*t.format)
		}
	}
}

// keepCodes writes the codes, scales and biases of a piece whose codes stay as they are, and
// returns what rounding the scales and biases loses.
func (c *conversion) keepCodes(p piece, out [3][]byte, s *scratch) (lost loss, err error) {
	t := p.t
	kind := c.reads.blocks[t.values[0]].Type()
	in, err := c.reads.readBlocks(t, p.from, p.to, s)
	if err != nil {
		return lost, err
	}
	size, codeBytes := t.dtype.Size(), t.format.CodeBytes(gguf.AffineGroup)
	place := c.groupPlaces(t)
	if kind == gguf.MXFP4 {
		return lost, keepExponents(t, in, out, place)
	}
	var b [8]byte
	var rounded [2]float32
	finite := true
	kind.Affine(in, func(i int, codes []uint8, scale, bias float32) {
		i = place(i)
		quantize.PutCodes(out[0][i*codeBytes:], codes, t.format.Bits)
		quantize.PutFloat(b[:], 0, scale, t.dtype)
		quantize.PutFloat(b[:], 1, bias, t.dtype)
		copy(out[1][i*size:], b[:size])
		copy(out[2][i*size:], b[size:2*size])
		finite = finite && scale-scale == 0 && bias-bias == 0
		if t.dtype == kernels.F16 && kind.ExactInFloat16() || t.dtype == kernels.F32 {
			return
		}
		decode(rounded[:], b[:2*size], t.dtype)
		lost.add(codes, scale, bias, rounded[0], rounded[1])
	})
	if !finite {
		return lost, notFinite(t)
	}
	for _, part := range out[1:] {
		if err := t.checkRange(part); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// keepExponents is keepCodes for MXFP4: the bits of the file are those of MLX's mode mxfp4.
func keepExponents(t *tensor, in []byte, out [3][]byte, place func(int) int) error {
	codeBytes, finite := t.format.CodeBytes(gguf.AffineGroup), true
	gguf.Exponents(in, func(i int, codes []uint8, scale uint8) {
		i = place(i)
		quantize.PutCodes(out[0][i*codeBytes:], codes, t.format.Bits)
		out[1][i] = scale
		finite = finite && scale != 255
	})
	if !finite {
		return notFinite(t)
	}
	return nil
}

// groupPlaces returns the place in the result of a group of the file, in rows of t.
func (c *conversion) groupPlaces(t *tensor) func(i int) int {
	source := c.reads.blocks[t.values[0]]
	if source.Run() == 0 {
		return func(i int) int { return i }
	}
	n := t.cols / gguf.AffineGroup
	places := make([]int, n)
	for to := range n {
		places[source.Column(to*gguf.AffineGroup)/gguf.AffineGroup] = to
	}
	return func(i int) int { return i/n*n + places[i%n] }
}

// loss has what a conversion changed: the sum of the squares of the changes, and that of the
// squares of the elements.
type loss struct {
	Changes  float64 `json:"changes"`
	Elements float64 `json:"elements"`
}

// add adds a group whose scale and bias were rounded.
func (l *loss) add(codes []uint8, scale, bias, roundedScale, roundedBias float32) {
	ds, db := float64(roundedScale)-float64(scale), float64(roundedBias)-float64(bias)
	for _, q := range codes {
		change := ds*float64(q) + db
		l.Changes += change * change
		element := float64(scale)*float64(q) + float64(bias)
		l.Elements += element * element
	}
}

// relative returns the root of the mean square of the changes, relative to that of the elements.
func (l loss) relative() float64 {
	if l.Elements == 0 {
		return 0
	}
	return math.Sqrt(l.Changes / l.Elements)
}

// measureRows returns what rounding the elements of a piece to the type of its tensor has lost.
func (p piece) measureRows(rows []byte, s *scratch) (lost loss) {
	out := grow(&s.sorted, (p.to-p.from)*p.t.cols)
	decode(out, rows, p.t.dtype)
	for i, v := range s.floats[:len(out)] {
		change := float64(out[i]) - float64(v)
		lost.Changes += change * change
		lost.Elements += float64(v) * float64(v)
	}
	return lost
}

// measure returns what packing a piece has lost, whose elements are in s.floats.
func (c *conversion) measure(p piece, out [3][]byte, s *scratch) (lost loss) {
	t, rows := p.t, p.to-p.from
	tensorOf := func(b []byte, dtype kernels.DType, cols int) kernels.Tensor {
		return kernels.Tensor{Buffer: &kernels.Buffer{Bytes: b, Size: len(b)}, DType: dtype,
			Rows: rows, Cols: cols, Stride: cols}
	}
	w := kernels.Weight{Experts: 1, N: rows, K: t.cols, Mode: t.format.Mode, Bits: t.format.Bits,
		Group:  t.format.Group,
		Data:   tensorOf(out[0], kernels.U32, t.cols*t.format.Bits/32),
		Scales: tensorOf(out[1], t.dtype, t.cols/t.format.Group),
		Biases: tensorOf(out[2], t.dtype, t.cols/t.format.Group)}
	row := grow(&s.row, t.cols)
	for i := range rows {
		w.DequantizeRow(row, i)
		for k, v := range s.floats[i*t.cols : (i+1)*t.cols] {
			change := float64(row[k]) - float64(v)
			lost.Changes += change * change
			lost.Elements += float64(v) * float64(v)
		}
	}
	return lost
}

// losses collects those of all pieces by the type in the file.
type losses struct {
	mu     sync.Mutex
	byType map[gguf.Type]loss
}

func (l *losses) add(kind gguf.Type, one loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byType == nil {
		l.byType = map[gguf.Type]loss{}
	}
	sum := l.byType[kind]
	l.byType[kind] = loss{sum.Changes + one.Changes, sum.Elements + one.Elements}
}

// snapshot returns a copy of the losses so far.
func (l *losses) snapshot() map[gguf.Type]loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.byType)
}

// TypeResult says what became of the tensors of a type in a GGUF file.
type TypeResult struct {
	Type    string // in the file, such as "Q4_K"
	Tensors int
	Format  string // in the result, such as "4-bit, group 32" or "float16"
	// KeepsCodes says that the codes are those of the file: only scales and biases can differ.
	KeepsCodes bool
	// Exact says that every element has the same bits. Error is the root of the mean square of
	// all changes otherwise, relative to that of the elements.
	Exact bool
	Error float64
}

// String describes the result, as in "Q4_K: 45 tensors, 4-bit, group 32: exact".
func (r TypeResult) String() string {
	tensors := "1 tensor"
	if r.Tensors != 1 {
		tensors = fmt.Sprintf("%d tensors", r.Tensors)
	}
	text := fmt.Sprintf("%s: %s, %s: ", r.Type, tensors, r.Format)
	switch {
	case r.Exact:
		return text + "exact"
	case r.KeepsCodes:
		text += "codes kept, scales rounded"
	case slices.Contains([]string{"float16", "bfloat16", "float32"}, r.Format):
		text += "unpacked"
	default:
		text += "packed anew"
	}
	return fmt.Sprintf("%s, relative error %.2g", text, r.Error)
}

// typeResults returns what became of the types, if the codes were to be kept.
func (c *conversion) typeResults() (all []TypeResult) {
	if !c.keepsCodes() {
		return nil
	}
	type key struct {
		kind   gguf.Type
		format string
	}
	index := map[key]int{}
	for _, t := range c.tensors {
		kind := c.reads.blocks[t.values[0]].Type()
		if kind.Plain() {
			continue
		}
		format := t.dtype.String()
		if t.format != nil {
			format = formatText(*t.format)
		}
		at, ok := index[key{kind, format}]
		if !ok {
			at = len(all)
			index[key{kind, format}] = at
			lost := c.lost.byType[kind]
			all = append(all, TypeResult{Type: kind.String(), Format: format, KeepsCodes: t.kept,
				Error: lost.relative(),
				Exact: t.kept && (t.dtype == kernels.F32 || kind == gguf.MXFP4 ||
					t.dtype == kernels.F16 && kind.ExactInFloat16()) ||
					t.format == nil && (t.dtype == kernels.F32 || lost.relative() == 0)})
		}
		all[at].Tensors++
	}
	slices.SortFunc(all, func(a, b TypeResult) int { return b.Tensors - a.Tensors })
	return all
}
