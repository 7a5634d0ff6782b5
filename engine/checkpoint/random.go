package checkpoint

// Random models. Architectures load them like real models: a Scope without files generates each
// tensor when it is requested, in the requested shape. The seed is fixed, so the weights are the
// same in each run.

import (
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Random returns a model with random weights, in the shapes and the packing of a config.json. It is
// for measuring speed and memory without the real weights, and exists in memory only. Its tokenizer
// has one token per byte.
func Random(config []byte) Source { return Source{random: config} }

// randomFile returns a text file of a random model.
func (s Source) randomFile(name string) ([]byte, error) {
	switch name {
	case "config.json":
		return s.random, nil
	case "tokenizer.json":
		return byteTokenizer(), nil
	}
	return nil, fs.ErrNotExist
}

// byteTokenizer returns a tokenizer.json with one token per byte and no merges.
func byteTokenizer() []byte {
	b := []byte(`{"model": {"type": "BPE", "merges": [], "vocab": {`)
	next := rune(256)
	for i := range rune(256) {
		// Byte-level BPE spells printable bytes as themselves, and the others as the characters
		// from U+0100 on.
		letter := i
		if i < '!' || i > '~' && i < '¡' || i == 0xad {
			letter = next
			next++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, string(letter))
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(i), 10)
	}
	return append(b,
		`}}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": {"type": "ByteLevel"}}`...)
}

// openRandom returns Weights that generate every tensor.
func openRandom(config *Config, d kernels.Device) (*Weights, error) {
	if config.Quantization.Bits == 0 {
		return nil, problem.New(problem.BadRequest,
			"A random model needs a quantization in its config", "",
			"Copy config.json, add \"quantization\": {\"bits\": 4, \"group_size\": 64} to the "+
				"copy, and name that. The model's own file must stay as it is.")
	}
	return &Weights{Config: config, Device: d, random: rand.New(rand.NewPCG(1, 2))}, nil
}

// slabBytes is the size of the buffers that small tensors share. It is much larger than the 2 MB
// pages that systems use for large buffers and files.
const slabBytes = 32 << 20

// newTensor allocates a tensor of a random model. Small tensors share a buffer. In separate buffers
// they would use 4 KB pages, while the tensors of a mapped file use larger ones.
func (w *Weights) newTensor(dtype kernels.DType, rows, cols int) kernels.Tensor {
	const alignment = 256
	bytes := (rows*cols*dtype.Size() + alignment - 1) &^ (alignment - 1)
	// The end of a slab is never written, so a plan counts each tensor for itself.
	_, dry := w.Device.(*kernels.DryRun)
	if bytes > slabBytes/4 || dry {
		return kernels.NewTensor(w.Device, dtype, rows, cols)
	}
	if w.slab == nil || w.slab.Size-w.slabUsed < bytes {
		w.slab, w.slabUsed = w.Device.NewBuffer(slabBytes), 0
	}
	t := kernels.Tensor{Buffer: w.slab, Offset: w.slabUsed, DType: dtype, Rows: rows, Cols: cols,
		Stride: cols}
	w.slabUsed += bytes
	return t
}

