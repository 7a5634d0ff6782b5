package structured

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// The tokens of these tests.
var words = []string{"</s>", "<think>", "</think>", "<call>", "yes", "no", "\n", "</th", "ink>",
	"maybe ", "ye", "s", "</think>\n\n"}

func id(word string) int32 { return int32(slices.Index(words, word)) }

func testCompiler() *Compiler {
	tokens := make([][]byte, len(words))
	for i, w := range words {
		if i > 3 {
			tokens[i] = []byte(w)
		}
		if w == "<call>" { // as textproc writes it
			tokens[i] = []byte("\xFF<call>\xFF")
		}
	}
	return NewCompiler(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(tokens, []int32{0}, nil)
	}, nil, func(tag string) (int32, bool) {
		i := id(tag)
		return i, i >= 1 && i <= 3
	}, nil)
}

// allowed returns the words that may come next.
func allowed(t *testing.T, a *Answer) string {
	t.Helper()
	m, err := a.Mask()
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return "all"
	}
	var list []string
	for i, w := range words {
		if m.Allows(int32(i)) {
			list = append(list, strings.ReplaceAll(w, "\n", "/"))
		}
	}
	return strings.Join(list, " ")
}

// TestAnswer follows answers through reasoning and calls. Each step is a token, a colon, and what
// may come after it.
func TestAnswer(t *testing.T) {
	think := Before{Open: "<think>", Close: []string{"</think>"}}
	inside := Before{Inside: true, Close: []string{"</think>"}}
	for _, c := range []struct {
		name   string
		before Before
		first  string
		steps  []string
	}{
		{"no reasoning", Before{}, "yes no ye", []string{"ye:s", "s:</s>"}},
		{"content at once", think, "<think> yes no / ye", []string{"no:</s>"}},
		{"reasoning", think, "<think> yes no / ye", []string{"<think>:all", "maybe :all",
			"</think>:yes no / ye", "\n:yes no / ye", "\n:yes no ye", "yes:</s>"}},
		{"inside of reasoning", inside, "all", []string{"no:all", "</s>:all",
			"</think>:yes no / ye", "no:</s>"}},
		{"a tag in two tokens", inside, "all", []string{"</th:all", "ink>:yes no / ye"}},
		{"a token that goes on", inside, "all", []string{"</think>\n\n:yes no ye"}},
		{"two headers", Before{Inside: true, Close: []string{"maybe ", "yes"}}, "all",
			[]string{"yes:all", "maybe :all", "no:all", "yes:yes no / ye"}},
		{"a call", Before{Calls: []string{"<call>"}}, "<call> yes no ye",
			[]string{"<call>:all", "maybe :all"}},
		{"content beside calls", Before{Calls: []string{"<call>"}}, "<call> yes no ye",
			[]string{"yes:</s>"}},
	} {
		for _, prepare := range []bool{false, true} {
			a, err := testCompiler().NewAnswer(&Output{Kind: Choice, Source: `["yes","no"]`,
				Before: c.before})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if prepare {
				a.Prepare()
			}
			if got := allowed(t, a); got != c.first {
				t.Errorf("%s: first %q, expected %q", c.name, got, c.first)
			}
			for _, step := range c.steps {
				word, want, _ := strings.Cut(step, ":")
				text := word
				if err := a.Accept(id(word), text); err != nil {
					t.Fatalf("%s, %q: %v", c.name, word, err)
				}
				if prepare {
					a.Prepare()
				}
				if want == "</s>" {
					if !a.Ended() {
						t.Errorf("%s: not ended after %q", c.name, word)
					}
				}
				if got := allowed(t, a); got != want {
					t.Errorf("%s: %q after %q, expected %q", c.name, got, word, want)
				}
			}
		}
	}
}

