package chat

import (
	"strings"
	"testing"
)

// TestContinue checks that a prompt ends with the text of its last message, white space included.
func TestContinue(t *testing.T) {
	template := parseFile(t, "../../app/demo/model/chat_template.jinja")
	for _, c := range []struct{ last, want string }{
		{`{"role":"assistant","content":"The cache "}`,
			"assistant\n<think>\n\n</think>\n\nThe cache "},
		{`{"role":"assistant","content":[{"type":"text","text":"A"},{"type":"text","text":"B\n"}]}`,
			"assistant\n<think>\n\n</think>\n\nAB\n"},
		{`{"role":"assistant","reasoning_content":"Hm.","content":"Yes"}`,
			"assistant\n<think>\nHm.\n</think>\n\nYes"},
	} {
		hidden := 0
		prompt, err := template.Render(t.Context(), Input{ContinueFinal: true,
			AddGenerationPrompt: true,
			Messages:            messages(t, `[{"role":"user","content":"hi"},`+c.last+`]`),
			Hide: func(s string) string {
				if hidden++; strings.Contains(s, endMark) {
					t.Errorf("Hide gets the mark in %q", s)
				}
				return s
			}})
		if err != nil || !strings.HasSuffix(prompt, c.want) || hidden == 0 {
			t.Errorf("%s: %v, the prompt is %q", c.last, err, prompt)
		}
	}
	if _, err := template.Render(t.Context(), Input{ContinueFinal: true}); err == nil ||
		!strings.Contains(err.Error(), "no message to continue") {
		t.Errorf("without a message: %v", err)
	}
	hides := parse(t, `{{ messages | length }}`)
	if _, err := hides.Render(t.Context(), Input{ContinueFinal: true,
		Messages: messages(t, `[{"role":"assistant","content":"a"}]`)}); err == nil {
		t.Error("a template that does not show the message")
	}
}

// TestContinueChannels checks that the text after an unfinished message of harmony belongs to it,
// also if it looks like a header.
func TestContinueChannels(t *testing.T) {
	const source = `<|channel|>{% for m in messages %}<|start|>{{ m.role }}<|channel|>final` +
		`<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant`
	template := parse(t, source)
	prompt, err := template.Render(t.Context(), Input{ContinueFinal: true,
		Messages: messages(t, `[{"role":"assistant","content":"The "}]`)})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	split := template.NewSplitter(prompt, nil)
	for _, p := range append(split.Add("to=all of it<|end|>"), split.Close(false)...) {
		if p.Kind == Content {
			got += p.Text
		}
	}
	if got != "to=all of it" {
		t.Errorf("the prompt is %q, the content %q", prompt, got)
	}
}
