package power

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	both := Policy{SaveOnBattery: true, ThrottleWhenHot: true}
	for _, c := range []struct {
		name   string
		state  State
		policy Policy
		want   Measures
		words  []string
	}{
		{"ac", State{AC, Nominal}, both, Measures{}, nil},
		{"unknown", State{}, both, Measures{}, nil},
		{"battery", State{Battery, Fair}, both,
			Measures{IdleUnload: 10 * time.Minute, ReduceWrites: true, DraftGain: 1.25},
			[]string{"idle_unload", "reduce_writes", "draft_less"}},
		{"battery, not allowed", State{Battery, Nominal}, Policy{ThrottleWhenHot: true}, Measures{},
			nil},
		{"hot", State{AC, Serious}, both, Measures{DutyCycle: 0.75, DraftGain: 1.25},
			[]string{"throttle", "draft_less"}},
		{"very hot", State{Unknown, Critical}, both, Measures{DutyCycle: 0.5, DraftGain: 1.25},
			[]string{"throttle", "draft_less"}},
		{"hot, not allowed", State{AC, Critical}, Policy{SaveOnBattery: true}, Measures{}, nil},
		{"hot on battery", State{Battery, Serious}, both,
			Measures{10 * time.Minute, true, 0.75, 1.25},
			[]string{"throttle", "idle_unload", "reduce_writes", "draft_less"}},
	} {
		got := Decide(c.state, c.policy)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		words := got.Describe()
		if len(words) != len(c.words) {
			t.Errorf("%s: described as %+v, want %q", c.name, words, c.words)
			continue
		}
		for i, w := range words {
			if w.Kind != c.words[i] || w.Title == "" || w.Text == "" {
				t.Errorf("%s: described as %+v, want %q", c.name, w, c.words[i])
			}
		}
	}
}
