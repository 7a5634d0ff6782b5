package checkpoint

// This file converts named tensors to operands of kernels. Large weights stay in the mapping,
// unless integers.go repacks them, and are never dequantized. Small tensors are copied to float32.
// The shapes are checked here against those that the architecture expects, so that kernels can rely
// on them.

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Weights loads the tensors of a model by name. It records the first error, so that an architecture
// can load all its tensors before it checks Err.
type Weights struct {
	Config *Config
	Device kernels.Device
	// Progress, if it is not nil, is called before each layer is loaded, with the share of layers
	// that have been loaded, from 0 to 1. Loading stops with its error, a Problem.
	Progress func(share float64) error
	// Digests remembers the digest of the weights, which Prefault then finds; nil: see Fingerprint.
	Digests Digests

	files  *safetensors.Checkpoint // nil for a random model
	mapped int64                   // bytes of the mapping that kernels read
	read   map[string]bool         // tensors that the architecture has read or has no use for
	err    error

	mappings map[*safetensors.File]*kernels.Buffer // for the host
	runs     map[*kernels.Buffer][]run             // parts of the mappings, for the device
	partly   map[*kernels.Buffer]bool              // mappings of which some tensors are copied

	orders   map[[sha256.Size]byte]kernels.Tensor // of inputs, by their digest; see order.go
	packings map[string]int                       // number of values by their packing; see Packing

	digest    string          // of the tensors; "": not known yet
	notFinite map[string]bool // tensors with a value that is not finite; nil: not known
	// keepsChangeTime replaces safetensors.KeepsChangeTime in tests.
	keepsChangeTime func(path string) (fileSystem string, keeps bool)

	source  Source
	modules map[string]*Weights // those that Module and AttachBlock have opened
	linears map[string][]*kernels.Weight

	// Only for a random model:
	random      *rand.Rand
	slab        *kernels.Buffer // shared by small tensors
	slabUsed    int             // bytes
	parameters  int64           // number of parameters generated so far
	randomBytes int64           // total size of the weights generated so far
	record      bool            // append generated tensors to made, for WriteRandom
	made        []safetensors.Tensor
}

// run is a part of a mapping, bytes [from, to), of which the device reads every tensor.
type run struct {
	from, to int
	start    int             // of buffer in the mapping: the page of from
	buffer   *kernels.Buffer // nil until a tensor is read
}

// Open maps the weights of src for use on d. The caller must close the Weights after the last use
// of the model. Errors are Problems.
func Open(src Source, config *Config, d kernels.Device) (*Weights, error) {
	if src.random != nil {
		return openRandom(config, d)
	}
	files, err := src.tensors()
	if err != nil {
		return nil, err
	}
	w := openFiles(files, config, d)
	w.source = src
	return w, nil
}

func openFiles(files *safetensors.Checkpoint, config *Config, d kernels.Device) *Weights {
	w := &Weights{Config: config, Device: d, files: files, read: map[string]bool{},
		mappings: map[*safetensors.File]*kernels.Buffer{},
		runs:     map[*kernels.Buffer][]run{}, partly: map[*kernels.Buffer]bool{}}
	for _, f := range files.Files() {
		w.mappings[f] = &kernels.Buffer{Bytes: f.Mapping(), Size: len(f.Mapping())}
		w.runs[w.mappings[f]] = []run{{to: len(f.Mapping())}}
		w.partly[w.mappings[f]] = slices.ContainsFunc(f.Names(), func(name string) bool {
			t, _ := f.Tensor(name)
			return w.isCopied(t)
		})
	}
	return w
}

// Skip says which tensors nothing will read, before the model is loaded; see Unread. A GPU keeps
// all pages of a buffer in memory, so it does not get those of these tensors.
func (w *Weights) Skip(names []string) {
	if w.files == nil {
		return
	}
	skipped := make(map[string]bool, len(names))
	for _, name := range names {
		skipped[name] = true
	}
	for _, f := range w.files.Files() {
		var runs []run
		open := false // the last run ends where the next tensor begins
		for _, t := range inOrder(f) {
			switch {
			case skipped[t.Name]:
				open = false
			case open:
				runs[len(runs)-1].to = t.To
			default:
				runs, open = append(runs, run{from: t.From, to: t.To}), true
			}
		}
		w.runs[w.mappings[f]] = runs
	}
}

