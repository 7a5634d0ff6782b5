package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// spaced has the pipeline of Llama 2: encoding puts a space before the text, and decoding drops it.
const spaced = `{"added_tokens":[{"id":6,"content":"<s>","special":true}],
	"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
		{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
	"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},
		{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[6]}}},
	"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},
		"content":" "},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
	"model":{"type":"BPE","vocab":{"▁":0,"H":1,"i":2,"▁Hi":3,"Hi":4,"!":5},
		"merges":["H i","▁ Hi"]}}`

// TestTextOffsets checks that each token's offset is where its text begins in the text that the
// client gets, whole and streamed.
func TestTextOffsets(t *testing.T) {
	llama, err := tokenizer.Parse([]byte(spaced))
	if err != nil {
		t.Fatal(err)
	}
	demo := newFakeEngine(nil).tokenizer
	end, _ := demo.TokenID("<|im_end|>")
	for _, tt := range []struct {
		name      string
		tokenizer *tokenizer.Tokenizer
		prompt    string // as JSON
		echo      bool
		answer    []int32
		text      string
		want      []int
	}{
		{"a space before the prompt", llama, `"Hi Hi"`, true, []int32{3, 5}, "Hi Hi Hi!",
			[]int{0, 0, 2, 5, 8}},
		{"the same without echo", llama, `"Hi Hi"`, false, []int32{3, 5}, " Hi!", []int{0, 3}},
		{"a prompt without text", llama, `""`, true, []int32{3, 3}, "Hi Hi", []int{0, 0, 2}},
		{"a special token in a text", llama, `"<s>Hi<s>"`, true, []int32{5}, "<s>Hi<s>!",
			[]int{0, 0, 3, 5, 8}},
		{"special tokens in a list", llama, `[6,3,6,3]`, true, []int32{6, 3}, "Hi Hi Hi",
			[]int{0, 0, 2, 2, 5, 5}},
		{"a composed character", demo, `"e\u0301!"`, true, []int32{'!'}, "e\u0301!B",
			[]int{0, 0, 2, 3}},
		{"incomplete characters", demo, `"!"`, true, []int32{0xf0, end, '!'}, "!\ufffdB",
			[]int{0, 1, 2, 2}},
	} {
		for _, stream := range []bool{false, true} {
			e := newFakeEngine(nil)
			e.tokenizer = tt.tokenizer
			s := start(t, e, server.Options{})
			var prompt []int32
			e.script = func(s *fakeStream) {
				q := <-e.requests
				prompt = q.Prompt
				if len(prompt) > 1 && q.ScorePrompt {
					scores := make([]engine.Score, len(prompt)-1)
					for i := range scores {
						scores[i].Token = prompt[i+1]
					}
					s.put(engine.Event{Type: engine.Scored, Position: 1, Scores: scores})
				}
				text := tt.tokenizer.NewContinuation(prompt)
				for _, id := range tt.answer {
					s.token(id, text.Add(id))
				}
				s.put(engine.Event{Type: engine.Done, Text: text.Close(),
					Finish: engine.FinishStop, Usage: s.usage})
			}
			_, _, got := post(t, s.URL+"/v1/completions", fmt.Sprintf(
				`{"prompt":%s,"echo":%t,"logprobs":1,"stream":%t}`, tt.prompt, tt.echo, stream))
			var reply echoed
			if stream {
				reply = joinCompletion(t, got)
			} else if err := json.Unmarshal([]byte(got), &reply); err != nil {
				t.Fatalf("%s: %v: %s", tt.name, err, got)
			}
			choice := reply.Choices[0]
			if choice.Text != tt.text || !slices.Equal(choice.Logprobs.TextOffset, tt.want) {
				t.Errorf("%s, stream %t: %q, tokens %q at %v, want %q, %v", tt.name, stream,
					choice.Text, strings.Join(choice.Logprobs.Tokens, "|"),
					choice.Logprobs.TextOffset, tt.text, tt.want)
			}
		}
	}
}
