package checkpoint

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// TestNotFinite checks every number of 8 and 16 bits, and some of 32, at every place of a short
// tensor, against its value.
func TestNotFinite(t *testing.T) {
	not := func(v float32) bool { return v-v != 0 }
	e4m3 := func(c int) bool { return c&127 == 127 }
	e8m0 := func(c int) bool { return c == 255 }
	for name, c := range map[string]struct {
		find  notFinite
		size  int
		limit int
		want  func(c int) bool
	}{
		"E4M3": {notFiniteE4M3, 1, 1 << 8, e4m3}, "E8M0": {notFiniteE8M0, 1, 1 << 8, e8m0},
		"none": {notFinite{}, 1, 1 << 8, func(int) bool { return false }},
		"F16":  {notFiniteF16, 2, 1 << 16, func(c int) bool { return not(float16(uint16(c))) }},
		"BF16": {notFiniteBF16, 2, 1 << 16, func(c int) bool {
			return not(math.Float32frombits(uint32(c) << 16))
		}},
		"F32": {notFiniteF32, 4, 1 << 16, func(c int) bool { // the other half is 1, or all ones
			return not(math.Float32frombits(uint32(c)<<16 | uint32(c)&1*0xfffe | 1))
		}},
	} {
		for code := range c.limit {
			b := make([]byte, 44) // one of 32 bytes, and a rest
			for i := range b {
				b[i] = byte(0x3f) // finite in every type
			}
			at := code % (len(b) / c.size) * c.size
			switch c.size {
			case 1:
				b[at] = byte(code)
			case 2:
				b[at], b[at+1] = byte(code), byte(code>>8)
			case 4:
				low := code&1*0xfffe | 1
				b[at], b[at+1] = byte(low), byte(low>>8)
				b[at+2], b[at+3] = byte(code), byte(code>>8)
			}
			if got, want := c.find.in(b), c.want(code); got != want {
				t.Errorf("%s: code %#x at byte %d: got %t, expected %t", name, code, at, got, want)
			}
		}
	}
}

// brokenAt returns a tensor of zeros with the given bytes at byte i.
func brokenAt(name string, dtype safetensors.DType, i int, value []byte,
	shape ...int) safetensors.Tensor {
	t := zeros(name, dtype, shape...)
	copy(t.Data[i:], value)
	return t
}