// isCopied reports whether loading may copy a large tensor: codes of another program, experts that
// are not packed, and tensors that are not aligned.
func (w *Weights) isCopied(t safetensors.Tensor) bool {
	if _, ok := isFloatCodes(t); ok {
		return strings.Contains(t.Name, ".experts.") || t.From%4 != 0
	}
	m := w.Config.Quantization.method
	if m != nil && strings.HasSuffix(t.Name, zerosSuffix) { // and the scales beside it
		return true
	}
	if m != nil && strings.HasSuffix(t.Name, m.codes) && t.DType.Bytes() > 0 { // a known type
		return m.copies || strings.Contains(t.Name, ".experts.") || t.From%t.DType.Bytes() != 0
	}
	dtype, ok := dtypes[t.DType]
	plain := dtype != kernels.U32 && dtype != kernels.U8
	return ok && (plain && strings.Contains(t.Name, ".experts.") || t.From%dtype.Size() != 0)
}

// Close unmaps the files.
func (w *Weights) Close() error {
	if w.files == nil {
		return nil
	}
	err := w.files.Close()
	for _, m := range w.modules {
		err = errors.Join(err, m.Close())
	}
	return err
}

// MappedBytes returns the total size of the loaded tensors that are views of the mapping. All
// others are copies in memory of the device, as every tensor of a random model is.
func (w *Weights) MappedBytes() int64 {
	mapped := w.mapped
	for _, m := range w.modules {
		mapped += m.mapped
	}
	return mapped
}

// SizeBytes returns the total size of all tensors in the files, including tensors that are not
// loaded, and those of a block that drafts.
func (w *Weights) SizeBytes() int64 {
	if w.files == nil {
		return w.randomBytes
	}
	size := w.files.Bytes()
	if block := w.modules[blockModule]; block != nil {
		size += block.SizeBytes()
	}
	return size
}

// Err returns the first error, or nil if there was none. It is a Problem.
func (w *Weights) Err() error {
	for _, m := range w.modules {
		if w.err == nil {
			w.err = m.err
		}
	}
	return w.err
}

// Failf records an error in the checkpoint, unless there is one already.
func (w *Weights) Failf(format string, args ...any) {
	if w.err == nil {
		w.err = problem.New(problem.ModelBroken,
			"The model's weights do not match its config.json",
			fmt.Sprintf(format, args...), "Download or convert the model again.")
	}
}

// Loading tells Progress that the layer with the given index, of the given number of layers, is
// loaded next. Its error is in Err then.
func (w *Weights) Loading(layer, layers int) {
	if w.Progress != nil && w.err == nil {
		w.err = w.Progress(float64(layer) / float64(layers))
	}
}

// refuse records an error that says why the weights cannot be run, unless there is an error
// already.
func (w *Weights) refuse(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Names returns the names of all tensors in the files, sorted. It returns none for a random model.
func (w *Weights) Names() []string {
	if w.files == nil {
		return nil
	}
	return w.files.Names()
}

// Unread returns the names of the tensors that nothing has read, sorted. It returns none for a
// random model, which has only what is read.
func (w *Weights) Unread() (names []string) {
	if w.files == nil {
		return nil
	}
	return slices.DeleteFunc(w.files.Names(), func(name string) bool { return w.read[name] })
}

// HasRead reports whether the tensor with the given name has been read.
func (w *Weights) HasRead(name string) bool { return w.read[name] }

// IsZero reports whether the tensor with the given name has at most limit bytes, which are all 0,
// and returns their number.
func (w *Weights) IsZero(name string, limit int) (bytes int, zero bool) {
	t, ok := w.files.Tensor(name)
	if !ok || len(t.Data) > limit {
		return 0, false
	}
	return len(t.Data), !slices.ContainsFunc(t.Data, func(b byte) bool { return b != 0 })
}

// dryEqualBytes is how much of two tensors is compared, at both ends, if no model is built.
const dryEqualBytes = 1 << 20

// IsFloat reports whether a tensor of s consists of plain floats. Those of a random model do.
func (s Scope) IsFloat(name string) bool {
	if s.w.files == nil {
		return true
	}
	t, _ := s.w.files.Tensor(s.path + name)
	return floatOf(t.DType) != nil
}

// Equals reports whether a tensor of s and one of another scope have the same elements, also if
// their types of floats differ. Those of a random model do. A dry run compares their ends, because
// a list of models must not read gigabytes.
func (s Scope) Equals(name string, other Scope, otherName string) bool {
	if s.w.files == nil {
		return true
	}
	a, ok := s.w.files.Tensor(s.path + name)
	b, found := other.w.files.Tensor(other.path + otherName)
	_, dry := s.w.Device.(*kernels.DryRun)
	if ok && found && a.DType != b.DType && slices.Equal(a.Shape, b.Shape) {
		return equalValues(a, b, dry)
	}
	if !ok || !found || a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) ||
		len(a.Data) != len(b.Data) {
		return false
	}
	n := len(a.Data)
	if dry && n > 2*dryEqualBytes {
		return bytes.Equal(a.Data[:dryEqualBytes], b.Data[:dryEqualBytes]) &&
			bytes.Equal(a.Data[n-dryEqualBytes:], b.Data[n-dryEqualBytes:])
	}
	return bytes.Equal(a.Data, b.Data)
}

