package promptfile

// Writing. The engine has the pages of a block in all layers at once, and a tensor of the file has
// one layer for all tokens. So each page is written at its place, block by block.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/blockstore"
	"headroom/engine/safetensors"
)

// Write writes a file that only the user can read, and returns its size. It replaces a file at path
// that is a prompt cache, and any other file only if replace is true. The error wraps ErrExists if
// there is such a file; it then stays. After any error nothing is left.
func Write(ctx context.Context, path string, replace bool, c Content) (bytes int64, err error) {
	if err := CheckTarget(path, replace); err != nil {
		return 0, err
	}
	w := &writer{ctx: ctx, c: &c}
	if err := w.plan(); err != nil {
		return 0, fmt.Errorf("promptfile: %w", err)
	}
	dir, base := filepath.Split(path)
	w.out, err = os.CreateTemp(filepath.Clean(dir+"."), "."+base+".*") // with mode 0600
	if err != nil {
		return 0, err
	}
	temp := w.out.Name()
	err = w.write()
	if err == nil {
		err = w.out.Sync()
	}
	err = errors.Join(err, w.out.Close())
	if err == nil {
		err = CheckTarget(path, replace) // writing may have taken minutes
	}
	if err == nil {
		err = place(temp, path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(temp))
	}
	disk.SyncDir(filepath.Dir(path))
	return w.size, nil
}

// place renames a file that has been written. What is at path may be replaced.
func place(temp, path string) error {
	err := disk.Rename(temp, path) // replaces nothing
	if errors.Is(err, fs.ErrExist) {
		return os.Rename(temp, path)
	}
	return err
}

// CheckTarget returns an error unless Write may write to path.
func CheckTarget(path string, replace bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file", ErrExists, path)
	case replace || isPromptCache(path):
		return nil
	}
	return fmt.Errorf("%w: %s", ErrExists, path)
}

// isPromptCache reports whether a file has the header of a prompt cache, of any version.
func isPromptCache(path string) bool {
	f, err := safetensors.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	version, _, _ := strings.Cut(formatVersion, " 1")
	return strings.HasPrefix(f.Metadata()[metaFormat], version)
}

// writer is the state of one Write.
type writer struct {
	ctx    context.Context
	c      *Content
	layout layout
	header []byte
	tokens []byte
	at     map[string]region
	hashes []byte
	out    *os.File
	size   int64
}

// region is the place of a tensor in the file.
type region struct {
	from, pieceBytes int64
}

// plan finds the parts and lays out the file.
func (w *writer) plan() error {
	c := w.c
	w.layout = layout{PageTokens: c.PageTokens, States: c.States, StateTensors: []string{}}
	if w.layout.States == nil {
		w.layout.States = []int{}
	}
	if len(c.Tokens) == 0 {
		return errors.New("there are no tokens to write")
	}
	for _, t := range c.Tokens {
		w.tokens = binary.LittleEndian.AppendUint32(w.tokens, uint32(t))
	}
	tensors := []safetensors.Tensor{
		{Name: tokensName, DType: safetensors.I32, Shape: []int{len(c.Tokens)}},
		{Name: hashesName, DType: safetensors.U8,
			Shape: []int{1 + blocks(len(c.Tokens)) + len(c.States), sha256.Size}}}
	pieces := map[string]int64{}
	add := func(name string, t blockstore.Tensor, rows int) error {
		if len(t.Pieces) == 0 || len(t.Pieces[0]) == 0 {
			return fmt.Errorf("tensor %q is empty", t.Name)
		}
		pieces[name] = int64(len(t.Pieces[0]))
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.U8,
			Shape: []int{rows, len(t.Pieces[0])}})
		return nil
	}
	if err := w.addParts(add); err != nil {
		return err
	}
	if err := w.addStates(add); err != nil {
		return err
	}
	if err := w.layout.check(len(c.Tokens)); err != nil {
		return err
	}
	if err := w.makeHeader(tensors); err != nil {
		return err
	}
	w.at = map[string]region{}
	w.size = int64(len(w.header))
	for _, t := range tensors {
		w.at[t.Name] = region{int64(t.From), pieces[t.Name]}
		w.size = max(w.size, int64(t.To))
	}
	return nil
}

// addParts adds the tensors of the pages.
func (w *writer) addParts(add func(string, blockstore.Tensor, int) error) error {
	total := len(w.c.Tokens)
	for from := 0; from < total; {
		first, err := w.block(from / blockstore.BlockTokens)
		if err != nil {
			return err
		}
		p := part{Tensors: names(first)}
		if p.To, err = w.partEnd(from, p.Tensors); err != nil {
			return err
		}
		for _, t := range first {
			if err := add(pageName(t.Name), t, w.layout.pages(from, p.To)); err != nil {
				return err
			}
		}
		w.layout.Parts = append(w.layout.Parts, p)
		from = p.To
	}
	return nil
}

