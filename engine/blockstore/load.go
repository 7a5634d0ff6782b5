package blockstore

// This file reads entries. The checksum at the end of a file covers every byte that is copied into
// the caller's pieces, so the pieces are valid only after Read returns. Several files are read
// concurrently, in parts that fit the CPU cache.

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

	"headroom/engine/seal"
)

// readBytes is the size of one read: large enough for the disk, small enough for the CPU cache.
const readBytes = 256 << 10

// bufferBytes is room for readBytes of content in sealed chunks.
const bufferBytes = readBytes + readBytes/sealedChunk*seal.TagBytes

var readBuffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

// reading is one file to read.
type reading struct {
	entry   Entry
	targets []Tensor
	all     *[]Tensor // if not nil, gets all tensors of the file, in place of targets
}

// Read reads and verifies the entries of a Prefix, several files concurrently. It fills the pieces
// kv(b) with block b, and the pieces state() with the recurrent state. Read calls both functions on
// the caller's goroutine, in order, before it reads anything. After an error the pieces must not be
// used. A damaged file is removed and counted. The error wraps ErrDamaged if a file is damaged or
// was removed since Find.
func (v *View) Read(ctx context.Context, p Prefix, kv func(b Block) []Tensor,
	state func() []Tensor) error {
	files := p.files(kv, state)
	if len(files) == 0 {
		return nil
	}
	v.store.markLoading(files, 1)
	defer v.store.markLoading(files, -1)
	return v.readAll(ctx, files)
}

// files returns the files of the prefix, with the memory to read them into.
func (p Prefix) files(kv func(b Block) []Tensor, state func() []Tensor) []reading {
	var files []reading
	if p.State != nil { // first, because it is by far the largest
		files = append(files, reading{entry: *p.State, targets: state()})
	}
	for _, b := range p.Blocks {
		files = append(files, reading{entry: b.Entry, targets: kv(b)})
	}
	return files
}

// Used counts a hit: a request uses the entries of a Prefix, which have been read.
func (v *View) Used(p Prefix) {
	used := touched{at: v.store.o.now()}
	if p.State != nil {
		used.deepest = p.State.Key
		used.keys = append(used.keys, p.State.Key)
	}
	for _, b := range p.Blocks {
		used.keys = append(used.keys, b.Entry.Key)
		if p.State == nil {
			used.deepest = b.Entry.Key
		}
	}
	if len(used.keys) == 0 {
		return
	}
	for _, b := range p.Blocks {
		if b.Entry.Tokens > 0 {
			used.seconds += b.Entry.Seconds * float64(b.To-b.From) / float64(b.Entry.Tokens)
		}
	}
	v.store.touchLater(used)
}

// readAll distributes the files to the readers, in order. The first error stops them.
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

