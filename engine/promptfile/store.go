package promptfile

// Conversations of a store as files, and back. No model is needed for either.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headroom/engine/blockstore"
)

// Export writes a conversation of the store to a file, in the clear, and returns what it has
// written. key and its errors are as for blockstore.Store.Show; path, replace and other errors are
// as for Write.
func Export(ctx context.Context, s *blockstore.Store, key, path string,
	replace bool) (c blockstore.Conversation, tokens int, bytes int64, err error) {
	x, err := s.Export(key)
	if err != nil {
		return c, 0, 0, err
	}
	first, err := x.Block(ctx, 0, min(blockstore.BlockTokens, len(x.Tokens)))
	if err != nil {
		return c, 0, 0, err
	}
	content := Content{
		Info: Info{Model: blockstore.Model{Fingerprint: x.Fingerprint, Format: x.Format,
			Name: x.Model}, Continues: ContinuesAnswer, Title: x.Title, Created: time.Now()},
		Tokens: x.Tokens, PageTokens: pageTokens(first, len(x.Tokens)), States: x.States,
		Block: func(from, to int) ([]blockstore.Tensor, error) { return x.Block(ctx, from, to) },
		State: func(position int) ([]blockstore.Tensor, error) { return x.State(ctx, position) },
	}
	bytes, err = Write(ctx, path, replace, content)
	return x.Conversation, len(x.Tokens), bytes, err
}

// pageTokens returns the number of tokens of a page, which the store does not know, from the pieces
// of the first block. Of a tail alone it is the least that fits.
func pageTokens(first []blockstore.Tensor, tokens int) int {
	page := blockstore.BlockTokens // for models without pages
	if len(first) == 0 || len(first[0].Pieces) == 0 {
		return page
	}
	pieces := len(first[0].Pieces)
	if tokens >= blockstore.BlockTokens {
		return page / pieces
	}
	for page/2*pieces >= tokens && page > 1 {
		page /= 2
	}
	return page
}

// Import stores a file's conversation as one of the store, until Stop or the end of ctx. What is
// stored already stays. If a limit of the store forbids a part, the rest before it is stored, and
// the error wraps blockstore.ErrBudget.
func Import(ctx context.Context, f *File, s *blockstore.Store) (saved blockstore.Saved, err error) {
	var failed error // the error of the file
	take := func(tensors []blockstore.Tensor, err error) []blockstore.Tensor {
		if err != nil {
			failed = err
			return nil
		}
		return tensors
	}
	ended := make(chan blockstore.Saved, 1)
	q := blockstore.Sequence{Tokens: f.Tokens(), Tail: true, Title: f.info.Title,
		// The user asks for it, so it may use the whole budget of the day.
		Reused: true,
		KV:     func(from, _ int) []blockstore.Tensor { return take(f.Block(from)) },
		Stop:   func() bool { return ctx.Err() != nil },
		Done:   func(done blockstore.Saved) { ended <- done }}
	for _, position := range f.States() {
		q.States = append(q.States, blockstore.State{Position: position,
			Tensors: func() []blockstore.Tensor { return take(f.State(position)) }})
	}
	if !s.Model(f.info.Model).Save(q) {
		return saved, fmt.Errorf("promptfile: %w", blockstore.ErrClosed)
	}
	saved = <-ended
	switch {
	case failed != nil:
		return saved, failed
	case errors.Is(saved.Err, blockstore.ErrClosed) && ctx.Err() != nil:
		return saved, ctx.Err()
	}
	return saved, saved.Err
}
