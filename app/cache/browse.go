package cache

// Conversations, listed for people: what is on disk, and of it what is in memory too. Memory's are
// those of the model that runs; they are told apart by their tokens, since memory knows no keys.
// What is in memory alone is listed without a key.
//
// A nil *Cache has nothing on disk: its methods say so, and its list is memory's.

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

// Memory is what the running model has in memory. A nil one: no model runs.
type Memory struct {
	// what the store knows it by; without a store its name alone
	engine.StoredModel
	Remembered []engine.CachedPrefix       // prefixes, the longest unused first
	Title      func(tokens []int32) string // of a conversation that is on no disk
}

// List is the document of all conversations.
type List struct {
	Stats Stats `json:"stats"`
	// those used last first; behind them those in memory alone
	Conversations []Conversation `json:"conversations"`
}

// Conversation is one of them.
type Conversation struct {
	Key             string  `json:"key"` // "" for one that is in memory alone
	Model           string  `json:"model"`
	Fingerprint     string  `json:"fingerprint"` // of the model's weights
	Format          string  `json:"format"`      // of keys, values and states
	Title           string  `json:"title"`
	Tokens          int     `json:"tokens"`
	HotTokens       int     `json:"hotTokens"`   // of them in memory too
	Bytes           int64   `json:"bytes"`       // of files that are its alone
	SharedBytes     int64   `json:"sharedBytes"` // and of those that are others' too
	CreatedAtUnixMs int64   `json:"createdAt"`
	LastHitAtUnixMs int64   `json:"lastHitAt"`
	Hits            int     `json:"hits"`
	SecondsSaved    float64 `json:"secondsSaved"`
	Pinned          bool    `json:"pinned"`
}

// Detail is a conversation with its files.
type Detail struct {
	Conversation
	Entries []Entry `json:"entries"` // the first token's first
}

// Entry is one file.
type Entry struct {
	Key    string `json:"key"`
	Kind   string `json:"kind"` // "block", "tail" or "state"
	From   int    `json:"from"` // positions [from, to); a state's is to
	To     int    `json:"to"`
	Bytes  int64  `json:"bytes"`
	Shared bool   `json:"shared"` // with other conversations
	Hits   int    `json:"hits"`
}

// Removed is what was taken away.
type Removed struct {
	Entries     int   `json:"entries"`     // files
	Bytes       int64 `json:"bytes"`       // of them
	MemoryBytes int64 `json:"memoryBytes"` // that the running model has freed
}

// listings is how often the conversations are listed anew when a running model has written to one
// of them meanwhile.
const listings = 3

// List lists the conversations. The error is a Problem.
func (c *Cache) List(m *Memory) (list List, err error) {
	for range listings {
		var steady bool
		if list, steady, err = c.list(m); steady || err != nil {
			break
		}
	}
	return list, err
}

// list lists them once. steady is false if one of them was not there any more when its tokens were
// compared: when it grows its key is another one.
func (c *Cache) list(m *Memory) (list List, steady bool, err error) {
	list, steady = List{Conversations: []Conversation{}}, true
	var stored []blockstore.Conversation
	if c != nil {
		list.Stats = c.Stats()
		stored, err = c.store.Conversations(blockstore.Filter{})
		if err != nil {
			return List{}, false, problemOf(err, "")
		}
		for _, s := range stored {
			list.Conversations = append(list.Conversations, conversation(s))
		}
	}
	if m == nil {
		return list, true, nil
	}
	matched := make([]bool, len(m.Remembered))
	if c != nil {
		if steady, err = c.markHot(list.Conversations, stored, m, matched); err != nil {
			return List{}, false, problemOf(err, "")
		}
	}
	for i, r := range m.Remembered {
		if n := len(r.Tokens); n > 0 && !matched[i] {
			list.Conversations = append(list.Conversations,
				Conversation{Model: m.Name, Fingerprint: m.Fingerprint,
					Format: formatWords(m.Format), Title: m.Title(r.Tokens), Tokens: n,
					HotTokens: n})
		}
	}
	return list, steady, nil
}

// markHot sets HotTokens, and marks those remembered prefixes that are one conversation with a
// stored one: it is their beginning, or begins with them. Where several prefixes go on from the
// same stored conversation, it is the longest of them; the others are conversations of their own.
// all is false if one of them was gone.
func (c *Cache) markHot(list []Conversation, stored []blockstore.Conversation, m *Memory,
	matched []bool) (all bool, err error) {
	of := map[blockstore.Key]*Conversation{}
	for i := range stored {
		if s := &stored[i]; s.Fingerprint == m.Fingerprint && s.Format == m.Format {
			of[s.Key] = &list[i]
		}
	}
	if len(of) == 0 {
		return true, nil
	}
	err = c.store.EachTokens(blockstore.Filter{Fingerprint: m.Fingerprint},
		func(key blockstore.Key, tokens []int32) {
			if s := of[key]; s != nil { // not another format's, and none that came meanwhile
				s.HotTokens = m.match(tokens, matched)
				delete(of, key)
			}
		})
	return len(of) == 0, err
}

