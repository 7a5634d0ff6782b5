package parity

import (
	"context"
	"fmt"
	"strconv"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// DefaultTokens is the maximum length of an answer, unless somebody asks for another.
const DefaultTokens = 48

// ContextTokens is a context length that is enough for Prompts and their answers.
const ContextTokens = 4096

// Encode returns the tokens of texts, each as the first message of a conversation. A model without
// a chat template continues them. contextTokens is the longest context; 0: not known. Errors are
// Problems.
func Encode(ctx context.Context, src engine.Source, texts []string,
	contextTokens int) (prompts [][]int32, err error) {
	text, err := engine.ReadTextProcessor(src)
	if err != nil {
		return nil, err
	}
	for i, p := range texts {
		q := &generate.Request{Prompt: p}
		if text.Template() != nil {
			q.Messages = []chat.Message{{Role: "user", Content: p}}
		}
		tokens, _, err := q.Encode(ctx, text, contextTokens)
		switch overflow := problem.From(err).Overflow; {
		case err != nil && overflow != nil:
			return nil, tooLong(i, fmt.Sprintf("at least %d", overflow.Tokens), contextTokens)
		case err != nil:
			return nil, err
		case contextTokens > 0 && len(tokens) >= contextTokens:
			return nil, tooLong(i, strconv.Itoa(len(tokens)), contextTokens)
		}
		prompts = append(prompts, tokens)
	}
	return prompts, nil
}

// tooLong returns the Problem of a prompt, counted from 0, that leaves no room for an answer.
func tooLong(prompt int, tokens string, contextTokens int) error {
	return problem.New(problem.ContextExceeded,
		fmt.Sprintf("Prompt %d is too long to be checked", prompt+1),
		fmt.Sprintf("it has %s tokens, and with an answer has to be shorter than the context of %d",
			tokens, contextTokens), "Check with a longer context, or with shorter prompts.")
}

// passage is long enough for a block of the prefix cache on disk, which has 256 tokens.
const passage = `The lighthouse on Gull Point was built in 1871, after the steamer Marian had run
aground on the reef with 42 people aboard. All of them were saved by fishermen from the village, who
rowed out eleven times in the dark. The tower is 31 metres tall and has 148 steps. Its first lamp
burned oil, and a keeper had to wind the clockwork that turned the lens every four hours, day and
night. In 1924 the lamp became electric, and the clockwork went to the museum in the harbour, where
it still runs on Sundays.

The last keeper, Ada Lindqvist, came in 1958 and stayed for 29 years. She kept a diary of the
weather, with three entries a day: the wind, the height of the waves, and the birds that she had
seen. Researchers of the university have copied all 31,755 entries. They found that the storm petrel
now arrives 12 days earlier than in her first year, and that the winters with ice in the bay have
become rare: there were nine of them before 1970, and only two after it.

Today the light is switched by a sensor and watched from an office 200 kilometres away. The house of
the keeper is a small hotel with five rooms. Guests may climb the tower until nine in the evening,
if they wear soft shoes and carry nothing in their hands. In the room below the lamp there is a
table with a lens of glass, a telescope, and a copy of the diary that lies open at the day of the
visit. Many guests write their own line about the birds into the book beside it.

`

// Prompts are the built-in questions. They are short enough for a context of ContextTokens. Two
// share a long beginning, and one asks for a copy, where decoding ahead yields most.
var Prompts = []string{
	"What is a KV cache?",
	"Write a function in Go that reverses a slice of integers.",
	"List the planets of the solar system, each with its diameter in kilometres.",
	"Translate into French: The library opens at nine, and the reading room an hour later.",
	"If 3 pens cost 4.50 euros, how much do 7 pens cost? Explain each step.",
	"Tell a short story about a lighthouse keeper and a parrot.",
	passage + "Summarize this text in one sentence.",
	passage + "Repeat the second paragraph word for word.",
}
