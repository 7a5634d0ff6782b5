package regular

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// random returns a random expression over a, b and c, and the same for Go's regexp.
func random(s *Space, r *rand.Rand, depth int) (Expr, string) {
	if depth == 0 {
		i := r.IntN(3)
		return s.Text("abc"[i : i+1]), "abc"[i : i+1]
	}
	e, text := random(s, r, depth-1)
	f, other := random(s, r, r.IntN(depth))
	switch r.IntN(4) {
	case 0:
		return s.Or(e, f), "(?:" + text + "|" + other + ")"
	case 1:
		min, max := r.IntN(3), Unlimited
		if r.IntN(2) == 0 {
			max = min + r.IntN(3)
			return s.Repeat(e, min, max), fmt.Sprintf("(?:%s){%d,%d}", text, min, max)
		}
		return s.Repeat(e, min, max), fmt.Sprintf("(?:%s){%d,}", text, min)
	case 2:
		return s.Optional(e), "(?:" + text + ")?"
	}
	return s.Concat(e, f), text + other
}

// texts returns all texts over a, b and c with at most n letters.
func texts(n int) (all []string) {
	all = []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for ; from < to; from++ {
			for _, c := range "abc" {
				all = append(all, all[from]+string(c))
			}
		}
	}
	return all
}

// TestMatches compares random expressions, their intersections and their complements with Go's
// regexp, and the search for any text with all short texts.
func TestMatches(t *testing.T) {
	all := texts(5)
	for seed := range uint64(300) {
		r, s := rand.New(rand.NewPCG(seed, 0)), NewSpace(0)
		e, textE := random(s, r, 4)
		f, textF := random(s, r, 3)
		inE, inF := regexp.MustCompile("^(?:"+textE+")$"), regexp.MustCompile("^(?:"+textF+")$")
		both, without := s.And(e, f), s.And(e, s.Not(f))
		anyBoth := false
		for _, text := range all {
			wantE, wantF := inE.MatchString(text), inF.MatchString(text)
			anyBoth = anyBoth || wantE && wantF
			for _, c := range []struct {
				e    Expr
				want bool
			}{{e, wantE}, {f, wantF}, {both, wantE && wantF}, {without, wantE && !wantF},
				{s.Not(e), !wantE}, {s.Or(e, s.Not(f)), wantE || !wantF}} {
				if got := s.Matches(c.e, text); got != c.want {
					t.Fatalf("%q and %q, text %q: got %t, expected %t", textE, textF, text, got,
						c.want)
				}
			}
		}
		if none, err := s.IsNone(both); err != nil || none && anyBoth {
			t.Fatalf("%q and %q: none %t, %v, but a text belongs to both", textE, textF, none, err)
		}
		if none, err := s.IsNone(s.And(e, s.Not(s.Or(e, f)))); err != nil || !none {
			t.Fatalf("%q: e and not e is not none, %v", textE, err)
		}
	}
}

// TestImport compares expressions with their imports in another Space, which has others already.
func TestImport(t *testing.T) {
	all := append(texts(5), "1.4", "7", "8", "0.7")
	for seed := range uint64(100) {
		r, s := rand.New(rand.NewPCG(seed, 3)), NewSpace(0)
		e, _ := random(s, r, 4)
		f, _ := random(s, r, 3)
		exprs := []Expr{s.And(e, s.Not(f)), s.Derivative(s.Or(e, s.Not(f)), 'a'), All, None, Any,
			Empty, s.Multiples(7, 1)}
		other := s.Successor()
		random(other, r, 3)
		got := other.Import(s, exprs)
		for i, e := range exprs {
			for _, text := range all {
				if want := s.Matches(e, text); other.Matches(got[i], text) != want {
					t.Fatalf("seed %d, expression %d, text %q: expected %t", seed, i, text, want)
				}
			}
		}
	}
}