// At returns the scope of the first prefix with which the name of any tensor begins. If there is
// none, it returns the scope of prefixes[0]. A prefix must be empty or end with a dot. In a random
// model the modules count that config.json names under quantization.
func (w *Weights) At(prefixes ...string) Scope {
	var names []string
	if w.files != nil {
		names = w.files.Names()
	} else {
		names = slices.Collect(maps.Keys(w.Config.Quantization.Modules))
	}
	for _, p := range prefixes {
		for _, name := range names {
			if strings.HasPrefix(name, p) {
				return Scope{w: w, path: p}
			}
		}
	}
	return Scope{w: w, path: prefixes[0]}
}

// Scope is a module of the checkpoint. The names of its tensors are relative to its path.
type Scope struct {
	w       *Weights
	path    string
	inBlock bool // it is in a block that drafts
}

// Sub returns a module inside s. Its name is formatted as by fmt.Sprintf.
func (s Scope) Sub(format string, args ...any) Scope {
	s.path += fmt.Sprintf(format, args...) + "."
	return s
}

// Prefixed returns the part of s whose names begin with prefix, which is empty or ends with a dot.
func (s Scope) Prefixed(prefix string) Scope {
	s.path += prefix
	return s
}

// Path returns the prefix of the names of the tensors in s. It is empty or ends with a dot.
func (s Scope) Path() string { return s.path }

// IsRandom reports whether s is in a random model, which has every tensor.
func (s Scope) IsRandom() bool { return s.w.files == nil }

// Ignore marks the tensors of the given modules as those that the reference does not read either.
func (s Scope) Ignore(modules ...string) {
	if s.w.files == nil {
		return
	}
	suffixes := []string{weightSuffix, scalesSuffix, biasesSuffix, ".bias"}
	if m := s.w.Config.Quantization.method; m != nil {
		suffixes = append(append(suffixes, m.codes), m.parts...)
	}
	suffixes = append(suffixes, floatScales...)
	for _, module := range modules {
		for _, suffix := range suffixes {
			s.w.read[s.path+module+suffix] = true
		}
	}
}

// Has reports whether the scope has a tensor with the given name. What another program has packed
// counts as the weight of its module. A random model has every tensor.
func (s Scope) Has(name string) bool {
	if s.w.files == nil {
		return true
	}
	if _, ok := s.w.files.Tensor(s.path + name); ok {
		return true
	}
	module, isWeight := strings.CutSuffix(name, weightSuffix)
	return isWeight && s.packedBy(module) != ""
}

// Shape returns the shape of a tensor, or nil if there is no such tensor. The caller must not
// change it.
func (s Scope) Shape(name string) []int {
	if s.w.files == nil {
		return nil
	}
	t, _ := s.w.files.Tensor(s.path + name)
	return t.Shape
}

var dtypes = map[safetensors.DType]kernels.DType{
	safetensors.F32: kernels.F32, safetensors.F16: kernels.F16, safetensors.BF16: kernels.BF16,
	safetensors.U32: kernels.U32, safetensors.U8: kernels.U8,
}

// isFloat reports whether the elements of a tensor are floating-point numbers. Packed codes and the
// scales of MXFP4 and MXFP8 are not.
func isFloat(t kernels.Tensor) bool { return t.DType != kernels.U32 && t.DType != kernels.U8 }

