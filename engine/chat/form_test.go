package chat

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// formSplitter returns the Splitter of an answer whose content has a form: Qwen's tags, with a call
// in place of content if calls is set.
func formSplitter(inReasoning, open, calls bool) *Splitter {
	template, prompt, o := &Template{reasoning: reasoningOf(""), tools: &qwen3Coder}, "", Opening{}
	if inReasoning {
		prompt = "<think>\n"
	}
	if open {
		o.Open = template.reasoning.open
	}
	var tools []json.RawMessage
	if calls {
		o.Calls = qwen3Coder.open
		tools = append(tools,
			json.RawMessage(`{"type":"function","function":{"name":"f"}}`))
	}
	s := template.NewSplitter(prompt, tools)
	s.HasForm(o)
	return s
}

// TestForm: once content that has a form has begun, nothing in it is a tag, and no white space is
// lost. Line breaks after reasoning are not content, as always.
func TestForm(t *testing.T) {
	const call = "<tool_call>\n<function=f>\n</function>\n</tool_call>"
	rng := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct {
		name, text               string
		inReasoning, open, calls bool
		reasoning, content       string
		called                   bool
	}{
		{name: "a closing tag", text: `"</think>"`, content: `"</think>"`},
		{name: "a block", text: "a<think>x</think>y", open: true, content: "a<think>x</think>y"},
		{name: "content begins with a tag", text: "<think>x</think>y",
			content: "<think>x</think>y"},
		{name: "reasoning before it", text: "<think>\nw\n</think>\n</think>", open: true,
			reasoning: "w", content: "</think>"},
		{name: "reasoning twice", text: "<think>a</think><think>b</think>", open: true,
			reasoning: "a", content: "<think>b</think>"},
		{name: "in reasoning", text: "w\n</think>\na\n", inReasoning: true, reasoning: "w",
			content: "a\n"},
		{name: "line breaks before JSON", text: "w\n</think>\n\n{}", inReasoning: true,
			reasoning: "w", content: "{}"},
		{name: "a call in a text", text: " a" + call, calls: true, content: " a" + call},
		{name: "a call's tag, no tools", text: call, content: call},
		{name: "a call in its place", text: "\n" + call, calls: true, called: true},
		{name: "reasoning, then a call", text: "w</think>\n\n" + call, inReasoning: true,
			calls: true, reasoning: "w", called: true},
		{name: "white space alone", text: "\n ", open: true, calls: true, content: "\n "},
		{name: "half a tag", text: "<thin", open: true, content: "<thin"},
		{name: "nothing", open: true, calls: true},
	} {
		for range 50 {
			s := formSplitter(tt.inReasoning, tt.open, tt.calls)
			var all []Piece
			pieces := cut(rng, tt.text)
			for _, p := range pieces {
				all = append(all, s.Add(p)...)
			}
			var text [Broken + 1]string
			called := false
			for _, p := range append(all, s.Close(tt.text == "<thin")...) {
				text[p.Kind] += p.Text
				called = called || p.Kind == Call
			}
			if text[Reasoning] != tt.reasoning || text[Content] != tt.content ||
				called != tt.called || text[Broken] != "" {
				t.Fatalf("%s, cut as %q: %q, called %t; want reasoning %q, content %q, called %t",
					tt.name, pieces, text, called, tt.reasoning, tt.content, tt.called)
			}
		}
	}
}
