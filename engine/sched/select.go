package sched

// Selections (SnapKV): the tokens after a long prompt attend to some of its positions only. The
// last rows of the prompt select them, so one step computes these rows together, and computes them
// even if they are cached. The step ends with the prompt, because later rows read the selection.
//
// The prompt is computed as without a selection. All later tokens of the sequence are approximate,
// and so are their keys, values and states. They are not cached: the next turn computes the answer
// again, as a part of its prompt.

import (
	"slices"

	"headroom/engine/prefix"
)

// Selection says which positions the tokens after a prompt attend to: those before First, Tokens of
// [First, From), and all from From on. First, From and Tokens are multiples of the page size.
type Selection struct {
	Prompt  int // length of the prompt; 0: there is no selection
	Observe int // how many last rows of the prompt select
	First   int
	From    int
	Tokens  int
}

// SelectOptions say which prompts have a Selection. The zero value: none.
type SelectOptions struct {
	Tokens int // Selection.Tokens, rounded up to whole pages; 0: there are no selections
	From   int // length of the shortest prompt with a selection
}

const (
	// SelectTokens is the number of positions that are selected, unless the user says otherwise.
	SelectTokens = 4096
	// SelectFrom is the length of the shortest prompt with a selection. Below it, decoding gains
	// little.
	SelectFrom = 49152
	// selectObserve is the number of rows that select (Li et al. 2024 use 16 to 64).
	selectObserve = 32
	// The first selectFirst and the last selectRecent positions of the prompt are always kept, and
	// up to a page more.
	selectFirst  = 128
	selectRecent = 512
)

// selection returns the Selection for a prompt of the given length. There is none if the prompt is
// too short, or has no more positions than would be kept.
func (o Options) selection(prompt int) Selection {
	pages := func(tokens int) int {
		return (tokens + o.PageTokens - 1) / o.PageTokens * o.PageTokens
	}
	c := Selection{Prompt: prompt, Observe: selectObserve,
		First: max(pages(selectFirst), o.StartTokens), Tokens: pages(o.Select.Tokens)}
	c.From = (prompt - selectRecent) / o.PageTokens * o.PageTokens
	if o.Select.Tokens <= 0 || prompt < o.Select.From || prompt <= selectRecent ||
		c.First+c.Tokens > c.From || o.ChunkTokens < selectObserve {
		return Selection{}
	}
	return c
}

// SelectAfter sets the Selection of a sequence whose tokens are its prompt. The rows that select
// are computed even if they are cached, so the state before them is kept for the same prompt.
func (o Options) SelectAfter(q *Sequence) {
	q.Select = o.selection(len(q.Tokens))
	if at := q.Resumable(); q.Select.Prompt > 0 && o.Recurrent {
		if i, found := slices.BinarySearch(q.Keep, at); !found {
			q.Keep = slices.Insert(q.Keep, i, at)
		}
	}
}

// Exact returns how many of the computed tokens have the keys and values of a sequence without a
// selection.
func (q *Sequence) Exact() int {
	if q.Select.Prompt > 0 {
		return min(q.Computed, q.Select.Prompt)
	}
	return q.Computed
}

// Resumable returns how many tokens need not be computed if they are cached.
func (q *Sequence) Resumable() int {
	if q.Select.Prompt > 0 {
		return q.Select.Prompt - q.Select.Observe
	}
	return len(q.Tokens) - 1
}

// chunkEnd returns the end of the next chunk of q, with about budget tokens. If the rows that
// select are next, it takes all of them, or none if the step has no room.
func (s *Scheduler) chunkEnd(q *Sequence, budget int) int {
	to := min(q.Computed+budget, len(q.Tokens))
	switch observed := q.Select.Prompt - q.Select.Observe; {
	case q.Computed >= q.Select.Prompt:
		return to
	case q.Computed < observed:
		return min(to, observed)
	case q.Select.Observe > s.room:
		return q.Computed
	}
	return q.Select.Prompt
}

// selects reports whether q needs the pages of its selection to compute its first tokens.
func (q *Sequence) selects(tokens int) bool {
	return q.Select.Prompt > 0 && tokens >= q.Select.Prompt
}

// needFor returns what need returns, and the pages that q still needs for its selection.
func (s *Scheduler) needFor(q *Sequence, have, tokens int) prefix.Amount {
	n := s.need(have, tokens)
	if q.selects(tokens) {
		n.Rest += s.pagesFor(q.Select.Tokens) - len(q.Selected)
	}
	return n
}
