package bench

import (
	"fmt"
	"math"
	"slices"
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

// TestSpeculation: all passes are measured, and as many drafts are right as should be. end has
// compared them with those that the engine has accepted.
func TestSpeculation(t *testing.T) {
	for _, c := range []struct {
		name, config string
		free, block  bool
		draft        string
		device       string // sim computes a pass while the next one is planned
	}{{"no block", tiny, false, false, "", engine.DeviceCPU},
		{"a block", withBlock, false, true, "", engine.DeviceCPU},
		{"a block that does not draft", withBlock, true, false, "", engine.DeviceCPU},
		{"a draft model", withBlock, false, true, tiny, engine.DeviceCPU},
		{"no block on Metal", tiny, false, false, "", engine.DeviceSim}} {
		t.Run(c.name, func(t *testing.T) {
			metal, passes := c.device == engine.DeviceSim, 16
			if metal {
				if testing.Short() {
					t.Skip("the simulated device is slow")
				}
				passes = 2
			}
			said := 0
			s := Speculation{Shape: Shape{"x", []byte(c.config)}, Device: c.device,
				Threads: 1, Acceptance: []float64{0, 0.5, 1}, Depths: []int{1, 4, MaxDepth},
				Context: 16, Tokens: 64, Passes: passes, Free: c.free, Say: func(string) { said++ }}
			if c.draft != "" {
				s.DraftShape = &Shape{"small", []byte(c.draft)}
			}
			r, err := s.Measure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if (r.DraftShape == "small") != (c.draft != "") {
				t.Errorf("the draft model is %q", r.DraftShape)
			}
			if r.Block != c.block || strings.HasPrefix(r.Device, "CPU") == metal ||
				len(r.Rows) != 12 || said < 2 && !metal {
				t.Fatalf("%+v, said %d times", r, said)
			}
			for i, row := range r.Rows {
				p, d := row.Acceptance, float64(row.Depth)
				name := fmt.Sprintf("acceptance %g, depth %g", p, d)
				if p != s.Acceptance[i/4] || row.Depth != []int{0, 1, 4, MaxDepth}[i%4] ||
					row.TokensPerSecond <= 0 || row.Ratio <= 0 ||
					row.Depth == 0 && math.Abs(row.Ratio-1) > 1e-9 ||
					row.Passes < s.Passes || row.Passes > 3*s.Passes+90 {
					t.Errorf("%s: %+v", name, row)
				}
				right := d
				if p < 1 {
					right = (p - math.Pow(p, d+1)) / (1 - p)
				}
				k := cell{acceptance: p, depth: row.Depth}
				if got := k.meanYield(); math.Abs(got-1-right) > 1e-9 {
					t.Errorf("%s: %g tokens a pass, expected %g", name, got, 1+right)
				}
				// Passes that were not measured had drafts, too.
				for range 200 {
					k.draw()
				}
				if got := float64(k.right) / 200; math.Abs(got-right) > 0.05 {
					t.Errorf("%s: %g right drafts a pass, expected %g", name, got, right)
				}
			}
			if best := r.Best(1); best == nil || best.Acceptance != 1 || r.Best(0.3) != nil {
				t.Errorf("best %+v", best)
			}
		})
	}
}

// TestRows: the speed is that of the first quartile of the passes, 1 s of plain and 2 s of others.
// All plain passes count for each acceptance.
func TestRows(t *testing.T) {
	d := newKnownDrafts([]float64{0.5, 1}, []int{2}, false)
	for i, seconds := range [][]float64{{9, 1}, {9, 2, 2, 9}, {9, 1}, {3, 2, 1, 4}} {
		d.cells[i].seconds = seconds
		for _, s := range seconds { // two threads
			d.cells[i].processor = append(d.cells[i].processor, 2*s)
		}
	}
	want := []SpeculationSpeed{
		{Acceptance: 0.5, Depth: 0, TokensPerSecond: 1, Ratio: 1, Passes: 4,
			ProcessorSeconds: 2, ProcessorRatio: 1},
		{Acceptance: 0.5, Depth: 2, TokensPerSecond: 1.75 / 2, Ratio: 1.75 / 2, Passes: 4,
			ProcessorSeconds: 4 / 1.75, ProcessorRatio: 2 / 1.75},
		{Acceptance: 1, Depth: 0, TokensPerSecond: 1, Ratio: 1, Passes: 4,
			ProcessorSeconds: 2, ProcessorRatio: 1},
		{Acceptance: 1, Depth: 2, TokensPerSecond: 1.5, Ratio: 1.5, Passes: 4,
			ProcessorSeconds: 4.0 / 3, ProcessorRatio: 2.0 / 3}}
	if got := d.rows(); !slices.Equal(got, want) {
		t.Errorf("got %+v, expected %+v", got, want)
	}
}

// TestTurns: passes take turns, are measured from one to the next, and end before the answer does.
func TestTurns(t *testing.T) {
	d := newKnownDrafts([]float64{1}, []int{3}, false)
	d.known, d.prompt = make([]int32, 20), 4
	d.begin(true)
	depths := map[int]int{}
	for range 5 {
		drafts := d.propose(d.known[:5], false)
		if drafts.Block != len(drafts.Tokens) {
			t.Errorf("the block drafts %d tokens of %d", drafts.Block, len(drafts.Tokens))
		}
		depths[len(drafts.Tokens)]++
	}
	if depths[0] < 2 || depths[3] < 2 || d.least() < 2 {
		t.Errorf("depths %v, at least %d passes", depths, d.least())
	}
	if got := d.propose(d.known[:17], false); len(got.Tokens) != 0 { // there is room for 2 drafts
		t.Errorf("got %d drafts at the end", len(got.Tokens))
	}
	drafts := 3 * depths[3]
	for _, u := range []engine.Usage{{DraftTokens: drafts, AcceptedTokens: drafts - 1},
		{DraftTokens: drafts - 1, AcceptedTokens: drafts}} {
		d.proposed, d.right = drafts, drafts
		if err := d.end(u); err == nil || !strings.Contains(err.Error(), "were proposed") {
			t.Errorf("%+v: %v", u, err)
		}
	}
	if d.running != nil || d.proposed != 0 {
		t.Errorf("the end leaves %+v", d)
	}
	if err := d.end(engine.Usage{}); err != nil {
		t.Error(err)
	}
}

// TestTurnsOnGPU: there a plain pass begins while the one before runs. Passes that follow each
// other in this way share their time, and what is planned after them is what is verified.
func TestTurnsOnGPU(t *testing.T) {
	d := newKnownDrafts([]float64{1}, []int{3}, false)
	d.known, d.prompt = make([]int32, 400), 4
	d.begin(false)
	// A pass with drafts is soon due, although few plain passes have been measured before.
	d.cells[1].seconds = make([]float64, 3)
	at, passes, shared := 5, 0, 0
	for range 6 {
		for !d.planRunning(at) {
			at, passes = at+1, passes+1
		}
		shared = max(shared, len(d.running))
		at, passes = at+2, passes+1 // the awaited pass, and the one that was running
		if got := d.propose(d.known[:at], false); len(got.Tokens) != 3 {
			t.Fatalf("%d drafts at %d, expected the 3 that were planned", len(got.Tokens), at)
		}
		at += 4
	}
	plain := d.cells[0].seconds
	if len(plain) != passes || shared < 1 || len(d.cells[1].seconds) != 3+5 {
		t.Errorf("%d of %d plain passes, %d together, and %d of 5 with drafts were measured",
			len(plain), passes, shared, len(d.cells[1].seconds))
	}
}

// planRunning reports whether drafts are planned after the pass that begins while the token at
// position at is computed.
func (d *knownDrafts) planRunning(at int) bool {
	return len(d.propose(d.known[:at], true).Tokens) > 0
}
