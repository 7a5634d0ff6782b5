package decisions

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo/demotest"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// TestReads: the reads of labels, worked by hand. The first question has labels of one token, the
// second of one to three: 5, 6 7, 6 8 and 6 8 9.
func TestReads(t *testing.T) {
	d := &decision{}
	head := []int32{1, 2, 3}
	reads := d.add(nil, head, head, [][]int32{{5}, {6}, {4}})
	reads = d.add(reads, head, []int32{1, 2, 4, 4}, [][]int32{{6, 8, 9}, {5}, {6, 7}, {6, 8, 3}})
	reads = d.add(reads, head, []int32{7}, [][]int32{{5}, {6}})
	want := []generate.Read{
		{Shared: []int32{1, 2, 3}, Own: []int32{}, Tokens: []int32{5, 6, 4}, Keep: true},
		{Shared: []int32{1, 2}, Own: []int32{4, 4}, Tokens: []int32{6, 5}, Keep: true},
		{Shared: []int32{1, 2}, Own: []int32{4, 4, 6}, Tokens: []int32{8, 7}, Continues: true},
		{Shared: []int32{1, 2}, Own: []int32{4, 4, 6, 8}, Tokens: []int32{9, 3}, Continues: true},
		{Shared: []int32{}, Own: []int32{7}, Tokens: []int32{5, 6}},
	}
	if len(reads) != len(want) {
		t.Fatalf("%d reads, expected %d", len(reads), len(want))
	}
	for i := range want {
		if len(reads[i].Own) == 0 {
			reads[i].Own = []int32{}
		}
		if !reflect.DeepEqual(reads[i], want[i]) {
			t.Errorf("read %d: %+v, expected %+v", i, reads[i], want[i])
		}
	}
	places := []reading{{{{0, 0}}, {{0, 1}}, {{0, 2}}},
		{{{1, 0}, {2, 0}, {3, 0}}, {{1, 1}}, {{1, 0}, {2, 1}}, {{1, 0}, {2, 0}, {3, 1}}},
		{{{4, 0}}, {{4, 1}}}}
	if !reflect.DeepEqual(d.readings, places) {
		t.Errorf("places %v, expected %v", d.readings, places)
	}

	// 6 has 1/2 and 5 has 1/8; after 6, 8 has 1/4 and 7 has 1/2; then 9 has 1/4 and 3 has 3/4.
	log := func(p ...float64) (list []float32) {
		for _, p := range p {
			list = append(list, float32(math.Log(p)))
		}
		return list
	}
	p, ok := d.readings[1].probabilities([][]float32{nil, log(.5, .125), log(.25, .5),
		log(.25, .75), nil})
	for i, want := range []float64{1. / 32, 4. / 32, 8. / 32, 3. / 32} {
		if want /= 16. / 32; !ok || math.Abs(p[i]-want) > 1e-7 {
			t.Errorf("label %d has %v, expected %v", i, p[i], want)
		}
	}
	// Labels of several tokens can have log-probabilities whose exponential is 0.
	p, ok = d.readings[2].probabilities([][]float32{nil, nil, nil, nil, {-2000, -2000}})
	if !ok || p[0] != .5 || p[1] != .5 {
		t.Errorf("small probabilities: %v, %v, expected the same for both", p, ok)
	}
	none := []float32{float32(math.Inf(-1)), float32(math.Inf(-1))}
	if p, ok := d.readings[2].probabilities([][]float32{nil, nil, nil, nil, none}); ok {
		t.Errorf("labels without probability: %v", p)
	}
}

// TestAnswers: scores and confidences, worked by hand.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		p                 []float64
		best              int
		score, confidence float64
	}{
		{[]float64{1, 0}, 0, 0, 1},
		{[]float64{.5, .5}, 0, .5, 0},
		{[]float64{.25, .75}, 1, .75, .5},
		{[]float64{.125, .125, .5, .25}, 2, 1.875, 1. / 3},
	} {
		d := &decision{readings: []reading{make(reading, len(c.p))}}
		logprobs := make([]float32, len(c.p))
		for i, p := range c.p {
			logprobs[i] = float32(math.Log(p))
			d.readings[0][i] = []place{{0, i}}
		}
		a := d.answers([][]float32{logprobs})[0]
		if a.best != c.best || math.Abs(a.score()-c.score) > 1e-6 ||
			math.Abs(a.confidence()-c.confidence) > 1e-6 {
			t.Errorf("%v: %+v, the score %v and the confidence %v", c.p, a, a.score(),
				a.confidence())
		}
	}
}

// TestTexts: the messages that ask questions.
func TestTexts(t *testing.T) {
	const head = "This is a question about everything above.\n\n"
	for _, c := range []struct {
		q    Question
		want string
	}{
		{Question{Instructions: "Is it?", Options: yesOrNo("", "")}, head + "Is it?\n\n" +
			"Answer with Yes if this is so, and with No otherwise. Write nothing else."},
		{Question{Options: yesOrNo("", "not so")}, head + "No: not so\n\n" +
			"Answer with Yes if this is so, and with No otherwise. Write nothing else."},
		{Question{Kind: Choice, Instructions: "Which?", Options: []Option{{Text: "x"},
			{Text: "y", Description: "z"}}}, head + "Which?\n\nA. x\nB. y: z\n\n" +
			"Answer with the letter of the option that fits best. Write nothing else."},
		{Question{Kind: Score, Options: []Option{{Text: "x"}, {Text: "y"}}}, head +
			"The levels, from the lowest to the highest:\nA. x\nB. y\n\n" +
			"Answer with the letter of the level that fits best. Write nothing else."},
	} {
		if got := c.q.text([]string{"A", "B"}); got != c.want {
			t.Errorf("%+v: %q, expected %q", c.q, got, c.want)
		}
	}
}

