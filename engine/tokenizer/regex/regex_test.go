package regex

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"unicode/utf8"
)

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// vectors is testdata/vectors.json. A match has the numbers of its first rune and of the rune after
// it; empty matches are left out.
type vectors struct {
	KnownTexts []string          `json:"known_texts"`
	SmallTexts []string          `json:"small_texts"`
	Known      map[string]vector `json:"known"`
	Small      []vector          `json:"small"`
}

type vector struct {
	Pattern string
	Matches [][][2]int
}

// spans returns the matches that are not empty, counted in runes.
func spans(t testing.TB, m *Matcher, text string) [][2]int {
	m.Reset(text, nil)
	out := [][2]int{}
	for {
		from, to, ok := m.Next()
		if !ok {
			break
		}
		if from < to {
			at := utf8.RuneCountInString(text[:from])
			out = append(out, [2]int{at, at + utf8.RuneCountInString(text[from:to])})
		}
	}
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
	return out
}

func (v *vector) check(t *testing.T, texts []string) {
	re, err := Compile(v.Pattern)
	if (err != nil) != (v.Matches == nil) {
		t.Errorf("%s: error %v, the reference refuses it: %v", v.Pattern, err, v.Matches == nil)
	}
	if err != nil || v.Matches == nil {
		return
	}
	m := re.NewMatcher()
	for i, text := range texts {
		if got := spans(t, m, text); !slices.Equal(got, v.Matches[i]) {
			t.Errorf("%s in %q:\n got %v\nwant %v", v.Pattern, text, got, v.Matches[i])
		}
	}
}

// TestVectors compares the matches with those of Oniguruma.
func TestVectors(t *testing.T) {
	var all vectors
	readJSON(t, "testdata/vectors.json", &all)
	for name, v := range all.Known {
		t.Run(name, func(t *testing.T) { v.check(t, all.KnownTexts) })
	}
	for _, v := range all.Small {
		v.check(t, all.SmallTexts)
	}
}

// TestClasses compares the characters of classes with those of Oniguruma.
func TestClasses(t *testing.T) {
	var all map[string][][2]rune
	readJSON(t, "testdata/classes.json", &all)
	for pattern, want := range all {
		p := &parser{text: pattern}
		got := p.alternation().kids[0].set
		var spans []span
		for _, r := range want {
			spans = append(spans, span{r[0], r[1]})
		}
		theirs := normal(spans)
		// Surrogates are not characters of a text. Scripts and derived properties of new
		// characters are unknown here, and U+1171E was another mark in Unicode 15.
		ignored := set{{0xd800, 0xdfff}, {0x1171e, 0x1171e}}
		for _, a := range added {
			if len(pattern) > len(`\p{Lu}`) || len(pattern) == len(`\w`) {
				ignored = append(ignored, span{a.from, a.to})
			}
		}
		known := ignored.sorted().negate()
		missing := theirs.intersect(got.negate()).intersect(known)
		extra := got.intersect(theirs.negate()).intersect(known)
		if len(missing)+len(extra) > 0 {
			t.Errorf("%s lacks %x and has %x too many", pattern, missing, extra)
		}
	}
}

// TestAddedIsSorted checks what the binary search needs.
func TestAddedIsSorted(t *testing.T) {
	end := rune(0)
	for _, a := range added {
		if a.from <= end || a.to < a.from {
			t.Errorf("%#x-%#x is not in ascending order", a.from, a.to)
		}
		end = a.to
		for _, r := range []rune{a.from, a.to} {
			if got := AddedCategory(r); got != a.category {
				t.Errorf("%#x has category %q, expected %q", r, got, a.category)
			}
		}
	}
	if got := AddedCategory(end+1) + AddedCategory('a'); got != "" {
		t.Errorf("other characters have category %q", got)
	}
}

// TestWordsOfLatinNumbers checks that ½ is \w outside a class alone, as in Oniguruma.
func TestWordsOfLatinNumbers(t *testing.T) {
	for pattern, want := range map[string]bool{`\w`: true, `\p{Word}`: true, `\W`: false,
		`[\w]`: false, `[^\w]`: true, `[\W]`: true, `[[:word:]]`: false, `[\p{Word}]`: false} {
		re, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		m := re.NewMatcher()
		if got := len(spans(t, m, "½")) > 0; got != want {
			t.Errorf("%s matches ½: %v, expected %v", pattern, got, want)
		}
	}
}
