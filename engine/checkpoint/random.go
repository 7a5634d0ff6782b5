package checkpoint

// Models without weights. They take the same path through the architectures as real ones: a Scope without files draws each
// tensor in the shape it is asked for. The generator's seed is fixed, so two runs have equal weights.

import (
	"io/fs"
	"math"
	"math/rand/v2"
	"strconv"
	"unsafe"

	"headroom/engine/problem"
	"headroom/kernels"
)

// Random is a model of random weights in the shapes and packing of a config.json, made in memory: what speed and memory are
// measured on when the real weights are not there. Its tokenizer knows single bytes.
func Random(config []byte) Source { return Source{random: config} }

// randomFile is the text files of a random model.
func (s Source) randomFile(name string) ([]byte, error) {
	switch name {
	case "config.json":
		return s.random, nil
	case "tokenizer.json":
		return byteTokenizer(), nil
	}
	return nil, fs.ErrNotExist
}

// byteTokenizer is a tokenizer.json with one token per byte and no merges.
func byteTokenizer() []byte {
	b := []byte(`{"model": {"type": "BPE", "merges": [], "vocab": {`)
	next := rune(256)
	for i := range rune(256) {
		letter := i // byte-level BPE writes printable bytes as themselves and the others as letters from 256 on
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
	return append(b, `}}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": {"type": "ByteLevel"}}`...)
}

// openRandom makes weights on demand instead of finding them.
func openRandom(config *Config, d kernels.Device) (*Weights, error) {
	if config.Quantization.Bits == 0 {
		return nil, problem.New(problem.BadRequest, "Random models need a quantization in their config", "", "")
	}
	return &Weights{Config: config, Device: d, random: rand.New(rand.NewPCG(1, 2))}, nil
}

// randomExperts draws a packed weight whose products with unit inputs are of order one.
func (s Scope) randomExperts(name string, e, n, k int) *kernels.Weight {
	p := pack{Bits: s.w.Config.Quantization.Bits, Group: s.w.Config.Quantization.Group}
	if m, ok := s.w.Config.Quantization.Modules[s.path+name]; ok && m.Bits != 0 {
		p = m
	}
	w := &kernels.Weight{Experts: e, N: n, K: k, Bits: p.Bits, Group: p.Group}
	if p.Group == 0 || k%p.Group != 0 {
		s.w.Failf("%s%s: width %d does not divide into groups of %d", s.path, name, k, p.Group)
		return w
	}
	w.Data = kernels.NewTensor(s.w.Device, kernels.U32, e*n, k*p.Bits/32)
	w.Scales = kernels.NewTensor(s.w.Device, kernels.BF16, e*n, k/p.Group)
	w.Biases = kernels.NewTensor(s.w.Device, kernels.BF16, e*n, k/p.Group)
	s.w.bytes += int64(w.Bytes())
	s.w.parameters += int64(e) * int64(n) * int64(k)
	if w.Data.Buffer.Bytes != nil {
		words := w.Data.Bytes()
		for i := 0; i+8 <= len(words); i += 8 {
			*(*uint64)(unsafe.Pointer(&words[i])) = s.w.random.Uint64()
		}
		levels := float64(int(1)<<p.Bits - 1)
		scale := math.Sqrt(12) / (levels * math.Sqrt(float64(k)))
		fillBF16(w.Scales, float32(scale))
		fillBF16(w.Biases, float32(-scale*levels/2))
	}
	return w
}

func fillBF16(t kernels.Tensor, v float32) {
	b := t.Bytes()
	h := math.Float32bits(v) >> 16
	for i := 0; i < len(b); i += 2 {
		b[i], b[i+1] = byte(h), byte(h>>8)
	}
}

// randomMatrix draws a small tensor near one, as norm weights are.
func (s Scope) randomMatrix(rows, cols int) kernels.Tensor {
	t := kernels.NewTensor(s.w.Device, kernels.F32, rows, cols)
	s.w.parameters += int64(rows) * int64(cols)
	if t.Buffer.Bytes != nil {
		for i, x := 0, t.Float32s(); i < len(x); i++ {
			x[i] = 1 + 0.1*float32(s.w.random.NormFloat64())
		}
	}
	return t
}
