package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/tokenizer"
)

type echoed struct {
	Choices []struct {
		Text     string
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Tokens     []string
			Logprobs   []*float32           `json:"token_logprobs"`
			Top        []map[string]float32 `json:"top_logprobs"`
			TextOffset []int                `json:"text_offset"`
		}
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func (e echoed) logprobs(from int) string {
	l := e.Choices[0].Logprobs
	text, _ := json.Marshal([]any{l.Tokens[from:], l.Logprobs[from:], l.Top[from:],
		l.TextOffset[from:]})
	return string(text)
}

// TestEcho checks that an answer begins with the prompt and the log-probability of each of its
// tokens. The prompt is a text or a list of tokens, the answer whole or streamed. Tokens that were
// generated have the same log-probabilities when they are a part of the prompt.
func TestEcho(t *testing.T) {
	url, e, stop := serveDemo(t, engine.Options{ContextTokens: 256, MaxSequences: 1})
	defer stop()
	const text = "The café is <|im_end|> open:"
	ids := e.Tokenizer().Encode(text, tokenizer.EncodeOptions{AddSpecial: true})
	list, _ := json.Marshal(ids)
	ask := func(body string) (reply echoed) {
		t.Helper()
		status, _, got := post(t, url+"/v1/completions",
			fmt.Sprintf(`{"temperature":0,"logprobs":2,%s}`, body))
		if err := json.Unmarshal([]byte(got), &reply); err != nil || status != 200 ||
			len(reply.Choices) != 1 {
			t.Fatalf("%s: status %d, %v: %s", body, status, err, got)
		}
		return reply
	}
	plain := ask(fmt.Sprintf(`"prompt":%q,"max_tokens":5`, text))
	whole := ask(fmt.Sprintf(`"prompt":%q,"max_tokens":5,"echo":true`, text))
	tokens := ask(fmt.Sprintf(`"prompt":[%s],"max_tokens":5,"echo":true`, list))
	alone := ask(fmt.Sprintf(`"prompt":%s,"max_tokens":0,"echo":true`, list))

	withoutEnd := strings.Replace(text, "<|im_end|>", "", 1)
	for _, c := range []struct {
		name   string
		reply  echoed
		text   string
		answer int
	}{
		{"a text", whole, text + plain.Choices[0].Text, 5},
		{"tokens", tokens, withoutEnd + plain.Choices[0].Text, 5},
		{"no answer", alone, withoutEnd, 0},
	} {
		choice, n := c.reply.Choices[0], len(ids)+c.answer
		l := choice.Logprobs
		if choice.Text != c.text || len(l.Tokens) != n || len(l.Logprobs) != n ||
			len(l.Top) != n || len(l.TextOffset) != n || c.reply.Usage.Completion != c.answer ||
			*choice.Finish != "length" {
			t.Errorf("%s: %q, %d tokens, %+v", c.name, choice.Text, len(l.Tokens), c.reply.Usage)
		}
		if l.Logprobs[0] != nil || l.Top[0] != nil {
			t.Errorf("%s: the first token has a log-probability", c.name)
		}
		for i := 1; i < n; i++ {
			if l.Logprobs[i] == nil || *l.Logprobs[i] > 0 || len(l.Top[i]) != 2 {
				t.Errorf("%s: token %d has the log-probability %v and %d candidates", c.name, i,
					l.Logprobs[i], len(l.Top[i]))
			}
		}
	}
	answered := tokens.Choices[0].Logprobs
	if got := strings.Join(answered.Tokens[len(ids):], ""); got != plain.Choices[0].Text {
		t.Errorf("the answer's tokens are %q, its text %q", got, plain.Choices[0].Text)
	}
	if at := answered.TextOffset[len(ids)]; at != len([]rune(withoutEnd)) {
		t.Errorf("the answer begins at character %d, expected %d", at, len([]rune(withoutEnd)))
	}

	// The answer of the first request, as the end of a prompt.
	again := ask(fmt.Sprintf(`"prompt":%q,"max_tokens":0,"echo":true`,
		text+plain.Choices[0].Text))
	if got, want := again.logprobs(len(ids)), whole.logprobs(len(ids)); got != want {
		t.Errorf("scored as a prompt: %s\ngenerated: %s", got, want)
	}

	_, _, events := post(t, url+"/v1/completions", fmt.Sprintf(
		`{"temperature":0,"logprobs":2,"stream":true,"prompt":[%s],"max_tokens":5,"echo":true}`,
		list))
	streamed := joinCompletion(t, events)
	if streamed.Choices[0].Text != tokens.Choices[0].Text ||
		streamed.logprobs(0) != tokens.logprobs(0) {
		t.Errorf("streamed: %+v, whole: %+v", streamed, tokens)
	}

	status, _, refused := post(t, url+"/v1/completions", `{"prompt":[1,99999],"max_tokens":0}`)
	if status != 400 || !strings.Contains(refused, "token 99999 at position 1") {
		t.Errorf("an unknown token: status %d, %s", status, refused)
	}
}

// joinCompletion joins the chunks of a streamed completion.
func joinCompletion(t *testing.T, events string) (all echoed) {
	t.Helper()
	for _, line := range strings.Split(events, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk echoed
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if all.Choices == nil {
			all = chunk
			continue
		}
		to, c := &all.Choices[0], chunk.Choices[0]
		to.Text += c.Text
		if c.Logprobs != nil {
			to.Logprobs.Tokens = append(to.Logprobs.Tokens, c.Logprobs.Tokens...)
			to.Logprobs.Logprobs = append(to.Logprobs.Logprobs, c.Logprobs.Logprobs...)
			to.Logprobs.Top = append(to.Logprobs.Top, c.Logprobs.Top...)
			to.Logprobs.TextOffset = append(to.Logprobs.TextOffset, c.Logprobs.TextOffset...)
		}
	}
	return all
}
