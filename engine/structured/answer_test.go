package structured

import (
	"errors"
	"math/rand/v2"
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
	}
	return NewCompiler(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(tokens, []int32{0}, nil)
	}, nil, func(tag string) (int32, bool) {
		i := id(tag)
		return i, i >= 1 && i <= 3
	})
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
		{Output{Kind: Grammar, Source: `root ::= root "a"`}, "no answer can have this form"},
		{Output{Kind: JSONSchema, Source: `{"type":"strin"}`}, "is not valid"},
		{Output{Kind: JSONSchema, Source: `{`}, "is not valid"},
		{Output{Kind: JSONSchema, Source: strings.Repeat(" ", maxSchemaBytes+1)},
			"at most 1048576"},
		{Output{Kind: Regex, Source: strings.Repeat(" ", maxSourceBytes+1)}, "at most 131072"},
		{Output{Kind: Choice, Source: `["a"]`, Before: Before{Calls: []string{"[x]"}}},
			`"[x]" is no token of its own`},
	} {
		_, err := testCompiler().NewAnswer(&c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40s: got %v, expected %q", c.o.Kind, c.o.Source, err, c.want)
		}
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

// TestUsedUp: a grammar that one answer has used up is compiled again for the next one.
func TestUsedUp(t *testing.T) {
	c := testCompiler()
	form := Output{Kind: Regex, Source: `[yes]*y[yes]{3000}`}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2 {
		a, err := c.NewAnswer(&form)
		if err == nil {
			_, err = a.Mask()
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; n < 20_000 && err == nil; n++ {
			word := []string{"yes", "ye", "s"}[r.IntN(3)]
			if _, err = a.Mask(); err == nil {
				err = a.Accept(id(word), word)
			}
		}
		if n < 200 || !errors.Is(err, regular.ErrTooComplex) {
			t.Fatalf("%d tokens, then %v, expected more, then %v", n, err, regular.ErrTooComplex)
		}
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