// model has the tokenizer and the template of the bundled model.
type model struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template
}

func (m *model) Tokenizer() *tokenizer.Tokenizer { return m.tokenizer }
func (m *model) Template() *chat.Template        { return m.template }

func newModel() *model {
	t, c := demotest.Texts()
	return &model{t, c}
}

// TestLabels checks that up to 26 options have one letter each, and more have the first pairs.
func TestLabels(t *testing.T) {
	pairs := func() ([]string, error) { return strings.Fields(strings.Repeat("XY ", 300)), nil }
	for n, last := range map[int]string{2: "B", 26: "Z", 27: "XY", maxOptions: "XY"} {
		q := Question{Kind: Choice, Options: make([]Option, n)}
		labels, err := q.labels(pairs)
		if err != nil || len(labels) != n || labels[n-1] != last {
			t.Errorf("%d options: the labels %q, %v, expected %q at the end", n, labels, err, last)
		}
	}
	yes, err := (&Question{Options: yesOrNo("a", "b")}).labels(nil)
	if err != nil || !slices.Equal(yes, []string{"Yes", "No"}) {
		t.Errorf("a predicate: %q, %v", yes, err)
	}
}

// TestReadsOfLetters checks the number of reads for 255 options in a vocabulary in which no pair of
// letters is one token.
func TestReadsOfLetters(t *testing.T) {
	var ends [][]int32
	for i := range int32(maxOptions) {
		ends = append(ends, []int32{i / 26, 100 + i%26})
	}
	prompt := []int32{1, 2}
	reads := (&decision{}).add(nil, prompt, prompt, ends)
	if len(reads) != 11 || len(reads[0].Tokens) != 10 || len(reads[1].Tokens) != 26 {
		t.Errorf("%d reads, expected 11 as DECISIONS.md says: %+v", len(reads), reads)
	}
}

// TestPairs checks that labels of two letters are those of one token first.
func TestPairs(t *testing.T) {
	m := newModel()
	pairs, err := letterPairs(t.Context(), &generate.Request{}, m)
	if err != nil || len(pairs) != 26*26 {
		t.Fatalf("%d pairs, %v", len(pairs), err)
	}
	tokens := func(pair string) int {
		return len(m.tokenizer.Encode("\n\n"+pair, tokenizer.EncodeOptions{})) -
			len(m.tokenizer.Encode("\n\n", tokenizer.EncodeOptions{}))
	}
	single := slices.IndexFunc(pairs, func(pair string) bool { return tokens(pair) > 1 })
	if single <= 0 || slices.ContainsFunc(pairs[single:],
		func(pair string) bool { return tokens(pair) == 1 }) {
		t.Errorf("the first %d are one token, but not all that are: %q", single, pairs)
	}
	if !slices.IsSorted(pairs[:single]) || !slices.IsSorted(pairs[single:]) {
		t.Errorf("not in order: %q", pairs)
	}
}

// TestReadsOfModel checks that the reads of a question do not depend on the other questions, and
// that all share the memory of the state.
func TestReadsOfModel(t *testing.T) {
	m := newModel()
	var options []Option
	for i := range 200 {
		options = append(options, Option{Text: fmt.Sprint(i)})
	}
	all := []Question{{Kind: Choice, Options: options[:26]}, {Options: yesOrNo("", "")},
		{Kind: Choice, Options: options}, {Kind: Score, Options: options[:27]}}
	r := &generate.Request{Messages: []chat.Message{
		{Role: "user", Content: strings.Repeat("A long text. ", 300)}}}
	read := func(questions ...Question) ([]generate.Read, *decision) {
		t.Helper()
		d := &decision{questions: questions}
		reads, err := d.reads(t.Context(), r, m, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Messages) != 1 {
			t.Errorf("the request has %d messages", len(r.Messages))
		}
		return reads, d
	}
	together, _ := read(all...)
	at := 0
	for i, q := range all {
		alone, _ := read(q)
		for k := range alone {
			one := &together[at]
			if !slices.Equal(one.Prompt(), alone[k].Prompt()) ||
				!slices.Equal(one.Tokens, alone[k].Tokens) || one.Continues != (k > 0) {
				t.Errorf("question %d, read %d: %v, alone %v", i, k, one, alone[k])
			}
			if len(one.Shared) < 900 || &one.Shared[0] != &together[0].Shared[0] {
				t.Errorf("question %d, read %d shares only %d tokens", i, k, len(one.Shared))
			}
			at++
		}
	}
	if at != len(together) {
		t.Errorf("%d reads, %d of them alone", len(together), at)
	}
	m.template = nil
	d := &decision{questions: all[2:]}
	if _, err := d.reads(t.Context(), r, m, 0); problem.From(err).Code != problem.NoTemplate {
		t.Errorf("no template: %v", err)
	}
}
