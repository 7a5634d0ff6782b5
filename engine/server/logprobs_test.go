package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/server"
)

// TestEveryTokenHasALogprob checks that an answer has the log-probabilities of as many tokens as
// its usage counts, and in their order, no matter whether their text is shown.
func TestEveryTokenHasALogprob(t *testing.T) {
	const (
		chatPath = "/v1/chat/completions"
		textPath = "/v1/completions"
		prompt   = `"prompt":"x","logprobs":2`
		messages = `"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2`
		noThink  = `,"chat_template_kwargs":{"enable_thinking":false}`
		tools    = `,"tools":[{"type":"function","function":{"name":"now"}}]`
		call     = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
		end      = 2086 // <|im_end|>, a special token
	)
	cases := []struct {
		name, path, body string
		script           func(s *fakeStream) (last string) // returns the text of the Done event
	}{
		{"special tokens at the end", chatPath, messages + noThink, func(s *fakeStream) string {
			s.say("Yes")
			s.token(end, "")
			s.token(end, "")
			return ""
		}},
		{"special tokens alone", chatPath, messages + noThink, func(s *fakeStream) string {
			s.token(end, "")
			return ""
		}},
		{"an incomplete character at the end", chatPath, messages + noThink,
			func(s *fakeStream) string {
				s.say("a")
				s.token(0xF0, "")
				s.token(0x9F, "")
				return "\uFFFD"
			}},
		{"a stop text", chatPath, messages + noThink, func(s *fakeStream) string {
			s.say("a")
			s.token(40, "")
			s.token(41, "") // completes the stop text
			return ""
		}},
		{"reasoning", chatPath, messages, func(s *fakeStream) string {
			s.say("It asks.\n</think>\n\nYes\n\n")
			s.token(end, "")
			return ""
		}},
		{"only reasoning", chatPath, messages, func(s *fakeStream) string {
			s.say("It asks.\n</think>\n\n")
			return ""
		}},
		{"tool calls", chatPath, messages + noThink + tools, func(s *fakeStream) string {
			s.say("Yes:\n\n" + call + "\n" + call + "\n")
			s.token(end, "")
			return ""
		}},
		{"an incomplete tool call", chatPath, messages + noThink + tools,
			func(s *fakeStream) string {
				s.say(call + "\n<tool_call>\n<func")
				return ""
			}},
		{"a completion", textPath, prompt, func(s *fakeStream) string {
			s.say("é is")
			s.token(end, "")
			s.say(" so")
			s.token(0xF0, "")
			s.token(end, "")
			return "\uFFFD"
		}},
		{"a completion without text", textPath, prompt, func(s *fakeStream) string {
			s.token(end, "")
			return ""
		}},
	}
	for _, c := range cases {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", c.name, stream), func(t *testing.T) {
				var tokens []int32
				e := newFakeEngine(nil)
				e.script = func(s *fakeStream) {
					put := s.put
					s.put = func(e engine.Event) {
						if e.Type == engine.Token {
							tokens = append(tokens, e.Token)
						}
						put(e)
					}
					last := c.script(s)
					s.put(engine.Event{Type: engine.Done, Text: last, Finish: engine.FinishStop,
						Usage: s.usage})
				}
				body := "{" + c.body
				if stream {
					body += `,"stream":true,"stream_options":{"include_usage":true}`
				}
				s := start(t, e, server.Options{})
				_, _, text := post(t, s.URL+c.path, body+"}")
				got, counted := logprobTexts(t, text)
				var want []string
				for _, id := range tokens {
					want = append(want, fmt.Sprint(e.tokenizer.TokenBytes(id)))
				}
				if fmt.Sprint(got) != fmt.Sprint(want) || counted != len(want) {
					t.Errorf("log-probabilities of %d tokens, usage %d, generated %d\ngot  %s\n"+
						"want %s\n%s", len(got), counted, len(want), got, want, text)
				}
			})
		}
	}
}

// logprobTexts returns the bytes of each token with a log-probability, and the number of tokens in
// the usage, of a whole answer or a stream. The lists of completions must have the same length.
func logprobTexts(t *testing.T, answer string) (texts []string, counted int) {
	t.Helper()
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var part struct {
			Choices []struct {
				Logprobs *struct {
					Content []struct {
						Bytes []int
						Top   []json.RawMessage `json:"top_logprobs"`
					}
					Tokens   []string
					Logprobs []float32         `json:"token_logprobs"`
					Top      []json.RawMessage `json:"top_logprobs"`
					Offsets  []int             `json:"text_offset"`
				}
			}
			Usage *struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(line), &part); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if part.Usage != nil {
			counted = part.Usage.Completion
		}
		for _, choice := range part.Choices {
			l := choice.Logprobs
			if l == nil {
				continue
			}
			for _, entry := range l.Content {
				texts = append(texts, fmt.Sprint(entry.Bytes))
				if len(entry.Top) == 0 {
					t.Errorf("a token has no candidates: %s", line)
				}
			}
			if n := len(l.Tokens); n != len(l.Logprobs) || n != len(l.Top) ||
				n != len(l.Offsets) {
				t.Errorf("lists of different lengths: %s", line)
			}
			for _, token := range l.Tokens {
				if after, ok := strings.CutPrefix(token, "bytes:"); ok {
					unquoted, err := strconv.Unquote(`"` + after + `"`)
					if err != nil {
						t.Error(err)
					}
					token = unquoted
				}
				texts = append(texts, fmt.Sprint([]byte(token)))
			}
		}
	}
	return texts, counted
}
