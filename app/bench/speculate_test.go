package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"headroom/engine"
)

// TestRightDrafts: of a pass with 4 drafts, each right with 0.5 if those before it are, half have
// none that is right, a quarter one, an eighth two, a sixteenth three and a sixteenth four.
func TestRightDrafts(t *testing.T) {
	for _, c := range []struct {
		acceptance float64
		want       [5]int // of 16 evenly spaced numbers
	}{{0.5, [5]int{8, 4, 2, 1, 1}}, {0, [5]int{16}}, {1, [5]int{4: 16}}} {
		var got [5]int
		for i := range 16 {
			got[rightDrafts(c.acceptance, (float64(i)+0.5)/16, 4)]++
		}
		if got != c.want {
			t.Errorf("acceptance %g: %d, expected %d", c.acceptance, got, c.want)
		}
	}
}

// withBlock is a recurrent model with a block that drafts.
const withBlock = `{"model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2,
	"num_key_value_heads": 1, "head_dim": 64, "vocab_size": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "hidden_act": "silu",
	"tie_word_embeddings": true, "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
	"linear_num_key_heads": 2, "linear_num_value_heads": 2, "attn_output_gate": true,
	"rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25},
	"mtp_num_hidden_layers": 1, "quantization": {"group_size": 64, "bits": 4}}`

// TestSpeculation: with a share p of right drafts, a pass of d drafts has (p-p^(d+1))/(1-p) right
// ones. Whether the block or nobody drafts, the answer has as many passes.
func TestSpeculation(t *testing.T) {
	for _, c := range []struct {
		name, config string
		free, block  bool
	}{{"no block", tiny, false, false}, {"a block", withBlock, false, true},
		{"a block that does not draft", withBlock, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			said := 0
			s := Speculation{Shape: Shape{"x", []byte(c.config)}, Device: engine.DeviceCPU,
				Threads: 1, Acceptance: []float64{0, 0.5, 1}, Depths: []int{1, 4, MaxDepth},
				Context: 16, Tokens: 256, Repeat: 2, Free: c.free, Say: func(string) { said++ }}
			r, err := s.Measure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Block != c.block || !strings.HasPrefix(r.Device, "CPU") || len(r.Rows) != 12 ||
				said != 6 {
				t.Fatalf("%+v, said %d times", r, said)
			}
			for i, row := range r.Rows {
				p, d := row.Acceptance, float64(row.Depth)
				name := fmt.Sprintf("acceptance %g, depth %g", p, d)
				if p != s.Acceptance[i/4] || row.Depth != []int{0, 1, 4, MaxDepth}[i%4] ||
					row.TokensPerSecond <= 0 || row.Ratio <= 0 || row.Depth == 0 && row.Ratio != 1 {
					t.Errorf("%s: %+v", name, row)
				}
				right := d
				if p < 1 {
					right = (p - math.Pow(p, d+1)) / (1 - p)
				}
				// The passes at the end have fewer drafts than the others.
				passes := float64(s.Tokens) / (1 + right)
				// Of the durations of both runs, those of the passes at the end are missing.
				if got := float64(len(row.passes)); got > 2*passes+6 || got < 2*passes-2*d-6 {
					t.Errorf("%s: %g durations, expected %g", name, got, 2*passes)
				}
				if got := meanYield(p, row.Depth); math.Abs(got-1-right) > 1e-9 {
					t.Errorf("%s: %g tokens a pass, expected %g", name, got, 1+right)
				}
				if got := float64(s.Tokens - row.Accepted); math.Abs(got-passes) > 3 {
					t.Errorf("%s: %g passes, expected %g", name, got, passes)
				}
				if most := passes * d; math.Abs(float64(row.Drafts)-most) > d*(d+5)/2 {
					t.Errorf("%s: %d drafts, expected %g", name, row.Drafts, most)
				}
			}
			if best := r.Best(1); best == nil || best.Acceptance != 1 || r.Best(0.3) != nil {
				t.Errorf("best %+v", best)
			}
		})
	}
}

// TestSpeculationNeedsTheCPU: a device that decodes nothing ahead is an error, not a speed.
func TestSpeculationNeedsTheCPU(t *testing.T) {
	d := knownDrafts{answer: make([]int32, 20), prompt: 4}
	d.set(1, 4, 0)
	for n := range 3 {
		d.propose(d.answer[:5+5*n])
	}
	if err := d.check(engine.Usage{DraftTokens: 12}); err != nil {
		t.Error(err)
	}
	if err := d.check(engine.Usage{DraftTokens: 11}); err == nil ||
		!strings.Contains(err.Error(), "12 drafts were proposed with a depth of 4, and 11") {
		t.Errorf("got %v", err)
	}
}