// TestDamagedWeightsAreFound: a value that is not finite in any tensor that the model reads is an
// error, whether the digest is computed, is remembered, or is not needed. In one that nothing reads
// it is none.
func TestDamagedWeightsAreFound(t *testing.T) {
	const n, k = 8, 64
	linear := func(s Scope) { s.Linear("a", n, k) }
	inf16, infBF, nan := []byte{0, 0x7c}, []byte{0x80, 0x7f}, []byte{255}
	affine := packed("m.a", n, k, 4, 64)
	for _, c := range []struct {
		name, config string
		ask          func(Scope)
		broken       string // its name; "": none is
		tensors      []safetensors.Tensor
	}{
		{"bf16", "", linear, "m.a.weight",
			[]safetensors.Tensor{brokenAt("m.a.weight", safetensors.BF16, 2*77, infBF, n, k)}},
		{"a scale of MLX", "", linear, "m.a.scales", []safetensors.Tensor{affine[0],
			brokenAt("m.a.scales", safetensors.F16, 6, inf16, n, 1),
			zeros("m.a.biases", safetensors.F16, n, 1)}},
		{"a bias of MLX", "", linear, "m.a.biases", []safetensors.Tensor{affine[0],
			zeros("m.a.scales", safetensors.F16, n, 1),
			brokenAt("m.a.biases", safetensors.F16, 0, []byte{1, 0xfc}, n, 1)}},
		{"MXFP4", "", linear, "m.a.scales", []safetensors.Tensor{
			packedMX("m.a", kernels.MXFP4, n, k)[0],
			brokenAt("m.a.scales", safetensors.U8, 3, nan, n, k/32)}},
		{"blocks of MXFP4", "", func(s Scope) { s.Blocks("a", 1, n, k) }, "m.a_scales",
			[]safetensors.Tensor{zeros("m.a_blocks", safetensors.U8, 1, n, k/32, 16),
				brokenAt("m.a_scales", safetensors.U8, 3, nan, 1, n, k/32)}},
		{"NVFP4 of MLX", `"quantization": {"mode": "nvfp4"}`, linear, "m.a.scales",
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.U32, n, k/8),
				brokenAt("m.a.scales", safetensors.U8, 3, []byte{0x7f}, n, k/16)}},
		{"a global scale that divides", "", linear, "m.a.weight_global_scale", []safetensors.Tensor{
			zeros("m.a.weight_packed", safetensors.U8, n, k/2),
			zeros("m.a.weight_scale", safetensors.F8E4M3, n, k/16),
			brokenAt("m.a.weight_global_scale", safetensors.F32, 2, infBF, 1)}},
		{"codes of FP8", "", linear, "m.a.weight", []safetensors.Tensor{
			brokenAt("m.a.weight", safetensors.F8E4M3, 9, nan, n, k),
			zeros("m.a.weight_scale", safetensors.F32, 1)}},
		{"all codes of integers", "", linear, "", []safetensors.Tensor{
			brokenAt("m.a.weight", safetensors.U32, 0, []byte(strings.Repeat("\xff", 4*k)), n, k/8),
			affine[1], affine[2]}},
		{"the largest scale of MXFP4", "", linear, "", []safetensors.Tensor{
			packedMX("m.a", kernels.MXFP4, n, k)[0],
			brokenAt("m.a.scales", safetensors.U8, 3, []byte{254, 0x7f}, n, k/32)}},
		{"a tensor that nothing reads", "", linear, "", append(affine,
			brokenAt("m.other", safetensors.F16, 0, inf16, 4))},
	} {
		first, known := open(t, c.config, c.tensors...), digests{}
		for _, way := range []string{"no digest", "computed", "remembered"} {
			w, err := Open(first.source, first.Config, first.Device)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			read := 0
			if way == "no digest" {
				err = w.Prefault(t.Context(), nil)
			} else {
				w.Digests = known
				err = w.findDigest(t.Context(), time.Now().Add(time.Hour),
					func(n int) { read += n })
			}
			if (read > 0) != (way == "computed") {
				t.Errorf("%s, %s: %d bytes hashed", c.name, way, read)
			}
			c.ask(w.At("m."))
			want := fmt.Sprintf("tensor %s has a value that is not a finite number", c.broken)
			if err != nil || (w.Err() != nil) != (c.broken != "") ||
				w.Err() != nil && !strings.Contains(w.Err().Error(), want) {
				t.Errorf("%s, %s: got %v and %v, expected %q", c.name, way, err, w.Err(), c.broken)
			}
		}
	}
}

// TestOldDigestsAreComputedAgain: earlier versions remembered digests without checking values.
func TestOldDigestsAreComputedAgain(t *testing.T) {
	w := open(t, "", brokenAt("a", safetensors.F16, 0, []byte{0, 0x7c}, 4))
	w.Digests = digests{}
	later := time.Now().Add(time.Hour)
	if err := w.findDigest(t.Context(), later, func(int) {}); err != nil || !w.notFinite["a"] {
		t.Fatalf("%v, broken tensors %v", err, w.notFinite)
	}
	for name, text := range w.Digests.(digests) {
		w.Digests.SetDigest(name, strings.Join(strings.Split(text, " ")[:2], " "))
	}
	digest := w.digest
	w.digest, w.notFinite = "", nil
	read := 0
	err := w.findDigest(t.Context(), later, func(n int) { read += n })
	if err != nil || read == 0 || w.digest != digest || !w.notFinite["a"] {
		t.Errorf("%d bytes read, digest %s after %s, broken tensors %v, %v", read, w.digest, digest,
			w.notFinite, err)
	}
}