// TestCalls: calls that may come have their form, in free text and beside a form of the content.
func TestCalls(t *testing.T) {
	before := Before{Open: "<think>", Close: []string{"</think>"}, Calls: []string{"<call>"}}
	call := &Output{Kind: Calls}
	steps := []string{"<call>:maybe ", "maybe :yes ye", "yes:all", "no:all", "<call>:maybe "}
	for _, c := range []struct {
		name string
		o    Output
		list []string
	}{
		{"free", Output{Calls: call, Before: before},
			append([]string{":all", "yes:all"}, steps...)},
		{"reasoning", Output{Calls: call, Before: before},
			append([]string{"<think>:all", "<call>:all", "</think>:all"}, steps...)},
		{"inside", Output{Calls: call, Before: Before{Inside: true, Close: before.Close,
			Calls: before.Calls}}, append([]string{":all", "</think>:all"}, steps...)},
		{"a form", Output{Kind: Choice, Source: `["yes","no"]`, Calls: call, Before: before},
			append([]string{":<think> <call> yes no / ye"}, steps...)},
		{"a form after reasoning", Output{Kind: Choice, Source: `["yes","no"]`, Calls: call,
			Before: before}, append([]string{"<think>:all", "</think>:<call> yes no / ye",
			"\n:<call> yes no / ye"}, steps...)},
	} {
		compiler := testCompiler()
		compiler.calls = func(b *grammar.Builder, o *Output) (grammar.Node, error) {
			return b.Text("\xFF<call>\xFFmaybe yes"), nil
		}
		a, err := compiler.NewAnswer(&c.o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, step := range c.list {
			word, want, _ := strings.Cut(step, ":")
			if word != "" {
				if err := a.Accept(id(word), word); err != nil {
					t.Fatalf("%s, %q: %v", c.name, word, err)
				}
			}
			if got := allowed(t, a); got != want || a.Ended() {
				t.Errorf("%s: %q after %q, expected %q", c.name, got, word, want)
			}
		}
	}
}

// maybeWatch says that a call begins with each "maybe ", and calls it begun.
type maybeWatch struct{ begun string }

func (w maybeWatch) Add(text string) (string, bool) { return w.begun, text == "maybe " }

// TestWatchedCalls: where calls have no tag, their form begins where a CallWatch says. All before
// and after is free, and so is a call whose beginning the form does not have.
func TestWatchedCalls(t *testing.T) {
	inside := Before{Inside: true, Close: []string{"</think>"}, Watch: true}
	form := Output{Kind: Choice, Source: `["yes","no"]`, Before: inside}
	for _, c := range []struct {
		name  string
		begun string
		o     Output
		list  []string
	}{
		{"free", "maybe ", Output{Before: Before{Watch: true}}, []string{":all", "no:all",
			"maybe :yes ye", "ye:s", "s:all", "no:all", "maybe :yes ye", "yes:all"}},
		{"another function", "no", Output{Before: Before{Watch: true}}, []string{"maybe :all",
			"no:all"}},
		{"reasoning", "maybe ", form, []string{":all", "maybe :yes ye", "yes:all", "</think>:all"}},
		{"content", "maybe ", Output{Kind: Choice, Source: `["maybe no"]`, Before: inside},
			[]string{"no:all", "</think>:/ maybe ", "maybe :no"}},
		{"a form without calls", "maybe ", Output{Before: Before{Watch: true}}, nil},
	} {
		compiler := testCompiler()
		compiler.calls = func(b *grammar.Builder, o *Output) (grammar.Node, error) {
			return b.Text("maybe yes"), nil
		}
		compiler.watch = func(*Output) CallWatch { return maybeWatch{c.begun} }
		if c.o.Calls = (&Output{Kind: Calls}); c.list == nil {
			c.o.Calls, c.list = nil, []string{"maybe :all", "maybe :all"}
		}
		a, err := compiler.NewAnswer(&c.o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, step := range c.list {
			word, want, _ := strings.Cut(step, ":")
			if word != "" {
				if err := a.Accept(id(word), word); err != nil {
					t.Fatalf("%s, %q: %v", c.name, word, err)
				}
			}
			if got := allowed(t, a); got != want || a.Ended() {
				t.Errorf("%s: %q after %q, expected %q", c.name, got, word, want)
			}
		}
	}
}

// TestRefusals: what cannot be compiled, with what it says.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		o    Output
		want string
	}{
		{Output{Kind: Choice, Source: `[]`}, "expected 1 to 10000 texts, got 0"},
		{Output{Kind: Choice, Source: `["a",""]`}, "text 1 is empty"},
		{Output{Kind: Choice, Source: `{}`}, "expected a list of texts"},
		{Output{Kind: "xml"}, `the kind "xml" is not known`},
		{Output{Kind: Calls}, `the kind "calls" is not known`},
		{Output{Kind: Regex, Source: `(`}, "pattern"},
		{Output{Kind: Regex, Source: `^a$b`}, "no answer can have this form"},
		{Output{Kind: Choice, Source: `["yes"]`, Begun: "yet"}, `differs at byte 2, "t"`},
		{Output{Kind: Grammar, Source: `root ::= root "a"`}, "no answer can have this form"},
		{Output{Kind: JSONSchema, Source: `{"type":"strin"}`}, "is not valid"},
		{Output{Kind: JSONSchema, Source: `{`}, "is not valid"},
		{Output{Kind: JSONSchema, Source: strings.Repeat(" ", maxSchemaBytes+1)},
			"at most 1048576"},
		{Output{Kind: Regex, Source: strings.Repeat(" ", maxSourceBytes+1)}, "at most 131072"},
		{Output{Kind: Choice, Source: `["a"` + strings.Repeat(`,"a"`, maxChoices) + `]`},
			"expected 1 to 10000 texts, got 10001"},
		{Output{Kind: Choice, Source: `["a"]`, Before: Before{Calls: []string{"[x]"}}},
			`"[x]" is no token of its own`},
	} {
		_, err := testCompiler().NewAnswer(&c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40s: got %v, expected %q", c.o.Kind, c.o.Source, err, c.want)
		}
	}
}

