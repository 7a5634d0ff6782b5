package cache

// Listing conversations: those on disk, how much of each is in memory too, and those only in
// memory. The memory is that of the running model. Its prefixes have no keys, so they are matched
// with stored conversations by their tokens, and listed without a key if none matches.
//
// A nil *Cache is a cache that is off: List has only the conversations in memory, and the other
// methods return a Problem.

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

// Memory is the prefix cache in the running model's memory. nil means that no model runs.
type Memory struct {
	engine.StoredModel                             // without a store, only its name
	Remembered         []engine.CachedPrefix       // prefixes, the least recently used first
	Title              func(tokens []int32) string // title of a conversation that is not on disk
}

// List is the JSON document of all conversations.
type List struct {
	Stats Stats `json:"stats"`
	// Conversations has the most recently used first, then those only in memory.
	Conversations []Conversation `json:"conversations"`
}

// Conversation is a conversation of a List.
type Conversation struct {
	Key             string  `json:"key"` // "" if it is only in memory
	Model           string  `json:"model"`
	Fingerprint     string  `json:"fingerprint"` // of the model's weights
	Format          string  `json:"format"`      // of keys, values and states
	Title           string  `json:"title"`
	Tokens          int     `json:"tokens"`
	MemoryTokens    int     `json:"memoryTokens"` // number of them that are in memory too
	Bytes           int64   `json:"bytes"`        // of its unshared files
	SharedBytes     int64   `json:"sharedBytes"`  // of files that it shares with others
	CreatedAtUnixMs int64   `json:"createdAt"`
	LastHitAtUnixMs int64   `json:"lastHitAt"`
	Hits            int     `json:"hits"`
	SecondsSaved    float64 `json:"secondsSaved"`
	Pinned          bool    `json:"pinned"`
}

// Detail is a conversation with its files.
type Detail struct {
	Conversation
	Entries []Entry `json:"entries"` // by position
}

// Entry is a file of a conversation.
type Entry struct {
	Key    string `json:"key"`
	Kind   string `json:"kind"` // "block", "tail" or "state"
	From   int    `json:"from"` // positions [from, to); a state is the one after to
	To     int    `json:"to"`
	Bytes  int64  `json:"bytes"`
	Shared bool   `json:"shared"` // with other conversations
	Hits   int    `json:"hits"`
}

// Removed counts what was removed.
type Removed struct {
	Entries     int   `json:"entries"`     // files
	Bytes       int64 `json:"bytes"`       // of them
	MemoryBytes int64 `json:"memoryBytes"` // freed by the running model
}

// listings is how often List tries to get a list that the running model does not change meanwhile.
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

// list lists the conversations once. steady is false if one of them was gone when its tokens were
// compared; its key changes when it grows.
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
		if steady, err = c.markInMemory(list.Conversations, stored, m, matched); err != nil {
			return List{}, false, problemOf(err, "")
		}
	}
	for i, r := range m.Remembered {
		if n := len(r.Tokens); n > 0 && !matched[i] {
			list.Conversations = append(list.Conversations,
				Conversation{Model: m.Name, Fingerprint: m.Fingerprint,
					Format: formatWords(m.Format), Title: m.Title(r.Tokens), Tokens: n,
					MemoryTokens: n})
		}
	}
	return list, steady, nil
}

// markInMemory sets MemoryTokens, and marks the prefixes in memory that belong to a stored
// conversation:
// one is the beginning of the other. If several prefixes continue the same stored conversation, the
// longest belongs to it and the others are separate conversations. all is false if a stored
// conversation was gone.
func (c *Cache) markInMemory(list []Conversation, stored []blockstore.Conversation, m *Memory,
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
			if s := of[key]; s != nil { // of this format, and in the list
				s.MemoryTokens = m.match(tokens, matched)
				delete(of, key)
			}
		})
	return len(of) == 0, err
}

// match returns how many of a conversation's first tokens are in memory, and marks the prefix that
// belongs to it.
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

// formatWords returns the readable part of a format, without the layout.
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

// Show returns the conversation whose key begins with key, at least 4 digits. The error is a
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
				Bytes: e.Bytes, Shared: e.Shared, Hits: e.Hits})
	}
	if m != nil && s.Fingerprint == m.Fingerprint && s.Format == m.Format {
		d.MemoryTokens = m.match(s.TokenIDs(), make([]bool, len(m.Remembered)))
	}
	return d, nil
}

// Tokens returns a conversation's tokens and its model, so that the caller can find it in memory.
// The tokens are nil if its beginning has been evicted. The error is a Problem.
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

// Remove removes the conversation's unshared files, pinned or not. It does not change the memory,
// which is the host's. The error is a Problem.
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

// Pin protects a conversation from eviction, or ends the protection. The error is a Problem.
func (c *Cache) Pin(key string, pinned bool) error {
	if c == nil {
		return noCache()
	}
	if err := c.store.Pin(key, pinned); err != nil {
		return problemOf(err, key)
	}
	return nil
}

// Clear removes everything, or everything of one model, given by fingerprint or name. The error is
// a Problem.
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

// fingerprints returns model if it is a stored fingerprint, or those stored under that name.
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
			why, fix = "it has "+strings.Join(names, ", "), "Name one of these, or none for all."
		}
		return nil, problem.New(problem.NotFound,
			fmt.Sprintf("The cache has nothing of the model %q", model), why, fix)
	}
	return found, nil
}

func noCache() error {
	return problem.New(problem.NotFound, "The cache on disk is off",
		"it is turned off, or could not be opened", "The Cache page says which, and turns it on.")
}

// problemOf turns the store's errors into Problems.
func problemOf(err error, key string) error {
	switch {
	case errors.Is(err, blockstore.ErrAmbiguous):
		return problem.New(problem.BadRequest,
			fmt.Sprintf("Several conversations have keys that begin with %q", key), "",
			"Give more of its digits.")
	case errors.Is(err, blockstore.ErrNotFound):
		return problem.New(problem.NotFound,
			fmt.Sprintf("No conversation has a key that begins with %q", key), "",
			"Run `headroom cache ls` for the keys, and give at least 4 digits.")
	case errors.Is(err, blockstore.ErrClosed):
		return problem.Wrap(problem.Loading, err,
			"The cache on disk is closed while it moves or Headroom quits",
			"Try again in a moment.")
	}
	return problem.Wrap(problem.Internal, err, "The cache on disk cannot be used", "")
}
