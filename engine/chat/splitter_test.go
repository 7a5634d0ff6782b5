package chat

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTagsAroundAnswers checks tags that some models write around an answer after reasoning. They
// do not keep an answer from having a form.
func TestTagsAroundAnswers(t *testing.T) {
	for _, c := range []struct{ source, text, want string }{
		{"'<answer>' in content", "<think>\nwhy\n</think>\n<answer>\nYes.\n</answer>",
			"why | Yes. | "},
		{"'<answer>' in content", "<answer>Yes", " | Yes | "},
		{"'<answer>' in content", "<think>\n\n</think>\nYes, <b>.", " | Yes, <b>. | "},
		{"between <response></response> for",
			"<think>why</think>\n<response>Yes.\n\nSo.</response>", "why | Yes.\n\nSo. | "},
		{"<global_setting>\nthink_mode", "why\n</think>\n\n\n<response>\nYes.\n</response>\n",
			"why | Yes. | "},
		{"'\n<response>' + tool", "<response>Yes.</response>", " | <response>Yes.</response> | "},
	} {
		template := parse(t, "{% raw %}"+c.source+"{% endraw %}")
		inReasoning := strings.HasPrefix(c.text, "why")
		for _, parts := range [][]string{{c.text}, strings.Split(c.text, "")} {
			if got := summary(pieces(splitterOf(template, inReasoning), parts)); got != c.want {
				t.Errorf("%s: %q in %d parts: got %q, want %q", c.source, c.text, len(parts), got,
					c.want)
			}
		}
		if _, err := template.Opening("", false, false); err != nil {
			t.Errorf("%s: %v", c.source, err)
		}
	}
}

// newSplitter returns a Splitter of a template without tools whose reasoning is in think tags.
func newSplitter(startInReasoning bool) *Splitter {
	template, prompt := &Template{reasoning: reasoningOf("")}, ""
	if startInReasoning {
		prompt = "<think>\n"
	}
	return template.NewSplitter(prompt, nil)
}

// split runs a Splitter over pieces and joins the text of each kind.
func split(startInReasoning bool, pieces []string) (reasoning, content string) {
	s := newSplitter(startInReasoning)
	var all []Piece
	for _, p := range pieces {
		all = append(all, s.Add(p)...)
	}
	for _, p := range append(all, s.Close(false)...) {
		if p.Kind == Reasoning {
			reasoning += p.Text
		} else {
			content += p.Text
		}
	}
	return reasoning, content
}

var splitterTests = []struct {
	name, text         string
	startInReasoning   bool
	reasoning, content string
}{
	{"no block", "Hello\n\nyou", false, "", "Hello\n\nyou"},
	{"a block", "<think>\nwhy\n</think>\n\nbecause", false, "why", "because"},
	{"a block from the prompt", "why\n\nso\n</think>\n\nbecause\n", true, "why\n\nso", "because\n"},
	{"the prompt ends right after the tag", "\nwhy</think>because", true, "why", "because"},
	{"the opening tag repeated", "<think>\nwhy\n</think>\n\nx", true, "why", "x"},
	{"an empty block", "<think>\n\n</think>\n\nx", false, "", "x"},
	{"white space before the block", " \n<think>a</think>b", false, "a", "b"},
	{"white space without a block", " \n b", false, "", " \n b"},
	{"only white space", "\n ", false, "", "\n "},
	{"unclosed", "<think>\nhalf a thou", false, "half a thou", ""},
	{"unclosed, cut in the tag", "half</thi", true, "half</thi", ""},
	{"half an opening tag", "<thin", false, "", "<thin"},
	{"text like a tag", "<thinker></thinker>", false, "", "<thinker></thinker>"},
	{"two blocks", "<think>a</think>\nb\n<think>c</think>\nd", false, "ac", "b\nd"},
	{"a stray closing tag", "a</think>\nb", false, "", "a\nb"},
	{"a stray closing tag first", "\n</think>\n\nb", false, "", "b"},
	{"an opening tag inside", "a\n<think>\nb</think>c", true, "a\nb", "c"},
	{"a tool call without tools",
		"<think>\nt\n</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>", false,
		"t", "<tool_call>\n<function=f>\n</function>\n</tool_call>"},
	{"angle brackets", "a < b </ c <t <<think>x</think>>", false, "x", "a < b </ c <t <>"},
	{"line breaks inside reasoning", "a\n\n\nb\r\n\r\n</think>\r\nc", true, "a\n\n\nb", "c"},
	{"nothing", "", true, "", ""},
}

