// Package promptfile keeps the prefix cache of one prompt or conversation in one file. Prompt
// caches are saved and used by commands, and carry a conversation to another computer. Like
// engine/blockstore, whose terms it uses, it stores bytes and does not depend on models or devices.
//
// # The file
//
// It is a safetensors file that any reader can open:
//
//	tokens              I32 [tokens]
//	pages.NAME          U8  [pages, bytes of a page]   keys and values, in the cache's format
//	states.N.NAME       U8  [1, bytes of a slot]       states after N tokens; rings belong to them
//	sha256              U8  [1+blocks+states, 32]
//
// NAME is that of the engine's tensor, such as layers.3.k. The metadata has the model, the
// fingerprint of its weights, the format of the cache, and as JSON which pages and states there
// are (layout). Pages of the first tokens may have another format and other names than the rest, so
// the layout has one part for each.
//
// Row 0 of sha256 is the hash of the file's bytes before the first tensor, of tokens, and of the
// other rows. Then there is a row for each block of 256 tokens, which is the hash of its pages in
// all tensors of its part, and one for each state. So a block is verified when it is read, and
// every byte of the file is covered.
//
// # Guarantees
//
//   - A file appears whole: it is written under a temporary name, synced and renamed. Only the user
//     can read it.
//   - No wrong byte of a file is used, whatever happens to the file meanwhile. Sizes are checked
//     before they are used, and hashes before anything counts as read.
//
// The hashes find damage, not malice: who makes a file decides what a model remembers.
package promptfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"headroom/engine/blockstore"
)

// formatVersion names the layout of files.
const formatVersion = "headroom prompt cache 1"

// Errors that callers can test for with errors.Is.
var (
	// ErrForeign means that a file is no prompt cache, or one of another program or version.
	ErrForeign = errors.New("it is not a prompt cache of this version of Headroom")
	// ErrDamaged means that a prompt cache is truncated or changed.
	ErrDamaged = errors.New("the prompt cache is damaged")
	// ErrExists means that Write would replace a file that is no prompt cache.
	ErrExists = errors.New("the file exists and is not a prompt cache")
)

// Continues says how a prompt goes on after the tokens of a file.
type Continues string

// The values of Continues.
const (
	ContinuesText    Continues = "text"    // as plain text
	ContinuesMessage Continues = "message" // within the user's last message
	ContinuesAnswer  Continues = "answer"  // after an answer, or within one: with the next message
)

// Info describes a prompt cache. Model, Continues and Created are required.
type Info struct {
	Model blockstore.Model
	// Computation says how keys and values were computed, as far as their bits depend on it, in
	// words for an error; "": unknown.
	Computation string
	Continues   Continues
	Options     string // of the program that wrote it, as JSON; "": unknown
	Title       string // for lists
	Created     time.Time
}

// Content is what Write writes.
type Content struct {
	Info
	Tokens     []int32 // at least one
	PageTokens int     // tokens of a page, a divisor of blockstore.BlockTokens
	States     []int   // number of tokens before each state, ascending
	// Block returns the pages with positions [from, to). Its names and sizes are those of the first
	// block, or from some block on, others. A piece is valid until the next call.
	Block func(from, to int) ([]blockstore.Tensor, error)
	// State returns the state after so many tokens. All states have the same names and sizes.
	State func(position int) ([]blockstore.Tensor, error)
}

// layout is the JSON in the metadata that says what the tensors are.
type layout struct {
	PageTokens   int      `json:"page_tokens"`
	Parts        []part   `json:"parts"`
	States       []int    `json:"states"`
	StateTensors []string `json:"state_tensors"`
}

// part is a range of tokens whose pages are in the same tensors. It begins where the part before it
// ends, at a multiple of blockstore.BlockTokens.
type part struct {
	To      int      `json:"to"`
	Tensors []string `json:"tensors"`
}

// maxParts bounds the parts of a file: the start of a conversation, and the rest.
const maxParts = 2

func pageName(name string) string { return "pages." + name }

func stateName(position int, name string) string {
	return fmt.Sprintf("states.%d.%s", position, name)
}

// Names of the other tensors, and of the metadata.
const (
	tokensName = "tokens"
	hashesName = "sha256"

	metaFormat      = "format"
	metaModel       = "model"
	metaFingerprint = "fingerprint"
	metaCache       = "cache_format"
	metaComputation = "computation"
	metaContinues   = "continues"
	metaOptions     = "options"
	metaTitle       = "title"
	metaCreated     = "created"
	metaLayout      = "layout"
)

// blocks returns the number of blocks of so many tokens.
func blocks(tokens int) int {
	return (tokens + blockstore.BlockTokens - 1) / blockstore.BlockTokens
}

// check returns an error if the layout does not fit so many tokens.
func (l *layout) check(tokens int) error {
	p := l.PageTokens
	if p < 1 || p > blockstore.BlockTokens || blockstore.BlockTokens%p != 0 {
		return fmt.Errorf("pages of %d tokens, expected a divisor of %d", p, blockstore.BlockTokens)
	}
	if len(l.Parts) == 0 || len(l.Parts) > maxParts {
		return fmt.Errorf("%d parts, expected 1 to %d", len(l.Parts), maxParts)
	}
	from := 0
	for i, part := range l.Parts {
		last := i == len(l.Parts)-1
		if part.To <= from || last != (part.To == tokens) ||
			!last && part.To%blockstore.BlockTokens != 0 {
			return fmt.Errorf("a part from %d to %d of %d tokens", from, part.To, tokens)
		}
		from = part.To
	}
	at := 0
	for _, position := range l.States {
		if position <= at || position > tokens {
			return fmt.Errorf("a state after %d of %d tokens, the one before it after %d", position,
				tokens, at)
		}
		at = position
	}
	return nil
}

// pages returns the number of pages of positions [from, to).
func (l *layout) pages(from, to int) int { return (to - from + l.PageTokens - 1) / l.PageTokens }

// partOf returns the part of the block at position from, and where the part begins.
func (l *layout) partOf(from int) (p part, begin int) {
	for _, p = range l.Parts {
		if from < p.To {
			return p, begin
		}
		begin = p.To
	}
	return p, begin // from is beyond the tokens
}

// rootHash returns row 0 of the hashes.
func rootHash(header, tokens, rows []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(header)
	h.Write(tokens)
	h.Write(rows)
	return [sha256.Size]byte(h.Sum(nil))
}

func names(tensors []blockstore.Tensor) []string {
	list := make([]string, len(tensors))
	for i := range tensors {
		list[i] = tensors[i].Name
	}
	return list
}

func sameNames(tensors []blockstore.Tensor, want []string) bool {
	return slices.Equal(names(tensors), want)
}
