package models_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// expected is a prompt with its reference outputs in float32. They were computed by Hugging Face
// transformers 5.17 (PyTorch 2.11) or 5.23 (PyTorch 2.15, testdata/tiny_hf.py), or by MLX 0.32.4
// for the models that MLX has packed (testdata/mx.py, build/oracle).
type expected struct {
	IDs         []int32   `json:"ids"`
	LastLogits  []float32 `json:"last_logits"`
	ArgmaxEach  []int32   `json:"argmax_each"`
	GreedyIDs   []int32   `json:"greedy_ids"`
	SmallestGap float64   `json:"smallest_gap"`
}

// tiny lists the tiny models in testdata/tiny. There is at least one of every architecture, with
// random weights in the layout of Hugging Face. Some architectures also have a model that MLX has
// packed: in mxfp4 or mxfp8 with some affine and some plain weights, or in affine.
var tiny = listTiny()

func listTiny() (names []string) {
	entries, err := os.ReadDir(filepath.Join("testdata", "tiny"))
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// roundedFreqs lists the tiny models whose reference outputs were computed with rotary frequencies
// in bfloat16; see models.RoundInvFreq.
var roundedFreqs = []string{"gemma3_text", "gemma4_text", "llama", "mistral", "qwen2_heads16",
	"qwen3", "qwen3_moe"}

const (
	// logitTolerance is the maximum error of a logit by float32 sums in a different order.
	logitTolerance = 2e-3
	// decidedGap is a difference between the two highest logits that such errors cannot reverse.
	decidedGap = 0.05
)

func TestTinyModelsEqualReference(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			all := readExpected(t, name)
			d := cpuDevice(t, 2)
			for _, want := range all {
				checkExpected(t, d.Name(), newTiny(t, d, name), want)
			}
			reference := kernels.NewReference()
			t.Cleanup(reference.Close)
			for _, want := range all[:3] { // prompts of up to 40 tokens; the reference is slow
				checkExpected(t, reference.Name(), newTiny(t, reference, name), want)
			}
		})
	}
}

func checkExpected(t *testing.T, device string, r *rig, want expected) {
	t.Helper()
	logits := r.score(want.IDs, len(want.IDs))
	for i, id := range want.ArgmaxEach {
		if best, gap := argmax(logits[i]); best != id && gap > decidedGap {
			t.Errorf("%s, %d tokens, position %d: argmax %d, ahead by %.3f, the reference has %d",
				device, len(want.IDs), i, best, gap, id)
		}
	}
	for v, w := range want.LastLogits {
		if g := logits[len(logits)-1][v]; !(math.Abs(float64(g-w)) <= logitTolerance) {
			t.Fatalf("%s, %d tokens: logit %d is %g, the reference has %g", device, len(want.IDs),
				v, g, w)
		}
	}
	if want.SmallestGap > decidedGap {
		if got := r.greedy(want.IDs, len(want.GreedyIDs)); !slices.Equal(got, want.GreedyIDs) {
			t.Errorf("%s, %d tokens: greedy %v, the reference has %v", device, len(want.IDs), got,
				want.GreedyIDs)
		}
	}
}

// exactFormats are the cache formats in which TestSameBits runs a model: float32, and float16 and
// the default format with the activations that `headroom serve` uses.
var exactFormats = []struct {
	cache.FormatOptions
	float32Activations bool
}{{cache.FormatOptions{Name: "f32"}, true}, {cache.FormatOptions{Name: "f16"}, false},
	{cache.FormatOptions{}, false}}

// TestSameBits checks the exactness rule on whole models. The bits of a row of logits do not depend
// on the chunks of the prompt, on the rest of the batch, on the order of the page table or on the
// number of threads. Decoding gives the same bits as prefill.
func TestSameBits(t *testing.T) {
	for i, name := range tiny {
		for j, f := range exactFormats {
			if f.Name != "f32" && cpu.Best() == cpu.Generic {
				continue // with the plain Go kernels, each format takes seconds
			}
			if cpu.Best() != cpu.Generic && !long() && j != i%len(exactFormats) {
				continue // each model in one format by turns
			}
			t.Run(name+" "+f.Name, func(t *testing.T) {
				kv, err := cache.ParseFormat(f.FormatOptions)
				if err != nil {
					t.Fatal(err)
				}
				open := func(threads int) *rig {
					d := kernels.NewCPU(cpu.Options{Threads: threads,
						Float32Activations: f.float32Activations})
					t.Cleanup(d.Close)
					return newTinyWith(t, d, name,
						runner.Options{KV: kv, Slots: 2, BatchRows: rigRows})
				}
				testSameBits(t, open, readExpected(t, name)[4].IDs[:200])
			})
		}
	}
}

