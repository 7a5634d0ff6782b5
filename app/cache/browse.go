package cache

// The list of conversations: those on disk, with how much of each is also in memory, and those that
// are only in memory. Memory means the prefix caches of loaded models. Their prefixes have no keys.
// So they are matched with stored conversations by their tokens, and listed without a key if none
// matches.
//
// A nil *Cache is a cache that is off: List returns only the conversations in memory, and the other
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

// Memory is the prefix cache in a loaded model's memory. A nil *Memory is that of no model.
type Memory struct {
	engine.StoredModel                             // without a store, only Name is set
	Prefixes           []engine.CachedPrefix       // the least recently used first
	Title              func(tokens []int32) string // title of a conversation that is not on disk
}

// List is the JSON document of all conversations.
type List struct {
	Stats Stats `json:"stats"`
	// Conversations has the stored ones, the most recently used first, then those that are only in
	// memory.
	Conversations []Conversation `json:"conversations"`
	// Stale means that a loaded model did not answer in time: what is in its memory is as it was
	// at an earlier call, or missing.
	Stale bool `json:"stale"`
}

// Conversation is a conversation of a List.
type Conversation struct {
	Key             string  `json:"key"` // "" if it is only in memory
	Model           string  `json:"model"`
	Fingerprint     string  `json:"fingerprint"` // of the model's weights
	Format          string  `json:"format"`      // of keys, values and states
	Title           string  `json:"title"`
	Tokens          int     `json:"tokens"`
	MemoryTokens    int     `json:"memoryTokens"` // number of Tokens that are in memory
	Bytes           int64   `json:"bytes"`        // size of its unshared files
	SharedBytes     int64   `json:"sharedBytes"`  // size of files that it shares with others
	CreatedAtUnixMs int64   `json:"createdAt"`
	LastHitAtUnixMs int64   `json:"lastHitAt"`
	Hits            int     `json:"hits"`
	SecondsSaved    float64 `json:"secondsSaved"`
	Pinned          bool    `json:"pinned"`
	Private         bool    `json:"private"` // only in memory, without a title
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
	From   int    `json:"from"` // positions [from, to); a state is the state after position to-1
	To     int    `json:"to"`
	Bytes  int64  `json:"bytes"`
	Shared bool   `json:"shared"` // with other conversations
	Hits   int    `json:"hits"`
}

// Removed counts what was removed.
type Removed struct {
	Entries     int   `json:"entries"`     // files
	Bytes       int64 `json:"bytes"`       // size of these files
	MemoryBytes int64 `json:"memoryBytes"` // freed by the loaded models
	// Pending means that the removal goes on after this answer, because a loaded model has not
	// freed its memory yet. The figures are then 0.
	Pending bool `json:"pending"`
}

// listAttempts is how often List tries to get a list that the loaded models do not change
// meanwhile.
const listAttempts = 3

// List lists the conversations on disk and in the memory of these models. The error is a Problem.
func (c *Cache) List(memory ...*Memory) (list List, err error) {
	for range listAttempts {
		var complete bool
		if list, complete, err = c.list(memory); complete || err != nil {
			break
		}
	}
	return list, err
}

// list lists the conversations once. complete is false if a conversation no longer had its key when
// its tokens were compared: the key changes when the conversation grows.
func (c *Cache) list(memory []*Memory) (list List, complete bool, err error) {
	list, complete = List{Conversations: []Conversation{}}, true
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
	onDisk := list.Conversations
	for _, m := range memory {
		if m == nil {
			continue
		}
		matched := make([]bool, len(m.Prefixes))
		if c != nil {
			all, err := c.markInMemory(onDisk, stored, m, matched)
			if err != nil {
				return List{}, false, problemOf(err, "")
			}
			complete = complete && all
		}
		list.Conversations = append(list.Conversations, m.unmatched(matched)...)
	}
	return list, complete, nil
}

// unmatched returns the conversations that are only in memory.
func (m *Memory) unmatched(matched []bool) (list []Conversation) {
	for i, r := range m.Prefixes {
		if n := len(r.Tokens); n > 0 && !matched[i] {
			one := Conversation{Model: m.Name, Fingerprint: m.Fingerprint,
				Format: readableFormat(m.Format), Tokens: n, MemoryTokens: n, Private: r.Private}
			if !r.Private {
				one.Title = m.Title(r.Tokens)
			}
			list = append(list, one)
		}
	}
	return list
}

