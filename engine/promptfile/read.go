package promptfile

// Reading, of files that are not trusted. The header is checked when a file is opened, with the
// tokens and the hashes. Pages and states are read with system calls and compared with their hash,
// so a file that is truncated or changed while it is open is damaged, and no fault.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"headroom/engine/blockstore"
	"headroom/engine/safetensors"
)

// File is an open prompt cache. Its methods are safe for concurrent use, but for Close.
type File struct {
	info   Info
	tokens []int32
	layout layout
	at     map[string]region
	hashes []byte // without the row of the root
	bytes  int64
	in     interface {
		io.ReaderAt
		io.Closer
	}
}

// Open opens a file and checks all of it but pages and states. The error wraps ErrForeign or
// ErrDamaged if the file is at fault.
func Open(path string) (*File, error) {
	mapped, err := safetensors.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	defer mapped.Close()
	in, err := mapped.Reader()
	if err != nil {
		return nil, err
	}
	f := &File{in: in}
	if err := f.parse(mapped); err != nil {
		in.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// openError returns why a file that is no safetensors file cannot be opened.
func openError(path string, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", path, ErrForeign, err)
}

// Close closes the file.
func (f *File) Close() error { return f.in.Close() }

// Info describes the prompt cache.
func (f *File) Info() Info { return f.info }

// Tokens returns the tokens, which the caller must not change.
func (f *File) Tokens() []int32 { return f.tokens }

// States returns the numbers of tokens after which there is a state, ascending. The caller must not
// change them.
func (f *File) States() []int { return f.layout.States }

// Bytes returns the size of the file.
func (f *File) Bytes() int64 { return f.bytes }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// parse reads everything but pages and states.
func (f *File) parse(mapped *safetensors.File) error {
	meta := mapped.Metadata()
	switch version := meta[metaFormat]; version {
	case formatVersion:
	case "":
		return ErrForeign
	default:
		return fmt.Errorf("%w: its format is %.60q, expected %q", ErrForeign, version,
			formatVersion)
	}
	if err := f.parseInfo(meta); err != nil {
		return err
	}
	tokens, err := f.read(mapped, tokensName, safetensors.I32, 1)
	if err != nil {
		return err
	}
	f.tokens = make([]int32, len(tokens)/4)
	for i := range f.tokens {
		f.tokens[i] = int32(binary.LittleEndian.Uint32(tokens[4*i:]))
	}
	if i := slices.IndexFunc(f.tokens, func(t int32) bool { return t < 0 }); i >= 0 {
		return damaged("token %d is %d", i, f.tokens[i])
	}
	if err := f.layout.check(len(f.tokens)); err != nil {
		return damaged("%v", err)
	}
	hashes, err := f.read(mapped, hashesName, safetensors.U8, 2)
	if err != nil {
		return err
	}
	rows := 1 + blocks(len(f.tokens)) + len(f.layout.States)
	if len(hashes) != rows*sha256.Size {
		return damaged("%d bytes of hashes, expected %d", len(hashes), rows*sha256.Size)
	}
	f.hashes = hashes[sha256.Size:]
	header := make([]byte, headerBytes(mapped))
	if _, err := f.in.ReadAt(header, 0); err != nil {
		return damaged("%v", err)
	}
	root := rootHash(header, tokens, f.hashes)
	if !bytes.Equal(root[:], hashes[:sha256.Size]) {
		return damaged("its header, tokens or hashes have changed")
	}
	return f.place(mapped)
}

// headerBytes returns the number of bytes before the first tensor.
func headerBytes(mapped *safetensors.File) int {
	first := math.MaxInt
	for _, name := range mapped.Names() {
		t, _ := mapped.Tensor(name)
		first = min(first, t.From)
	}
	return first
}

func (f *File) parseInfo(meta map[string]string) error {
	f.info = Info{Model: blockstore.Model{Fingerprint: meta[metaFingerprint],
		Format: meta[metaCache], Name: meta[metaModel]}, Computation: meta[metaComputation],
		Continues: Continues(meta[metaContinues]), Options: meta[metaOptions],
		Title: meta[metaTitle]}
	var err error
	if f.info.Created, err = time.Parse(time.RFC3339, meta[metaCreated]); err != nil {
		return damaged("its time is %.40q", meta[metaCreated])
	}
	switch f.info.Continues {
	case ContinuesText, ContinuesMessage, ContinuesAnswer:
	default:
		return damaged("it continues with %.40q", meta[metaContinues])
	}
	if f.info.Model.Fingerprint == "" || f.info.Model.Format == "" {
		return damaged("it does not name a model and a format")
	}
	if err := json.Unmarshal([]byte(meta[metaLayout]), &f.layout); err != nil {
		return damaged("its layout is not valid: %v", err)
	}
	return nil
}

// read returns the data of a tensor. It is no larger than the file.
func (f *File) read(mapped *safetensors.File, name string, dtype safetensors.DType,
	dims int) ([]byte, error) {
	t, ok := mapped.Tensor(name)
	if !ok || t.DType != dtype || len(t.Shape) != dims {
		return nil, damaged("it has no tensor %q of type %s", name, dtype)
	}
	data := make([]byte, t.To-t.From)
	if _, err := f.in.ReadAt(data, int64(t.From)); err != nil {
		return nil, damaged("%v", err)
	}
	return data, nil
}

// place finds the tensors of the layout, and checks that there are no others.
func (f *File) place(mapped *safetensors.File) error {
	f.at = map[string]region{}
	f.bytes = int64(len(mapped.Mapping()))
	add := func(name string, rows int) error {
		t, ok := mapped.Tensor(name)
		_, twice := f.at[name]
		if !ok || twice || t.DType != safetensors.U8 || len(t.Shape) != 2 || t.Shape[0] != rows ||
			t.Shape[1] == 0 {
			return damaged("it has no tensor %.80q of %d rows", name, rows)
		}
		f.at[name] = region{int64(t.From), int64(t.Shape[1])}
		return nil
	}
	begin := 0
	for _, p := range f.layout.Parts {
		for _, name := range p.Tensors {
			if err := add(pageName(name), f.layout.pages(begin, p.To)); err != nil {
				return err
			}
		}
		begin = p.To
	}
	for _, position := range f.layout.States {
		for _, name := range f.layout.StateTensors {
			if err := add(stateName(position, name), 1); err != nil {
				return err
			}
		}
	}
	if extra := len(mapped.Names()) - len(f.at) - 2; extra != 0 {
		return damaged("it has %d tensors that its layout does not name", extra)
	}
	return nil
}

// Read reads the prefix of all tokens: the blocks from position from on into the pieces block
// returns, and the last state into those of state, which is nil if no state is needed. It calls
// both on the caller's goroutine before it reads anything. Nil pieces are skipped, but verified.
// After an error the pieces must not be used; it wraps ErrDamaged if the file is at fault.
func (f *File) Read(ctx context.Context, from int,
	block func(b blockstore.Block) []blockstore.Tensor, state func() []blockstore.Tensor) error {
	var work []func() error
	if state != nil {
		if len(f.layout.States) == 0 {
			return damaged("it has no state")
		}
		targets := state()
		work = append(work, func() error { return f.readState(len(f.layout.States)-1, targets) })
	}
	for i := from / blockstore.BlockTokens; i < blocks(len(f.tokens)); i++ {
		b := f.blockAt(i)
		targets := block(b)
		work = append(work, func() error { return f.readBlock(b, targets) })
	}
	return inParallel(ctx, work)
}

// readers is the number of blocks that are read at once.
const readers = 4

// inParallel does all of the work, or stops at an error.
func inParallel(ctx context.Context, work []func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan func() error)
	var running sync.WaitGroup
	for range min(readers, len(work)) {
		running.Go(func() {
			for do := range next {
				if err := do(); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, do := range work {
		select {
		case next <- do:
		case <-ctx.Done():
		}
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}

func (f *File) blockAt(i int) blockstore.Block {
	from := i * blockstore.BlockTokens
	return blockstore.Block{From: from, To: min(from+blockstore.BlockTokens, len(f.tokens))}
}

// Block reads the block or tail that begins at a multiple of blockstore.BlockTokens.
func (f *File) Block(from int) ([]blockstore.Tensor, error) {
	b := f.blockAt(from / blockstore.BlockTokens)
	p, _ := f.layout.partOf(from)
	targets := f.allocate(p.Tensors, f.layout.pages(b.From, b.To), pageName)
	return targets, f.readBlock(b, targets)
}

// State reads the state after so many tokens, one of States.
func (f *File) State(position int) ([]blockstore.Tensor, error) {
	i := slices.Index(f.layout.States, position)
	if i < 0 {
		return nil, fmt.Errorf("promptfile: there is no state after %d tokens", position)
	}
	targets := f.allocate(f.layout.StateTensors, 1,
		func(name string) string { return stateName(position, name) })
	return targets, f.readState(i, targets)
}

// allocate returns memory for pieces, which is no larger than the file.
func (f *File) allocate(names []string, pieces int, named func(string) string) []blockstore.Tensor {
	list := make([]blockstore.Tensor, len(names))
	for i, name := range names {
		list[i] = blockstore.Tensor{Name: name, Pieces: make([][]byte, pieces)}
		for j := range list[i].Pieces {
			list[i].Pieces[j] = make([]byte, f.at[named(name)].pieceBytes)
		}
	}
	return list
}

func (f *File) readBlock(b blockstore.Block, targets []blockstore.Tensor) error {
	p, begin := f.layout.partOf(b.From)
	err := f.fill(p.Tensors, targets, f.layout.pages(b.From, b.To),
		(b.From-begin)/f.layout.PageTokens, b.From/blockstore.BlockTokens, pageName)
	if err != nil {
		return fmt.Errorf("tokens %d to %d: %w", b.From, b.To, err)
	}
	return nil
}

func (f *File) readState(i int, targets []blockstore.Tensor) error {
	position := f.layout.States[i]
	err := f.fill(f.layout.StateTensors, targets, 1, 0, blocks(len(f.tokens))+i,
		func(name string) string { return stateName(position, name) })
	if err != nil {
		return fmt.Errorf("the state after %d tokens: %w", position, err)
	}
	return nil
}

// fill reads pieces of tensors into the targets with their names and compares them with a row of
// the hashes.
func (f *File) fill(names []string, targets []blockstore.Tensor, pieces, row, hash int,
	named func(string) string) error {
	sum, found := sha256.New(), 0
	var skipped []byte
	for _, name := range names {
		at := f.at[named(name)]
		var into [][]byte
		if i := slices.IndexFunc(targets,
			func(t blockstore.Tensor) bool { return t.Name == name }); i >= 0 {
			into = targets[i].Pieces
			if found++; len(into) != pieces {
				return damaged("tensor %q has %d pieces, expected %d", name, pieces, len(into))
			}
		}
		for i := range pieces {
			var piece []byte
			if into != nil {
				piece = into[i]
			}
			if piece == nil {
				if int64(len(skipped)) < at.pieceBytes {
					skipped = make([]byte, at.pieceBytes)
				}
				piece = skipped[:at.pieceBytes]
			}
			if int64(len(piece)) != at.pieceBytes {
				return damaged("tensor %q has pieces of %d bytes, expected %d", name, at.pieceBytes,
					len(piece))
			}
			if _, err := f.in.ReadAt(piece, at.from+int64(row+i)*at.pieceBytes); err != nil {
				return damaged("%v", err)
			}
			sum.Write(piece)
		}
	}
	if found != len(targets) {
		return damaged("it has %d of %d tensors", found, len(targets))
	}
	if !bytes.Equal(sum.Sum(nil), f.hashes[hash*sha256.Size:][:sha256.Size]) {
		return damaged("its bytes have changed")
	}
	return nil
}
