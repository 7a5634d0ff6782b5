package recurrent

import (
	"bytes"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// TestRounds expects the bits of an operator that runs for the spans of one round after another,
// with copies of states between them, on every device.
func TestRounds(t *testing.T) {
	for name, d := range devices(t) {
		if name == "reference" {
			continue // its float64 states are rounded after each round
		}
		for _, c := range keepingCases() {
			one, _ := c.New(d, c.Rand())
			two, _ := c.New(d, c.Rand())
			d.Run(one)
			var rounds []kernels.Round
			var got, want []kernels.Tensor
			byHand := func(spans *[]kernels.Span, list *[]kernels.Round, states ...kernels.Tensor) {
				rounds, *list = *list, nil
				for _, r := range rounds {
					*spans = r.Spans
					d.Run(two)
					for _, k := range r.Keeps {
						for _, s := range states {
							copy(slot(s, k.To), slot(s, k.From))
						}
					}
				}
			}
			switch o := two.(type) {
			case *Conv:
				byHand(&o.Spans, &o.Rounds, o.State)
				got, want = []kernels.Tensor{one.(*Conv).Out, one.(*Conv).State},
					[]kernels.Tensor{o.Out, o.State}
			case *GatedDelta:
				byHand(&o.Spans, &o.Rounds, o.State)
				got, want = []kernels.Tensor{one.(*GatedDelta).Out, one.(*GatedDelta).State},
					[]kernels.Tensor{o.Out, o.State}
			case *ConvGatedDelta:
				byHand(&o.Spans, &o.Rounds, o.ConvState, o.State)
				p := one.(*ConvGatedDelta)
				got, want = []kernels.Tensor{p.Out, p.State, p.ConvState},
					[]kernels.Tensor{o.Out, o.State, o.ConvState}
			case *SSM:
				byHand(&o.Spans, &o.Rounds, o.State)
				got, want = []kernels.Tensor{one.(*SSM).Out, one.(*SSM).State},
					[]kernels.Tensor{o.Out, o.State}
			}
			for i := range got {
				if !bytes.Equal(kerneltest.Elements(got[i]), kerneltest.Elements(want[i])) {
					t.Errorf("%s: %s: operand %d differs from that of one round after another",
						name, c.Name, i)
				}
			}
		}
	}
}

// TestRoundChecks expects errors for states that would be written where another one is.
func TestRoundChecks(t *testing.T) {
	spans := []kernels.Span{{Rows: 2, Slot: 1}, {Row: 2, Rows: 1, Slot: 2}}
	for _, c := range []struct {
		rounds []kernels.Round
		ok     bool
	}{
		{nil, true},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 0}}}}, true},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 0}, {From: 2, To: 3}}}},
			true},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 0, To: 3}}}}, false},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 2}}}}, false},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 4}}}}, false},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: -1}}}}, false},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 3}, {From: 1, To: 0}}}},
			false},
		{[]kernels.Round{{Spans: spans, Keeps: []kernels.Keep{{From: 1, To: 3}, {From: 2, To: 3}}}},
			false},
		{[]kernels.Round{{Spans: spans[:1], Keeps: []kernels.Keep{{From: 1, To: 3}}},
			{Spans: spans[1:], Keeps: []kernels.Keep{{From: 2, To: 3}}}}, false},
		{[]kernels.Round{{Spans: []kernels.Span{{Rows: 4}}}}, false},
	} {
		if err := checkRounds(spans, c.rounds, 3, 4); (err == nil) != c.ok {
			t.Errorf("%+v: got error %v, expected none: %t", c.rounds, err, c.ok)
		}
	}
}