func testSameBits(t *testing.T, open func(threads int) *rig, ids []int32) {
	r := open(2)
	whole := r.score(ids, len(ids))
	for _, chunk := range []int{1, 7, 32, 64, 199} {
		if got := r.score(ids, chunk); !equalBits(got, whole) {
			t.Errorf("computing the prompt in chunks of %d changes the logits", chunk)
		}
	}
	if got := r.scoreTogether(ids, ids[:50]); !equalBits(got, whole) {
		t.Error("another sequence in the batch changes the logits")
	}
	for _, threads := range []int{1, 3} {
		if got := open(threads).score(ids, 64); !equalBits(got, whole) {
			t.Errorf("%d threads change the logits", threads)
		}
	}
}

// rig runs a model with pages for two sequences of up to 512 tokens.
type rig struct {
	*runner.Runner
	pages [2][]int32
}

const (
	rigRows  = 512
	rigPages = 32
)

func newTiny(t *testing.T, d kernels.Device, name string) *rig {
	t.Helper()
	return newTinyWith(t, d, name,
		runner.Options{KV: cache.Plain(kernels.F32), Slots: 2, BatchRows: rigRows})
}

func newTinyWithState(t *testing.T, d kernels.Device, name string, state cache.StateFormat) *rig {
	t.Helper()
	return newTinyWith(t, d, name,
		runner.Options{KV: cache.Plain(kernels.F32), State: state, Slots: 2, BatchRows: rigRows})
}

// newTinyWith returns a rig with a tiny model and the given options. It sets Pages and LogitsRows.
func newTinyWith(t *testing.T, d kernels.Device, name string, o runner.Options) *rig {
	t.Helper()
	src := checkpoint.Source{Dir: filepath.Join("testdata", "tiny", name)}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	m, err := models.Load(w)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(roundedFreqs, name) {
		models.RoundInvFreq(m)
	}
	o.Pages, o.LogitsRows = rigPages, o.BatchRows
	r := &rig{Runner: runner.New(d, m, o)}
	for i := range int32(16) { // interleaved pages, in descending order for the second sequence
		r.pages[0] = append(r.pages[0], 2*i)
		r.pages[1] = append(r.pages[1], 31-2*i)
	}
	return r
}

func cpuDevice(t *testing.T, threads int) kernels.Device {
	d := kernels.NewCPU(cpu.Options{Threads: threads, Float32Activations: true})
	t.Cleanup(d.Close)
	return d
}

// score returns the logits after each of ids. It computes them in chunks.
func (r *rig) score(ids []int32, chunk int) [][]float32 {
	var all [][]float32
	for from := 0; from < len(ids); from += chunk {
		to := min(from+chunk, len(ids))
		all = append(all, r.step(ids[from:to],
			kernels.Span{Rows: to - from, Pos: from, Pages: r.pages[0]})...)
	}
	return all
}

// scoreTogether returns the logits after each of a. The same passes also compute b, in rows before
// and after those of a.
func (r *rig) scoreTogether(a, b []int32) [][]float32 {
	half := len(b) / 2
	out := r.step(append(slices.Clone(b[:half]), a[:100]...),
		kernels.Span{Rows: half, Pages: r.pages[1], Slot: 1},
		kernels.Span{Row: half, Rows: 100, Pages: r.pages[0]})[half:]
	return append(out, r.step(append(slices.Clone(a[100:]), b[half:]...),
		kernels.Span{Rows: len(a) - 100, Pos: 100, Pages: r.pages[0]},
		kernels.Span{Row: len(a) - 100, Rows: len(b) - half, Pos: half, Pages: r.pages[1],
			Slot: 1})[:len(a)-100]...)
}

// step returns the logits of every row.
func (r *rig) step(ids []int32, spans ...kernels.Span) [][]float32 {
	want := make([]int32, len(ids))
	for i := range want {
		want[i] = int32(i)
	}
	flat, err := r.Step(ids, spans, want)
	if err != nil {
		panic(err)
	}
	var rows [][]float32
	for i := range ids {
		rows = append(rows, slices.Clone(flat[i*r.VocabSize():(i+1)*r.VocabSize()]))
	}
	return rows
}

// greedy returns the n tokens that continue ids in greedy decoding.
func (r *rig) greedy(ids []int32, n int) []int32 {
	logits := r.score(ids, len(ids))
	var out []int32
	for pos := len(ids); ; pos++ {
		best, _ := argmax(logits[len(logits)-1])
		if out = append(out, best); len(out) == n {
			return out
		}
		logits = r.step([]int32{best}, kernels.Span{Rows: 1, Pos: pos, Pages: r.pages[0]})
	}
}

func argmax(x []float32) (best int32, gap float64) {
	first, second := math.Inf(-1), math.Inf(-1)
	for i, v := range x {
		if v := float64(v); v > first {
			best, first, second = int32(i), v, first
		} else if v > second {
			second = v
		}
	}
	return best, first - second
}

func equalBits(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y []float32) bool {
		return slices.EqualFunc(x, y,
			func(p, q float32) bool { return math.Float32bits(p) == math.Float32bits(q) })
	})
}

func readExpected(t *testing.T, name string) []expected {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "tiny", name, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []expected
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
