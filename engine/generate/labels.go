package generate

// Labels: answers of which one is to be chosen. Their probabilities are read from the model, and
// nothing is generated. A prompt ends where the labels begin to differ, in tokens.
//
// A label is the beginning of the assistant's message, as the chat template writes it: after a
// space, a channel or closed reasoning, if the messages of the model have one. So the prompt is
// that of a conversation whose last message is continued (chat.Input.ContinueFinal). Many templates
// write closed reasoning only where an answer is to be generated. Then the prompt is that of a
// generation, unless the model would begin to reason there.

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// Read is a prompt after which the log-probabilities of some tokens are to be read.
type Read struct {
	// Shared and Own are the prompt, one after the other. Reads that begin alike share the memory
	// of Shared.
	Shared, Own []int32
	Tokens      []int32 // one or more
	// Keep caches the whole prompt for later reads, and not only what others have cached.
	Keep bool
	// Continues says that this is the prompt of an earlier read with more tokens, so that the
	// usage does not count it again.
	Continues bool
}

// Prompt returns the whole prompt, in new memory.
func (r *Read) Prompt() []int32 { return slices.Concat(r.Shared, r.Own) }

// EncodeLabels returns the tokens that an answer to the conversation has whatever its label is, the
// prompt included, and for each label those that follow. There are at least two labels. None is the
// beginning of another, so neither are their tokens. Errors are Problems.
func (r *Request) EncodeLabels(ctx context.Context, m Model, contextTokens int,
	labels []string) (prompt []int32, ends [][]int32, err error) {
	options := tokenizer.EncodeOptions{Limit: contextTokens + contextTokens/4, Admitted: true}
	leave, err := m.Tokenizer().Admit(ctx, r.messageBytes())
	if err != nil {
		return nil, nil, EncodeProblem(ctx, err, 0, 0)
	}
	defer leave()
	text, shield, err := r.renderBefore(ctx, m, labels[0])
	if err != nil {
		return nil, nil, err
	}
	options.Shield = shield
	encode := func(text string) ([]int32, error) {
		tokens, err := m.Tokenizer().EncodeContext(ctx, text, options)
		if err != nil {
			return nil, EncodeProblem(ctx, err, options.Limit, contextTokens)
		}
		return tokens, nil
	}
	whole, err := encode(text + labels[0])
	if err != nil {
		return nil, nil, err
	}
	// A label changes tokens only near the end.
	known, ends, err := encodeEnds(encode, tailOf(text), labels, whole)
	if err == nil && ends == nil {
		known, ends, err = encodeEnds(encode, text, labels, whole)
	}
	if err != nil {
		return nil, nil, err
	}
	return whole[:known], ends, distinct(ends)
}

// renderBefore returns the text of the conversation up to a label.
func (r *Request) renderBefore(ctx context.Context, m Model, label string) (string,
	*tokenizer.Shield, error) {
	answered := *r
	answered.Continue = true
	answered.Messages = append(slices.Clip(r.Messages),
		chat.Message{Role: "assistant", Content: label})
	generated, shield, err := r.renderAsText(ctx, m)
	if err != nil {
		return "", nil, err
	}
	text, continued, err := answered.renderAsText(ctx, m)
	before, ok := strings.CutSuffix(text, label)
	if err != nil || !ok || strings.HasPrefix(generated, before) &&
		!m.Template().NewSplitter(generated, r.Tools).InReasoning() {
		return generated, shield, nil
	}
	return before, continued, nil
}

// tailBytes is how much of the end of a prompt is encoded again for each label.
const tailBytes = 128

func tailOf(text string) string {
	at := max(0, len(text)-tailBytes)
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}

// encodeEnds encodes the labels after tail, the end of the prompt. whole has the tokens of the
// prompt with the first label, and its first known ones are those of all labels. ends is nil if the
// tokens of the tail alone are not those that it has in the prompt.
func encodeEnds(encode func(string) ([]int32, error), tail string, labels []string,
	whole []int32) (known int, ends [][]int32, err error) {
	ends = make([][]int32, len(labels))
	for i, label := range labels {
		if ends[i], err = encode(tail + label); err != nil {
			return 0, nil, err
		}
	}
	first := ends[0]
	shared := len(first)
	for _, end := range ends[1:] {
		shared = min(shared, CommonTokens(first, end))
	}
	rest := len(first) - shared // tokens of the first label after what all share
	same := 0                   // tokens at the end of first and of whole
	for same < min(len(first), len(whole)) && first[len(first)-1-same] == whole[len(whole)-1-same] {
		same++
	}
	if same <= rest && same < len(whole) {
		return 0, nil, nil
	}
	for i, end := range ends {
		ends[i] = end[shared:]
	}
	return len(whole) - rest, ends, nil
}

// CommonTokens returns how many tokens two lists begin with alike.
func CommonTokens(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// indistinct is the error of labels that a vocabulary cannot tell apart.
var indistinct = problem.New(problem.BadRequest, "This model cannot answer with labels",
	"its tokenizer gives the same tokens to different letters", "Use another model.")

// distinct returns an error if one of ends begins with another one.
func distinct(ends [][]int32) error {
	sorted := slices.SortedFunc(slices.Values(ends), slices.Compare)
	for i := range sorted[1:] { // one that another begins with is sorted just before such a one
		if CommonTokens(sorted[i], sorted[i+1]) == len(sorted[i]) {
			return indistinct
		}
	}
	return nil
}
