package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSameBits checks that the GGUF file of every shape has the parameters that Headroom generates,
// in as many bytes. Only the types of routers differ.
func TestSameBits(t *testing.T) {
	t.Chdir("../..")
	files, err := filepath.Glob(filepath.Join(shapes, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		if !hasLayout(t, file) {
			continue
		}
		for _, layers := range []int{0, 12} {
			if layers > 0 && strings.HasSuffix(file, "-2-layers.json") {
				continue
			}
			label, text, err := readShape(file, layers)
			if err != nil {
				t.Fatal(err)
			}
			c, err := parseConfig(text)
			if err != nil {
				t.Fatal(err)
			}
			compared++
			_, tensors, err := c.gguf()
			if err != nil {
				t.Fatalf("%s: %v", label, err)
			}
			peer, parameters := 0, 0
			for _, one := range tensors {
				peer += one.bytes()
				if one.name != ropeFactors { // computed from config.json in Headroom
					parameters += one.bytes() / one.kind.bytes * one.kind.elements
				}
			}
			own, err := describe(text)
			if err != nil {
				t.Fatal(err)
			}
			size := own.SizeBytes
			if ratio := float64(peer) / float64(size); math.Abs(ratio-1) > 0.01 ||
				int64(parameters) != own.Parameters {
				t.Errorf("%s: the GGUF file has %d parameters in %d bytes, Headroom %d in %d",
					label, parameters, peer, own.Parameters, size)
			}
		}
	}
	if compared < 23 {
		t.Errorf("%d shapes compared, expected two of at least 11 files, and one of another",
			compared)
	}
}

// hasLayout reports whether the shape in a file can be written as GGUF.
func hasLayout(t *testing.T, file string) bool {
	_, text, err := readShape(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := architectures[c.ModelType]
	return ok
}

// tinyConfig has every type of weight.
const tinyConfig = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
	"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
	"vocab_size": 4095, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": false, "quantization": {"group_size": 64, "bits": 4, "mode": "affine",
	"model.lm_head": {"group_size": 32, "bits": 4}, "model.embed_tokens": {"group_size": 64,
	"bits": 8}, "model.layers.0.mlp.up_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}}`

// TestWriteGGUF writes a model and reads the header: the tensors must follow each other, aligned,
// and end with the file. Their elements must have a mean of 0 and a deviation of 1/sqrt(columns).
func TestWriteGGUF(t *testing.T) {
	c, err := parseConfig([]byte(tinyConfig))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := c.write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	metadata, tensors, err := c.gguf()
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(text)
	read := func(v any) {
		t.Helper()
		if err := binary.Read(r, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	name := func() string {
		var n uint64
		read(&n)
		s := make([]byte, n)
		read(s)
		return string(s)
	}
	var head struct {
		Magic, Version    uint32
		Tensors, Metadata uint64
	}
	if read(&head); head.Magic != 0x46554747 || head.Version != 3 ||
		head.Tensors != uint64(len(tensors)) || head.Metadata != uint64(len(metadata)) {
		t.Fatalf("header %+v", head)
	}
	for _, e := range metadata {
		var kind uint32
		if key := name(); key != e.key {
			t.Fatalf("key %s, expected %s", key, e.key)
		}
		if read(&kind); kind == ggufString {
			name()
			continue
		}
		var value uint32
		read(&value)
	}
	offsets := make([]uint64, len(tensors))
	for i, want := range tensors {
		got := name()
		var dimensions, kind uint32
		read(&dimensions)
		shape := make([]uint64, dimensions)
		read(shape)
		read(&kind)
		read(&offsets[i])
		if got != want.name || kind != want.kind.id || offsets[i]%32 != 0 ||
			len(shape) != len(want.shape) || shape[0] != uint64(want.shape[0]) {
			t.Errorf("tensor %s of type %d and shape %v at %d, expected %+v", got, kind, shape,
				offsets[i], want)
		}
	}
	start := (len(text) - r.Len() + 31) / 32 * 32
	end, types := 0, map[string]bool{}
	for i, one := range tensors {
		from := start + int(offsets[i])
		if from != start+end {
			t.Errorf("%s is at %d, expected %d", one.name, offsets[i], end)
		}
		end = int(offsets[i]) + (one.bytes()+31)/32*32
		if types[one.kind.name] = true; one.constant == 0 {
			checkElements(t, one, text[from:from+one.bytes()])
		}
	}
	if start+end != len(text) || len(types) != 5 {
		t.Errorf("the tensors of types %v end at %d of %d bytes", types, start+end, len(text))
	}
}

// half returns the value of a normal half-precision number.
func half(b []byte) float64 {
	h := binary.LittleEndian.Uint16(b)
	v := math.Ldexp(1+float64(h&1023)/1024, int(h>>10&31)-15)
	if h>>15 == 1 {
		return -v
	}
	return v
}

// decode returns the elements of a block, as ggml's documentation defines them.
func decode(kind string, b []byte) (v []float64) {
	codes := func(b []byte, value func(code byte) float64) {
		for _, x := range b {
			v = append(v, value(x&15), value(x>>4))
		}
	}
	switch kind {
	case "F32":
		v = []float64{float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))}
	case "Q4_0":
		codes(b[2:], func(c byte) float64 { return half(b) * (float64(c) - 8) })
	case "Q4_1":
		codes(b[4:], func(c byte) float64 { return half(b)*float64(c) + half(b[2:]) })
	case "Q8_0":
		for _, x := range b[2:] {
			v = append(v, half(b)*float64(int8(x)))
		}
	case "MXFP4":
		e2m1 := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
		codes(b[1:], func(c byte) float64 {
			return math.Ldexp(e2m1[c&7]*(1-2*float64(c>>3)), int(b[0])-127)
		})
	}
	return v
}

func checkElements(t *testing.T, one tensor, data []byte) {
	t.Helper()
	n, sum, squares := 0.0, 0.0, 0.0
	for block := range slices.Chunk(data, one.kind.bytes) {
		v := decode(one.kind.name, block)
		if len(v) != one.kind.elements {
			t.Fatalf("%s has %d elements in a block", one.name, len(v))
		}
		for _, x := range v {
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	scale := math.Sqrt(float64(one.shape[0]))
	// The codes of Q4_0 have a mean of -0.5. A power of two may be 1.5 times too large.
	if mean, deviation := sum/n*scale, math.Sqrt(squares/n)*scale; math.Abs(mean) > 0.15 ||
		deviation < 0.65 || deviation > 1.5 {
		t.Errorf("%s (%s) has mean %.2f and deviation %.2f, expected 0 and about 1 in units of "+
			"1/sqrt(%d)", one.name, one.kind.name, mean, deviation, one.shape[0])
	}
}

// TestShapeErrors checks what cannot be compared.
func TestShapeErrors(t *testing.T) {
	t.Chdir("../..")
	if _, _, err := readShape("nosuch", 0); err == nil ||
		!strings.Contains(err.Error(), "llama-3.2-3b") {
		t.Errorf("an unknown shape: %v", err)
	}
	for _, layers := range []int{-1, 29} {
		if _, _, err := readShape("llama-3.2-3b", layers); err == nil {
			t.Errorf("%d of 28 layers: no error", layers)
		}
	}
	for change, says := range map[string]string{`"qwen3"`: `model_type "perceptron"`,
		`"bits": 8`: "no type of GGUF"} {
		c, err := parseConfig([]byte(strings.Replace(tinyConfig, change,
			map[string]string{`"qwen3"`: `"perceptron"`, `"bits": 8`: `"bits": 6`}[change], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.gguf(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %s", change, err, says)
		}
	}
}
