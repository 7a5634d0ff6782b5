package cache

// Conversations as files; see engine/promptfile. A file is not encrypted, also if the cache is.

import (
	"context"
	"errors"
	"fmt"

	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
	"headroom/engine/promptfile"
)

// Exported describes a conversation that was written to a file.
type Exported struct {
	Conversation
	FileBytes int64
}

// Imported describes a conversation that was read from a file.
type Imported struct {
	Model   string `json:"model"`
	Tokens  int    `json:"tokens"`
	Entries int    `json:"entries"` // files written; those that were stored already do not count
	Bytes   int64  `json:"bytes"`   // size of these files
}

// Export writes the conversation whose key begins with these digits to a file. force replaces a
// file that is not a prompt cache. The error is a Problem.
func (c *Cache) Export(ctx context.Context, key, path string, force bool) (Exported, error) {
	if c == nil {
		return Exported{}, noCache()
	}
	s, tokens, bytes, err := promptfile.Export(ctx, c.store, key, path, force)
	switch {
	case errors.Is(err, blockstore.ErrNotFound), errors.Is(err, blockstore.ErrAmbiguous),
		errors.Is(err, blockstore.ErrClosed):
		return Exported{}, problemOf(err, key)
	case err != nil:
		return Exported{}, engine.PromptFileProblem(err, path)
	}
	x := Exported{Conversation: conversation(s), FileBytes: bytes}
	x.Tokens = tokens
	return x, nil
}

// OpenFile opens a file for Import. The caller closes it. The error is a Problem.
func OpenFile(path string) (*engine.PromptFile, error) {
	f, err := promptfile.Open(path)
	if err != nil {
		return nil, engine.PromptFileProblem(err, path)
	}
	return f, nil
}

// Import adds the conversation of a file to the cache. The error is a Problem. If a limit of the
// cache forbids a part, what comes before it is in the cache.
func (c *Cache) Import(ctx context.Context, f *engine.PromptFile, path string) (Imported, error) {
	if c == nil {
		return Imported{}, noCache()
	}
	saved, err := promptfile.Import(ctx, f, c.store)
	x := Imported{Model: f.Info().Model.Name, Tokens: len(f.Tokens()),
		Entries: saved.Blocks + saved.States, Bytes: saved.Bytes}
	switch {
	case errors.Is(err, blockstore.ErrBudget):
		return x, problem.New(problem.BadRequest,
			"A limit of the cache does not allow the whole conversation",
			fmt.Sprintf("%d files of it were written. %v", x.Entries, err),
			"Raise the limit under Cache in the settings, or free some disk space, and import it "+
				"again.")
	case errors.Is(err, blockstore.ErrClosed):
		return x, problemOf(err, "")
	}
	return x, engine.PromptFileProblem(err, path)
}
