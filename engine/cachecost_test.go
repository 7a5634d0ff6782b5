package engine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestDescribeCache compares with sizes computed by hand for Qwen3.5-35B-A3B, which has 40 layers.
// In each of its 10 attention layers, K and V have 2 heads of 256 values. 256 values take 512 bytes
// in f16, 256 + 4*4 in K8 g64, 128 + 8*4 in V4 g32, 256 + 8*4 in V8 g32 and 8*18 in q4_0. Each of
// the 30 recurrent layers has a state of 32 heads of 128 by 128 values, and 3 rows of 8,192 values
// for the convolution.
func TestDescribeCache(t *testing.T) {
	config, err := os.ReadFile(
		filepath.Join("..", "app", "commands", "shapes", "qwen3_5_moe-35b-a3b.json"))
	if err != nil {
		t.Fatal(err)
	}
	const state = 30 * 4 * (32*128*128 + 3*8192)
	for _, test := range []struct {
		o       engine.Options
		bytes   int64
		ring    int64
		context int64 // for 1,000 tokens, which need 32 pages
	}{
		{engine.Options{KVFormat: "f16"}, 20480, 0, 1024*20480 + state},
		{engine.Options{}, 4*2*(272+288) + 6*2*(272+160), 0, 1024*9664 + state},
		{engine.Options{KVFormat: "q4_0"}, 5760, 0, 1024*5760 + state},
		// A ring has 1 page for the first 4 positions and 25 pages for the other 252 + 520 - 1
		// positions. The longest pass has 520 rows: a chunk of 512 tokens, and 8 streams.
		{engine.Options{KVFormat: "q4_0", MaxKVTokens: 256}, 0, 26 * 32 * 5760, 26*32*5760 + state},
		{engine.Options{KVFormat: "q4_0", KVStartTokens: 500}, 5760, 0,
			512*20480 + 512*5760 + state},
		{engine.Options{KVStartTokens: 5000}, 9664, 0, 1024*20480 + state},
		{engine.Options{KVFormat: "q4_0", MaxKVTokens: 256, KVStartTokens: 512}, 0, 26 * 32 * 5760,
			26*32*5760 + state},
		{engine.Options{KVFormat: "q4_0", MaxKVTokens: 1 << 20}, 5760, 0, 1024*5760 + state},
	} {
		c, err := engine.DescribeCache(config, test.o)
		if err != nil {
			t.Fatal(err)
		}
		if c.BytesPerToken != test.bytes || c.RingBytes != test.ring || c.StateBytes != state ||
			c.ContextBytes(1000) != test.context {
			t.Errorf(
				"%+v: got %+v and %d bytes for 1,000 tokens, "+
					"expected %d per token, rings %d, state %d and %d bytes",
				test.o, c, c.ContextBytes(1000), test.bytes, test.ring, state, test.context)
		}
		layers, perToken := 0, int64(0)
		for _, l := range c.Layers {
			layers += l.Layers
			perToken += int64(l.Layers) * l.BytesPerToken
		}
		if layers != 40 || perToken != c.BytesPerToken {
			t.Errorf("%+v: %d layers take %d bytes per token, expected 40 layers, %d bytes", test.o,
				layers, perToken, c.BytesPerToken)
		}
	}
	if _, err := engine.DescribeCache(config,
		engine.Options{KVBits: "7"}); problem.From(err).Code != problem.BadRequest {
		t.Errorf("7 bits: got %v, expected a bad request", err)
	}
}

// FuzzDescribeCache describes mutated configs. Every config must give either sizes or a Problem,
// and must not allocate much memory.
func FuzzDescribeCache(f *testing.F) {
	for _, m := range tinyModels() {
		config, err := m.Config(tinyTree)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config, 64)
	}
	f.Add(
		[]byte(
			`{"model_type": "qwen3", "text_config": {"num_hidden_layers": 1e9}, "quantization": 3}`), 0)
	f.Add([]byte(`{"model_type": "qwen3_5_moe", "text_config": null}`), -1)
	f.Fuzz(func(t *testing.T, config []byte, limit int) { describeCache(t, config, limit) })
}

// describeCache checks that a config gives either sizes or a Problem, and that little memory is
// allocated.
func describeCache(t *testing.T, config []byte, limit int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := engine.DescribeCache(config, engine.Options{MaxKVTokens: limit})
	runtime.ReadMemStats(&after)
	// 10 KiB for each of at most 4096 layers. Those of glm4_moe_lite take the most, 9,295 bytes:
	// a layer, the names of its tensors and the weights, which have no elements.
	const everyModel = 40 << 20
	if used, most := after.TotalAlloc-before.TotalAlloc,
		uint64(everyModel+200*len(config)); used > most {
		t.Errorf("%d bytes allocated for a config of %d, expected at most %d", used, len(config),
			most)
	}
	switch {
	case err != nil:
		if p := problem.From(err); p.Code == problem.Internal {
			t.Errorf("got %v, expected a Problem about the model", err)
		}
	case c.BytesPerToken < 0 || c.RingBytes < 0 || c.StateBytes < 0 || len(c.Layers) == 0:
		t.Errorf("got %+v, expected sizes and layers", c)
	}
}
