package blockstore

// Reading entries back. Every byte goes through the checksum on its way to the caller's pieces;
// only when the last file is through does Load say that they are right. Files are read in pieces
// that stay in the processor's cache, several files at once.

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// readBytes is what is read at once: enough for the disk, little enough for the cache.
const readBytes = 256 << 10

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBytes); return &b }}

// reading is one file to be read.
type reading struct {
	entry   Entry
	targets []Tensor
}

// Load reads and verifies what Find found, several files at once, and fills the pieces that kv
// gives for a block and state for the state; both are called before anything is read, on the
// caller's goroutine, in order. On an error what was filled must not be used. A file that is
// damaged is removed and counted, and the error wraps ErrDamaged, as it does for a file that was
// removed since Find.
func (v *View) Load(ctx context.Context, p Prefix, kv func(b Block) []Tensor,
	state func() []Tensor) error {
	var files []reading
	if p.State != nil { // first: it is by far the largest
		files = append(files, reading{*p.State, state()})
	}
	for _, b := range p.Blocks {
		files = append(files, reading{b.Entry, kv(b)})
	}
	if len(files) == 0 {
		return nil
	}
	v.store.markLoading(files, 1)
	defer v.store.markLoading(files, -1)
	if err := v.readAll(ctx, files); err != nil {
		return err
	}
	used := touched{deepest: files[len(files)-1].entry.Key, at: v.store.o.now()}
	for _, f := range files {
		used.keys = append(used.keys, f.entry.Key)
	}
	if p.State != nil {
		used.deepest = p.State.Key
	}
	for _, b := range p.Blocks {
		if b.Entry.Tokens > 0 {
			used.seconds += b.Entry.Seconds * float64(b.To-b.From) / float64(b.Entry.Tokens)
		}
	}
	v.store.touchLater(used)
	return nil
}