// markInMemory sets MemoryTokens of the list, and sets matched for each prefix in memory that
// belongs to a stored conversation. A prefix belongs to a conversation if one of them is the
// beginning of the other. If several prefixes continue a conversation, only the longest belongs to
// it, and the others are separate conversations. complete is as in list.
func (c *Cache) markInMemory(
	list []Conversation, stored []blockstore.Conversation, m *Memory, matched []bool,
) (complete bool, err error) {
	remaining := map[blockstore.Key]*Conversation{}
	for i := range stored {
		if s := &stored[i]; s.Fingerprint == m.Fingerprint && s.Format == m.Format {
			remaining[s.Key] = &list[i]
		}
	}
	if len(remaining) == 0 {
		return true, nil
	}
	err = c.store.EachTokens(blockstore.Filter{Fingerprint: m.Fingerprint},
		func(key blockstore.Key, tokens []int32) {
			if s := remaining[key]; s != nil { // nil: another format, or not in the list
				s.MemoryTokens = max(s.MemoryTokens, m.match(tokens, matched))
				delete(remaining, key)
			}
		})
	return len(remaining) == 0, err
}

// match returns how many of a conversation's first tokens are in memory, and sets matched for the
// prefix that belongs to it.
func (m *Memory) match(tokens []int32, matched []bool) (inMemory int) {
	best := -1
	for i, r := range m.Prefixes {
		n := commonPrefix(tokens, r.Tokens)
		inMemory = max(inMemory, n)
		whole := n > 0 && n == min(len(tokens), len(r.Tokens))
		if whole && (best < 0 || len(r.Tokens) > len(m.Prefixes[best].Tokens)) {
			best = i
		}
	}
	if best >= 0 {
		matched[best] = true
	}
	return inMemory
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
		Format: readableFormat(s.Format), Title: s.Title, Tokens: s.Tokens, Bytes: s.Bytes,
		SharedBytes: s.SharedBytes, CreatedAtUnixMs: unixMs(s.Created),
		LastHitAtUnixMs: unixMs(s.LastHit), Hits: s.Hits,
		SecondsSaved: s.SecondsSaved, Pinned: s.Pinned}
}

// AdapterMark is in the format of a conversation with an adapter, before AdapterDigits of the hash
// of the adapter's modules.
const (
	AdapterMark   = ", adapter #"
	AdapterDigits = 8
)

// readableFormat returns a format without the hash of its layout, and with few digits of that of
// its adapter.
func readableFormat(format string) string {
	readable, _, _ := strings.Cut(format, " #")
	if _, hash, ok := strings.Cut(format, AdapterMark); ok {
		readable += AdapterMark + hash[:min(len(hash), AdapterDigits)]
	}
	return readable
}

func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Show returns the conversation whose key begins with these digits, 4 or more. The error is a
// Problem.
func (c *Cache) Show(key string, memory ...*Memory) (Detail, error) {
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
	for _, m := range memory {
		if m != nil && s.Fingerprint == m.Fingerprint && s.Format == m.Format {
			d.MemoryTokens = max(d.MemoryTokens,
				m.match(s.TokenIDs(), make([]bool, len(m.Prefixes))))
		}
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

// Remove removes the conversation's unshared files, pinned or not. It leaves the conversation in
// the memory of a loaded model; host.Host.ForgetConversation removes it there. The error is a
// Problem.
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

// Pin protects a conversation from eviction, or ends its protection. The error is a Problem.
func (c *Cache) Pin(key string, pinned bool) error {
	if c == nil {
		return noCache()
	}
	if err := c.store.Pin(key, pinned); err != nil {
		return problemOf(err, key)
	}
	return nil
}

// Clear removes all conversations of the model with that fingerprint or name; "" means all models.
// The error is a Problem.
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

// fingerprints returns the stored fingerprints that are equal to model, or whose model has that
// name. The error is a Problem.
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
			why, fix = "it has "+strings.Join(names, ", "),
				"Name one of these, or leave out the model to clear all."
		}
		return nil, problem.New(problem.NotFound,
			fmt.Sprintf("The cache has no conversations of the model %q", model), why, fix)
	}
	return found, nil
}

func noCache() error {
	return problem.New(problem.NotFound, "The cache on disk is off",
		"it is turned off, or could not be opened",
		"The Cache page shows which, and can turn it on.")
}

// problemOf turns the store's errors into Problems.
func problemOf(err error, key string) error {
	switch {
	case errors.Is(err, blockstore.ErrAmbiguous):
		return problem.New(problem.BadRequest,
			fmt.Sprintf("Several conversations have keys that begin with %q", key), "",
			"Enter more digits of the key.")
	case errors.Is(err, blockstore.ErrNotFound):
		return problem.New(problem.NotFound,
			fmt.Sprintf("No conversation has a key that begins with %q", key), "",
			"Run `headroom cache ls` for the keys, and enter at least 4 digits.")
	case errors.Is(err, blockstore.ErrClosed):
		return problem.Wrap(problem.Loading, err,
			"The cache on disk is closed while it moves or Headroom quits",
			"Try again in a moment.")
	}
	return problem.Wrap(problem.Internal, err, "The cache on disk cannot be used", "")
}
