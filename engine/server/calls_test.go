package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// TestCallsOfClients checks what a client sees of a call that it wanted or did not want, and of one
// that the token limit cut off, in a stream and in a whole answer.
func TestCallsOfClients(t *testing.T) {
	const (
		call  = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
		tools = `,"tools":[{"type":"function","function":{"name":"now"}}]`
		none  = tools + `,"tool_choice":"none"`
	)
	for _, c := range []struct {
		name, body, text string
		finish           engine.FinishReason
		want             string // the content, the names of the calls, the finish reason
	}{
		{"a call", tools, "a\n" + call, engine.FinishStop, "a|now|tool_calls"},
		{"no tools", "", "a\n" + call + "\n", engine.FinishStop, "a\n" + call + "\n||stop"},
		{"only a call without tools", "", call, engine.FinishStop, call + "||stop"},
		{"half a call without tools", "", "a\n" + call[:30], engine.FinishLength,
			"a\n" + call[:30] + "||length"},
		{"a tag without tools", "", "Write `<tool_call>`.", engine.FinishStop,
			"Write `<tool_call>`.||stop"},
		{"tool_choice none", none, "a\n" + call, engine.FinishStop, "a||stop"},
		{"tool_choice none, cut off", none, "a\n" + call + call[:30], engine.FinishLength,
			"a||length"},
		{"a whole call at the last token", tools, call, engine.FinishLength, "|now|tool_calls"},
		{"two whole calls", tools, call + "\n" + call + "\n", engine.FinishLength,
			"|now now|tool_calls"},
		{"half a call at the last token", tools, "a\n" + call[:len(call)-5], engine.FinishLength,
			"a||length"},
		{"a whole call and a half", tools, call + "\n" + call[:20], engine.FinishLength,
			"|now|length"},
		{"half a tag", tools, "a <tool_cal", engine.FinishLength, "a ||length"},
		{"text after a call", tools, call + "\nb", engine.FinishLength, "b|now|length"},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			t.Run(c.name+stream, func(t *testing.T) {
				e := newFakeEngine(func(s *fakeStream) {
					s.say(c.text)
					s.done(c.finish, nil)
				})
				s := start(t, e, server.Options{})
				_, _, text := post(t, s.URL+"/v1/chat/completions",
					`{"messages":[{"role":"user","content":"hi"}],`+
						`"chat_template_kwargs":{"enable_thinking":false}`+c.body+stream+"}")
				if got := callsIn(t, text); got != c.want {
					t.Errorf("got %q, want %q in %s", got, c.want, text)
				}
			})
		}
	}
}

// callsIn returns the content, the names of the calls and the finish reason of an answer, which may
// be a stream.
func callsIn(t *testing.T, text string) string {
	t.Helper()
	var content, finish string
	var names []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var chunk openai.Chat
		if err := json.Unmarshal([]byte(line), &chunk); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, choice := range chunk.Choices {
			part := choice.Delta
			if m := choice.Message; m != nil {
				part = &openai.ChatDelta{Content: m.Content, ToolCalls: m.ToolCalls}
			}
			if part.Content != nil {
				content += *part.Content
			}
			for _, call := range part.ToolCalls {
				names = append(names, call.Function.Name)
			}
			if choice.FinishReason != nil {
				finish = *choice.FinishReason
			}
		}
	}
	return content + "|" + strings.Join(names, " ") + "|" + finish
}