// TestAtTheLimits: the longest sources are compiled.
func TestAtTheLimits(t *testing.T) {
	for _, o := range []Output{
		{Kind: JSONSchema, Source: "{}" + strings.Repeat(" ", maxSchemaBytes-2)},
		{Kind: Grammar, Source: `root ::= "yes"` + strings.Repeat("\n", maxSourceBytes-14)},
		{Kind: Choice, Source: `["yes"` + strings.Repeat(`,"no"`, maxChoices-1) + `]`},
	} {
		if _, err := o.Compile(nil); err != nil {
			t.Errorf("%s of %d bytes: %v", o.Kind, len(o.Source), err)
		}
	}
}

// TestFailedGrammar: if one answer becomes too complex, others with the same form go on.
func TestFailedGrammar(t *testing.T) {
	tokens := [][]byte{nil, []byte(strings.Repeat("a", 1500)), []byte("a")}
	c := NewCompiler(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(tokens, []int32{0}, nil)
	}, nil, func(string) (int32, bool) { return 0, false }, nil)
	o := Output{Kind: Grammar, Source: `root ::= "a" | root root`} // ambiguous
	begin := func() *Answer {
		t.Helper()
		a, err := c.NewAnswer(&o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first, other := begin(), begin()
	if err := first.Accept(1, ""); !errors.Is(err, regular.ErrTooComplex) {
		t.Fatalf("a long token: %v, expected ErrTooComplex", err)
	}
	if err := other.Accept(2, "a"); err != nil {
		t.Errorf("an answer beside it: %v", err)
	}
	if err := begin().Accept(2, "a"); err != nil {
		t.Errorf("the next answer: %v", err)
	}
	if c.used.Len() != 1 || len(c.byID) != 1 {
		t.Errorf("%d forms are kept, expected one", c.used.Len())
	}
}

// TestCompilerKeeps: a form is compiled once as long as it is among those used last.
func TestCompilerKeeps(t *testing.T) {
	c := testCompiler()
	first := Output{Kind: Choice, Source: `["yes"]`}
	get := func(o Output) *grammar.Grammar {
		t.Helper()
		if _, err := c.NewAnswer(&o); err != nil {
			t.Fatal(err)
		}
		return c.used.Front().Value.(*kept).g.Load()
	}
	g := get(first)
	if get(first) != g {
		t.Error("the same form was compiled twice")
	}
	strict := first
	strict.Before.Inside, strict.Before.Close = true, []string{"</think>"}
	if get(strict) == g {
		t.Error("a form after reasoning has the grammar of one without")
	}
	for i := range maxKept {
		get(Output{Kind: Choice, Source: `["yes"` + strings.Repeat(" ", i+1) + `]`})
	}
	if c.used.Len() != maxKept || len(c.byID) != maxKept || get(first) == g {
		t.Errorf("%d forms are kept, expected %d without the first", c.used.Len(), maxKept)
	}
	c.most = 1
	if get(Output{Kind: Choice, Source: `["no"]`}); c.used.Len() != 1 || len(c.byID) != 1 {
		t.Errorf("%d forms are kept in a byte, expected the last one", c.used.Len())
	}
}

// TestSlots: a form waits until others are compiled. What is refused meanwhile is not kept.
func TestSlots(t *testing.T) {
	defer func(patience time.Duration) { compiling.patience = patience }(compiling.patience)
	compiling.patience = time.Millisecond
	for range maxCompiling {
		if err := compiling.take(); err != nil {
			t.Fatal(err)
		}
	}
	c, form := testCompiler(), Output{Kind: Choice, Source: `["yes"]`}
	if _, err := c.NewAnswer(&form); !IsOverloaded(err) {
		t.Errorf("without a slot: %v", err)
	}
	for range maxCompiling {
		compiling.give()
	}
	for range maxCompiling + 1 {
		if _, err := c.NewAnswer(&form); err != nil {
			t.Errorf("with a slot: %v", err)
		}
		if _, err := form.Compile(nil); err != nil {
			t.Errorf("with a slot: %v", err)
		}
	}
}
