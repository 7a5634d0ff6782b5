package models_test

// The assistant of Gemma 4, beside mlx-vlm's in float32 (build/oracle/models/assistants.py).

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/models/modelstest"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// assistantSource returns the random assistant, with the head for all tokens or with clusters, and
// with other keys in config.json or, of those that text has, in its text_config.
func assistantSource(t *testing.T, clusters bool, keys, text map[string]any) checkpoint.Source {
	t.Helper()
	src := checkpoint.Source{Dir: t.TempDir()}
	a := modelstest.Assistant{Clusters: clusters, Keys: keys, Text: text}
	if err := a.Write(os.DirFS(filepath.Join("testdata", "assistant")), src.Dir); err != nil {
		t.Fatal(err)
	}
	return src
}

// loadAssisted loads a tiny model with an assistant.
func loadAssisted(t *testing.T, d kernels.Device, name string,
	drafter checkpoint.Source) (models.Model, error) {
	t.Helper()
	open := func(src checkpoint.Source) *checkpoint.Weights {
		t.Helper()
		config, err := src.Config()
		if err != nil {
			t.Fatal(err)
		}
		w, err := checkpoint.Open(src, config, d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	m, err := models.Load(open(checkpoint.Source{Dir: filepath.Join("testdata", "tiny", name)}))
	if err != nil {
		t.Fatal(err)
	}
	w := open(drafter)
	return m, models.FindAttached(w.Config).Add(m, w)
}

// newAssisted returns a rig of a tiny model with an assistant.
func newAssisted(t *testing.T, d kernels.Device, name string, drafter checkpoint.Source,
	kv cache.Format) *rig {
	t.Helper()
	m, err := loadAssisted(t, d, name, drafter)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Runner: runner.New(d, m, runner.Options{KV: kv, Slots: 2, BatchRows: rigRows,
		Pages: rigPages, LogitsRows: rigRows})}
	for i := range int32(16) {
		r.pages[0] = append(r.pages[0], 2*i)
		r.pages[1] = append(r.pages[1], 31-2*i)
	}
	return r
}

// assisted returns the logits of so many drafts after a token, the first of which the model has not
// computed, and the drafts.
func (r *rig) assisted(t *testing.T, token int32, known, drafts, sequence int) (all [][]float32,
	tokens []int32) {
	t.Helper()
	var from []int32
	for range drafts {
		logits, err := r.Draft([]int32{token}, []kernels.Span{{Rows: 1, Pos: known - 1,
			Pages: r.pages[sequence], Slot: int32(sequence)}}, from)
		if err != nil {
			t.Fatal(err)
		}
		token, _ = argmax(logits)
		all, tokens, from = append(all, slices.Clone(logits)), append(tokens, token), []int32{0}
	}
	return all, tokens
}

func TestAssistantEqualsMLXVLM(t *testing.T) {
	d := kernels.NewCPU(cpu.Options{Float32Activations: true})
	t.Cleanup(d.Close)
	for _, clusters := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "clusters"}[clusters]
		data, err := os.ReadFile(filepath.Join("testdata", "assistant", name, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var prompts []struct {
			IDs   []int32
			Steps []struct {
				Token  int32
				Gap    float64
				Logits []*float64 // every 16th; nil: the token is left out
			}
		}
		if err := json.Unmarshal(data, &prompts); err != nil {
			t.Fatal(err)
		}
		r := newAssisted(t, d, "gemma4_text_affine", assistantSource(t, clusters, nil, nil),
			cache.Plain(kernels.F32))
		compared, left, worst := 0, 0, 0.0
		for _, p := range prompts {
			last := len(p.IDs) - 1
			r.score(p.IDs[:last], 512)
			logits, tokens := r.assisted(t, p.IDs[last], last, len(p.Steps), 0)
			for i, want := range p.Steps {
				for j, x := range want.Logits {
					got := float64(logits[i][16*j])
					if x == nil {
						left++
						if !math.IsInf(got, -1) {
							t.Errorf("%s, %d tokens, draft %d: token %d is not left out", name,
								last+1, i, 16*j)
						}
						continue
					}
					compared, worst = compared+1, max(worst, math.Abs(got-*x))
				}
				if tokens[i] != want.Token {
					if want.Gap > decidedGap {
						t.Errorf("%s, %d tokens: draft %d is %d, mlx-vlm has %d", name, last+1, i,
							tokens[i], want.Token)
					}
					break // the next draft depends on it
				}
			}
		}
		t.Logf("%s: %d logits differ by at most %.2g, %d are left out", name, compared, worst, left)
		if compared < 30 || clusters != (left > 0) || worst > logitTolerance {
			t.Errorf("%s: %d logits differ by at most %.2g, expected at most %g; %d are left out",
				name, compared, worst, logitTolerance, left)
		}
	}
}

// TestAssistantHasTheSameBits: what is drafted does not depend on the chunks in which the model has
// read the text, on what the slot held before, or on wrong drafts that a pass has verified.
func TestAssistantHasTheSameBits(t *testing.T) {
	ids := someTokens(120)
	for _, c := range []struct {
		model string
		text  map[string]any
		kv    cache.Format
	}{{"gemma4_text", modelstest.SharedTarget, cache.Plain(kernels.F32)},
		{"gemma4_text", modelstest.SharedTarget, cache.Affine()},
		{"gemma4_text_affine", nil, cache.Affine()}} {
		src := assistantSource(t, false, nil, c.text)
		r := newAssisted(t, cpuDevice(t, 2), c.model, src, c.kv)
		r.score(ids[:100], 100)
		want, _ := r.assisted(t, ids[100], 100, 4, 0)
		same := func(r *rig, how string) {
			t.Helper()
			if got, _ := r.assisted(t, ids[100], 100, 4, 0); !equalBits(got, want) {
				t.Errorf("%s, %s: other drafts", c.model, how)
			}
		}
		same(r, "again")
		for _, chunk := range []int{1, 7, 64} {
			r.score(ids[10:110], 100) // another text in the same slot
			r.score(ids[:100], chunk)
			same(r, fmt.Sprint("chunks of ", chunk))
		}
		for right := range 4 { // drafts 94 to 100, of which so many are right
			r.score(ids[:94], 94)
			wrong := slices.Concat(ids[94:95+right], ids[2:8-right])
			r.step(wrong, kernels.Span{Rows: len(wrong), Pos: 94, Pages: r.pages[0]})
			r.step(ids[95+right:100], kernels.Span{Rows: 5 - right, Pos: 95 + right,
				Pages: r.pages[0]})
			same(r, fmt.Sprint(right, " right drafts"))
		}
		r.score(ids[:100], 100)
		more := slices.Concat(ids[100:101], ids[3:9])
		r.step(more, kernels.Span{Rows: len(more), Pos: 100, Pages: r.pages[0]})
		want, _ = r.assisted(t, ids[101], 101, 4, 0) // none was right
		r.score(ids[:101], 101)
		if got, _ := r.assisted(t, ids[101], 101, 4, 0); !equalBits(got, want) {
			t.Errorf("%s: other drafts after wrong ones", c.model)
		}
	}
}

// TestAssistantTogether: drafts of two sequences in one step are those of each alone. Only the last
// rows have logits, as in a pass that reads prompts. The hidden states of the two sequences are in
// the same rows of their slots.
func TestAssistantTogether(t *testing.T) {
	ids := someTokens(120)
	for name, text := range map[string]map[string]any{"gemma4_text": modelstest.SharedTarget,
		"gemma4_text_affine": nil} {
		r := newAssisted(t, cpuDevice(t, 2), name, assistantSource(t, true, nil, text),
			cache.Affine())
		if _, err := r.Step(slices.Concat(ids[:40], ids[20:92]), []kernels.Span{
			{Rows: 40, Pages: r.pages[0]}, {Row: 40, Rows: 72, Pages: r.pages[1], Slot: 1}},
			[]int32{39, 111}); err != nil {
			t.Fatal(err)
		}
		first, _ := r.assisted(t, ids[5], 40, 1, 0)
		second, _ := r.assisted(t, ids[6], 72, 1, 1)
		flat, err := r.Draft([]int32{ids[6], ids[5]}, []kernels.Span{
			{Rows: 1, Pos: 71, Pages: r.pages[1], Slot: 1},
			{Row: 1, Rows: 1, Pos: 39, Pages: r.pages[0]}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := r.VocabSize(); !equalBits([][]float32{flat[:v], flat[v:]},
			[][]float32{second[0], first[0]}) {
			t.Errorf("%s: two drafts in a step are others than alone", name)
		}
		r.score(ids[:40], 40)
		if again, _ := r.assisted(t, ids[5], 40, 1, 0); !equalBits(again, first) {
			t.Errorf("%s: other drafts where all rows have logits", name)
		}
	}
}

// TestAssistantRefused: an assistant of another model is refused, with what is wrong.
func TestAssistantRefused(t *testing.T) {
	d := cpuDevice(t, 1)
	type keys = map[string]any
	for _, c := range []struct {
		model      string
		clusters   bool
		keys, text keys
		says       string // "": nothing is wrong
	}{
		{"gemma4_text_affine", false, nil, nil, ""},
		{"gemma4_text", true, nil, modelstest.SharedTarget, ""},
		{"gemma4_text", false, keys{"model_type": "gemma4_unified_assistant"},
			modelstest.SharedTarget, ""},
		{"qwen3", false, nil, nil, "no assistant of Gemma 4 can draft for an architecture"},
		{"gemma4_text", false, nil, nil, "its sliding_window is 33, the large model's is 16"},
		{"gemma4_text", false, nil, keys{"sliding_window": 16},
			"its layer 2 attends to 1 heads of 64, the large model has 2 of 64"},
		{"gemma4_text_affine", false, keys{"backbone_hidden_size": 128}, nil,
			"its backbone_hidden_size is 128, the large model's hidden_size is 64"},
		{"gemma4_text_affine", false, nil, keys{"vocab_size": 321},
			"its vocab_size is 321, the large model's is 320"},
		{"gemma4_text_affine", false, nil, keys{"intermediate_size": 64}, "of shape 48 x 32"},
		{"gemma4_text_affine", true, keys{"use_ordered_embeddings": false}, nil,
			"the drafter has the tensor masked_embedding."},
		{"gemma4_text_affine", true, keys{"num_centroids": 7}, nil,
			"num_centroids is 7, expected a divisor"},
		{"gemma4_text_affine", true, keys{"centroid_intermediate_top_k": 21}, nil,
			"centroid_intermediate_top_k is 21"},
		{"gemma4_text_affine", false, keys{"use_ordered_embeddings": true}, nil,
			"masked_embedding.centroids"},
	} {
		_, err := loadAssisted(t, d, c.model, assistantSource(t, c.clusters, c.keys, c.text))
		if c.says == "" && err != nil || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %v, %v: got %v, expected %q", c.model, c.keys, c.text, err, c.says)
		}
	}
}

// TestAssistantIsNoModel: a folder with an assistant is not taken for a model.
func TestAssistantIsNoModel(t *testing.T) {
	config, err := assistantSource(t, false, nil, nil).Config()
	if err != nil {
		t.Fatal(err)
	}
	if err := models.Check(config); err == nil ||
		!strings.Contains(err.Error(), "This is an assistant of Gemma 4") {
		t.Errorf("got %v, expected that it is an assistant", err)
	}
}
