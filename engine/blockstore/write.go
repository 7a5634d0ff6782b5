package blockstore

// An entry is written in five steps: reserve its bytes with a row, write the file under a temporary
// name, sync it, rename it, mark the row ready. A crash in between leaves a row that no query
// returns and a file that is never read. The next sweep cleans up.

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"headroom/engine/seal"
)

// writeEntry reserves an entry's bytes, writes its file and marks its row ready. It returns the
// bytes written, or 0 if the entry exists.
func (s *Store) writeEntry(w *saving, h *header, tensors []Tensor) (int64, error) {
	if s.ctx.Err() != nil {
		return 0, ErrClosed
	}
	for _, t := range tensors {
		l := layout{name: t.Name, pieces: len(t.Pieces)}
		for i, p := range t.Pieces {
			if i == 0 {
				l.pieceBytes = len(p)
			}
			if len(p) != l.pieceBytes {
				return 0, fmt.Errorf("blockstore: tensor %q: piece %d has %d bytes, expected %d, "+
					"the length of piece 0", t.Name, i, len(p), l.pieceBytes)
			}
		}
		h.tensors = append(h.tensors, l)
	}
	h.sealed = w.keys.secret != nil
	head, err := h.encode()
	if err != nil {
		return 0, err
	}
	length := int64(len(head)-4*len(h.tokens)) + h.dataBytes()
	size := length
	if h.sealed {
		size = seal.NewHeader(seal.ID{}, sealedChunk, 0, length).FileBytes()
	}
	key := h.key(w.keys.secret)
	reserved := false
	out := sink{head: head, tensors: tensors}
	var refused error
	if err := s.change(func(tx *sql.Tx) (err error) {
		var slot uint32
		var entry seal.Key
		reserved, slot, entry, err = s.reserve(tx, w, h, key, size)
		if reserved && h.sealed {
			out.sealed = seal.NewHeader(s.safe().id, sealedChunk, slot, length)
			out.box = out.sealed.Box(entry, key[:])
		}
		if errors.Is(err, ErrBudget) {
			refused, err = err, nil
		}
		return err
	}); err != nil || !reserved {
		return 0, errors.Join(err, refused)
	}
	written, err := s.writeFile(key, out)
	if err == nil {
		err = s.change(func(tx *sql.Tx) error { return s.ready(tx, key) })
		if err == nil {
			return size, nil
		}
	}
	// If this fails too, the next sweep removes the row.
	undo := s.change(func(tx *sql.Tx) error { return s.giveUp(tx, key, size-written) })
	return 0, errors.Join(err, undo)
}

// ready marks the row of a complete file, so that queries return it. If the row has been removed
// since, ready removes the file, unless a new index has already adopted it.
func (s *Store) ready(tx *sql.Tx, k Key) error {
	r, err := tx.Exec("UPDATE entries SET status = 1, owner = '' WHERE key = ? AND owner = ?", k[:],
		s.owner)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var rows int
	if err := tx.QueryRow("SELECT count(*) FROM entries WHERE key = ?",
		k[:]).Scan(&rows); err != nil || rows > 0 {
		return err
	}
	err = s.removeFile(k)
	return errors.Join(fmt.Errorf("blockstore: entry %s was removed while it was written", k), err)
}

// giveUp removes the row of an entry whose write failed and returns its unwritten bytes to the
// day's budget.
func (s *Store) giveUp(tx *sql.Tx, k Key, unwritten int64) error {
	var rows int
	if err := tx.QueryRow("SELECT count(*) FROM entries WHERE key = ? AND owner = ?", k[:],
		s.owner).Scan(&rows); err != nil || rows == 0 {
		return err
	}
	if err := s.destroySlot(tx, k); err != nil {
		return err
	}
	if _, err := tx.Exec("DELETE FROM entries WHERE key = ?", k[:]); err != nil {
		return err
	}
	// The file may be in place, if only marking its row ready has failed.
	if err := s.removeFile(k); err != nil {
		return err
	}
	_, err := tx.Exec("UPDATE totals SET today = max(0, today - ?), ever = max(0, ever - ?)",
		unwritten, unwritten)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tempPath returns a new path for a file that is being written.
func (s *Store) tempPath() string {
	return filepath.Join(s.dir, tempDir, fmt.Sprintf("%s.%d", s.owner, s.temps.Add(1)))
}

// writeFile writes an entry's file under a temporary name and renames it. It creates missing
// folders.
func (s *Store) writeFile(k Key, out sink) (written int64, err error) {
	temp := s.tempPath()
	f, err := s.o.disk.Create(temp)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.o.disk.MkdirAll(filepath.Dir(temp)); err != nil {
			return 0, err
		}
		f, err = s.o.disk.Create(temp)
	}
	if err != nil {
		return 0, err
	}
	c := &countingWriter{w: f}
	err = out.write(c)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		path := entryPath(s.dir, k)
		if err = s.o.disk.Rename(temp, path); errors.Is(err, fs.ErrNotExist) {
			if err = s.o.disk.MkdirAll(filepath.Dir(path)); err == nil {
				err = s.o.disk.Rename(temp, path)
			}
		}
	}
	if err != nil {
		if removed := s.o.disk.Remove(temp); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return c.n, err
}

// sink is a file to write.
type sink struct {
	head    []byte // the content up to the engine's first tensor
	tensors []Tensor
	sealed  seal.Header
	box     *seal.Box // nil: the file is not encrypted
}

func (o sink) write(w io.Writer) error {
	if o.box != nil {
		return o.writeSealed(w)
	}
	crc := crc32.Update(0, castagnoli, o.head)
	if _, err := w.Write(o.head); err != nil {
		return err
	}
	var small bytes.Buffer // collects short pieces for one write
	for _, t := range o.tensors {
		for _, p := range t.Pieces {
			crc = crc32.Update(crc, castagnoli, p)
			small.Write(p)
			if small.Len() >= readBytes {
				if _, err := small.WriteTo(w); err != nil {
					return err
				}
			}
		}
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(small.Bytes(), crc))
	return err
}

// writeSealed collects chunks, seals them in place, and writes several at once.
func (o sink) writeSealed(w io.Writer) error {
	const sealedBytes = sealedChunk + seal.TagBytes
	buffer := o.sealed.Append(make([]byte, 0, readBytes+seal.HeaderBytes+sealedBytes))
	from, chunk := len(buffer), int64(0) // of the chunk that is being collected
	add := func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), o.sealed.ChunkBytes(chunk)-(len(buffer)-from))
			buffer = append(buffer, b[:n]...)
			b = b[n:]
			if len(buffer)-from < o.sealed.ChunkBytes(chunk) {
				return nil
			}
			buffer = append(buffer[:from], o.box.Seal(chunk, buffer[from:])...)
			from = len(buffer)
			chunk++
			if len(buffer) >= readBytes || chunk == o.sealed.Chunks() {
				if _, err := w.Write(buffer); err != nil {
					return err
				}
				buffer, from = buffer[:0], 0
			}
		}
		return nil
	}
	if err := add(o.head); err != nil {
		return err
	}
	for _, t := range o.tensors {
		for _, p := range t.Pieces {
			if err := add(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// countingWriter counts the bytes written.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
