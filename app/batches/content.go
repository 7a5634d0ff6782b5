package batches

// The content of a file on disk: records, each sealed by itself, so that answers can be appended
// one by one and a crash loses at most the last one.
//
//	 0  "HRBATCH1"
//	 8  random salt, 32 bytes: the key of the file is derived from it and the key of all batches
//	40  records: u32 length, little-endian, then the sealed bytes
//
// A record of length 0 begins a segment: 32 bytes of salt follow, from which the key of the next
// records is derived. A record's nonce is its number in its segment. Whoever opens a file to append
// begins a segment, so that no nonce is used again for what replaces a record that was cut off.
// What is sealed with a record is the ID of the file.
//
// Deleting a file overwrites the salt of the file first; see engine/seal.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"headroom/engine/seal"
)

const (
	magic       = "HRBATCH1"
	headerBytes = int64(len(magic) + seal.KeyBytes)
	lengthBytes = 4
	// recordBytes is the largest content of a record: four of the longest lines.
	recordBytes = 64 << 20
	// chunkBytes is the content of a record of an uploaded file.
	chunkBytes = 64 << 10
)

// errDamaged means that a record is not what was written. What is before it can be used.
var errDamaged = errors.New("the file is damaged")

// fileKey returns the key of a file with this salt.
func fileKey(all seal.Key, salt []byte) seal.Key { return all.Derive("batch file", salt) }

// segmentTexts seals the records of a segment.
func segmentTexts(file seal.Key, salt []byte) seal.Texts {
	return file.Derive("segment", salt).Texts()
}

// writer appends to a file. It is used by one goroutine at a time.
type writer struct {
	file  *os.File
	id    []byte
	texts seal.Texts
	next  uint64 // number of the next record of the segment
	buf   []byte
	err   error // of an earlier write; the end of the file may be incomplete
	bytes int64 // that were written to Write
}

// create creates the file with this ID at path, which must not exist.
func create(path string, all seal.Key, id string) (*writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	salt := seal.NewKey().Bytes()
	if _, err := f.Write(append([]byte(magic), salt...)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return begin(f, fileKey(all, salt), id)
}

// begin begins a segment at the end of f.
func begin(f *os.File, key seal.Key, id string) (*writer, error) {
	salt := seal.NewKey().Bytes()
	if _, err := f.Write(append(make([]byte, lengthBytes), salt...)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &writer{file: f, id: []byte(id), texts: segmentTexts(key, salt)}, nil
}

// resume opens a file to append to it after the first end bytes. The rest is removed.
func resume(path string, all seal.Key, id string, end int64) (*writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, header); err != nil || string(header[:len(magic)]) != magic {
		return nil, errors.Join(errDamaged, err, f.Close())
	}
	if err := f.Truncate(end); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return begin(f, fileKey(all, header[len(magic):]), id)
}

// Write appends a record. After an error it writes nothing more.
func (w *writer) Write(p []byte) (int, error) {
	if w.err == nil && len(p) > recordBytes {
		w.err = fmt.Errorf("a record of %d bytes, the limit is %d", len(p), recordBytes)
	}
	if w.err != nil {
		return 0, w.err
	}
	sealed := w.texts.Seal(w.next, p, w.id)
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(len(sealed)))
	w.buf = append(w.buf, sealed...)
	if _, w.err = w.file.Write(w.buf); w.err != nil {
		return 0, w.err
	}
	w.next++
	w.bytes += int64(len(p))
	return len(p), nil
}

// close makes the content durable.
func (w *writer) close() error { return errors.Join(w.err, w.file.Sync(), w.file.Close()) }

// reader reads the content of a file. Its end is a record that was cut off, or the end of the file.
type reader struct {
	file  *os.File
	in    *bufio.Reader
	id    []byte
	key   seal.Key
	texts seal.Texts
	next  uint64
	ready bool   // a segment has begun
	left  []byte // of the current record
	end   int64  // of the last whole record or segment header
	size  int64  // of the file when it was opened
}

// open opens the file with this ID at path.
func open(path string, all seal.Key, id string) (*reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errDamaged
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := newReader(f, info.Size(), all, id)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.file = f
	return r, nil
}

// newReader reads from a file of so many bytes.
func newReader(in io.Reader, size int64, all seal.Key, id string) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(in, chunkBytes), id: []byte(id), end: headerBytes,
		size: size}
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(r.in, header); err != nil || string(header[:len(magic)]) != magic {
		return nil, errors.Join(errDamaged, err)
	}
	r.key = fileKey(all, header[len(magic):])
	return r, nil
}

func (r *reader) close() { _ = r.file.Close() }

// Read implements io.Reader. The error of what was changed is errDamaged.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		record, err := r.record()
		if err != nil {
			return 0, err
		}
		r.left = record
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// record returns the next record. It is valid until the next call.
func (r *reader) record() ([]byte, error) {
	for {
		var length [lengthBytes]byte
		if _, err := io.ReadFull(r.in, length[:]); err != nil {
			return nil, io.EOF
		}
		n := int64(binary.LittleEndian.Uint32(length[:]))
		segment := n == 0
		if segment {
			n = seal.KeyBytes
		}
		switch {
		case r.end+lengthBytes+n > r.size:
			return nil, io.EOF // cut off
		case n > recordBytes+seal.TagBytes || !segment && !r.ready:
			return nil, errDamaged
		}
		sealed := make([]byte, n)
		if _, err := io.ReadFull(r.in, sealed); err != nil {
			return nil, io.EOF
		}
		if segment {
			r.texts, r.next, r.ready = segmentTexts(r.key, sealed), 0, true
			r.end += lengthBytes + n
			continue
		}
		text, err := r.texts.Open(r.next, sealed, r.id)
		if err != nil {
			return nil, errDamaged
		}
		r.next++
		r.end += lengthBytes + n
		return text, nil
	}
}

// skip skips the next n bytes of the content. It does not decrypt the records that it skips as a
// whole.
func (r *reader) skip(n int64) error {
	for n > 0 && len(r.left) == 0 {
		length, err := r.in.Peek(lengthBytes)
		if err != nil {
			return io.EOF
		}
		sealed := int64(binary.LittleEndian.Uint32(length))
		if text := sealed - seal.TagBytes; !r.ready || text <= 0 || text > n ||
			sealed > recordBytes {
			break // it begins a segment, or has what is wanted, or is damaged
		}
		if _, err := r.in.Discard(int(lengthBytes + sealed)); err != nil {
			return io.EOF
		}
		r.next++
		r.end += lengthBytes + sealed
		n -= sealed - seal.TagBytes
	}
	for n > 0 { // of the record that has the place, or of the first one of a segment
		record, err := r.record()
		if err != nil {
			return err
		}
		if int64(len(record)) > n {
			r.left, n = record[n:], 0
			break
		}
		if n -= int64(len(record)); n > 0 {
			return r.skip(n)
		}
	}
	return nil
}

// isContent reports whether path is a file whose content was written here. A crash may have cut off
// its beginning.
func isContent(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	begin := make([]byte, len(magic))
	n, _ := io.ReadFull(f, begin)
	return string(begin[:n]) == magic[:n]
}

// destroy makes a file unreadable and removes it. A missing file is no error. What was not written
// here stays, and is an error.
func destroy(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !isContent(path) {
		return fmt.Errorf("%s is not a file of Headroom's", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		_, err = f.WriteAt(make([]byte, seal.KeyBytes), int64(len(magic)))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	return errors.Join(err, os.Remove(path))
}
