package parity

import (
	"slices"
	"sync"

	"headroom/engine"
)

// draftMode is what proposes drafts.
type draftMode int

const (
	auto  draftMode = iota // the engine itself
	block                  // the draft model or the model's own block, always
	wrong                  // wrongDrafts, of which some are wrong
)

// draftDepth is the number of drafts in a pass, if it is not the engine that decides.
const draftDepth = 4

// wrongDrafts proposes tokens of the known answers, some of them replaced by others. After tokens
// that are in no known answer, it proposes the first tokens of the prompt.
type wrongDrafts struct {
	mu     sync.Mutex
	mode   draftMode
	known  [][]int32 // prompts with their answers
	passes int
}

func (d *wrongDrafts) learn(prompts [][]int32, answers []answer) {
	for i, p := range prompts {
		d.known = append(d.known, slices.Concat(p, answers[i].tokens))
	}
}

func (d *wrongDrafts) set(m draftMode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mode, d.passes = m, 0
}

// propose is engine.Options.Draft. Of the drafts of a pass the first 0 to draftDepth are right, in
// turn.
func (d *wrongDrafts) propose(tokens []int32, running bool) *engine.Drafts {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.mode {
	case auto:
		return nil
	case block:
		return &engine.Drafts{Block: draftDepth}
	}
	n := len(tokens)
	if running { // the next pass is awaited, so that the one after it has drafts
		return &engine.Drafts{Tokens: tokens[:min(n, 1)]}
	}
	right := d.passes % (draftDepth + 1)
	d.passes++
	for _, k := range d.known {
		if len(k) <= n || !slices.Equal(k[:n], tokens) {
			continue
		}
		drafts := slices.Clone(k[n:min(n+draftDepth, len(k))])
		for i := right; i < len(drafts); i++ {
			drafts[i] = otherToken(tokens, drafts[i])
		}
		return &engine.Drafts{Tokens: drafts}
	}
	return &engine.Drafts{Tokens: slices.Clone(tokens[:min(n, draftDepth)])}
}

// otherToken returns a token of the list that is not t; t if there is none.
func otherToken(list []int32, t int32) int32 {
	if i := slices.IndexFunc(list, func(other int32) bool { return other != t }); i >= 0 {
		return list[i]
	}
	return t
}