func TestCounts(t *testing.T) {
	s := NewSpace(0)
	letter := s.Set(Range('a', 'z'))
	e := s.And(s.Repeat(letter, 3, 1_000_000), s.Concat(All, s.Text("q"), All))
	for text, want := range map[string]bool{"aq": false, "aqa": true, "aaa": false,
		strings.Repeat("a", 1000) + "q": true, "": false, "aqA": false} {
		if s.Matches(e, text) != want {
			t.Errorf("%.20q: expected %t", text, want)
		}
	}
	if n := s.Len(); n > 10_000 {
		t.Errorf("%d expressions for texts of 1,000 letters", n)
	}
	if none, err := s.IsNone(s.And(s.Repeat(letter, 5, 5), s.Repeat(letter, 6, 9))); !none ||
		err != nil {
		t.Errorf("5 letters and at least 6: %t, %v", none, err)
	}
}

// TestRunes compares ranges of characters with all characters near their ends, and with texts that
// are no UTF-8.
func TestRunes(t *testing.T) {
	ends := []rune{0, 'a', 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000,
		0x3FFFF, 0x40000, 0x10FFFF, 0x20AC, 0x2FFF, 0x1F600}
	for i, lo := range ends {
		for _, hi := range ends[i:] {
			if lo > hi {
				continue
			}
			s := NewSpace(0)
			e := s.Runes(RuneRange{lo, hi})
			for _, end := range ends {
				for c := end - 2; c <= end+2; c++ {
					if !utf8.ValidRune(c) {
						continue
					}
					if got := s.Matches(e, string(c)); got != (c >= lo && c <= hi) {
						t.Fatalf("%U to %U, %U: got %t", lo, hi, c, got)
					}
				}
			}
			for _, text := range []string{"\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
				"\xE2\x82", "ab"} {
				if s.Matches(e, text) {
					t.Fatalf("%U to %U matches %q", lo, hi, text)
				}
			}
		}
	}
	got := Complement(Normal([]RuneRange{{'b', 'd'}, {'c', 'f'}, {'g', 'g'}, {0, '0'}}))
	if fmt.Sprint(got) != fmt.Sprint([]RuneRange{{'1', 'a'}, {'h', utf8.MaxRune}}) {
		t.Errorf("complement: %v", got)
	}
}

// TestTooComplex checks that an expression with 2^30 derivatives is refused, and soon.
func TestTooComplex(t *testing.T) {
	begin := time.Now()
	s := NewSpace(20_000)
	ab := s.Set(Of("ab"))
	from := func(letter string) Expr { // texts with that letter 31 before the end
		return s.Concat(s.Repeat(ab, 0, Unlimited), s.Text(letter), s.Repeat(ab, 30, 30))
	}
	f := s.And(from("a"), from("b"))
	if _, err := s.IsNone(f); !errors.Is(err, ErrTooComplex) {
		t.Errorf("got %v, expected ErrTooComplex", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestMultiples(t *testing.T) {
	for _, c := range []struct {
		divisor, places int
		yes, no         []string
	}{
		{7, 0, []string{"0", "7", "49", "700", "7.0", "14.00"}, []string{"1", "8", "7.5", "0.7"}},
		{25, 1, []string{"2.5", "5", "7.50", "10.0"}, []string{"2", "2.4", "2.51", "0.25"}},
		{1, 2, []string{"1", "0.01", "3.140"}, []string{"0.001", "x", "1..0"}},
	} {
		s := NewSpace(0)
		e := s.Multiples(c.divisor, c.places)
		for _, text := range c.yes {
			if !s.Matches(e, text) {
				t.Errorf("%d/10^%d: refuses %s", c.divisor, c.places, text)
			}
		}
		for _, text := range c.no {
			if s.Matches(e, text) {
				t.Errorf("%d/10^%d: takes %s", c.divisor, c.places, text)
			}
		}
	}
}

// TestSetsAfterDerivatives makes a set that distinguishes bytes of one class, after a derivative.
func TestSetsAfterDerivatives(t *testing.T) {
	s := NewSpace(0)
	letters := s.Repeat(s.Set(Range('a', 'z')), 0, Unlimited)
	if !s.Matches(letters, "abc") {
		t.Fatal("letters do not match")
	}
	notB := s.And(letters, s.Not(s.Text("b")))
	if s.Matches(notB, "b") || !s.Matches(notB, "a") || !s.Matches(notB, "bb") {
		t.Error("a set made after a derivative is not distinguished")
	}
}