// readAll shares the files out to readers, in order. The first error stops them.
func (v *View) readAll(ctx context.Context, files []reading) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan reading)
	var readers sync.WaitGroup
	for range min(v.store.o.Readers, len(files)) {
		readers.Go(func() {
			for f := range next {
				if err := v.store.readEntry(ctx, f); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, f := range files {
		select {
		case next <- f:
		case <-ctx.Done():
		}
	}
	close(next)
	readers.Wait()
	return context.Cause(ctx)
}

// damage is a fault of a file that removing it mends.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// readEntry reads one file into its targets. A damaged one is removed.
func (s *Store) readEntry(ctx context.Context, r reading) error {
	path := entryPath(s.dir, r.entry.Key)
	f, err := s.o.disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.drop(r.entry.Key, nil)
		return fmt.Errorf("%w: %s was removed", ErrDamaged, path)
	}
	if err == nil {
		defer f.Close()
		err = readContent(ctx, f, r)
	}
	if d := (damage{}); errors.As(err, &d) {
		s.drop(r.entry.Key, err)
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if err != nil {
		return fmt.Errorf("blockstore: %s: %w", path, err)
	}
	return nil
}

// drop removes an entry that cannot be read, for the reason why; nil: its file is gone. Then others
// may be gone too, so a sweep begins.
func (s *Store) drop(k Key, why error) {
	lost := false
	err := s.change(func(tx *sql.Tx) error {
		if why != nil {
			if err := s.removeFile(k); err != nil {
				return err
			}
		} else if s.exists(k) { // somebody wrote it again
			return nil
		}
		dropped, err := dropRow(tx, k)
		if dropped || why != nil {
			s.count("damaged", 1)
		}
		lost = dropped && why == nil
		return err
	})
	if lost && err == nil {
		err = s.sweepAgain()
	}
	if why != nil {
		s.note("damaged", why)
	}
	if err != nil {
		s.note("remove", err)
	}
}

func (s *Store) exists(k Key) bool {
	_, err := s.o.disk.Stat(entryPath(s.dir, k))
	return err == nil
}

func readContent(ctx context.Context, f readFile, r reading) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	src := &source{ctx: ctx, f: f, buffer: *buffer, left: info.Size() - checksumBytes}
	h, err := src.header(info.Size())
	if err != nil {
		return err
	}
	if info.Size() != r.entry.Bytes || h.key() != r.entry.Key {
		return damage{fmt.Errorf("%d bytes of entry %s, expected %d of %s", info.Size(), h.key(),
			r.entry.Bytes, r.entry.Key)}
	}
	if w := r.entry.want; len(w) > len(h.tokens) || !slices.Equal(w, h.tokens[:len(w)]) {
		return damage{errors.New("other tokens than the index says")}
	}
	if err := src.fill(h.tensors, r.targets); err != nil {
		return err
	}
	sum, err := src.checksum()
	if err != nil {
		return err
	}
	if sum != src.crc {
		return damage{fmt.Errorf("checksum %08x, expected %08x", src.crc, sum)}
	}
	return nil
}

// source reads a file from the beginning and sums what it reads, up to the checksum at the end.
type source struct {
	ctx      context.Context
	f        io.Reader
	buffer   []byte
	from, to int   // buffer[from:to] is read and not yet taken
	left     int64 // bytes before the checksum that are not read yet
	crc      uint32
}

// more reads on behind what is in the buffer, which has room. A file that ends early is damaged, as
// is one that the disk cannot read.
func (s *source) more() error {
	if err := s.ctx.Err(); err != nil {
		return err // not its cause, which may be the damage of another file
	}
	n := int(min(s.left, int64(len(s.buffer)-s.to)))
	if n <= 0 {
		return damage{io.ErrUnexpectedEOF}
	}
	got, err := io.ReadFull(s.f, s.buffer[s.to:s.to+n])
	s.crc = crc32.Update(s.crc, castagnoli, s.buffer[s.to:s.to+got])
	s.to += got
	s.left -= int64(got)
	if err != nil {
		return damage{err}
	}
	return nil
}

// header reads and checks the beginning of a file of size bytes.
func (s *source) header(size int64) (*header, error) {
	if s.left < 8 {
		return nil, damage{fmt.Errorf("%d bytes, too few for an entry", size)}
	}
	if err := s.more(); err != nil {
		return nil, err
	}
	n, err := jsonLength(s.buffer[:s.to], size)
	if err != nil {
		return nil, damage{err}
	}
	if most := 8 + n + 4*BlockTokens; most > len(s.buffer) {
		s.buffer = append(bytes.Clone(s.buffer[:s.to]), make([]byte, most-s.to)...)
		if err := s.more(); err != nil {
			return nil, err
		}
	}
	h, at, err := decode(s.buffer[:s.to], size)
	if err != nil {
		return nil, damage{err}
	}
	s.from = at
	return h, nil
}

// fill takes the tensors as they lie in the file into the targets of their names; what has no
// target is only summed.
func (s *source) fill(tensors []layout, targets []Tensor) error {
	found := 0
	for _, t := range tensors {
		var pieces [][]byte
		if i := slices.IndexFunc(targets,
			func(target Tensor) bool { return target.Name == t.name }); i >= 0 {
			pieces = targets[i].Pieces
			found++
		}
		if len(pieces) > t.pieces {
			return damage{fmt.Errorf("tensor %q has %d pieces, %d are wanted", t.name, t.pieces,
				len(pieces))}
		}
		for i := range t.pieces {
			var piece []byte
			if i < len(pieces) {
				piece = pieces[i]
			}
			if piece != nil && len(piece) != t.pieceBytes {
				return damage{fmt.Errorf("tensor %q has pieces of %d bytes, %d are wanted", t.name,
					t.pieceBytes, len(piece))}
			}
			if err := s.take(piece, t.pieceBytes); err != nil {
				return err
			}
		}
	}
	if found != len(targets) {
		return damage{fmt.Errorf("%d of %d tensors are there", found, len(targets))}
	}
	return nil
}

// take moves n bytes into piece, or over them if it is nil.
func (s *source) take(piece []byte, n int) error {
	for n > 0 {
		if s.from == s.to {
			s.from, s.to = 0, 0
			if err := s.more(); err != nil {
				return err
			}
		}
		k := min(n, s.to-s.from)
		if piece != nil {
			piece = piece[copy(piece, s.buffer[s.from:s.from+k]):]
		}
		s.from += k
		n -= k
	}
	return nil
}

// checksum reads the sum that the file ends with.
func (s *source) checksum() (uint32, error) {
	var last [checksumBytes]byte
	if s.from != s.to || s.left != 0 {
		return 0, damage{errors.New("more bytes than tensors")}
	}
	if _, err := io.ReadFull(s.f, last[:]); err != nil {
		return 0, damage{err}
	}
	return binary.LittleEndian.Uint32(last[:]), nil
}

// markLoading counts the files in or out of those that may not be evicted.
func (s *Store) markLoading(files []reading, by int) {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	for _, f := range files {
		if s.loading[f.entry.Key] += by; s.loading[f.entry.Key] == 0 {
			delete(s.loading, f.entry.Key)
		}
	}
}

func (s *Store) isLoading(k Key) bool {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	return s.loading[k] > 0
}
