package bench

import (
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/demo"
	"headroom/engine"
)

// tiny is the config of a dense model that runs a pass in microseconds.
const tiny = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 5, "num_attention_heads": 2,
	"num_key_value_heads": 1, "head_dim": 64, "vocab_size": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": true, "attention_bias": false, "hidden_act": "silu", "quantization": {"group_size": 64, "bits": 4}}`

func tinyPlan(t *testing.T) *Plan {
	moe, err := fs.ReadFile(demo.Files, "model/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{Dense: Shape{"tiny", []byte(tiny)}, MoE: Shape{"demo", moe},
		Device: engine.DeviceCPU, Threads: 2, Prompts: []int{16, 96}, Contexts: []int{64, 160},
		Streams: []int{1, 3}, Tokens: 24, Repeat: 2,
		Ceilings: &Ceilings{ReadBytes: 1e9, Int8Ops: 1e10, Float32Ops: 1e9}}
}

// TestMeasure measures every figure once with tiny models and checks what does not depend on the
// machine.
func TestMeasure(t *testing.T) {
	p := tinyPlan(t)
	p.Checkpoint = t.TempDir()
	if err := p.WriteCheckpoint(p.Checkpoint); err != nil {
		t.Fatal(err)
	}
	report := Report{Format: Format}
	for _, g := range Groups {
		part, err := p.Measure(context.Background(), g.Name)
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		if part.Group != g.Name || !strings.HasPrefix(part.Device, "CPU, ") {
			t.Errorf("%s: group %q on %q", g.Name, part.Group, part.Device)
		}
		report.Parts = append(report.Parts, *part)
	}
	var ids []string
	for _, row := range report.Rows() {
		ids = append(ids, row.ID)
		single := strings.HasPrefix(row.ID, "prefill-64") ||
			strings.HasPrefix(row.ID, "prefill-160") || row.ID == "resident"
		if want := 2; !(len(row.Samples) == want || single && len(row.Samples) == 1) ||
			row.Value != median(row.Samples) || row.Value <= 0 {
			t.Errorf("%s: %v of %v", row.ID, row.Value, row.Samples)
		}
		if row.Model == "" || row.What == "" ||
			(row.Ceiling > 0) != (row.Share > 0 && row.Bound != "") {
			t.Errorf("%s is incomplete: %+v", row.ID, row)
		}
	}
	want := strings.Fields(`prefill-16 prefill-96 prefill-matrices decode-0 prefill-64 decode-64 append-64 prefill-160 decode-160
		decode-0-f16 decode-64-f16 decode-160-f16 streams-1 streams-3 streams-3-ratio prefill-96-one-thread threads-ratio
		moe-decode-0 moe-prefill-96 moe-recurrent-share load resident`)
	if !slices.Equal(ids, want) {
		t.Errorf("rows:\n%v, expected\n%v", ids, want)
	}
	if _, err := p.Measure(context.Background(), "speed"); err == nil {
		t.Error("no error for a group that does not exist")
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil || len(again.Rows()) != len(want) {
		t.Errorf("the JSON cannot be read back: %v", err)
	}
}

// TestCeilingOfRows: the ceiling of a speed is in tokens per second, and of a time in seconds. The
// slower of memory and arithmetic sets it.
func TestCeilingOfRows(t *testing.T) {
	r := &run{Plan: &Plan{}, ctx: context.Background(), part: &Part{}}
	of := func(values ...float64) (s samples) {
		for _, v := range values {
			s.values, s.ceilings = append(s.values, v),
				append(s.ceilings, Ceilings{ReadBytes: 1000, Int8Ops: 100})
		}
		return s
	}
	r.add(Row{ID: "decode-0", Unit: unitSpeed}, of(9, 7, 8), 2, Cost{Bytes: 200})
	r.add(Row{ID: "append-4096", Unit: unitSeconds}, of(0.1, 0.3), 1,
		Cost{Bytes: 10, Int8Ops: 5})
	r.add(Row{ID: "other", Unit: unitSpeed}, of(1), 1, Cost{})
	speed, seconds, other := r.part.Rows[0], r.part.Rows[1], r.part.Rows[2]
	if speed.Value != 8 || speed.Ceiling != 10 || speed.Share != 0.8 ||
		speed.Bound != boundMemory || speed.Target.Share != 0.9 || *speed.Met {
		t.Errorf("speed: %+v", speed)
	}
	if seconds.Value != 0.2 || seconds.Ceiling != 0.05 || math.Abs(seconds.Share-1.0/3) > 1e-9 ||
		seconds.Bound != boundArithmetic || *seconds.Met {
		t.Errorf("time: %+v", seconds)
	}
	if other.Ceiling != 0 || other.Target != nil || other.Met != nil {
		t.Errorf("without a ceiling: %+v", other)
	}
}

// TestSharesArePaired: each sample is compared with the mean of the ceilings before and after it.
func TestSharesArePaired(t *testing.T) {
	now := Ceilings{ReadBytes: 1000}
	r := &run{Plan: &Plan{Ceilings: &now}, ctx: context.Background(), part: &Part{}}
	var s samples
	for _, c := range []struct{ before, value, after float64 }{{1000, 8, 1000}, {1000, 12, 3000},
		{500, 2, 500}} {
		now.ReadBytes = c.before
		if err := r.sample(&s, func() (float64, error) {
			now.ReadBytes = c.after
			return c.value, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.add(Row{ID: "decode-0", Unit: unitSpeed}, s, 1, Cost{Bytes: 100})
	row := r.part.Rows[0]
	if !slices.Equal(row.Ceilings, []float64{10, 20, 5}) || row.Ceiling != 10 || row.Value != 8 ||
		row.Share != 0.6 {
		t.Errorf("%+v, expected ceilings of 10, 20 and 5 and the median of 0.8, 0.6 and 0.4", row)
	}
	if got := r.medianCeilings().ReadBytes; got != 1000 {
		t.Errorf("medianCeilings of 1000, 1000, 1000, 3000, 500, 500: %g", got)
	}
}

// TestTargets: a target is met at its exact value and on the better side of it.
func TestTargets(t *testing.T) {
	for _, c := range []struct {
		row Row
		met bool
	}{
		{Row{ID: "decode-4096", Unit: unitSpeed, Value: 75, Ceiling: 100}, true},
		{Row{ID: "decode-4096", Unit: unitSpeed, Value: 74, Ceiling: 100}, false},
		{Row{ID: "prefill-512", Unit: unitSpeed, Value: 500}, true},
		{Row{ID: "prefill-512", Unit: unitSpeed, Value: 499}, false},
		{Row{ID: "moe-recurrent-share", Unit: unitPercent, Value: 10}, true},
		{Row{ID: "moe-recurrent-share", Unit: unitPercent, Value: 10.1}, false},
		{Row{ID: "resident", Unit: unitTimes, Value: 2, Ceiling: 1}, false},
	} {
		c.row.judge()
		if c.row.Met == nil || *c.row.Met != c.met {
			t.Errorf("%s of %g: %v, expected %t", c.row.ID, c.row.Value, c.row.Met, c.met)
		}
	}
	share := Row{ID: "decode-0", Unit: unitSpeed, Value: 80}
	if share.judge(); share.Met != nil {
		t.Error("a share was judged without a ceiling")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		want    float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 9, 2}, 3}} {
		given := slices.Clone(c.samples)
		if got := median(c.samples); got != c.want || !slices.Equal(given, c.samples) {
			t.Errorf("median of %v: %g, expected %g, and no change", c.samples, got, c.want)
		}
	}
}

// TestOverlap: overlapSpeed counts only the tokens that come while all streams decode.
func TestOverlap(t *testing.T) {
	at := func(seconds ...int) (a answer) {
		for _, s := range seconds {
			a.at = append(a.at, time.Unix(int64(s), 0))
		}
		return a
	}
	// All streams decode from second 2, the first token of the second stream, to second 6, the last
	// token of the first. Tokens at 4 and 6 count from the first stream, and at 3, 4, 5 and 6 from
	// the second.
	got, err := overlapSpeed([]answer{at(0, 1, 4, 6), at(2, 3, 4, 5, 6, 7, 8)})
	if err != nil || got != 1.5 {
		t.Errorf("%g, %v, expected 1.5", got, err)
	}
	if _, err := overlapSpeed([]answer{at(0, 1), at(5, 6)}); err == nil {
		t.Error("no error for streams that never ran together")
	}
}

func TestRatios(t *testing.T) {
	row := ratioRow("streams-4-ratio", "", "m", []float64{30, 10, 20}, []float64{10, 10, 5}, 4)
	row.judge()
	if !slices.Equal(row.Samples, []float64{3, 1, 4}) || row.Value != 3 || row.Share != 0.75 ||
		!*row.Met {
		t.Errorf("%+v", row)
	}
}
