package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine/grammar/regular"
)

// language returns the texts of at most n bytes of a node, by expanding all rules until nothing new
// appears.
func language(b *Builder, start Node, n int) map[string]bool {
	all := make([]map[string]bool, len(b.rules))
	for i := range all {
		all[i] = map[string]bool{}
	}
	terminals := make([]map[string]bool, len(b.terminals))
	for i, e := range b.terminals {
		terminals[i] = map[string]bool{}
		for _, text := range texts(n) {
			if b.Space.Matches(e, text) {
				terminals[i][text] = true
			}
		}
	}
	of := func(node Node) map[string]bool {
		if node.isTerminal() {
			return terminals[node.terminal()]
		}
		return all[node.rule()]
	}
	join := func(begins, ends map[string]bool) map[string]bool {
		joined := map[string]bool{}
		for a := range begins {
			for e := range ends {
				if len(a)+len(e) <= n {
					joined[a+e] = true
				}
			}
		}
		return joined
	}
	for changed := true; changed; {
		changed = false
		for i, r := range b.rules {
			for _, nodes := range r.choices {
				found := map[string]bool{"": true}
				for _, node := range nodes {
					found = join(found, of(node))
				}
				if r.repeated {
					once, sum := found, map[string]bool{}
					found = map[string]bool{"": true}
					for k := 0; k <= n+r.min && (r.max < 0 || k <= r.max); k++ {
						if k >= r.min {
							for text := range found {
								sum[text] = true
							}
						}
						found = join(found, once)
					}
					found = sum
				}
				for text := range found {
					if !all[i][text] {
						all[i][text], changed = true, true
					}
				}
			}
		}
	}
	return of(start)
}

// texts returns all texts over a and b with at most n letters.
func texts(n int) (all []string) {
	all = []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for ; from < to; from++ {
			all = append(all, all[from]+"a", all[from]+"b")
		}
	}
	return all
}

// randomGrammar builds rules that refer to each other at random: recursive on the left, on the
// right and in the middle, ambiguous, empty, and without any text.
func randomGrammar(r *rand.Rand) (*Builder, Node) {
	b := NewBuilder()
	s := b.Space
	nodes := []Node{b.Text("a"), b.Text("b"), b.Terminal(s.Repeat(s.Text("ab"), 0, 2)),
		b.Terminal(s.Repeat(s.Text("a"), 1, regular.Unlimited)), b.Text("ab"), b.Seq()}
	first := len(nodes)
	for i := range 3 + r.IntN(3) {
		nodes = append(nodes, b.Rule(fmt.Sprint(i)))
	}
	pick := func() Node { return nodes[r.IntN(len(nodes))] }
	for _, rule := range nodes[first:] {
		var parts []Node
		for range 1 + r.IntN(3) {
			switch r.IntN(4) {
			case 0:
				parts = append(parts, b.Repeat(pick(), r.IntN(3), 2+r.IntN(2)))
			case 1:
				parts = append(parts, b.Repeat(pick(), r.IntN(2), regular.Unlimited))
			case 2:
				parts = append(parts, b.Seq(pick(), pick(), pick()))
			default:
				parts = append(parts, b.Seq(pick(), pick()))
			}
		}
		b.Define(rule, b.Choice(parts...))
	}
	return b, nodes[first]
}

