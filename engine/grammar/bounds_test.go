package grammar

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"headroom/engine/grammar/regular"
)

// bounded are grammars without an end to what answers need of them.
var bounded = []struct {
	name    string
	build   func(b *Builder, ab Node) Node
	longest bool // answers of the longest token, else of random ones
	tokens  int  // answers with so many are too complex, unless endless is set
	endless bool
}{
	{"an ambiguous rule", func(b *Builder, ab Node) Node {
		n := b.Rule("n")
		b.Define(n, b.Choice(ab, b.Seq(n, n), b.Seq(n, n, n)))
		return b.Seq(n, b.Text("z"))
	}, false, 200, false},
	{"a choice of thousands of parts", func(b *Builder, ab Node) Node {
		s := b.Space
		letter := s.Set(regular.Of("ab"))
		return b.Terminal(s.Concat(s.Repeat(letter, 0, regular.Unlimited), s.Text("a"),
			s.Repeat(letter, 3000, 3000)))
	}, false, 1500, true},
	{"a deep nest", func(b *Builder, ab Node) Node {
		n := b.Rule("n")
		b.Define(n, b.Choice(b.Text("z"), b.Seq(ab, n, ab)))
		return n
	}, true, 20_000, false},
}

// TestBounds: what answers need beyond a bound ends them, and neither takes more memory than Bytes
// says nor keeps other answers of the grammar from going on.
func TestBounds(t *testing.T) {
	v := words("aa", "ab", "ba", "bb", "aaaa", "abab", "babababa")
	v.encode = nil
	for _, c := range bounded {
		b := NewBuilder()
		start := c.build(b, b.Terminal(b.Space.Set(regular.Of("abcdefghijklmnop"))))
		g, err := b.Compile(b.Choice(start, b.Repeat(b.Text("xy"), 0, 10)))
		if err != nil {
			t.Fatal(err)
		}
		g.SetVocabulary(v)
		before := heap()
		m, other, n := g.NewMatcher(), g.NewMatcher(), 0
		for r := rand.New(rand.NewPCG(1, 2)); n < c.tokens && err == nil; n++ {
			token := int32(258 + r.IntN(7))
			if c.longest {
				token = 264
			}
			if _, err = m.Mask(); err == nil {
				err = m.Accept(token)
			}
		}
		if tooComplex := errors.Is(err, regular.ErrTooComplex); tooComplex == c.endless {
			t.Errorf("%s: %d tokens, %v", c.name, n, err)
		}
		for range 4 {
			for _, token := range []int32{2 + 'x', 2 + 'y'} {
				_, err := other.Mask()
				if err == nil {
					err = other.Accept(token)
				}
				if err != nil {
					t.Fatalf("%s: another answer: %v", c.name, err)
				}
			}
		}
		took := heap() - before
		t.Logf("%s: %d tokens, %v, %d MB, %d MB in all", c.name, n, err, took>>20, g.Bytes()>>20)
		const most = maxGraphBytes + 2*maxDerivedBytes
		if took > most*5/4 || took > g.Bytes()*3/2+10<<20 {
			t.Errorf("%s: it takes %d MB, Bytes says %d MB", c.name, took>>20, g.Bytes()>>20)
		}
	}
}

// heap returns the bytes of all objects in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