// match returns how many of a conversation's first tokens are in memory, and marks the prefix that
// is the same conversation.
func (m *Memory) match(tokens []int32, matched []bool) (hot int) {
	best := -1
	for i, r := range m.Remembered {
		n := commonPrefix(tokens, r.Tokens)
		hot = max(hot, n)
		whole := n > 0 && n == min(len(tokens), len(r.Tokens))
		if whole && (best < 0 || len(r.Tokens) > len(m.Remembered[best].Tokens)) {
			best = i
		}
	}
	if best >= 0 {
		matched[best] = true
	}
	return hot
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func conversation(s blockstore.Conversation) Conversation {
	return Conversation{Key: s.Key.String(), Model: s.Model, Fingerprint: s.Fingerprint,
		Format: formatWords(s.Format), Title: s.Title, Tokens: s.Tokens, Bytes: s.Bytes,
		SharedBytes: s.SharedBytes, CreatedAtUnixMs: unixMs(s.Created),
		LastHitAtUnixMs: unixMs(s.LastHit), Hits: s.Hits,
		SecondsSaved: s.SecondsSaved, Pinned: s.Pinned}
}

// formatWords is what people read of a format: before the layout, which is for machines.
func formatWords(format string) string {
	words, _, _ := strings.Cut(format, " #")
	return words
}

func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Show describes the conversation whose key begins so, at least 4 digits of it. The error is a
// Problem.
func (c *Cache) Show(key string, m *Memory) (Detail, error) {
	if c == nil {
		return Detail{}, noCache()
	}
	s, err := c.store.Show(key)
	if err != nil {
		return Detail{}, problemOf(err, key)
	}
	d := Detail{Conversation: conversation(s.Conversation), Entries: []Entry{}}
	for _, e := range s.Entries {
		d.Entries = append(d.Entries,
			Entry{Key: e.Key.String(), Kind: e.Kind, From: e.Position, To: e.Position + e.Tokens,
				Bytes:  e.Bytes,
				Shared: e.Shared, Hits: e.Hits})
	}
	if m != nil && s.Fingerprint == m.Fingerprint && s.Format == m.Format {
		d.HotTokens = m.match(s.TokenIDs(), make([]bool, len(m.Remembered)))
	}
	return d, nil
}

// Tokens are a conversation's, and the model that has read them, for whoever looks for it in
// memory. They are nil if its beginning has been evicted. The error is a Problem.
func (c *Cache) Tokens(key string) (engine.StoredModel, []int32, error) {
	if c == nil {
		return engine.StoredModel{}, nil, noCache()
	}
	s, err := c.store.Show(key)
	if err != nil {
		return engine.StoredModel{}, nil, problemOf(err, key)
	}
	return engine.StoredModel{Fingerprint: s.Fingerprint, Format: s.Format, Name: s.Model},
		s.TokenIDs(), nil
}

// Remove takes the files away that are the conversation's alone, pinned or not. Memory is the
// host's. The error is a Problem.
func (c *Cache) Remove(key string) (Removed, error) {
	if c == nil {
		return Removed{}, noCache()
	}
	r, err := c.store.Remove(key)
	if err != nil {
		return Removed{}, problemOf(err, key)
	}
	return Removed{Entries: r.Entries, Bytes: r.Bytes}, nil
}

// Pin keeps a conversation from being evicted, whatever else is to be stored, or ends that. The
// error is a Problem.
func (c *Cache) Pin(key string, pinned bool) error {
	if c == nil {
		return noCache()
	}
	if err := c.store.Pin(key, pinned); err != nil {
		return problemOf(err, key)
	}
	return nil
}

// Clear takes everything away, or what is of one model, by its fingerprint or its name. The error
// is a Problem.
func (c *Cache) Clear(model string) (Removed, error) {
	if c == nil {
		return Removed{}, noCache()
	}
	if model == "" {
		r, err := c.store.Clear()
		if err != nil {
			return Removed{}, problemOf(err, "")
		}
		return Removed{Entries: r.Entries, Bytes: r.Bytes}, nil
	}
	fingerprints, err := c.fingerprints(model)
	if err != nil {
		return Removed{}, err
	}
	var all Removed
	for _, fingerprint := range fingerprints {
		r, err := c.store.RemoveModel(fingerprint)
		if err != nil {
			return all, problemOf(err, "")
		}
		all.Entries, all.Bytes = all.Entries+r.Entries, all.Bytes+r.Bytes
	}
	return all, nil
}

// fingerprints are those of the model: itself, or all that were stored under that name.
func (c *Cache) fingerprints(model string) ([]string, error) {
	list, err := c.store.Conversations(blockstore.Filter{})
	if err != nil {
		return nil, problemOf(err, "")
	}
	seen := map[string]bool{}
	var found, names []string
	for _, s := range list {
		if !seen[s.Fingerprint] && (s.Fingerprint == model || strings.EqualFold(s.Model, model)) {
			found = append(found, s.Fingerprint)
		}
		if !seen[s.Fingerprint] {
			names = append(names, s.Model)
		}
		seen[s.Fingerprint] = true
	}
	if len(found) == 0 {
		why, fix := "the cache is empty", ""
		if len(names) > 0 {
			why, fix = "there is "+strings.Join(names, ", "), "Name one of those, or none for all."
		}
		return nil, problem.New(problem.NotFound,
			fmt.Sprintf("The cache has nothing of a model %q", model), why, fix)
	}
	return found, nil
}

func noCache() error {
	return problem.New(problem.NotFound, "Nothing is kept on disk",
		"the cache is off, or could not be opened", "The Cache page says which, and turns it on.")
}

// problemOf words the store's errors.
func problemOf(err error, key string) error {
	switch {
	case errors.Is(err, blockstore.ErrAmbiguous):
		return problem.New(problem.BadRequest,
			fmt.Sprintf("Several conversations have a key that begins with %q", key), "",
			"Give more of its digits.")
	case errors.Is(err, blockstore.ErrNotFound):
		return problem.New(problem.NotFound,
			fmt.Sprintf("No conversation has a key that begins with %q", key), "",
			"`headroom cache ls` has the keys; at least 4 digits are needed.")
	case errors.Is(err, blockstore.ErrClosed):
		return problem.Wrap(problem.Loading, err,
			"The cache on disk is at rest, while it moves or Headroom ends",
			"Try again in a moment.")
	}
	return problem.Wrap(problem.Internal, err, "The cache on disk cannot be used", "")
}