// TestLanguage compares random grammars with the texts to which their rules expand. The texts of 8
// letters decide which shorter ones must be allowed as beginnings.
func TestLanguage(t *testing.T) {
	const n = 8
	all := texts(n)
	tried := 0
	for seed := range uint64(150) {
		b, start := randomGrammar(rand.New(rand.NewPCG(seed, 1)))
		want := language(b, start, n)
		g, err := b.Compile(start)
		if err == ErrNothing {
			if len(want) > 0 {
				t.Fatalf("seed %d: no text fits, expected %d", seed, len(want))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		tried++
		begins := map[string]bool{}
		for text := range want {
			for i := range len(text) + 1 {
				begins[text[:i]] = true
			}
		}
		for _, text := range all {
			m := g.NewMatcher()
			taken := m.AcceptBytes([]byte(text))
			if whole := taken == len(text) && m.Complete(); whole != want[text] {
				t.Fatalf("seed %d, %q: got %t, expected %t", seed, text, whole, want[text])
			}
			if taken < len(text) && begins[text] {
				t.Fatalf("seed %d, %q: only %d bytes are allowed", seed, text, taken)
			}
		}
	}
	if tried < 50 {
		t.Fatalf("only %d grammars have any text", tried)
	}
}

// list is a grammar of lists of numbers and lists, as in JSON.
func list(t testing.TB) *Grammar {
	b := NewBuilder()
	s := b.Space
	value := b.Rule("value")
	number := b.Terminal(s.Repeat(s.Set(regular.Range('0', '9')), 1, regular.Unlimited))
	items := b.Seq(value, b.Repeat(b.Seq(b.Text(", "), value), 0, regular.Unlimited))
	b.Define(value, b.Choice(number, b.Seq(b.Text("["), b.Optional(items), b.Text("]"))))
	g, err := b.Compile(value)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestStatesAreShared: a long list has the states of a short one.
func TestStatesAreShared(t *testing.T) {
	g := list(t)
	m := g.NewMatcher()
	m.AcceptBytes([]byte("[1, [5, 67], 8, [5, 67], 8, "))
	rows, states := len(g.graph.rows), len(g.graph.states)
	if n := m.AcceptBytes([]byte(strings.Repeat("[5, 67], 8, ", 1000))); n != 12_000 {
		t.Fatalf("%d bytes are allowed", n)
	}
	if r, s := len(g.graph.rows), len(g.graph.states); r != rows || s != states {
		t.Errorf("%d rows and %d states became %d and %d", rows, states, r, s)
	}
}

// TestNewGraph begins a new graph at every byte, as when the old one takes too much memory: nothing
// changes.
func TestNewGraph(t *testing.T) {
	for seed := range uint64(100) {
		b, start := randomGrammar(rand.New(rand.NewPCG(seed, 1)))
		g, err := b.Compile(start)
		if err != nil {
			continue
		}
		for _, text := range texts(6) {
			m, other := g.NewMatcher(), g.NewMatcher()
			for i := range len(text) {
				if m.AcceptBytes([]byte(text[i:i+1])) == 0 {
					break
				}
				g.graph.bytes = maxGraphBytes + 1
				if other.AcceptBytes([]byte(text[i:i+1])) == 0 ||
					other.Complete() != m.Complete() || other.Ended() != m.Ended() {
					t.Fatalf("seed %d, %q: a new graph at byte %d changes something", seed, text, i)
				}
				if g.graph.bytes > maxGraphBytes {
					t.Fatalf("seed %d, %q: the graph at byte %d is the old one", seed, text, i)
				}
			}
		}
	}
}

// TestAfterTooComplex matches texts after one whose states are too complex. Many answers share the
// grammar, so the error of one must not be that of all.
func TestAfterTooComplex(t *testing.T) {
	b := NewBuilder()
	s := b.Space
	ab := s.Set(regular.Of("ab"))
	any := s.Repeat(ab, 0, regular.Unlimited)
	yes := s.Text("yes")
	hard := s.And(s.Concat(any, s.Text("a"), s.Repeat(ab, 18, 18)), s.Not(any)) // 2^18 derivatives
	g, err := b.Compile(b.Terminal(s.Or(yes, s.Concat(s.Text("n"), hard))))
	if err != nil {
		t.Fatal(err)
	}
	v := words()
	v.encode = nil
	g.SetVocabulary(v)
	m, other := g.NewMatcher(), g.NewMatcher()
	if n := m.AcceptBytes([]byte("ye")); n != 2 {
		t.Fatalf("%d bytes are allowed", n)
	}
	for i := range 2 {
		if _, err := other.Mask(); !errors.Is(err, regular.ErrTooComplex) {
			t.Fatalf("got error %v, expected that the expression is too complex", err)
		}
		if i > 0 && g.graph.err != nil {
			t.Error("what is too complex was computed again")
		}
		if len(other.Forced()) > 0 || other.Ended() {
			t.Error("what is too complex is forced or ended")
		}
	}
	mask, err := m.Mask()
	if err != nil || mask.Len() != 1 || !mask.Allows(2+'s') {
		t.Fatalf("after another text was too complex: mask %v, %v", mask, err)
	}
	if m.AcceptBytes([]byte("s")) != 1 || !m.Ended() ||
		g.NewMatcher().AcceptBytes([]byte("yes")) != 3 {
		t.Error("after another text was too complex, nothing is allowed")
	}
}

// TestManyStates matches a text with more states than a grammar keeps.
func TestManyStates(t *testing.T) {
	b := NewBuilder()
	s := b.Space
	ab := s.Set(regular.Of("ab"))
	any := s.Repeat(ab, 0, regular.Unlimited)
	late := func(n int) Node { return b.Terminal(s.Concat(any, s.Text("a"), s.Repeat(ab, n, n))) }
	g, err := b.Compile(b.Choice(late(24), late(25), late(26), late(27)))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, maxExprs/3)
	for i := range text {
		text[i] = "ab"[r.IntN(2)]
	}
	copy(text[len(text)-28:], "aaaa")
	m := g.NewMatcher()
	for i := range text {
		if m.AcceptBytes(text[i:i+1]) != 1 {
			t.Fatalf("byte %d is not allowed: %v", i, g.graph.err)
		}
	}
	if !m.Complete() {
		t.Error("the text is not complete")
	}
	if n := g.graph.space.Len(); n > 2*maxDerived {
		t.Errorf("the grammar has %d expressions", n)
	}
}

// words is a vocabulary of bytes and longer tokens whose encoder takes the longest token. Token 0
// ends an answer, token 1 is a control token.
func words(longer ...string) *Vocabulary {
	tokens := [][]byte{[]byte("</s>"), nil}
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	for _, text := range longer {
		tokens = append(tokens, []byte(text))
	}
	encode := func(text string) (ids []int32) {
		for text != "" {
			best := 0
			for id, token := range tokens {
				if id > 1 && strings.HasPrefix(text, string(token)) &&
					len(token) > len(tokens[best]) || best == 0 && id > 1 &&
					strings.HasPrefix(text, string(token)) {
					best = id
				}
			}
			ids, text = append(ids, int32(best)), text[len(tokens[best]):]
		}
		return ids
	}
	return NewVocabulary(tokens, []int32{0}, encode)
}

// TestMask compares masks with trying each token.
func TestMask(t *testing.T) {
	v := words("a", "aa", "ab", "aab", "ba", "bbb", "abab", "b", "ab")
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		b, start := randomGrammar(r)
		g, err := b.Compile(start)
		if err != nil {
			continue
		}
		free := *v
		free.encode = nil
		g.SetVocabulary(&free)
		m := g.NewMatcher()
		so := ""
		for range 10 {
			mask, err := m.Mask()
			if err != nil {
				t.Fatalf("seed %d after %q: %v", seed, so, err)
			}
			var allowed []int32
			for id := range int32(v.size) {
				probe := g.NewMatcher()
				want := id == 0 && m.Complete()
				if text := v.text(id); text != nil {
					all := []byte(so + string(text))
					want = probe.AcceptBytes(all) == len(all)
				}
				if mask.Allows(id) != want {
					t.Fatalf("seed %d after %q: token %d %q: got %t", seed, so, id, v.text(id),
						!want)
				}
				if want && id != 0 {
					allowed = append(allowed, id)
				}
			}
			if m.Ended() != (len(allowed) == 0) {
				t.Fatalf("seed %d after %q: ended %t, %d tokens are allowed", seed, so, m.Ended(),
					len(allowed))
			}
			if len(allowed) == 0 {
				break
			}
			id := allowed[r.IntN(len(allowed))]
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
			so += string(v.text(id))
		}
	}
}

func TestForced(t *testing.T) {
	v := words(`{"`, `name`, `":`, ` "`, `": "`, `"}`, `na`, `me`, ` `, `, "`)
	b := NewBuilder()
	s := b.Space
	word := b.Terminal(s.Repeat(s.Set(regular.Range('a', 'z')), 1, regular.Unlimited))
	digit := b.Terminal(s.Set(regular.Range('0', '9')))
	g, err := b.Compile(b.Seq(b.Text(`{"name": `), b.Choice(b.Seq(b.Text(`"`), word, b.Text(`"`)),
		digit), b.Text(`}`)))
	if err != nil {
		t.Fatal(err)
	}
	g.SetVocabulary(v)
	m := g.NewMatcher()
	spell := func(ids []int32) (parts []string) {
		for _, id := range ids {
			parts = append(parts, string(v.text(id)))
		}
		return parts
	}
	// `": "` goes on after the forced text, so `": ` is left to the model.
	forced := slices.Clone(m.Forced())
	if got := spell(forced); !slices.Equal(got, []string{`{"`, `name`}) {
		t.Fatalf("forced: %q", got)
	}
	for i, id := range forced {
		mask, err := m.Mask()
		if err != nil || mask.Len() != 1 || !mask.Allows(id) {
			t.Fatalf("forced token %d: a mask of %d, %v", i, mask.Len(), err)
		}
		if err := m.Accept(id + 1); err == nil {
			t.Fatal("another token was accepted in place of a forced one")
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	mask, err := m.Mask()
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for id := range int32(v.size) {
		if mask.Allows(id) {
			allowed = append(allowed, string(v.text(id)))
		}
	}
	slices.Sort(allowed)
	if !slices.Equal(allowed, []string{`"`, `":`, `": "`}) {
		t.Fatalf("allowed: %q", allowed)
	}
	for _, id := range v.encode(`": "`) {
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if f := m.Forced(); len(f) > 0 {
		t.Fatalf("forced in a free word: %q", spell(f))
	}
	for _, id := range v.encode(`xy"}`) {
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Complete() || !m.Ended() || len(m.Forced()) > 0 {
		t.Errorf("complete %t, ended %t, forced %q", m.Complete(), m.Ended(), spell(m.Forced()))
	}
	if err := m.Accept(0); err != nil {
		t.Error(err)
	}
}

// TestMaskIsKnown asks for the mask of an answer before and after it is computed, and while that of
// another answer is.
func TestMaskIsKnown(t *testing.T) {
	g := list(t)
	v := words()
	g.SetVocabulary(v)
	m := g.NewMatcher()
	before := m.MaskIsKnown()
	if _, err := m.Mask(); err != nil {
		t.Fatal(err)
	}
	after := m.MaskIsKnown()
	g.mu.Lock() // as the mask of another answer does
	during := m.MaskIsKnown()
	g.mu.Unlock()
	if before || !after || during {
		t.Errorf("known before %t, after %t, during another one %t", before, after, during)
	}
}

// TestMaskInStrings compares masks inside of strings, where plain tokens are allowed together, with
// trying each token.
func TestMaskInStrings(t *testing.T) {
	v := words("ab", "abc", "hello", "ä", "äö", "中文字", "😀", "a\"", "\\n", "a\\", "\n", "ab\n",
		"\xE4\xB8", "\xAD", "12345678", " the", "a long token of plain characters", "xx", "xx",
		"é.")
	v.encode = nil
	for name, build := range map[string]func(s *regular.Space, plain regular.Expr) regular.Expr{
		"any": func(s *regular.Space, plain regular.Expr) regular.Expr {
			return s.Repeat(plain, 0, regular.Unlimited)
		},
		"at most 5": func(s *regular.Space, plain regular.Expr) regular.Expr {
			return s.Repeat(plain, 0, 5)
		},
		"40": func(s *regular.Space, plain regular.Expr) regular.Expr {
			return s.Repeat(plain, 40, 40)
		},
		"without x": func(s *regular.Space, plain regular.Expr) regular.Expr {
			return s.And(s.Repeat(plain, 0, 9),
				s.Not(s.Concat(regular.All, s.Text("x"), regular.All)))
		},
		"a plane without emoji": func(s *regular.Space, _ regular.Expr) regular.Expr {
			return s.Repeat(s.Runes(regular.RuneRange{Lo: ' ', Hi: '!'},
				regular.RuneRange{Lo: '#', Hi: '['}, regular.RuneRange{Lo: ']', Hi: 0xFFFF}), 0, 9)
		},
	} {
		b := NewBuilder()
		s := b.Space
		plain := s.Runes(regular.Complement(regular.Normal([]regular.RuneRange{{Lo: 0, Hi: 31},
			{Lo: '"', Hi: '"'}, {Lo: '\\', Hi: '\\'}}))...)
		quote := s.Text(`"`)
		escape := s.Text(`\n`)
		g, err := b.Compile(b.Terminal(s.Concat(quote, build(s, s.Or(plain, escape)), quote)))
		if err != nil {
			t.Fatal(err)
		}
		g.SetVocabulary(v)
		for _, text := range []string{`"`, `"a`, `"abcd`, "\"\xE4", `"12345678`, `"a\`} {
			m := g.NewMatcher()
			if m.AcceptBytes([]byte(text)) < len(text) {
				continue
			}
			mask, err := m.Mask()
			if err != nil {
				t.Fatal(err)
			}
			for id := range int32(v.size) {
				all := text + string(v.text(id))
				want := v.text(id) != nil && g.NewMatcher().AcceptBytes([]byte(all)) == len(all)
				if mask.Allows(id) != want {
					t.Errorf("%s after %q: token %q: got %t", name, text, v.text(id), !want)
				}
			}
		}
	}
}

// TestHostile: grammars whose states take more and more time end in an error, soon.
func TestHostile(t *testing.T) {
	v := words("aa", "ab", "ba", "bb", "aaaa", "abab", "babababa")
	v.encode = nil
	for name, build := range map[string]func(b *Builder) Node{
		"an expression with 2^200 derivatives": func(b *Builder) Node {
			s := b.Space
			any := s.Repeat(s.Set(regular.Of("ab")), 0, regular.Unlimited)
			return b.Terminal(s.Concat(any, s.Text("a"),
				s.Repeat(s.Set(regular.Of("ab")), 200, 200)))
		},
		"an ambiguous rule": func(b *Builder) Node {
			n := b.Rule("n")
			b.Define(n, b.Choice(b.Text("a"), b.Text("b"), b.Seq(n, n), b.Seq(n, n, n)))
			return n
		},
		"recursion on the right": func(b *Builder) Node {
			n := b.Rule("n")
			b.Define(n, b.Choice(b.Text("a"), b.Text("b"), b.Seq(b.Text("a"), n),
				b.Seq(b.Text("b"), n)))
			return n
		},
	} {
		b := NewBuilder()
		g, err := b.Compile(build(b))
		if err != nil {
			t.Fatal(err)
		}
		g.SetVocabulary(v)
		m := g.NewMatcher()
		r := rand.New(rand.NewPCG(1, 2))
		longest := time.Duration(0)
		n := 0
		for start := time.Now(); n < 3000 && err == nil && time.Since(start) < time.Second; n++ {
			begin := time.Now()
			if _, err = m.Mask(); err == nil {
				err = m.Accept(int32(258 + r.IntN(7)))
			}
			longest = max(longest, time.Since(begin))
		}
		t.Logf("%s: %d tokens, %v, %d expressions, %d rows, %d bytes; the longest step took %v",
			name, n, err, b.Space.Len(), len(g.graph.rows), g.graph.bytes, longest)
		if longest > 10*time.Second || g.graph.bytes > 2*maxGraphBytes {
			t.Errorf("%s: a step took %v, the states take %d bytes", name, longest, g.graph.bytes)
		}
	}
}

// TestAmbiguousToken computes a mask that follows a long token through a grammar in which each part
// of it has many readings. Most work is for items that a row has already.
func TestAmbiguousToken(t *testing.T) {
	b := NewBuilder()
	n := b.Rule("n")
	b.Define(n, b.Choice(b.Text("a"), b.Seq(), b.Seq(n, n), b.Seq(n, n, n)))
	g, err := b.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	v := words(strings.Repeat("a", 128))
	v.encode = nil
	g.SetVocabulary(v)
	if _, err := g.NewMatcher().Mask(); !errors.Is(err, regular.ErrTooComplex) {
		t.Errorf("got error %v, expected that the expression is too complex", err)
	}
}
