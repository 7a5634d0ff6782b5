package cachemiss

// The log keeps only token ids. A report decodes the few that it shows. Matches share the log's
// sequences, which never change.

import (
	"slices"
	"sync"
	"time"
)

// Sequence holds the computed part of a prompt and its answer.
type Sequence struct {
	Tokens []int32   // the log keeps the slice
	Model  string    // the model's fingerprint
	Format string    // the format of its cache
	At     time.Time // when it ended
}

// Limits bound a Log. Zero means the default.
type Limits struct {
	Sequences int // default 64
	Tokens    int // of all sequences together; default 4 Mi, which take 16 MiB of memory
}

// Log holds recent sequences. When it is full, it drops the oldest. Its methods may be called from
// any goroutine.
type Log struct {
	limits Limits
	// Added, if not nil, is called with every added sequence, on Add's goroutine. Set it before the
	// first use of the log.
	Added func(Sequence)

	mu        sync.Mutex
	sequences []*Sequence // oldest first
	tokens    int
}

// NewLog returns an empty Log.
func NewLog(l Limits) *Log {
	if l.Sequences <= 0 {
		l.Sequences = 64
	}
	if l.Tokens <= 0 {
		l.Tokens = 4 << 20
	}
	return &Log{limits: l}
}

// Add adds a sequence. If one of two sequences begins with the other, the log keeps only the
// longer. A sequence longer than the log is truncated.
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

// Forget drops a model's sequences that begin with tokens, and those that are a prefix of tokens.
// Without tokens it drops all sequences of the model. The model "" means every model.
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

// begins reports whether a begins with b. It compares the last token of b first, because that is
// the likeliest to differ.
func begins(a, b []int32) bool {
	return len(a) >= len(b) && a[len(b)-1] == b[len(b)-1] && slices.Equal(a[:len(b)], b)
}

// Sequences returns the log's sequences, oldest first. Adding them to an empty log in this order
// restores the log.
func (l *Log) Sequences() []Sequence {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Sequence, len(l.sequences))
	for i, s := range l.sequences {
		list[i] = *s
	}
	return list
}

// Len returns the number of sequences and their total number of tokens.
func (l *Log) Len() (sequences, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sequences), l.tokens
}

// Match is the result of Find. The zero value matches nothing.
type Match struct {
	// CommonTokens is the length of the longest common prefix with a sequence of the same model and
	// format.
	CommonTokens int

	prompt  []int32
	nearest []*Sequence // the sequences with that prefix, newest first
	foreign *Sequence   // one of another model or format with a longer common prefix; nil: none
	model   string
}

// maxNearest bounds Match.nearest.
const maxNearest = 8

// Find compares a prompt with each sequence up to their first difference. Call it before the prompt
// is computed. The match keeps the slice.
func (l *Log) Find(prompt []int32, model, format string) Match {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Match{prompt: prompt, model: model}
	foreign := 0
	for _, s := range slices.Backward(l.sequences) {
		if n := m.CommonTokens; n > 0 && s.Model == model && s.Format == format &&
			(len(s.Tokens) < n || s.Tokens[n-1] != prompt[n-1]) {
			continue // its common prefix is shorter
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
	if foreign < m.CommonTokens+minReportedTokens {
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
