package grammar

// Each limit of grammars and of answers: what exceeds it ends, and what is within it does not.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headroom/engine/grammar/regular"
)

// TestBuildLimits: a grammar that exceeds a limit is refused. Without that limit it is not, so no
// other one is the reason.
func TestBuildLimits(t *testing.T) {
	text := func(n int) func(b *Builder) Node {
		return func(b *Builder) Node { return b.Text(strings.Repeat("a", n)) }
	}
	rules := func(n int) func(b *Builder) Node {
		return func(b *Builder) Node {
			node := b.Text("a")
			for range n {
				node = b.Choice(node, b.Text("b"))
			}
			return node
		}
	}
	for _, c := range []struct {
		name  string
		build func(b *Builder) Node
		err   error
		lift  func(b *Builder) // lifts the limit
	}{
		{"many rules", rules(maxRules + 1), ErrTooLarge, nil},
		{"fewer rules", rules(maxRules / 4), nil, nil},
		{"a long text", text(maxExprs), regular.ErrTooComplex,
			func(b *Builder) { b.Space = regular.NewSpace(0) }},
		{"a shorter text", text(maxExprs / 4), nil, nil},
		{"much work", func(b *Builder) Node {
			parts := make([]regular.Expr, 2500)
			for i := range parts {
				parts[i] = b.Space.Text(fmt.Sprintf("%04d", i))
			}
			for i := range parts { // the work of each is its number of parts
				b.Space.Or(parts[i:]...)
			}
			return b.Text("a")
		}, regular.ErrTooComplex, func(b *Builder) { b.Space.LimitWork(0) }},
		{"many searches", func(b *Builder) Node {
			s := b.Space
			var nodes []Node
			for i := range 100 { // to find that nothing matches takes a thousand derivatives
				nodes = append(nodes, b.Terminal(s.And(s.Repeat(s.Set(regular.Of("ab")), 500, 500),
					s.Repeat(s.Set(regular.Of("bc")), 501+i, 501+i))))
			}
			return b.Choice(append(nodes, b.Text("a"))...)
		}, regular.ErrTooComplex, func(b *Builder) { b.Space.LimitSearches(0) }},
	} {
		for _, lifted := range []bool{false, c.lift != nil} {
			b, want := NewBuilder(), c.err
			if lifted {
				c.lift(b)
				want = nil
			}
			if _, err := b.Compile(c.build(b)); !errors.Is(err, want) {
				t.Errorf("%s, lifted %t: got %v, expected %v: %d rules, %d expressions, work %d",
					c.name, lifted, err, want, len(b.rules), b.Space.Len(), b.Space.Work())
			}
		}
	}
}

// TestStepLimit: a token after which too much has to be computed ends the answer with an error, and
// the next answer goes on. The tokens before it, which take less each, do not end it.
func TestStepLimit(t *testing.T) {
	b := NewBuilder()
	ab := b.Space.Set(regular.Of("ab"))
	n := b.Rule("n") // with each a, its texts and their parts end at more places
	b.Define(n, b.Choice(b.Terminal(ab), b.Seq(n, n)))
	g, err := b.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	g.SetVocabulary(words(strings.Repeat("a", 1000)))
	m := g.NewMatcher()
	work := 0
	for range 200 {
		if err := m.Accept(2 + 'a'); err != nil {
			t.Fatal(err)
		}
		work += g.graph.work
	}
	if work == 0 {
		t.Error("no work for 200 tokens")
	}
	if err := m.Accept(258); !errors.Is(err, regular.ErrTooComplex) {
		t.Errorf("work %d for one token: %v, expected ErrTooComplex", g.graph.work, err)
	}
	if _, err := m.Mask(); !errors.Is(err, regular.ErrTooComplex) {
		t.Errorf("afterwards: %v, expected ErrTooComplex", err)
	}
	if err := g.NewMatcher().Accept(2 + 'a'); err != nil {
		t.Errorf("another answer: %v", err)
	}
}

// TestGraphLimit: an answer whose rows are too large for a new graph of states ends with an error.
// Another answer goes on.
func TestGraphLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("computes 64 MB of states")
	}
	b := NewBuilder()
	n := b.Rule("n")
	parts := []Node{b.Text("b")}
	for i := range 8000 { // each is an item of the row after an a, which refers to the row before
		parts = append(parts, b.Seq(b.Text("a"), n, b.Text(fmt.Sprint(i))))
	}
	b.Define(n, b.Choice(parts...))
	g, err := b.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	g.SetVocabulary(words())
	m, other := g.NewMatcher(), g.NewMatcher()
	tokens := 0
	for ; err == nil && tokens < 200; tokens++ {
		if _, err = m.Mask(); err == nil {
			err = m.Accept(2 + 'a')
		}
	}
	if !errors.Is(err, regular.ErrTooComplex) || tokens < 20 {
		t.Fatalf("after %d tokens: %v, expected ErrTooComplex", tokens, err)
	}
	for _, token := range []int32{2 + 'a', 2 + 'b', 2 + '7'} {
		if err := other.Accept(token); err != nil {
			t.Errorf("another answer: %v", err)
		}
	}
	if g.graph.bytes > maxGraphBytes {
		t.Errorf("%d bytes are left", g.graph.bytes)
	}
}

// TestForcedLimit: a long text that must follow is forced in parts.
func TestForcedLimit(t *testing.T) {
	b := NewBuilder()
	text := strings.Repeat("a", 3*maxForcedBytes)
	g, err := b.Compile(b.Text(text))
	if err != nil {
		t.Fatal(err)
	}
	g.SetVocabulary(words())
	m := g.NewMatcher()
	for n := 0; n < len(text); {
		forced := m.Forced()
		if len(forced) == 0 || len(forced) > maxForcedBytes {
			t.Fatalf("%d tokens are forced after %d", len(forced), n)
		}
		for _, token := range forced {
			if err := m.Accept(token); err != nil {
				t.Fatal(err)
			}
		}
		n += len(forced)
	}
	if !m.Complete() {
		t.Error("the text is not complete")
	}
}