// unknownType returns the Problem of a tensor whose type no kernel reads.
func unknownType(t safetensors.Tensor) error {
	if method, ok := typeMethods[t.DType]; ok {
		why := fmt.Sprintf("tensor %s has type %s", t.Name, t.DType)
		if t.DType == safetensors.F8E4M3 {
			why += fmt.Sprintf(", and neither %s_scale_inv nor %s_scale is beside it", t.Name,
				t.Name)
		}
		return foreignQuantization(method, why)
	}
	return problem.New(problem.UnknownArchitecture, "Headroom cannot run weights of this type",
		fmt.Sprintf("tensor %s has type %s, expected F32, F16, BF16, U32 or U8", t.Name, t.DType),
		"Use an MLX conversion of the model, or its weights in bf16, f16 or f32.")
}

// view returns a tensor as a matrix. The last dimension gives its columns, and all other dimensions
// together give its rows. The matrix is a view of the mapping, which may not be aligned. Kernels
// may only read what keep returns.
func (s Scope) view(name string) kernels.Tensor {
	t, ok := s.w.files.Tensor(s.path + name)
	if !ok {
		s.w.Failf("tensor %s%s is missing", s.path, name)
		return kernels.Tensor{}
	}
	s.w.read[t.Name] = true
	dtype, ok := dtypes[t.DType]
	if !ok {
		s.w.refuse(unknownType(t))
		return kernels.Tensor{}
	}
	if err := s.w.checkTensor(t.Name); err != nil {
		s.w.refuse(err)
		return kernels.Tensor{}
	}
	cols := 1
	if n := len(t.Shape); n > 0 {
		cols = t.Shape[n-1]
	}
	rows := 0
	if cols > 0 {
		rows = t.Elements() / cols
	}
	return kernels.Tensor{Buffer: s.w.mappings[s.w.files.FileOf(t.Name)], Offset: t.From,
		DType: dtype, Rows: rows, Cols: cols, Stride: cols}
}

// wrap returns a view of the mapping that the device can read. The device gets the run of t, unless
// some tensors of the file are copied. Then the device gets the pages of t alone: a GPU keeps all
// pages of a buffer in memory, and those of the copied tensors would take it twice.
func (w *Weights) wrap(t kernels.Tensor) kernels.Tensor {
	file, end := t.Buffer, t.Offset+len(t.Bytes())
	runs := w.runs[file]
	i := sort.Search(len(runs), func(i int) bool { return end <= runs[i].to })
	if w.partly[file] || i == len(runs) || t.Offset < runs[i].from {
		runs, i = []run{{from: t.Offset, to: end}}, 0
	}
	r := &runs[i]
	if r.buffer == nil {
		page := os.Getpagesize()
		r.start = r.from / page * page
		r.buffer = w.Device.WrapBuffer(file.Bytes[r.start:r.to])
	}
	t.Buffer = r.buffer
	t.Offset -= r.start
	return t
}

// keep returns a view of the mapping for use in kernels. It has the elements of t in the mapping,
// or in a copy if t is not aligned to its type: old writers did not align tensors.
func (s Scope) keep(t kernels.Tensor) kernels.Tensor {
	if s.w.err != nil || t.IsNone() {
		return t
	}
	if t.Offset%t.DType.Size() == 0 {
		s.w.mapped += int64(t.Rows * t.Cols * t.DType.Size())
		return s.w.wrap(t)
	}
	out := kernels.NewTensor(s.w.Device, t.DType, t.Rows, t.Cols)
	if out.Buffer.Bytes != nil {
		copy(out.Bytes(), t.Bytes())
	}
	return out
}

// Linear loads the matrix name.weight of shape [n, k]. It stays packed or plain as in the file; see
// Experts.
func (s Scope) Linear(name string, n, k int) *kernels.Weight { return s.Experts(name, 1, n, k) }

// Split loads the matrix name.weight of shape [n[0]+n[1]+..., k], in which a checkpoint has fused
// several projections of the same input. It returns a view for each: the first n[0] rows, the next
// n[1] rows, and so on.
func (s Scope) Split(name string, k int, n ...int) []*kernels.Weight {
	total := 0
	for _, rows := range n {
		total += rows
	}
	w := s.load(name, 1, total, k)
	parts, from := make([]*kernels.Weight, len(n)), 0
	for i, rows := range n {
		if parts[i] = w; s.w.err == nil {
			parts[i] = w.RowRange(from, from+rows)
		}
		from += rows
	}
	s.Register(name, parts...)
	return parts
}

