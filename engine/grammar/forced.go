package grammar

// Tokens that must come next. Where only one text can follow, as after `{"na` in an object with a
// member "name", the model has nothing to choose: the tokens are those of the text, as the model's
// tokenizer splits it. They need no logits, and are computed together like a prompt.
//
// The last tokens of a forced text are left to the model if it could also choose a longer one there
// that continues into what is free. So `": ` does not keep it from `": "`.
//
// What is forced depends on the state alone, so an answer is the same whether its forced tokens are
// computed together or sampled one by one under masks that allow nothing else.

import "bytes"

// maxForcedBytes bounds the text that is forced at once.
const maxForcedBytes = 1024

// forcedOf returns the tokens that must follow in a state. The error is that of the graph.
func (c *graph) forcedOf(g *Grammar, s *state) ([]int32, error) {
	if s.isForced || g.vocabulary.encode == nil {
		return s.forced, nil
	}
	text, end := c.forcedText(g, s)
	tokens := c.stable(g, text, end)
	if c.err != nil {
		return nil, c.err
	}
	s.forced, s.isForced = tokens, true
	return tokens, nil
}

// forcedText returns the only text that can follow in a state, and the state after it.
func (c *graph) forcedText(g *Grammar, s *state) (text []byte, end *state) {
	classes, count := c.space.Classes()
	for len(text) < maxForcedBytes && !s.complete {
		only, next := -1, dead
		for class := range count {
			if n := c.step(g, s, uint8(class)); n != dead {
				if only >= 0 {
					return text, s
				}
				only, next = class, n
			}
		}
		var members []byte
		for b := range 256 {
			if int(classes[b]) == only {
				members = append(members, byte(b))
			}
		}
		if len(members) != 1 {
			return text, s
		}
		text, s = append(text, members[0]), next
	}
	return text, s
}

// stable returns the tokens of a forced text without those that a longer one could replace.
func (c *graph) stable(g *Grammar, text []byte, end *state) (tokens []int32) {
	v := g.vocabulary
	if len(text) == 0 {
		return nil
	}
	at := 0
	for _, id := range v.encode(string(text)) {
		part := v.text(id)
		if len(part) == 0 || !bytes.HasPrefix(text[at:], part) || c.extends(g, text[at:], end) {
			break
		}
		tokens, at = append(tokens, id), at+len(part)
	}
	return tokens
}

// extends reports whether a token begins with text and goes on as the state after it allows.
func (c *graph) extends(g *Grammar, text []byte, end *state) (found bool) {
	classes, _ := c.space.Classes()
	for _, t := range []*trie{&g.vocabulary.plain, &g.vocabulary.rest} {
		t.children(text, func(b byte) bool {
			found = found || c.step(g, end, classes[b]) != dead
			return !found
		})
	}
	return found
}