// randomExperts generates a packed weight whose products with inputs of size 1 have about size 1.
func (s Scope) randomExperts(name string, e, n, k int) *kernels.Weight {
	p := s.w.Config.Quantization.of(s.path + name)
	if p.Bits == 0 {
		p = s.w.Config.Quantization.pack
	}
	w := &kernels.Weight{Experts: e, N: n, K: k, Mode: p.Mode, Bits: p.Bits, Group: p.Group}
	if p.Mode == kernels.FP8 && p.Group == 0 {
		w.Group = k // a scale for each row
	}
	if w.Group == 0 || k%w.Group != 0 && (p.Mode != kernels.FP8 || k%32 != 0) {
		s.w.Failf("%s%s: width %d does not divide into groups of %d", s.path, name, k, w.Group)
		return w
	}
	w.Data = s.w.newTensor(kernels.U32, e*n, k*p.Bits/32)
	if p.Mode != kernels.Affine {
		w.RandomScales(s.w.newTensor, s.w.random, 1/math.Sqrt(float64(k)))
	} else {
		w.Scales = s.w.newTensor(kernels.BF16, e*n, k/p.Group)
		w.Biases = s.w.newTensor(kernels.BF16, e*n, k/p.Group)
	}
	s.w.randomBytes += int64(w.Bytes())
	s.w.parameters += int64(e) * int64(n) * int64(k)
	if w.Data.Buffer.Bytes != nil {
		words := w.Data.Bytes()
		mask := ^uint64(0)
		if p.Mode.E4M3Values() { // codes with an even fraction are not NaN
			mask = 0xfefefefefefefefe
		}
		for i := 0; i+8 <= len(words); i += 8 {
			*(*uint64)(unsafe.Pointer(&words[i])) = s.w.random.Uint64() & mask
		}
		if p.Mode == kernels.Affine {
			fillScales(w)
		}
	}
	stack := []int{e}
	if e == 1 {
		stack = nil
	}
	s.record(name+".weight", safetensors.U32, w.Data, append(stack, n))
	switch p.Mode {
	case kernels.FP8:
		if s.w.record {
			s.w.refuse(problem.New(problem.BadRequest,
				"A random model in fp8 cannot be written", "",
				"Choose another quantization in config.json, such as 4 bits in groups of 64."))
		}
	case kernels.NVFP4: // each expert has the global scale of its first row
		global := s.w.newTensor(kernels.F32, 1, e)
		for i := 0; i < e*n && w.Biases.Buffer.Bytes != nil; i++ {
			w.Biases.Row(i)[0] = w.Biases.Row(i / n * n)[0]
			global.Row(0)[i/n] = w.Biases.Row(i)[0] * mlxGlobal
		}
		s.record(name+scalesSuffix, safetensors.U8, w.Scales, append(stack, n))
		s.record(name+globalSuffix, safetensors.F32, global, nil)
	case kernels.Affine:
		s.record(name+scalesSuffix, safetensors.BF16, w.Scales, append(stack, n))
		s.record(name+biasesSuffix, safetensors.BF16, w.Biases, append(stack, n))
	default:
		s.record(name+scalesSuffix, safetensors.U8, w.Scales, append(stack, n))
	}
	return w
}

// fillScales sets scales and biases so that uniform codes become elements with a mean of about 0
// and a standard deviation of about 1/sqrt(K).
func fillScales(w *kernels.Weight) {
	deviation := 1 / math.Sqrt(float64(w.K))
	levels := float64(int(1)<<w.Bits - 1)
	scale := math.Sqrt(12) / levels * deviation
	fillBF16(w.Scales, float32(scale))
	fillBF16(w.Biases, float32(-scale*levels/2))
}

func fillBF16(t kernels.Tensor, v float32) {
	b := t.Bytes()
	h := math.Float32bits(v) >> 16
	for i := 0; i < len(b); i += 2 {
		b[i], b[i+1] = byte(h), byte(h>>8)
	}
}

// randomMatrix generates a small tensor with values near 1, as norm weights have.
func (s Scope) randomMatrix(name string, rows, cols int) kernels.Tensor {
	t := kernels.NewTensor(s.w.Device, kernels.F32, rows, cols)
	s.w.parameters += int64(rows) * int64(cols)
	if t.Buffer.Bytes != nil {
		for i, x := 0, t.Float32s(); i < len(x); i++ {
			x[i] = 1 + 0.1*float32(s.w.random.NormFloat64())
		}
	}
	var rest []int
	if rows > 1 {
		rest = []int{rows}
	}
	s.record(name, safetensors.F32, t, rest)
	return t
}

// record keeps a tensor for WriteRandom. Its shape is dimensions followed by the columns of t.
func (s Scope) record(name string, dtype safetensors.DType, t kernels.Tensor, dimensions []int) {
	if s.w.record {
		s.w.made = append(s.w.made,
			safetensors.Tensor{Name: s.path + name, DType: dtype,
				Shape: append(slices.Clone(dimensions), t.Cols), Data: t.Bytes()})
	}
}

// WriteRandom writes a model with random weights to the folder dir: config.json, tokenizer.json,
// and a model.safetensors with the tensors that the function load requests. It generates all
// tensors in memory first.
func WriteRandom(dir string, config []byte, load func(*Weights) error) error {
	parsed, err := ParseConfig(config)
	if err != nil {
		return err
	}
	d := kernels.NewReference()
	defer d.Close()
	w, err := openRandom(parsed, d)
	if err != nil {
		return err
	}
	w.record = true
	if err := load(w); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"config.json": config,
		"tokenizer.json": byteTokenizer()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	return errors.Join(safetensors.Write(f, w.made, map[string]string{"format": "mlx"}), f.Close())
}
