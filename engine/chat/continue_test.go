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

// TestAfter: what follows a place of a conversation is the end of its whole prompt.
func TestAfter(t *testing.T) {
	template, err := ParseTemplate(`{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}` +
		`<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`)
	if err != nil {
		t.Fatal(err)
	}
	const list = `[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
		{"role":"user","content":[{"type":"text","text":" c "}]}]`
	for place, want := range map[Place]string{
		Beginning:    "<|user|>a<|end|><|assistant|>b<|end|><|user|>c<|end|><|assistant|>",
		BeforeFinal:  " c<|end|><|assistant|>",
		AfterEarlier: "<|end|><|user|>c<|end|><|assistant|>"} {
		got, err := template.Render(t.Context(), Input{AddGenerationPrompt: true, After: place,
			Messages: messages(t, list)})
		if err != nil || got != want {
			t.Errorf("place %d: %q, %v, expected %q", place, got, err, want)
		}
	}
	changing, err := ParseTemplate(`{% for m in messages %}{{ m.content | length }}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := changing.Render(t.Context(), Input{After: BeforeFinal,
		Messages: messages(t, list)}); err == nil {
		t.Errorf("a template without the content: %q", got)
	}
}
