package cache

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/attention"
)

func parse(t *testing.T, o FormatOptions) Format {
	t.Helper()
	f, err := ParseFormat(o)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return f
}

// layersOf returns the attention layers of a public model's config.json.
func layersOf(t *testing.T, name string) []LayerSpec {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Text struct {
			Layers   int `json:"num_hidden_layers"`
			Interval int `json:"full_attention_interval"`
			KVHeads  int `json:"num_key_value_heads"`
			HeadDim  int `json:"head_dim"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	c, layers := config.Text, make([]LayerSpec, config.Text.Layers)
	for i := range layers {
		if (i+1)%c.Interval == 0 {
			layers[i] = LayerSpec{KVHeads: c.KVHeads, HeadDim: c.HeadDim}
		}
	}
	return layers
}

// TestBytesPerToken compares with sizes computed by hand, for 10 attention layers of 2 heads of
// 256. K8 g64 takes 2*(256+16) = 544 bytes a token, V4 g32 2*(128+32) = 320, V8 g32 2*(256+32) =
// 576. So 6 layers of 864 and 4 of 1,120 take 9,664.
func TestBytesPerToken(t *testing.T) {
	layers := layersOf(t, "qwen3_5_moe-35b-a3b")
	for _, test := range []struct {
		o     FormatOptions
		bytes int64
		words string
	}{
		{FormatOptions{Name: "f16"}, 20480, "f16"},
		{FormatOptions{Name: "f32"}, 40960, "f32"},
		{FormatOptions{Name: "affine"}, 6*864 + 4*1120,
			"K8 g64 + V4 g32, first and last 2 layers K8 V8"},
		{FormatOptions{Name: "affine", BoundaryLayers: -1}, 8640, "K8 g64 + V4 g32"},
		{FormatOptions{Bits: "8", GroupSize: "64"}, 10 * 1088, "K8 g64 + V8 g64"},
		{FormatOptions{Bits: "(3, 2)", GroupSize: "128", BoundaryLayers: 1, BoundaryBits: 6},
			8*(208+144) + 2*2*400, "K3 g128 + V2 g128, first and last layer K6 V6"},
		{FormatOptions{Bits: "4", BoundaryLayers: 9}, 10 * 1120, "K8 g64 + V8 g32"},
		{FormatOptions{Name: "q8_0"}, 10880, "q8_0"},
		{FormatOptions{Name: "q4_0"}, 5760, "q4_0"},
	} {
		f := parse(t, test.o)
		if got := PageBytes(layers, f); got != PageTokens*test.bytes {
			t.Errorf("%+v: %d bytes a token, expected %d", test.o, got/PageTokens, test.bytes)
		}
		if got := f.Describe(layers); got != test.words {
			t.Errorf("%+v: %q, expected %q", test.o, got, test.words)
		}
	}
}

// TestStartBytes checks the size of start pages for 10 attention layers of 2 heads of 256, which
// take 20,480 bytes a token in float16.
func TestStartBytes(t *testing.T) {
	layers := layersOf(t, "qwen3_5_moe-35b-a3b")
	for _, test := range []struct {
		o      FormatOptions
		tokens int
		bytes  int64
		words  string
	}{
		{FormatOptions{StartTokens: 1}, 512, 20480,
			"K8 g64 + V4 g32, first and last 2 layers K8 V8, first 512 tokens f16"},
		{FormatOptions{Name: "q4_0", StartTokens: 5000}, 5120, 20480,
			"q4_0, first 5120 tokens f16"},
		{FormatOptions{Name: "q8_0", StartTokens: 512}, 512, 20480, "q8_0, first 512 tokens f16"},
		{FormatOptions{Name: "q8_0"}, 0, 0, "q8_0"},
		{FormatOptions{Name: "bf16", StartTokens: 512}, 0, 0, "bf16"},
	} {
		f := parse(t, test.o)
		if got := f.Start(layers); got != test.tokens {
			t.Errorf("%+v: %d tokens, expected %d", test.o, got, test.tokens)
		}
		if got := StartPageBytes(layers, f); got != PageTokens*test.bytes {
			t.Errorf("%+v: %d bytes a token, expected %d", test.o, got/PageTokens, test.bytes)
		}
		if got := f.Describe(layers); got != test.words {
			t.Errorf("%+v: %q, expected %q", test.o, got, test.words)
		}
	}
	f := parse(t, FormatOptions{StartTokens: 512})
	if windows := Limit(layers, 64); f.Start(windows) != 0 || StartPageBytes(windows, f) != 0 {
		t.Error("a model whose layers all have rings has start pages")
	}
}

// TestBoundary checks that only layers with keys count as boundary layers, and that they never have
// fewer bits than the others.
func TestBoundary(t *testing.T) {
	kv, none := LayerSpec{KVHeads: 1, HeadDim: 64}, LayerSpec{}
	f := parse(t, FormatOptions{Bits: "(8, 3)", BoundaryLayers: 1, BoundaryBits: 6})
	for i, l := range f.Layers([]LayerSpec{none, kv, none, kv, kv, none}) {
		want := []LayerFormat{
			1: {attention.Format{Kind: attention.Affine, Bits: 8, Group: 64},
				attention.Format{Kind: attention.Affine, Bits: 6, Group: 32}},
			3: {attention.Format{Kind: attention.Affine, Bits: 8, Group: 64},
				attention.Format{Kind: attention.Affine, Bits: 3, Group: 32}},
			4: {attention.Format{Kind: attention.Affine, Bits: 8, Group: 64},
				attention.Format{Kind: attention.Affine, Bits: 6, Group: 32}},
			5: {},
		}[i]
		if l != want {
			t.Errorf("layer %d: %+v, expected %+v", i, l, want)
		}
	}
	if got := f.Describe([]LayerSpec{none}); got != "none" {
		t.Errorf("a model without keys: %q", got)
	}
}

// TestHeadsThatGroupsDoNotDivide checks that heads whose dimension is not a multiple of the group
// size get smaller groups or float16.
func TestHeadsThatGroupsDoNotDivide(t *testing.T) {
	f := parse(t, FormatOptions{Bits: "4", GroupSize: "128", BoundaryLayers: -1})
	for headDim, want := range map[int]string{128: "K4 g128 + V4 g128", 64: "K4 g64 + V4 g64",
		96: "K4 g32 + V4 g32", 80: "f16", 16: "f16"} {
		if got := f.Describe([]LayerSpec{{KVHeads: 1, HeadDim: headDim}}); got != want {
			t.Errorf("heads of %d: %s, expected %s", headDim, got, want)
		}
	}
	q4 := parse(t, FormatOptions{Name: "q4_0"})
	if got := q4.Describe([]LayerSpec{{KVHeads: 1, HeadDim: 48}}); got != "f16" {
		t.Errorf("q4_0, heads of 48: %s", got)
	}
}

func TestParseFormat(t *testing.T) {
	if f := parse(t, FormatOptions{}); f != Default() {
		t.Errorf("no options: %+v", f)
	}
	if f := parse(t, FormatOptions{Name: "bf16"}); f != Plain(kernels.BF16) {
		t.Errorf("bf16: %+v", f)
	}
	for _, pair := range []string{"(6, 5)", "6,5", " ( 6,5 ) "} {
		if f := parse(t, FormatOptions{Bits: pair}); f.K.Bits != 6 || f.V.Bits != 5 ||
			f.K.Group != 64 || f.V.Group != 32 {
			t.Errorf("%q: %+v", pair, f)
		}
	}
	for _, test := range []struct {
		o    FormatOptions
		want string
	}{
		{FormatOptions{Name: "q8"}, `"q8"`}, {FormatOptions{Name: "f16", Bits: "8"}, "only affine"},
		{FormatOptions{Bits: "7"}, "7 bits"},
		{FormatOptions{Bits: "(8, 4, 2)"}, "(8, 4, 2)"}, {FormatOptions{Bits: "eight"}, "eight"},
		{FormatOptions{GroupSize: "48"}, "groups of 48"},
		{FormatOptions{StartTokens: -1}, "start of -1 tokens"},
		{FormatOptions{StartTokens: 1<<30 + 1}, "start of 1073741825 tokens"},
		{FormatOptions{GroupSize: "0"}, "groups of 0"},
		{FormatOptions{Name: "affine", BoundaryBits: 9}, "9 bits"},
	} {
		if _, err := ParseFormat(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, expected an error with %q", test.o, err, test.want)
		}
	}
}
