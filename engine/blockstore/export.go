package blockstore

// This file reads a whole conversation, without a model that knows its tensors.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrIncomplete means that a part of a conversation is no longer stored.
var ErrIncomplete = errors.New("blockstore: a part of the conversation is no longer stored")

// Export is a conversation to read, entry by entry.
type Export struct {
	Conversation
	// Tokens have keys and values. Those at the end that only a state has are left out.
	Tokens []int32
	// States are the numbers of tokens after which there is a state, ascending.
	States []int

	store  *Store
	blocks []EntryInfo
	states []EntryInfo // of States
}

// Export returns the conversation whose key begins with keyPrefix, as for Show. The error wraps
// ErrIncomplete if its beginning is no longer stored.
func (s *Store) Export(keyPrefix string) (*Export, error) {
	d, err := s.Show(keyPrefix)
	if err != nil {
		return nil, err
	}
	x := &Export{Conversation: d.Conversation, store: s}
	x.addBlocks(d)
	last := EntryInfo{}
	if len(x.blocks) > 0 {
		last = x.blocks[len(x.blocks)-1]
	}
	n := last.Position + last.Tokens
	if n == 0 || n > len(d.tokens) {
		return nil, ErrIncomplete
	}
	x.Tokens = d.tokens[:n]
	k := newKeys(d.Fingerprint, d.Format, s.safe().secret())
	x.addStates(d, k, k.chain(x.Tokens))
	return x, nil
}

// addBlocks finds the blocks from position 0 on, and the tail after them.
func (x *Export) addBlocks(d Detail) {
	for from := 0; ; from += BlockTokens {
		i := slices.IndexFunc(d.Entries, func(e EntryInfo) bool {
			return e.Kind == kindBlock.String() && e.Position == from
		})
		if i < 0 { // only a tail at the end is no beginning of a longer one
			i = slices.IndexFunc(d.Entries, func(e EntryInfo) bool {
				return e.Kind == kindTail.String() && e.Position == from && e.Key == d.Key
			})
		}
		if i < 0 {
			return
		}
		x.blocks = append(x.blocks, d.Entries[i])
		if d.Entries[i].Tokens < BlockTokens {
			return
		}
	}
}

// addStates finds the states within the tokens. That of another continuation has another key.
func (x *Export) addStates(d Detail, k keys, chain []Key) {
	for _, e := range d.Entries {
		to := e.Position + e.Tokens
		if e.Kind == kindState.String() && to > 0 && to <= len(x.Tokens) &&
			k.key(kindState, parentAt(chain, e.Position/BlockTokens),
				x.Tokens[e.Position:to]) == e.Key {
			x.states = append(x.states, e)
		}
	}
	slices.SortFunc(x.states, func(a, b EntryInfo) int {
		return cmp.Compare(a.Position+a.Tokens, b.Position+b.Tokens)
	})
	for _, e := range x.states {
		x.States = append(x.States, e.Position+e.Tokens)
	}
}

// Block reads and verifies the block or tail with the positions [from, to). The error wraps
// ErrDamaged as that of View.Read does.
func (x *Export) Block(ctx context.Context, from, to int) ([]Tensor, error) {
	e := x.blocks[from/BlockTokens]
	if e.Position+e.Tokens != to {
		return nil, fmt.Errorf("blockstore: the block at %d ends at %d, not at %d", from,
			e.Position+e.Tokens, to)
	}
	return x.read(ctx, e)
}

// State reads and verifies the state after so many tokens, one of States.
func (x *Export) State(ctx context.Context, position int) ([]Tensor, error) {
	i := slices.Index(x.States, position)
	if i < 0 {
		return nil, fmt.Errorf("blockstore: no state after %d tokens is stored", position)
	}
	return x.read(ctx, x.states[i])
}

func (x *Export) read(ctx context.Context, e EntryInfo) (tensors []Tensor, err error) {
	files := []reading{{entry: Entry{Key: e.Key, Bytes: e.Bytes, Tokens: e.Tokens}, all: &tensors}}
	x.store.markLoading(files, 1)
	defer x.store.markLoading(files, -1)
	return tensors, x.store.readEntry(ctx, files[0])
}

// allocate returns memory for all tensors of a file.
func allocate(tensors []layout) []Tensor {
	list := make([]Tensor, len(tensors))
	for i, t := range tensors {
		list[i] = Tensor{Name: t.name, Pieces: make([][]byte, t.pieces)}
		for j := range list[i].Pieces {
			list[i].Pieces[j] = make([]byte, t.pieceBytes)
		}
	}
	return list
}