// damage is an error in a file's content. Removing the file repairs the store.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// readEntry reads one file into its targets. It removes a damaged file.
func (s *Store) readEntry(ctx context.Context, r reading) error {
	path := entryPath(s.dir, r.entry.Key)
	f, err := s.o.disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.drop(r.entry.Key, nil)
		return fmt.Errorf("%w: %s was removed", ErrDamaged, path)
	}
	if err == nil {
		defer f.Close()
		err = s.safe().readContent(ctx, f, r)
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

// drop removes an entry that could not be read. why is the error, or nil if the file is missing. If
// one file is missing, others may be too, so drop starts a sweep.
func (s *Store) drop(k Key, why error) {
	lost := false
	err := s.change(func(tx *sql.Tx) error {
		if why != nil {
			if err := s.removeFiles(tx, k); err != nil {
				return err
			}
		} else if s.exists(k) { // written again meanwhile
			return nil
		}
		dropped, err := s.dropRow(tx, k)
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
		s.warnOnce("damaged", why)
	}
	if err != nil {
		s.warnOnce("remove", err)
	}
}

func (s *Store) exists(k Key) bool {
	_, err := s.o.disk.Stat(entryPath(s.dir, k))
	return err == nil
}

func (s *safe) readContent(ctx context.Context, f readFile, r reading) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	src := &source{ctx: ctx, f: f, buffer: *buffer}
	if err := s.begin(src, info.Size(), r.entry.Key); err != nil {
		return err
	}
	h, err := src.header()
	if err != nil {
		return err
	}
	if k := h.key(s.secret()); info.Size() != r.entry.Bytes || k != r.entry.Key {
		return damage{fmt.Errorf("%d bytes of entry %s, expected %d of %s", info.Size(), k,
			r.entry.Bytes, r.entry.Key)}
	}
	if w := r.entry.want; len(w) > len(h.tokens) || !slices.Equal(w, h.tokens[:len(w)]) {
		return damage{errors.New("its tokens differ from the index's")}
	}
	targets := r.targets
	if r.all != nil {
		targets = allocate(h.tensors)
		*r.all = targets
	}
	if err := src.fill(h.tensors, targets); err != nil {
		return err
	}
	sum, err := src.checksum()
	if err != nil || src.box != nil {
		return err
	}
	if sum != src.crc {
		return damage{fmt.Errorf("checksum %08x, expected %08x", src.crc, sum)}
	}
	return nil
}

// source reads a content from the beginning up to the checksum, and computes the checksum. Of a
// sealed file it reads several chunks at once and opens them in place, one by one.
type source struct {
	ctx      context.Context
	f        io.Reader
	buffer   []byte
	from, to int   // buffer[from:to] is content that is not yet used
	size     int64 // of the content, with the checksum
	left     int64 // bytes before the checksum that are not in the buffer yet
	crc      uint32

	box    *seal.Box // nil: the file is not encrypted
	sealed seal.Header
	chunk  int64 // the next one to open
	// buffer[rawFrom:rawTo] has sealed chunks.
	rawFrom, rawTo int
}

// begin prepares to read the content of a file of fileBytes bytes.
func (s *safe) begin(src *source, fileBytes int64, k Key) error {
	if s == nil {
		src.size, src.left = fileBytes, fileBytes-checksumBytes
		return nil
	}
	var head [seal.HeaderBytes]byte
	if _, err := io.ReadFull(src.f, head[:]); err != nil {
		return damage{err}
	}
	h, err := seal.ParseHeader(head[:], fileBytes)
	if err != nil {
		return damage{err}
	}
	if h.Key != s.id || h.Chunk != sealedChunk {
		return damage{errors.New("another folder's key sealed it, or another version did")}
	}
	entry, err := s.slots.Key(h.Slot)
	if errors.Is(err, seal.ErrNoSalt) {
		return damage{err}
	}
	if err != nil {
		return err
	}
	src.sealed, src.box = h, h.Box(entry, k[:])
	src.size, src.left = h.Length, h.Length
	return nil
}

// open opens the next chunk in place, and reads more chunks first if necessary. All content in the
// buffer has been used.
func (s *source) open() error {
	if err := s.ctx.Err(); err != nil {
		return err // as in more
	}
	if s.chunk == s.sealed.Chunks() {
		return damage{io.ErrUnexpectedEOF}
	}
	const sealedBytes = sealedChunk + seal.TagBytes
	if s.rawFrom == s.rawTo {
		want := min(int64(len(s.buffer)/sealedBytes*sealedBytes),
			s.left+seal.TagBytes*(s.sealed.Chunks()-s.chunk))
		if _, err := io.ReadFull(s.f, s.buffer[:want]); err != nil {
			return damage{err}
		}
		s.rawFrom, s.rawTo = 0, int(want)
	}
	n := s.sealed.ChunkBytes(s.chunk)
	if _, err := s.box.Open(s.chunk,
		s.buffer[s.rawFrom:s.rawFrom+n+seal.TagBytes]); err != nil {
		return damage{err}
	}
	s.from, s.to = s.rawFrom, s.rawFrom+n
	s.rawFrom += n + seal.TagBytes
	s.chunk++
	s.left -= int64(n)
	return nil
}

// more reads into the free end of the buffer, which must not be empty. A file that ends early, or
// that the disk cannot read, is damaged.
func (s *source) more() error {
	if err := s.ctx.Err(); err != nil {
		return err // not context.Cause, which may be the damage of another file
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

// header reads and checks the beginning of the content.
func (s *source) header() (*header, error) {
	head, err := s.head()
	if err != nil {
		return nil, err
	}
	h, at, err := decode(head, s.size, s.box != nil)
	if err != nil {
		return nil, damage{err}
	}
	s.from = s.to - (len(head) - at)
	return h, nil
}

// head reads the content up to the engine's first tensor or beyond. The content's end in the buffer
// is the end of the result.
func (s *source) head() ([]byte, error) {
	if s.left < 8 {
		return nil, damage{fmt.Errorf("%d bytes, too few for an entry", s.size)}
	}
	if err := s.refill(); err != nil {
		return nil, err
	}
	n, err := jsonLength(s.buffer[s.from:s.to], s.size)
	if err != nil {
		return nil, damage{err}
	}
	need := int(min(int64(8+n+4*BlockTokens), s.size))
	head := s.buffer[s.from:s.to]
	if need <= len(head) || s.left == 0 {
		return head, nil
	}
	head = bytes.Clone(head)
	for len(head) < need && s.left > 0 {
		if err := s.refill(); err != nil {
			return nil, err
		}
		head = append(head, s.buffer[s.from:s.to]...)
	}
	return head, nil
}

// refill reads or opens the next part of the content. All content in the buffer has been used.
func (s *source) refill() error {
	if s.box != nil {
		return s.open()
	}
	s.from, s.to = 0, 0
	return s.more()
}

// fill reads the tensors in file order into the targets with their names. For a tensor without a
// target, it only updates the checksum.
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
			return damage{fmt.Errorf("tensor %q has %d pieces, want %d", t.name, t.pieces,
				len(pieces))}
		}
		for i := range t.pieces {
			var piece []byte
			if i < len(pieces) {
				piece = pieces[i]
			}
			if piece != nil && len(piece) != t.pieceBytes {
				return damage{fmt.Errorf("tensor %q has pieces of %d bytes, want %d", t.name,
					t.pieceBytes, len(piece))}
			}
			if err := s.take(piece, t.pieceBytes); err != nil {
				return err
			}
		}
	}
	if found != len(targets) {
		return damage{fmt.Errorf("the file has %d of %d tensors", found, len(targets))}
	}
	return nil
}

// take copies n bytes to piece, or skips them if it is nil.
func (s *source) take(piece []byte, n int) error {
	for n > 0 {
		if s.from == s.to {
			if err := s.refill(); err != nil {
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

// checksum reads the checksum at the end of the file. A sealed file has none.
func (s *source) checksum() (uint32, error) {
	var last [checksumBytes]byte
	if s.from != s.to || s.left != 0 {
		return 0, damage{errors.New("bytes follow the last tensor")}
	}
	if s.box != nil { // opening the chunks has verified them
		return 0, nil
	}
	if _, err := io.ReadFull(s.f, last[:]); err != nil {
		return 0, damage{err}
	}
	return binary.LittleEndian.Uint32(last[:]), nil
}

// markLoading adds delta to the number of Reads that are reading each file. Such a file is not
// evicted.
func (s *Store) markLoading(files []reading, delta int) {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	for _, f := range files {
		if s.loading[f.entry.Key] += delta; s.loading[f.entry.Key] == 0 {
			delete(s.loading, f.entry.Key)
		}
	}
}

func (s *Store) isLoading(k Key) bool {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	return s.loading[k] > 0
}