func TestSplitter(t *testing.T) {
	for _, tt := range splitterTests {
		reasoning, content := split(tt.startInReasoning, []string{tt.text})
		if reasoning != tt.reasoning || content != tt.content {
			t.Errorf("%s: got reasoning %q, content %q; want %q, %q", tt.name, reasoning, content,
				tt.reasoning, tt.content)
		}
	}
}

// TestSplitterPieces checks that the result does not depend on the pieces.
func TestSplitterPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tt := range splitterTests {
		for range 200 {
			pieces := cut(rng, tt.text)
			reasoning, content := split(tt.startInReasoning, pieces)
			if reasoning != tt.reasoning || content != tt.content {
				t.Fatalf("%s: cut as %q: got reasoning %q, content %q; want %q, %q",
					tt.name, pieces, reasoning, content, tt.reasoning, tt.content)
			}
		}
	}
}

// cut splits a text into pieces at random places, between any two bytes.
func cut(rng *rand.Rand, text string) (pieces []string) {
	for text != "" {
		n := 1 + rng.IntN(min(len(text), 1+rng.IntN(12)))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// TestSplitterStreams checks that text that cannot be part of a tag is returned immediately.
func TestSplitterStreams(t *testing.T) {
	s := newSplitter(true)
	for _, step := range []struct {
		add, want string
		kind      Kind
	}{
		{"why", "why", Reasoning}, {" not\n", " not", Reasoning}, {"or", "\nor", Reasoning},
		{"\n</th", "", Reasoning},
		{"ink>", "", Reasoning}, {"\n\nyes", "yes", Content}, {"\n", "\n", Content},
		{"a <", "a ", Content}, {"b", "<b", Content},
	} {
		got := ""
		for _, p := range s.Add(step.add) {
			if got += p.Text; p.Kind != step.kind {
				t.Errorf("after %q: kind %v, want %v", step.add, p.Kind, step.kind)
			}
		}
		if got != step.want {
			t.Errorf("after %q: got %q, want %q", step.add, got, step.want)
		}
	}
}

func TestOpensReasoning(t *testing.T) {
	for prompt, want := range map[string]bool{
		"":                                   false,
		"assistant\n":                        false,
		"assistant\n<think>\n":               true,
		"assistant\n<think>":                 true,
		"assistant\n<think> \r\n\t":          true,
		"assistant\n<think>\nSo":             false,
		"assistant\n<think>\n\n</think>\n\n": false,
		"<think>a</think>b<think>\n":         true,
		"</think>":                           false,
		"user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n":         false,
		"user\nwhat is </think>?<|im_end|>\n<|im_start|>assistant\n<think>": true,
	} {
		if got := reasoningOf("").opens(prompt); got != want {
			t.Errorf("%q: got %v", prompt, got)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	for _, tt := range splitterTests {
		f.Add(tt.text, tt.startInReasoning, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, startInReasoning bool, seed uint64) {
		r1, c1 := split(startInReasoning, []string{text})
		r2, c2 := split(startInReasoning, cut(rand.New(rand.NewPCG(seed, 0)), text))
		if r1 != r2 || c1 != c2 {
			t.Fatalf("cutting changed the result: %q, %q and %q, %q", r1, c1, r2, c2)
		}
		if n := strings.Count(text, "<"); n == 0 && !startInReasoning && c1 != text {
			t.Fatalf("text without tags changed: %q", c1)
		}
	})
}
