package main

// The requests of a run. Answers are deterministic, so each conversation is a fixed list of
// requests, whose answers a server without caches gives once, before the run. A digest of text,
// tokens and log-probabilities stands for an answer.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// talk is a conversation: its requests in order, each with the digest of its answer.
type talk struct {
	name  string
	turns []turn
}

// turn is one request. body is the JSON of a chat completion without "stream".
type turn struct {
	body   map[string]any
	digest string
}

// message is a chat message of a request.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// kinds of conversations: agents have a long common system prompt and long tool results, chats are
// short, and samplers use seeded random sampling.
var kinds = []struct {
	name                 string
	talks, turns, tokens int
	system, words        int // words of the system prompt and of a user's message
	temperature          float64
}{
	{name: "agent", talks: 4, turns: 10, tokens: 24, system: 500, words: 60},
	{name: "chat", talks: 16, turns: 3, tokens: 32, words: 12},
	{name: "sampler", talks: 6, turns: 2, tokens: 24, words: 20, temperature: 0.8},
}

// newTalks asks the server alone for the answers of all conversations.
func newTalks(ctx context.Context, alone *server, seed uint64) ([]talk, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	var talks []talk
	for _, kind := range kinds {
		system := prose(r, kind.system)
		for i := range kind.talks {
			t := talk{name: fmt.Sprintf("%s %d", kind.name, i)}
			var messages []message
			if system != "" {
				messages = append(messages, message{"system", system})
			}
			for range kind.turns {
				messages = append(messages, message{"user", prose(r, kind.words)})
				body := map[string]any{"messages": messages[:len(messages):len(messages)],
					"max_tokens": kind.tokens, "temperature": kind.temperature, "seed": i + 1,
					"logprobs": true, "top_logprobs": 3}
				answer, err := alone.ask(ctx, body)
				if err != nil {
					return nil, fmt.Errorf("the answer of %s alone: %w", t.name, err)
				}
				t.turns = append(t.turns, turn{body, answer.digest})
				messages = append(messages, message{"assistant", answer.text})
			}
			talks = append(talks, t)
		}
	}
	return talks, nil
}

// prose returns n random words.
func prose(r *rand.Rand, n int) string {
	const words = "the cache keeps keys and values of a prompt while memory lasts so that an " +
		"answer begins at once even after a restart of the server on the same disk with less heat"
	list := strings.Fields(words)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(list[r.IntN(len(list))])
	}
	return b.String()
}

// answer is an answer with its digest.
type answer struct {
	text   string
	digest string
}

// readAnswer reads the body of a chat completion. A body without a choice is an error.
func readAnswer(body []byte) (answer, error) {
	var d struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
			FinishReason string          `json:"finish_reason"`
			Logprobs     json.RawMessage `json:"logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return answer{}, err
	}
	if len(d.Choices) != 1 || d.Choices[0].FinishReason == "" {
		return answer{}, fmt.Errorf("not a whole answer: %.200s", bytes.TrimSpace(body))
	}
	c := d.Choices[0]
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s\x00%s", c.Message.Content, c.FinishReason, c.Logprobs)
	return answer{c.Message.Content, hex.EncodeToString(sum.Sum(nil)[:8])}, nil
}
