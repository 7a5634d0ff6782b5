package chat

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// match runs a StopMatcher over pieces.
func match(stops, pieces []string) (shown string, stopped bool) {
	m := NewStopMatcher(stops)
	for _, p := range pieces {
		show, stop := m.Add(p)
		if shown += show; stop {
			if more, still := m.Add("more"); more != "" || !still || m.Close() != "" {
				panic("a stopped matcher returned more text")
			}
			return shown, true
		}
	}
	return shown + m.Close(), false
}

func TestStopMatcher(t *testing.T) {
	tests := []struct {
		name    string
		stops   []string
		pieces  []string
		shown   string
		stopped bool
	}{
		{"no stops", nil, []string{"a", "b"}, "ab", false},
		{"an empty stop string is ignored", []string{""}, []string{"ab"}, "ab", false},
		{"within a piece", []string{"X"}, []string{"abXcd"}, "ab", true},
		{"at the start", []string{"ab"}, []string{"abc"}, "", true},
		{"over many pieces", []string{"<stop>"}, []string{"a<", "s", "t", "o", "p", ">b"}, "a",
			true},
		{"begun but not ended", []string{"<stop>"}, []string{"a<st", "ay"}, "a<stay", false},
		{"begun at the end", []string{"<stop>"}, []string{"a<sto"}, "a<sto", false},
		{"the first to end wins", []string{"abcd", "c"}, []string{"xab", "cd"}, "xab", true},
		{"the longer of two with the same end", []string{"cd", "abcd"}, []string{"xabcd"}, "x",
			true},
		{"one stop begins inside another", []string{"aab", "abx"}, []string{"a", "a", "b"}, "",
			true},
		{"a repeated beginning", []string{"aab"}, []string{"aaa", "ab"}, "aa", true},
		{"line breaks", []string{"\n\n"}, []string{"a\n", "b\n", "\nc"}, "a\nb", true},
		{"cut inside a character", []string{"é"}, []string{"a\xc3", "\xa9b"}, "a", true},
	}
	for _, tt := range tests {
		shown, stopped := match(tt.stops, tt.pieces)
		if shown != tt.shown || stopped != tt.stopped {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.name, shown, stopped, tt.shown, tt.stopped)
		}
	}
}

// TestStopMatcherStreams checks that only the beginning of a stop string is held
// back.
func TestStopMatcherStreams(t *testing.T) {
	m := NewStopMatcher([]string{"<end>"})
	for _, step := range [][2]string{{"abc", "abc"}, {"d<", "d"}, {"e", ""}, {"x", "<ex"},
		{"<<", "<"}, {"en", ""}} {
		if show, _ := m.Add(step[0]); show != step[1] {
			t.Errorf("after %q: got %q, want %q", step[0], show, step[1])
		}
	}
}

// firstStop is a simple reference: it tries every end, and every stop there.
func firstStop(stops []string, text string) (shown string, stopped bool) {
	for end := range len(text) + 1 {
		best := -1
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) {
				best = max(best, len(s))
			}
		}
		if best > 0 {
			return text[:end-best], true
		}
	}
	return text, false
}

// TestStopMatcherPieces compares with the reference, for text in random pieces. An
// alphabet of two letters makes overlaps frequent.
func TestStopMatcherPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	word := func(n int) string {
		b := make([]byte, rng.IntN(n))
		for i := range b {
			b[i] = "ab"[rng.IntN(2)]
		}
		return string(b)
	}
	hits := 0
	for range 20000 {
		stops := []string{word(8), word(8), word(8)}
		text := word(24)
		pieces := cut(rng, text)
		shown, stopped := match(stops, pieces)
		want, wantStopped := firstStop(stops, text)
		if shown != want || stopped != wantStopped {
			t.Fatalf("stops %q, pieces %q: got %q, %v; want %q, %v", stops, pieces, shown, stopped,
				want, wantStopped)
		}
		if stopped {
			hits++
		}
	}
	if hits < 1000 {
		t.Errorf("only %d texts contained a stop string", hits)
	}
}

func FuzzStopMatcher(f *testing.F) {
	f.Add("ab", "b", "aab", uint64(1))
	f.Fuzz(func(t *testing.T, a, b, text string, seed uint64) {
		stops := []string{a, b}
		shown, stopped := match(stops, cut(rand.New(rand.NewPCG(seed, 0)), text))
		if want, wantStopped := firstStop(stops, text); shown != want || stopped != wantStopped {
			t.Fatalf("got %q, %v; want %q, %v", shown, stopped, want, wantStopped)
		}
	})
}
