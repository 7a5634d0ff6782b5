package cachemiss

// What was computed lately, as token ids alone: texts are made of the few tokens that a report
// shows. Sequences are shared between the log and the matches that found them, and never written
// to.

import (
	"slices"
	"sync"
	"time"
)

// Sequence is a prompt and its answer, as far as they went through the model.
type Sequence struct {
	Tokens []int32 // the log keeps the slice
	Model  string  // the model's fingerprint
	Format string  // how its cache keeps keys and values
	At     time.Time
}

// Limits bound a Log. Zero means the default.
type Limits struct {
	Sequences int // 64
	Tokens    int // of all sequences together: 4 Mi, 16 MiB of memory
}

// Log is a bounded memory of sequences, the oldest out first. It may be used from any goroutine.
type Log struct {
	limits Limits
	// Added is called with each sequence that Add is given, on Add's goroutine. To be set before
	// the first use; nil: nobody asks.
	Added func(Sequence)

	mu        sync.Mutex
	sequences []*Sequence // oldest first
	tokens    int
}

// NewLog makes an empty Log.
func NewLog(l Limits) *Log {
	if l.Sequences <= 0 {
		l.Sequences = 64
	}
	if l.Tokens <= 0 {
		l.Tokens = 4 << 20
	}
	return &Log{limits: l}
}

// Add remembers a sequence. What it is an extension of is forgotten, and it takes the place of its
// own extension's beginning: of sequences that lie on one line, the longest stays. One that is
// longer than the log is cut.
func (l *Log) Add(s Sequence) {
	s.Tokens = s.Tokens[:min(len(s.Tokens), l.limits.Tokens)]
	if len(s.Tokens) == 0 {
		return
	}
	if l.Added != nil {
		l.Added(s)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.sequences[:0]
	for _, o := range l.sequences {
		switch {
		case o.Model == s.Model && o.Format == s.Format && begins(s.Tokens, o.Tokens):
			l.tokens -= len(o.Tokens)
			continue
		case o.Model == s.Model && o.Format == s.Format && begins(o.Tokens, s.Tokens):
			s.Tokens = o.Tokens
			l.tokens -= len(o.Tokens)
			continue
		}
		kept = append(kept, o)
	}
	clear(l.sequences[len(kept):])
	l.sequences = append(kept, &s)
	l.tokens += len(s.Tokens)
	for len(l.sequences) > l.limits.Sequences || l.tokens > l.limits.Tokens {
		l.tokens -= len(l.sequences[0].Tokens)
		l.sequences = slices.Delete(l.sequences, 0, 1)
	}
}

// Forget drops what a model has read of the conversation that these tokens are: sequences that
// begin with them, or that they begin with. No tokens are all that it has read, no model is any.
func (l *Log) Forget(model string, tokens []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sequences = slices.DeleteFunc(l.sequences, func(s *Sequence) bool {
		drop := (model == "" || s.Model == model) &&
			commonPrefix(s.Tokens, tokens) == min(len(s.Tokens), len(tokens))
		if drop {
			l.tokens -= len(s.Tokens)
		}
		return drop
	})
}

// begins tells whether a begins with all of b. The last token is looked at first, since the first
// ones are equal more often.
func begins(a, b []int32) bool {
	return len(a) >= len(b) && a[len(b)-1] == b[len(b)-1] && slices.Equal(a[:len(b)], b)
}

// Sequences are those that are remembered, oldest first: given to Add of an empty log, they make
// one that knows the same.
func (l *Log) Sequences() []Sequence {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Sequence, len(l.sequences))
	for i, s := range l.sequences {
		list[i] = *s
	}
	return list
}

// Len is the number of sequences, and of their tokens together.
func (l *Log) Len() (sequences, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sequences), l.tokens
}

// Match is what a log knew of a prompt. The zero value knew nothing.
type Match struct {
	// CommonTokens is the length of the longest prefix that the prompt has in common with a
	// sequence of the same model and format.
	CommonTokens int

	prompt  []int32
	nearest []*Sequence // those with that prefix, newest first
	foreign *Sequence   // one of another model or format with a longer one; nil: none
	model   string
}

// maxNearest bounds the sequences that Explain chooses from when several have an equally long
// prefix.
const maxNearest = 8

// Find looks a prompt up, before it is computed. It costs a comparison of the prompt with each
// sequence up to their first difference. The match keeps the slice.
func (l *Log) Find(prompt []int32, model, format string) Match {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Match{prompt: prompt, model: model}
	foreign := 0
	for _, s := range slices.Backward(l.sequences) {
		if n := m.CommonTokens; n > 0 && s.Model == model && s.Format == format &&
			(len(s.Tokens) < n || s.Tokens[n-1] != prompt[n-1]) {
			continue // it parts sooner than the nearest
		}
		common := commonPrefix(s.Tokens, prompt)
		switch {
		case common == 0:
		case s.Model != model || s.Format != format:
			if common > foreign {
				foreign, m.foreign = common, s
			}
		case common > m.CommonTokens:
			m.CommonTokens, m.nearest = common, append(m.nearest[:0], s)
		case common == m.CommonTokens && len(m.nearest) < maxNearest:
			m.nearest = append(m.nearest, s)
		}
	}
	if foreign < m.CommonTokens+worthTelling {
		m.foreign = nil
	}
	return m
}

func commonPrefix[E comparable](a, b []E) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
