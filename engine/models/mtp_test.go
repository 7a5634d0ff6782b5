package models_test

// The block that drafts tokens, beside mlx-vlm's in float32 (testdata/mtp.py).

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
	"headroom/engine/tokenizer"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// chain is what the block of the reference drafts after a prompt and the first tokens of its
// greedy answer.
type chain struct {
	Case     int `json:"case"`
	Answered int `json:"answered"`
	Drafts   []struct {
		Token         int32
		Logit, Second float64
	}
}

func TestDraftsEqualMLXVLM(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "mtp", "demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	var chains []chain
	if err := json.Unmarshal(data, &chains); err != nil {
		t.Fatal(err)
	}
	if testing.Short() || cpu.Best() == cpu.Generic {
		chains = chains[:6]
	}
	cases := readJSON[[]demoCase](t, "demo_cases.json")
	r, tok := loadDemo(t, true, cache.Plain(kernels.F32), cache.StateFormat{},
		models.LoadDrafter)
	compared, worst := 0, 0.0
	for _, c := range chains {
		prompt := tok.Encode(cases[c.Case].Prompt, tokenizer.EncodeOptions{})
		ids := slices.Concat(prompt, cases[c.Case].GreedyIDs[:c.Answered])
		last := len(ids) - 1
		r.last(ids[:last])
		var from []int32
		token := ids[last]
		for step, want := range c.Drafts {
			logits, err := r.Draft([]int32{token},
				[]kernels.Span{{Rows: 1, Pos: last + step, Pages: r.pages}}, from)
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, math.Abs(float64(logits[want.Token])-want.Logit))
			compared++
			if want.Logit-want.Second <= decidedGap {
				break // the next draft depends on it
			}
			if token, _ = argmax(logits); token != want.Token {
				t.Errorf("case %d, %d tokens, step %d: draft %d, mlx-vlm has %d", c.Case,
					c.Answered, step, token, want.Token)
				break
			}
			from = []int32{0}
		}
	}
	t.Logf("%d logits differ by at most %.2g", compared, worst)
	if compared < 3*len(chains)/2 || worst > logitTolerance {
		t.Errorf("%d logits differ by at most %.2g, expected at most %g", compared, worst,
			logitTolerance)
	}
}

// TestHiddenStates computes a text in chunks, with another sequence beside it, and in rounds that
// keep a state. What the block drafts afterwards has the same bits, also after the kept state.
func TestHiddenStates(t *testing.T) {
	r, tok := loadDemo(t, false, cache.Affine(), cache.StateFormat{}, models.LoadDrafter)
	ids := tok.Encode(readJSON[[]demoCase](t, "demo_cases.json")[3].Prompt,
		tokenizer.EncodeOptions{})[:150]
	half := int32(len(r.pages) / 2)
	drafted := func(slot int32, pages []int32, at int) []float32 {
		t.Helper()
		logits, err := r.Draft(ids[at:at+1], []kernels.Span{{Rows: 1, Pos: at, Pages: pages,
			Slot: slot}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(logits)
	}
	r.step(ids[:140], 0, nil)
	whole := drafted(0, r.pages, 140)
	r.step(ids[:100], 0, nil)
	early := drafted(0, r.pages, 100)

	second := r.pages[half:]
	for from := 0; from < 140; from += 35 {
		tokens := append(slices.Clone(ids[3:10]), ids[from:from+35]...)
		spans := []kernels.Span{{Rows: 7, Pos: 0, Pages: r.pages},
			{Row: 7, Rows: 35, Pos: from, Pages: second, Slot: 1}}
		if _, err := r.Step(tokens, spans, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(drafted(1, second, 140), whole) {
		t.Error("in chunks beside another sequence: other bits")
	}

	first, rest := kernels.Span{Rows: 140, Pages: r.pages}.Split(100)
	if _, err := r.Step(ids[:140], []kernels.Span{{Rows: 140, Pages: r.pages}}, nil,
		batch.Round{Spans: []kernels.Span{first}, Keeps: []batch.Keep{{To: 1}}},
		batch.Round{Spans: []kernels.Span{rest}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(drafted(0, r.pages, 140), whole) {
		t.Error("in rounds: other bits")
	}
	if !slices.Equal(drafted(1, r.pages, 100), early) {
		t.Error("after the kept state: other bits")
	}
}

// withMTP returns f, which is in the layout of Hugging Face, with a block that drafts. Its layer is
// a copy of the model's layer with full attention.
func withMTP(f folder, attentionLayer string) folder {
	out := f.rename(func(name string) string { return name })
	out.config = strings.Replace(f.config, "{", `{"mtp_num_hidden_layers": 1, `, 1)
	r := rand.New(rand.NewPCG(3, 5))
	bf16 := func(shape ...int) safetensors.Tensor {
		x := safetensors.Tensor{DType: safetensors.BF16, Shape: shape}
		n := 2
		for _, size := range shape {
			n *= size
		}
		for len(x.Data) < n {
			x.Data = binary.LittleEndian.AppendUint16(x.Data,
				uint16(math.Float32bits(float32(r.NormFloat64()*0.1))>>16))
		}
		return x
	}
	for name, x := range f.tensors {
		if strings.HasSuffix(name, "model.norm.weight") {
			hidden := x.Shape[0]
			out.put("mtp.fc.weight", bf16(hidden, 2*hidden))
			for _, norm := range []string{"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"} {
				out.put("mtp."+norm+".weight", bf16(hidden))
			}
		}
		if _, rest, found := strings.Cut(name, attentionLayer); found {
			out.put("mtp.layers.0."+rest, x)
		}
	}
	return out
}

// TestMTPLayouts: the block drafts the same in every layout, also if its norms are zero-centred and
// the model's are not, as in some conversions to which it was added.
func TestMTPLayouts(t *testing.T) {
	d := cpuDevice(t, 2)
	drafted := func(f folder) []float32 {
		t.Helper()
		m := f.loadWith(t, d, models.LoadDrafter)
		if !m.Spec().Drafts {
			t.Fatal("the model has no block that drafts")
		}
		r := runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Pages: 1, Slots: 1,
			BatchRows: 24, LogitsRows: 24})
		ids := someTokens(24)
		span := kernels.Span{Rows: 23, Pages: []int32{0}}
		if _, err := r.Step(ids[:23], []kernels.Span{span}, nil); err != nil {
			t.Fatal(err)
		}
		span.Rows, span.Pos = 1, 23
		logits, err := r.Draft(ids[23:], []kernels.Span{span}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(logits)
	}
	for name, attention := range map[string]string{"qwen3_5_text": "model.layers.3.",
		"qwen3_5_moe_text": "model.layers.3.", "qwen3_next": "model.layers.3."} {
		hf := withMTP(readTiny(t, name), attention)
		want := drafted(hf)
		mlx := hf.mlx()
		added := hf.mlx() // the block as in the original
		for tensor, x := range hf.tensors {
			if strings.HasPrefix(tensor, "mtp.") && strings.HasSuffix(tensor, "norm.weight") ||
				strings.Contains(tensor, "pre_fc_norm") {
				added.put("language_model."+tensor, x)
			}
		}
		for layout, f := range map[string]folder{"MLX": mlx, "added later": added,
			"fused": hf.fused()} {
			if got := drafted(f); !slices.Equal(got, want) {
				t.Errorf("%s, %s: other drafts than in the original layout", name, layout)
			}
		}
	}
}