// partEnd returns where the part that begins at from ends.
func (w *writer) partEnd(from int, tensors []string) (int, error) {
	begin, total := from/blockstore.BlockTokens, len(w.c.Tokens)
	var failed error
	n := sort.Search(blocks(total)-begin, func(i int) bool {
		t, err := w.block(begin + i)
		failed = errors.Join(failed, err)
		return !sameNames(t, tensors)
	})
	return min((begin+n)*blockstore.BlockTokens, total), failed
}

// addStates adds the tensors of the states.
func (w *writer) addStates(add func(string, blockstore.Tensor, int) error) error {
	if len(w.c.States) == 0 {
		return nil
	}
	first, err := w.c.State(w.c.States[0])
	if err != nil {
		return err
	}
	w.layout.StateTensors = names(first)
	for _, position := range w.c.States {
		for _, t := range first {
			if err := add(stateName(position, t.Name), t, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeHeader encodes the metadata and sets the places of the tensors.
func (w *writer) makeHeader(tensors []safetensors.Tensor) error {
	shape, err := json.Marshal(w.layout)
	if err != nil {
		return err
	}
	c := w.c
	meta := map[string]string{metaFormat: formatVersion, metaModel: c.Model.Name,
		metaFingerprint: c.Model.Fingerprint, metaCache: c.Model.Format,
		metaComputation: c.Computation, metaContinues: string(c.Continues),
		metaOptions: c.Options, metaTitle: c.Title,
		metaCreated: c.Created.UTC().Format(time.RFC3339), metaLayout: string(shape)}
	for name, text := range meta {
		meta[name] = strings.ToValidUTF8(text, "\uFFFD")
	}
	w.header, err = safetensors.Header(tensors, meta)
	return err
}

// block returns the tensors of a block.
func (w *writer) block(i int) ([]blockstore.Tensor, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	from := i * blockstore.BlockTokens
	return w.c.Block(from, min(from+blockstore.BlockTokens, len(w.c.Tokens)))
}

// write writes the whole file.
func (w *writer) write() error {
	for i := range blocks(len(w.c.Tokens)) {
		from := i * blockstore.BlockTokens
		to := min(from+blockstore.BlockTokens, len(w.c.Tokens))
		tensors, err := w.block(i)
		if err != nil {
			return err
		}
		p, begin := w.layout.partOf(from)
		if err := w.tensors(tensors, p.Tensors, w.layout.pages(from, to),
			(from-begin)/w.c.PageTokens, pageName); err != nil {
			return err
		}
	}
	for _, position := range w.c.States {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		tensors, err := w.c.State(position)
		if err != nil {
			return err
		}
		if err := w.tensors(tensors, w.layout.StateTensors, 1, 0,
			func(name string) string { return stateName(position, name) }); err != nil {
			return err
		}
	}
	root := rootHash(w.header, w.tokens, w.hashes)
	for _, part := range []struct {
		bytes []byte
		at    int64
	}{{w.header, 0}, {w.tokens, w.at[tokensName].from}, {root[:], w.at[hashesName].from},
		{w.hashes, w.at[hashesName].from + sha256.Size}} {
		if _, err := w.out.WriteAt(part.bytes, part.at); err != nil {
			return err
		}
	}
	return nil
}

// tensors writes the given number of pieces of each tensor, from a row of its place on, and adds
// their hash.
func (w *writer) tensors(tensors []blockstore.Tensor, want []string, pieces, row int,
	named func(string) string) error {
	if !sameNames(tensors, want) {
		return fmt.Errorf("promptfile: tensors %q, expected %q", names(tensors), want)
	}
	h := sha256.New()
	for _, t := range tensors {
		at := w.at[named(t.Name)]
		if len(t.Pieces) != pieces {
			return fmt.Errorf("promptfile: tensor %q has %d pieces, expected %d", t.Name,
				len(t.Pieces), pieces)
		}
		for i, piece := range t.Pieces {
			if int64(len(piece)) != at.pieceBytes {
				return fmt.Errorf("promptfile: tensor %q has a piece of %d bytes, expected %d",
					t.Name, len(piece), at.pieceBytes)
			}
			h.Write(piece)
			if _, err := w.out.WriteAt(piece, at.from+int64(row+i)*at.pieceBytes); err != nil {
				return err
			}
		}
	}
	w.hashes = h.Sum(w.hashes)
	return nil
}