// Experts loads the stack of e matrices name.weight of shape [e, n, k]. It stays packed or plain as
// in the file. The packing follows from the shapes of weight and scales. If config.json states a
// packing, both must agree.
func (s Scope) Experts(name string, e, n, k int) *kernels.Weight {
	w := s.load(name, e, n, k)
	s.Register(name, w)
	return w
}

// load loads the weight of Experts.
func (s Scope) load(name string, e, n, k int) *kernels.Weight {
	if s.w.files == nil {
		return s.randomExperts(name, e, n, k)
	}
	if p := s.floatPacking(name); p != nil && e == 1 {
		return s.loadFloats(p, name, n, k)
	}
	if e == 1 && s.hasCodes(name) {
		return s.loadIntegers(name, n, k)
	}
	w := s.viewExperts(name, e, n, k)
	w.Data, w.Scales = s.keep(w.Data), s.keep(w.Scales)
	if w.Mode == kernels.Affine {
		w.Biases = s.keep(w.Biases)
	}
	return w
}

// viewExperts returns the weight of Experts. Its tensors are views of the mapping; see view.
func (s Scope) viewExperts(name string, e, n, k int) *kernels.Weight {
	if err := s.foreign(name); err != nil {
		s.w.refuse(err)
		return &kernels.Weight{Experts: e, N: n, K: k}
	}
	w := &kernels.Weight{Experts: e, N: n, K: k, Data: s.view(name + ".weight")}
	if s.w.err != nil {
		return w
	}
	if s.Has(name + scalesSuffix) {
		if s.scales(name, w); s.w.err != nil {
			return w
		}
	}
	if err := w.Check(); err != nil {
		s.refuseWeight(name+weightSuffix, w, err)
	}
	return w
}

// refuseWeight records that the tensor called name, the elements or the codes of w, cannot be that
// weight. err is that of w.Check.
func (s Scope) refuseWeight(name string, w *kernels.Weight, err error) {
	shape := safetensors.ShapeText(s.Shape(name)...)
	if d := w.Data; w.Bits > 0 || !isFloat(d) || d.Rows == w.Experts*w.N && d.Cols == w.K {
		s.w.Failf("tensor %s%s of shape %s: %v", s.path, name, shape, err)
		return
	}
	expected := safetensors.ShapeText(w.N, w.K)
	if w.Experts > 1 {
		expected = safetensors.ShapeText(w.Experts, w.N, w.K)
	}
	s.w.Failf("tensor %s%s is %s of shape %s, expected %s", s.path, name, w.Data.DType, shape,
		expected)
}

// scales loads the scales and biases of w. In MXFP4 and MXFP8 a scale is one byte and there are no
// biases.
func (s Scope) scales(name string, w *kernels.Weight) {
	if w.Scales = s.view(name + scalesSuffix); w.Scales.DType != kernels.U8 {
		w.Biases = s.view(name + biasesSuffix)
	}
	if s.w.err != nil {
		return
	}
	if w.Data.DType == kernels.U32 && w.Scales.Cols > 0 {
		w.Bits, w.Group = w.Data.Cols*32/w.K, w.K/w.Scales.Cols
	}
	if w.Mode = kernels.ModeOf(w.Bits, w.Scales.DType); w.Mode == kernels.MXFP4 &&
		w.Group == nvfp4Group {
		w.Mode = kernels.NVFP4
		if s.mlxNVFP4(name, w); s.w.err != nil {
			return
		}
	}
	got := pack{Bits: w.Bits, Group: w.Group, Mode: w.Mode}
	stated := s.w.Config.Quantization.of(s.path + name)
	expected := stated
	if expected.Group == 0 {
		expected.Group = got.Group
	}
	if !s.inBlock {
		s.w.notePacking(Quantization{pack: got}.String(), w.Experts*w.N*w.K)
	}
	if expected.Bits != 0 && expected != got && !s.inBlock {
		how := "packed as " + got.String()
		if got.Bits == 0 {
			how = w.Data.DType.String() + ", which is not packed"
		}
		s.w.Failf("%s%s is %s, but config.json says %s", s.path, name, how, stated)
	}
}

