package blockstore

import (
	"context"
	"testing"

	"headroom/engine/prefix"
)

// TestHeld: what Held finds by hashes is what Find finds with the tokens, in whole blocks, also in
// an encrypted folder.
func TestHeld(t *testing.T) {
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			if !sealed {
				o.Key = nil
			}
			s := open(t, t.TempDir(), o)
			v := s.Model(testModel)
			a := numbers(1, 1200)
			b := join(a, 700, numbers(2, 200)) // forks inside the third block
			save(t, v, sequence(a, true, 100, 256, 600, 1100, 1200))
			save(t, v, sequence(b, true, 900))
			for _, c := range []struct {
				name            string
				tokens          []int32
				want, recurrent int
			}{
				{"all", a, 1184, 1100},
				{"more", join(a, 1200, numbers(9, 500)), 1184, 1100},
				{"the other fork", b, 896, 600},
				{"a third fork", join(a, 705, numbers(8, 100)), 704, 600},
				{"another's first tokens", join(a, 40, numbers(8, 600)), 32, 0},
				{"unknown", numbers(8, 600), 0, 0},
				{"short", a[:31], 0, 0},
			} {
				chain := prefix.Chain(c.tokens, 32)
				if got := v.Held(t.Context(), chain, 32, nil, false); got != c.want {
					t.Errorf("%s: %d, want %d", c.name, got, c.want)
				}
				if got := v.Held(t.Context(), chain, 32, nil, true); got != c.recurrent {
					t.Errorf("%s, recurrent: %d, want %d", c.name, got, c.recurrent)
				}
			}
			if got := v.Held(t.Context(), prefix.Chain(a, 256), 256, nil, false); got != 1024 {
				t.Errorf("blocks of 256: %d", got)
			}
			// With the ends of messages, also within a block.
			ends := func(tokens []int32) []prefix.End {
				return prefix.Ends(prefix.Chain(tokens, 32), tokens, 32,
					[]int{100, 705, 900, 1100, 1190, 1200})
			}
			for _, c := range []struct {
				tokens          []int32
				want, recurrent int
			}{{a, 1200, 1200}, {b, 900, 900}, {join(a, 1195, numbers(9, 50)), 1190, 1100},
				{join(a, 120, numbers(9, 50)), 100, 100}} {
				chain := prefix.Chain(c.tokens, 32)
				got := v.Held(t.Context(), chain, 32, ends(c.tokens), false)
				recurrent := v.Held(t.Context(), chain, 32, ends(c.tokens), true)
				if got != c.want || recurrent != c.recurrent {
					t.Errorf("%d tokens with ends: %d and %d, want %d and %d", len(c.tokens), got,
						recurrent, c.want, c.recurrent)
				}
			}
			ended, end := context.WithCancel(t.Context())
			end()
			for _, got := range []int{v.Held(ended, prefix.Chain(a, 32), 32, nil, false),
				v.Held(t.Context(), prefix.Chain(a, 48), 48, nil, false),
				v.Held(t.Context(), prefix.Chain(a, 32), 0, nil, false),
				s.Model(Model{Fingerprint: "other", Format: testModel.Format}).Held(t.Context(),
					prefix.Chain(a, 32), 32, nil, false)} {
				if got != 0 {
					t.Errorf("%d, want nothing", got)
				}
			}
		})
	}
}
