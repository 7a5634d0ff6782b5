package selftest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/kernels"
	"headroom/kernels/activation"
	"headroom/kernels/gpu"
	"headroom/kernels/tune"
	"headroom/metal/sim"
)

// TestFigures takes small figures on the simulated device. One that needs too much memory says so.
func TestFigures(t *testing.T) {
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	small := kernels.Timings(activation.Cases())[:2]
	for i := range small {
		small[i].Bytes = 24 << 20 // four copies
	}
	large := small[0]
	large.Name, large.Bytes = "too large", 1<<62
	before := timings
	timings = func() map[string][]kernels.Timing {
		return map[string][]kernels.Timing{groupOthers: append(small, large)}
	}
	defer func() { timings = before }()
	facts := m.Facts()
	facts.RecommendedMaxWorkingSetSize = 4 << 30
	r := New("1", facts)
	if err := r.Measure(t.Context(), m, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if len(r.Figures) != 4 || r.Figures[0].Group != groupCopying || r.Figures[0].Copying != 1 ||
		r.Figures[1].Took <= 0 || r.Figures[3].Skipped == "" {
		t.Fatalf("%+v", r.Figures)
	}
	choice := activation.Choices()[0]
	r.Tuned = &engine.Tuned{Late: true, Measured: []tune.Measured{{
		Key: gpu.Key{Choice: choice}, Operator: "add", Untuned: 256, Best: 64,
		Seconds: map[int]float64{64: 1e-6, 256: 2e-6}}}}
	var text strings.Builder
	if err := r.Write(&text, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"copy, 256 MiB", "not measured: it needs", "100 %",
		"1 choices measured", "activation/threads", "2.00", "64: 1.0 256: 2.0",
		"the time was over"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "PASSED") || strings.Contains(text.String(), "FAILED") {
		t.Errorf("a verdict without checks:\n%s", text.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := r.Measure(ctx, m, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestFiguresHaveTables: the figures have every product and every attention of the tables in
// metal/PEERS.md, under the same names, and every number of rows.
func TestFiguresHaveTables(t *testing.T) {
	text, err := os.ReadFile("../../metal/PEERS.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, all := range timings() {
		for _, x := range all {
			if names[x.Name] {
				t.Errorf("two figures are called %q", x.Name)
			}
			names[x.Name] = true
		}
	}
	products := regexp.MustCompile(`(?m)^\| ((?:experts: )?(?:\d x )?\[\d+, \d+\] [^|]*rows?) \|`)
	attention := regexp.MustCompile(
		`(?m)^\| (\d+, \d+, \d+) \| ([\d,]+), (\d) \| (float16|K8V4) \|`)
	found := 0
	for _, m := range products.FindAllStringSubmatch(string(text), -1) {
		if found++; !names[m[1]] {
			t.Errorf("no figure %q", m[1])
		}
	}
	for _, m := range attention.FindAllStringSubmatch(string(text), -1) {
		rows := m[3] + " rows"
		if m[3] == "1" {
			rows = "1 row"
		}
		name := m[1] + " at " + strings.ReplaceAll(m[2], ",", "") + ", " + rows + ", " + m[4]
		if found++; !names[name] {
			t.Errorf("no figure %q", name)
		}
	}
	if found < 45 {
		t.Errorf("found %d rows in PEERS.md, expected at least 45", found)
	}
}
