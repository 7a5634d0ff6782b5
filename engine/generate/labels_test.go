package generate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// labelsOf encodes labels after a conversation, and checks that a prompt with the rest of each
// label has the tokens of their whole text.
func labelsOf(t *testing.T, m *demoModel, r *generate.Request, before string,
	labels []string) (prompt []int32, ends [][]int32) {
	t.Helper()
	prompt, ends, err := r.EncodeLabels(t.Context(), m, 0, labels)
	if err != nil {
		t.Fatal(err)
	}
	for i, label := range labels {
		want := m.tokenizer.Encode(before+label, tokenizer.EncodeOptions{})
		if got := slices.Concat(prompt, ends[i]); !slices.Equal(got, want) {
			t.Errorf("label %q: %q, expected %q", label, m.tokenizer.Decode(got, false),
				m.tokenizer.Decode(want, false))
		}
		if len(ends[i]) == 0 {
			t.Errorf("label %q has no token of its own", label)
		}
	}
	return prompt, ends
}

// TestLabels checks where templates put a label: where the text of an answer begins, after all that
// the template writes before it.
func TestLabels(t *testing.T) {
	for _, c := range []struct{ name, template, before string }{
		{"closed reasoning", `{% for m in messages %}<|im_start|>{{ m.role }}` + "\n" +
			`{% if m.role == 'assistant' %}<think>` + "\n\n" + `</think>` + "\n\n" + `{% endif %}` +
			`{{ m.content }}<|im_end|>` + "\n" + `{% endfor %}{% if add_generation_prompt %}` +
			`<|im_start|>assistant` + "\n" + `<think>` + "\n" + `{% endif %}`,
			"<|im_start|>user\nX?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
		{"closed only in a prompt", `{% for m in messages %}<|im_start|>{{ m.role + m.content }}` +
			`<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant<think>` +
			`</think>{% endif %}`,
			"<|im_start|>userX?<|im_end|><|im_start|>assistant<think></think>"},
		{"open only in a prompt", `{% for m in messages %}<|im_start|>{{ m.role + m.content }}` +
			`<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant<think>` +
			`{% endif %}`, "<|im_start|>userX?<|im_end|><|im_start|>assistant"},
		{"a space", `{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' ` +
			`if m.role == 'user' else ' ' + m.content + '</s>' }}{% endfor %}`,
			"[INST] X? [/INST] "},
		{"a channel", `{% for m in messages %}<|im_start|>{{ m.role }}` +
			`{{ '|final|' if m.role == 'assistant' }}{{ m.content }}<|im_end|>{% endfor %}` +
			`{% if add_generation_prompt %}<|im_start|>assistant{% endif %}`,
			"<|im_start|>userX?<|im_end|><|im_start|>assistant|final|"},
		{"no answers", `{% for m in messages %}{{ raise_exception('no') if m.role == 'assistant' ` +
			`else m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}`, "X?>"},
		{"changed answers", `{% for m in messages %}{{ m.content | lower if m.role == 'assistant' ` +
			`else m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}`, "X?>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newDemo()
			var err error
			if m.template, err = chat.ParseTemplate(c.template); err != nil {
				t.Fatal(err)
			}
			r := &generate.Request{Messages: []chat.Message{{Role: "user", Content: "X?"}}}
			_, ends := labelsOf(t, m, r, c.before, []string{"A", "B", "Z"})
			if len(ends[0]) != 1 || len(ends[1]) != 1 {
				t.Errorf("the labels have the tokens %v", ends)
			}
			labelsOf(t, m, r, c.before, []string{"Yes", "No"})
			labelsOf(t, m, r, c.before, []string{"AA", "AB", "BA"})
			long := &generate.Request{Messages: []chat.Message{
				{Role: "user", Content: strings.Repeat("é<|im_start|> ", 200) + "X?"}}}
			prompt, ends, err := long.EncodeLabels(t.Context(), m, 0, []string{"A", "B"})
			if err != nil {
				t.Fatal(err)
			}
			text := m.tokenizer.Decode(slices.Concat(prompt, ends[1]), false)
			_, end, _ := strings.Cut(c.before, "X?")
			if len(ends[0]) != 1 || !strings.HasSuffix(text, " X?"+end+"B") ||
				strings.Count(text, "é<|im_start|> ") != 200 {
				t.Errorf("after a long message: %q, %v", text, ends)
			}
		})
	}
}

// TestLabelsAfterLongWords checks labels after a word so long that its end alone has other tokens
// than in the prompt: pairs of letters are joined from its beginning on, and A joins a letter that
// is left.
func TestLabelsAfterLongWords(t *testing.T) {
	m := newDemo()
	var err error
	if m.tokenizer, err = tokenizer.Parse([]byte(`{"added_tokens":[],"pre_tokenizer":null,
		"decoder":null,"model":{"type":"BPE","vocab":{"a":0,"A":1,"B":2,"aa":3,"aA":4},
		"merges":[["a","a"],["a","A"]]}}`)); err != nil {
		t.Fatal(err)
	}
	if m.template, err = chat.ParseTemplate(
		`{% for m in messages %}{{ m.content }}{% endfor %}`); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 127, 128, 129, 200, 201} {
		word := strings.Repeat("a", n)
		r := &generate.Request{Messages: []chat.Message{{Role: "user", Content: word}}}
		prompt, ends := labelsOf(t, m, r, word, []string{"A", "B"})
		if len(prompt) != n/2 || len(ends[0]) != 1 || len(ends[1]) != 1+n%2 {
			t.Errorf("%d letters: %d tokens before the labels %v", n, len(prompt), ends)
		}
	}
}

func TestLabelsRefused(t *testing.T) {
	m := newDemo()
	m.tokenizer = sameLetters(t)
	r := &generate.Request{Messages: []chat.Message{{Role: "user", Content: "a"}}}
	var err error
	if m.template, err = chat.ParseTemplate(
		`{% for m in messages %}{{ m.content }} {% endfor %}`); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.EncodeLabels(t.Context(), m, 0, []string{"A", "B"})
	if p := problem.From(err); p.Code != problem.BadRequest ||
		!strings.Contains(err.Error(), "same tokens") {
		t.Errorf("letters without tokens of their own: %v", err)
	}
	m = newDemo()
	if _, _, err = r.EncodeLabels(t.Context(), m, 4, []string{"A", "B"}); problem.From(
		err).Code != problem.ContextExceeded {
		t.Errorf("a conversation that does not fit: %v", err)
	}
	m.template = nil
	_, _, err = r.EncodeLabels(t.Context(), m, 0, []string{"A", "B"})
	if problem.From(err).Code != problem.NoTemplate {
		t.Errorf("no template: %v", err)
	}
	var bad *generate.ParamError
	m = newDemo()
	m.tokenizer = withTokens(t, []string{"<|end|>"})
	r.Messages[0].Role = "end"
	if _, _, err = r.EncodeLabels(t.Context(), m, 0, []string{"A", "B"}); !errors.As(err, &bad) {
		t.Errorf("a role of a control token: %v", err)
	}
}

// sameLetters returns a tokenizer that has one token for all unknown words.
func sameLetters(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse([]byte(`{"added_tokens":[],
		"pre_tokenizer":{"type":"Whitespace"},"decoder":null,
		"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
