package attention

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/kernels/kerneltest"
	"headroom/metal/sim"
)

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// metalDevice returns the simulated device without its checks, or skips the test.
func metalDevice(t *testing.T) *gpu.Device {
	t.Helper()
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := gpu.New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestMetalDecodeChoices: the numbers of simdgroups and vectors of a threadgroup change no bits,
// with rows that see all of a segment and rows that do not.
func TestMetalDecodeChoices(t *testing.T) {
	d := metalDevice(t)
	f16, k8, v4 := FloatFormat(kernels.F16), affine(8, 64), affine(4, 32)
	for _, s := range []shape{
		{k: f16, v: f16, heads: 3, kvHeads: 1, d: 96, p: 32, spans: [][3]int{{70, 1}, {300, 2}}},
		{k: k8, v: v4, heads: 4, kvHeads: 2, d: 64, p: 32, spans: [][3]int{{290, 1}}},
		{k: k8, v: f16, heads: 2, kvHeads: 1, d: 320, p: 32, window: 40, sinkTokens: 4,
			spans: [][3]int{{280, 1}}},
	} {
		var want []byte
		for _, chosen := range [][2]int{{4, 8}, {2, 1}, {8, 2}, {4, 3}} {
			o := s.build(d, rand.New(rand.NewPCG(1, 2)))
			tuned := map[gpu.Key]int{}
			for range 3 { // the simdgroups that are chosen depend on the vectors
				d.SetTuned(maps.Clone(tuned))
				clear(o.Out.Bytes())
				d.OnChoice(func(key gpu.Key, _ int) {
					switch key.Choice {
					case decodeSimdgroups:
						tuned[key] = chosen[0]
					case decodeVectors:
						tuned[key] = chosen[1]
					}
				})
				d.Run(o)
				d.OnChoice(nil)
				if err := d.Sync(); err != nil || len(tuned) < 2 {
					t.Fatalf("%d keys, %v", len(tuned), err)
				}
			}
			got := o.Out.Elements()
			if want == nil {
				want = bytes.Clone(got)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %d simdgroups and %d vectors give other bits at byte %d",
					s.name(), chosen[0], chosen[1], firstDifference(got, want))
			}
		}
	}
}

// TestMetalPromptSameBits checks that the rows of a prompt have the same bits however the prompt is
// cut into chunks, on any pages, in a batch with other sequences, and if the last chunk is split
// into segments.
func TestMetalPromptSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulated device is slow")
	}
	d := metalDevice(t)
	f16, bf16 := FloatFormat(kernels.F16), FloatFormat(kernels.BF16)
	for _, c := range []conversation{
		{tokens: 150, heads: 3, kvHeads: 1, d: 32, kf: f16, vf: f16},
		{tokens: 180, heads: 4, kvHeads: 2, d: 64, kf: affine(8, 64), vf: affine(4, 32), window: 70,
			sinkTokens: 4, sinks: true},
		{tokens: 150, heads: 2, kvHeads: 1, d: 64, kf: affine(8, 64), vf: f16, window: 70,
			cap: 1.5},
		{tokens: 2150, heads: 1, kvHeads: 1, d: 16, kf: bf16, vf: f16},
		{tokens: 2300, heads: 1, kvHeads: 1, d: 16, kf: f16, vf: f16, window: 150, sinkTokens: 5},
	} {
		c = newConversation(c)
		whole := setting{device: d, pageTokens: 32}
		want := c.run(whole)
		expect := func(what string, change func(*setting)) {
			t.Helper()
			s := whole
			change(&s)
			if got := c.run(s); !bytes.Equal(got, want) {
				at := firstDifference(got, want) / 4
				t.Errorf("%d tokens, window %d, %s: token %d, head %d, dimension %d differs",
					c.tokens, c.window, what, at/(c.heads*c.d), at/c.d%c.heads, at%c.d)
			}
		}
		last := c.tokens - 40
		expect(fmt.Sprintf("other pages, of 16 tokens each, cut at %d", last),
			func(s *setting) { s.pagesSeed, s.pageTokens, s.cuts = 99, 16, []int{last} })
		expect("with neighbours, pages of 48",
			func(s *setting) { s.neighbours, s.pageTokens = true, 48 })
		for _, cut := range []int{1, 31, 64, 101, c.tokens - 1} {
			expect(fmt.Sprintf("cut at %d", cut), func(s *setting) { s.cuts = []int{cut} })
		}
		expect("the last tokens one by one", func(s *setting) {
			for i := last; i < c.tokens; i++ {
				s.cuts = append(s.cuts, i)
			}
		})
		if c.window > 0 {
			expect("in a ring, in chunks of 37", func(s *setting) {
				for i := 37; i < c.tokens; i += 37 {
					s.cuts = append(s.cuts, i)
				}
				s.ring, s.pageTokens = true, 16
			})
		}
	}
	if !d.Kernels()["attend_prefill"] || !d.Kernels()["attend_merge"] {
		t.Errorf("kernels %v: the prompts did not run the kernels under test", d.Kernels())
	}
}

// TestMetalPromptNaN checks that rows that see a key or a value that is not finite give NaN, and
// that the rows before them in the same batch do not change.
func TestMetalPromptNaN(t *testing.T) {
	d := metalDevice(t)
	f32 := FloatFormat(kernels.F32)
	c := newConversation(conversation{tokens: 90, heads: 2, kvHeads: 1, d: 48, kf: f32, vf: f32})
	clean := c.run(setting{device: d, pageTokens: 32})
	rowBytes := 4 * c.heads * c.d
	for _, test := range []struct {
		name string
		at   int
		in   []float32
		bad  float64
	}{
		{"value", 69, c.v, math.NaN()}, {"value", 50, c.v, math.Inf(-1)},
		{"key", 33, c.k, math.Inf(1)}, {"key", 80, c.k, math.NaN()}, {"value", 17, c.v, 2e30},
	} {
		i := test.at*c.d + 7
		kept := test.in[i]
		test.in[i] = float32(test.bad)
		got := c.run(setting{device: d, pageTokens: 32})
		test.in[i] = kept
		if !bytes.Equal(got[:test.at*rowBytes], clean[:test.at*rowBytes]) {
			t.Errorf("%s %d is %g: earlier rows differ", test.name, test.at, test.bad)
		}
		for j := test.at * rowBytes; j < len(got); j += 4 {
			if x := math.Float32frombits(binary.LittleEndian.Uint32(got[j:])); x == x {
				t.Errorf("%s %d is %g: row %d has %g", test.name, test.at, test.bad, j/rowBytes, x)
				break
			}
		}
	}
}
