package generate_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/tokenizer"
)

// marked is the tokenizer of the bundled model with more special tokens, and without a template.
type marked struct{ t *tokenizer.Tokenizer }

func (m marked) Tokenizer() *tokenizer.Tokenizer { return m.t }
func (m marked) Template() *chat.Template        { return nil }

func withMarks(t *testing.T, marks ...string) marked {
	t.Helper()
	data, err := os.ReadFile("../../app/demo/model/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	var added []map[string]any
	if err := errors.Join(json.Unmarshal(data, &all),
		json.Unmarshal(all["added_tokens"], &added)); err != nil {
		t.Fatal(err)
	}
	for i, mark := range marks {
		added = append(added, map[string]any{"id": 60_000 + i, "content": mark, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	if all["added_tokens"], err = json.Marshal(added); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	parsed, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return marked{parsed}
}

// TestInfill: the parts of a prompt with a suffix are between the family's tokens, in its order.
// What a text has of these tokens stays text.
func TestInfill(t *testing.T) {
	const before, after = "def add(a, b):\n    return <|fim_middle|>", "\n\nprint(add(1, 2))\n"
	for _, c := range []struct {
		marks []string
		order []any // ids of marks from 60,000 on, or texts
	}{
		{[]string{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"},
			[]any{60_000, before, 60_002, after, 60_001}},
		{[]string{"[PREFIX]", "[SUFFIX]"}, []any{60_001, after, 60_000, before}},
		{[]string{"<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>"},
			[]any{60_000, after, 60_001, before, 60_002}},
		{[]string{"<|fim_prefix|>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
			[]any{60_001, before, 60_002, after, 60_003}},
	} {
		m := withMarks(t, c.marks...)
		plain := withMarks(t) // has no token for the mark in the text
		var want []int32
		for _, part := range c.order {
			switch part := part.(type) {
			case int:
				want = append(want, int32(part))
			case string:
				want = append(want, plain.t.Encode(part, tokenizer.EncodeOptions{})...)
			}
		}
		r := generate.Request{Prompt: before, Suffix: after}
		got, split, err := r.Encode(t.Context(), m, 1000)
		if err != nil || split != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v (%v), expected %v", c.marks, got, err, want)
		}
	}
	r := generate.Request{Prompt: before, Suffix: after}
	_, _, err := r.Encode(t.Context(), withMarks(t, "<|fim_prefix|>"), 1000)
	var bad *generate.ParamError
	if !errors.As(err, &bad) || bad.Param != "suffix" ||
		!strings.Contains(err.Error(), "no tokens") {
		t.Errorf("a model without marks: %v", err)
	}
}
