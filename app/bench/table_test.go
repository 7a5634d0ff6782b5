package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func example() *Report {
	met, missed := true, false
	return &Report{Format: Format, Version: "v1.2",
		Date: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC),
		Machine: Machine{System: "linux/amd64", Processor: "AMD EPYC 9B14", Cores: 2,
			Load: [2]float64{0.1, 1.9}},
		Parts: []Part{
			{Group: "dense", Device: "CPU, AVX-512 VNNI, 2 threads",
				Ceilings: Ceilings{37.2e9, 938e9, 235e9}, Rows: []Row{
					{ID: "decode-4096", What: "decode at context 4,096", Model: "qwen3-0.6b",
						Unit: unitSpeed, Value: 37.13, Samples: []float64{37.13, 36, 38},
						Ceiling: 56.2, Bound: boundMemory, Share: 0.661,
						Target: &Target{Share: 0.75}, Met: &missed},
					{ID: "append-4096", What: "32 tokens", Model: "qwen3-0.6b", Unit: unitSeconds,
						Value: 0.1234, Samples: []float64{0.1234}, Ceiling: 0.05,
						Bound: boundArithmetic, Share: 0.405, Target: &Target{AtMost: 0.15},
						Met: &met}}},
			{Group: "moe", Device: "CPU, AVX-512 VNNI, 2 threads",
				Ceilings: Ceilings{38e9, 938e9, 235e9}, Rows: []Row{
					{ID: "streams-4-ratio", What: "4 streams compared with one", Model: "moe",
						Unit: unitRatio, Value: 1.5, Samples: []float64{1.5}, Ceiling: 4,
						Bound: boundStreams, Share: 0.375, Target: &Target{AtLeast: 2.8},
						Met: &missed},
					{ID: "prefill-512", What: "prompt of 512 tokens", Model: "moe", Unit: unitSpeed,
						Value: 1234.5, Samples: []float64{1234.5}}}},
		}}
}

const exampleTable = `Headroom v1.2 on 22 November 2026, linux/amd64, AMD EPYC 9B14, 2 cores; CPU, AVX-512 VNNI, 2
threads. Memory reads at 37.2 to 38.0 GB/s, int8 products run at 938 Gop/s, float32 products at 235
GFLOP/s; these are measured before and after each sample, and given as the median of each group. A
share is the median of its samples' shares. Load average 0.1 before and 1.9 after. Medians; random
weights.

| | figure | ceiling | share | target | |
|---|--:|--:|--:|--:|---|
| **qwen3-0.6b** | | | | | |
| decode at context 4,096 | 37.1 tok/s | 56.2, memory | 66 % | 75 % | missed |
| 32 tokens | 0.123 s | 0.050, arithmetic | 40 % | at most 0.150 s | met |
| **moe** | | | | | |
| 4 streams compared with one | 1.50 x | 4.00, the number of streams | 38 % | at least 2.80 x | missed |
| prompt of 512 tokens | 1,235 tok/s |  |  |  |  |
`

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := example().Markdown(&b); err != nil || b.String() != exampleTable {
		t.Errorf("%v:\n%s", err, b.String())
	}
	busy := example()
	busy.Machine.Load[0] = 7.3
	b.Reset()
	if err := busy.Markdown(&b); err != nil ||
		!strings.Contains(b.String(), "figures are too low") {
		t.Errorf("no warning about a busy machine:\n%s", b.String())
	}
	unknown := &Report{Parts: []Part{{Device: "Metal, simulated"}}}
	b.Reset()
	if err := unknown.Markdown(&b); err != nil ||
		!strings.Contains(b.String(), "The ceilings of this device are unknown.") {
		t.Errorf("no ceilings:\n%s", b.String())
	}
}

// TestReplace: Replace puts the table between the marks, also in place of an older table, and keeps
// the rest.
func TestReplace(t *testing.T) {
	document := "# Speed\n\n" + tableBegins + "\nold\n" + tableEnds + "\n\nmore\n"
	want := "# Speed\n\n" + tableBegins + "\n\n" + exampleTable + "\n" + tableEnds + "\n\nmore\n"
	for range 2 {
		got, err := example().Replace([]byte(document))
		if err != nil || string(got) != want {
			t.Fatalf("%v:\n%s", err, got)
		}
		document = string(got)
	}
	for _, broken := range []string{"", tableBegins, tableEnds + tableBegins} {
		if got, err := example().Replace([]byte(broken)); err == nil {
			t.Errorf("%q became %q", broken, got)
		}
	}
}

// TestGoBench: benchstat reads a name, a count and pairs of a value and its unit; a hyphen and a
// number would end the name.
func TestGoBench(t *testing.T) {
	var b bytes.Buffer
	if err := example().GoBench(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Unit tok/s better=higher", "Unit s better=lower",
		"BenchmarkHeadroom/decode_4096 1 37.13 tok/s", "BenchmarkHeadroom/decode_4096 1 36 tok/s",
		"BenchmarkHeadroom/append_4096 1 0.1234 s",
		"BenchmarkHeadroom/streams_4_ratio 1 1.5 ratio"} {
		if !strings.Contains("\n"+b.String(), "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0.05: "0.050", 1: "1.00", 9.994: "9.99", 9.996: "10.0",
		99.94: "99.9", 99.96: "100", 999.4: "999", 16384: "16,384", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("%g: %s, expected %s", v, got, want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	if m := ThisMachine(); m.Cores < 1 || !strings.Contains(m.System, "/") || m.Load[0] < 0 {
		t.Errorf("%+v", m)
	}
}