// notePacking counts the values of a weight for Packing.
func (w *Weights) notePacking(packing string, values int) {
	if w.packings == nil {
		w.packings = map[string]int{}
	}
	w.packings[packing] += values
}

// Packing describes the packing of most of the packed weights that have been loaded, as
// Quantization.String does; "": none is packed. It is what the files have: config.json may say
// nothing, or still have the quantization of another folder.
func (w *Weights) Packing() (most string) {
	if w.files == nil {
		return w.Config.Quantization.String()
	}
	for _, packing := range slices.Sorted(maps.Keys(w.packings)) {
		if most == "" || w.packings[packing] > w.packings[most] {
			most = packing
		}
	}
	return most
}

// Vector loads a tensor of n elements as float32 [1, n] and adds the number add to each element.
func (s Scope) Vector(name string, n int, add float32) kernels.Tensor {
	return s.Matrix(name, 1, n, add)
}

// Matrix loads a tensor of rows*cols elements as float32 [rows, cols] and adds the number add to
// each element. The result is a copy. Matrix is for small tensors that kernels read in float32.
func (s Scope) Matrix(name string, rows, cols int, add float32) kernels.Tensor {
	if s.w.files == nil {
		return s.randomMatrix(name, rows, cols)
	}
	t := s.view(name)
	if s.w.err != nil {
		return kernels.Tensor{}
	}
	if t.Rows*t.Cols != rows*cols || !isFloat(t) {
		s.w.Failf("tensor %s%s is %s of shape %s, expected %d elements of a float type", s.path,
			name, t.DType, safetensors.ShapeText(s.Shape(name)...), rows*cols)
		return kernels.Tensor{}
	}
	out := kernels.NewTensor(s.w.Device, kernels.F32, rows, cols)
	if out.Buffer.Bytes == nil {
		return out
	}
	values := out.Float32s()
	Float32s(values, t)
	for i := range values {
		if values[i]-values[i] != 0 { // NaN or infinite, which a clamped activation would hide
			s.w.refuse(problem.New(problem.ModelBroken, "The model's weights are damaged",
				fmt.Sprintf("tensor %s%s has a value that is not a finite number", s.path, name),
				"Download or convert the model again."))
			return kernels.Tensor{}
		}
		values[i] += add
	}
	return out
}

// Stack copies the matrices name(0) to name(e-1), each of shape [n, k], into one weight of e
// experts. All must be plain, or packed by another program in the same way. Old Hugging Face
// checkpoints have a module per expert, but kernels need a stack. Stack allocates no memory until
// it has found all matrices.
func (s Scope) Stack(e int, name func(int) string, n, k int) *kernels.Weight {
	if s.floatPacking(name(0)) != nil {
		return s.stackFloats(e, name, n, k)
	}
	if s.w.files != nil && s.hasCodes(name(0)) {
		return s.stackIntegers(e, name, n, k)
	}
	return s.stackPlain(e, name, n, k)
}

// View loads the matrix name.weight of shape [n, k] for Pick. Kernels must not read it, because it
// may not be aligned.
func (s Scope) View(name string, n, k int) *kernels.Weight {
	if s.w.files == nil {
		return s.Linear(name, n, k)
	}
	if p := s.floatPacking(name); p != nil {
		return s.readFloats(p, name, n, k, s.temporary)
	}
	if s.hasCodes(name) {
		return s.viewIntegers(name, n, k)
	}
	return s.viewExperts(name, 1, n, k)
}

// Pick returns a weight of n rows that are copies of rows of w: row i is a copy of row from(i). The
// rows stay packed or plain. w is a View.
func (s Scope) Pick(w *kernels.Weight, n int, from func(i int) int) *kernels.Weight {
	if s.w.err != nil {
		return w
	}
	picked := *w
	picked.Experts, picked.N = 1, n
	for _, t := range []*kernels.Tensor{&picked.Data, &picked.Scales, &picked.Biases} {
		if t.IsNone() {
			continue
		}
		all := *t
		*t = kernels.NewTensor(s.w.Device, all.DType, n, all.Cols)
		for i := 0; i < n && t.Buffer.Bytes != nil; i++ {
			copy(t.RowRange(i, i+1).Bytes(), all.RowRange(from(i), from(i)+1).Bytes())
		}
	}
	return &picked
}
