package chats

// The encrypted file of a conversation; see engine/seal for the format. Its chunks are so short
// that the list of conversations opens only the first one, which has the header line. A chunk that
// does not open is read as empty lines, so that the messages in the others can still be shown.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"headroom/app/disk"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

const (
	suffix      = ".chat"
	saltSuffix  = ".salt"
	plainSuffix = ".json"
	chunkBytes  = maxHeaderBytes
	// maxFileBytes is more than the largest conversation takes when it is sealed.
	maxFileBytes = maxBytes + maxBytes/256
	lockWait     = 5 * time.Second // for another program that is writing
)

func (s *Store) path(id string) string      { return filepath.Join(s.dir, id+suffix) }
func (s *Store) saltPath(id string) string  { return filepath.Join(s.dir, id+saltSuffix) }
func (s *Store) plainPath(id string) string { return filepath.Join(s.dir, id+plainSuffix) }

// keys opens conversations.
type keys struct {
	chats seal.Key // of all conversations
	id    seal.ID
	salt  func(id string) ([]byte, error)
}

// keys returns the keys of this store, or a Problem.
func (s *Store) keys() (keys, error) {
	installation, err := s.key()
	if err != nil {
		return keys{}, err
	}
	k := installation.Derive("chats", nil)
	return keys{k, k.ID(), func(id string) ([]byte, error) { return readSalt(s.saltPath(id)) }}, nil
}

// exists reports whether there is a file of the conversation, encrypted or not.
func (s *Store) exists(id string) bool {
	_, err := os.Lstat(s.path(id))
	return err == nil || s.plainExists(id)
}

// conversations returns the IDs of the conversations in a folder. A pipe, a folder or a link is one
// if it has a salt beside it: it has replaced a conversation's file.
func conversations(entries []fs.DirEntry) []string {
	var ids []string
	salts := map[string]bool{}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), saltSuffix); ok && e.Type().IsRegular() {
			salts[id] = true
		}
	}
	for _, e := range entries {
		id, sealed := strings.CutSuffix(e.Name(), suffix)
		id, plain := strings.CutSuffix(id, plainSuffix)
		if sealed != plain && validID.MatchString(id) && (e.Type().IsRegular() || salts[id]) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// readSalt returns the salt in a file; seal.ErrNoSalt if it is missing, cut off or destroyed. A
// longer file is not a salt.
func readSalt(path string) ([]byte, error) {
	salt, info, err := readFile(path, seal.KeyBytes+1)
	switch {
	case errors.Is(err, fs.ErrNotExist),
		err == nil && (len(salt) < seal.KeyBytes || isZero(salt)):
		return nil, seal.ErrNoSalt
	case err == nil && len(salt) > seal.KeyBytes:
		return nil, fmt.Errorf("%s has %d bytes, expected %d", path, info.Size(), seal.KeyBytes)
	}
	return salt, err
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// replace writes a conversation's file atomically and syncs the folder. The caller holds the lock.
func (s *Store) replace(k keys, id string, data []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	salt, err := k.salt(id)
	if errors.Is(err, seal.ErrNoSalt) {
		// Beside a plain conversation, half a salt is what a crash has left of its migration.
		if err := checkOurs(s.saltPath(id)); err != nil && !s.plainExists(id) {
			return err
		}
		// No readable conversation needs another salt: base and migrate see to that.
		salt = seal.NewKey().Bytes()
		if err = disk.WriteFile(s.saltPath(id), salt, 0o600); err == nil {
			disk.SyncDir(s.dir) // the salt must not be lost where the conversation is not
		}
	}
	if err != nil {
		return err
	}
	file := seal.NewHeader(k.id, chunkBytes, 0, 0).File(k.chats.Derive("chat", salt), []byte(id),
		data)
	if err := disk.WriteFile(s.path(id), file, 0o600); err != nil {
		return err
	}
	disk.SyncDir(s.dir)
	return nil
}

// destroy removes a conversation, its key first and its salt's file last: a salt of zeros says that
// the rest was meant to go, too. It removes nothing if one of the files is not certainly a Store's.
func (s *Store) destroy(id string) error {
	for _, path := range []string{s.path(id), s.plainPath(id), s.saltPath(id)} {
		if err := checkOurs(path); err != nil {
			return err
		}
	}
	if err := seal.OverwriteFile(s.saltPath(id)); err != nil {
		return err
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.destroyPlain(id); err != nil {
		return err
	}
	if err := os.Remove(s.saltPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	disk.SyncDir(s.dir)
	return nil
}

// checkOurs returns a notOurs if there is something at path that is not certainly a Store's.
func checkOurs(path string) error {
	if _, err := os.Lstat(path); err == nil && !IsOurs(path) {
		return notOurs{path}
	}
	return nil
}

// notOurs means that something in the place of a conversation's file is not certainly a Store's.
type notOurs struct{ path string }

func (e notOurs) Error() string {
	return e.path + " may be somebody's: it is not a file that Headroom has written, or too " +
		"damaged to be known again"
}

// lock keeps other programs from writing. It locks the folder, so that no file is left behind. On
// file systems without locks it does nothing. s.mu is locked, until unlock has been called. The
// error is a Problem.
func (s *Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return func() {}, nil // writing has the same error
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	l := flock.New(s.dir, flock.SetFlag(os.O_RDONLY))
	if _, err := l.TryLockContext(ctx, 5*time.Millisecond); errors.Is(err,
		context.DeadlineExceeded) {
		return nil, problem.New(problem.Busy, "The conversations are in use by another program",
			fmt.Sprintf("it has locked %s for %v", s.dir, lockWait), "Try again in a moment.")
	}
	s.locked = true
	return func() {
		s.locked = false
		_ = l.Close()
	}, nil
}

// read reads a whole file. The error is that of reading it; damage is in the summary.
func (k keys) read(path, id string) (Chat, fs.FileInfo, error) {
	data, info, err := readFile(path, maxFileBytes+1)
	if err == nil && len(data) > maxFileBytes {
		err = errors.New(path + ": " + tooLong(info.Size()))
	}
	if err != nil {
		return Chat{}, nil, err
	}
	damage := ""
	if filepath.Ext(path) == suffix {
		data, _, damage = k.open(data, id, info.Size())
	}
	c := parse(data, id)
	if damage != "" {
		c.Summary.Damage = damage
	}
	return c, info, nil
}

// beginning returns the first bytes of a file's text, at least the header line, and the length of
// the whole text. The text is nil if nothing can be read.
func (k keys) beginning(path, id string) (text []byte, size int64, damage string) {
	data, info, err := readFile(path, seal.HeaderBytes+chunkBytes+seal.TagBytes)
	if err != nil {
		return nil, 0, "it cannot be read: " + err.Error()
	}
	if filepath.Ext(path) != suffix {
		return data, info.Size(), ""
	}
	return k.open(data, id, info.Size())
}

// open opens as many chunks as data has, at least the first. fileBytes is the length of the file,
// and size the length of its text.
func (k keys) open(data []byte, id string, fileBytes int64) (text []byte, size int64,
	damage string) {
	h, err := seal.ParseHeader(data, fileBytes)
	switch {
	case errors.Is(err, seal.ErrLength):
		damage = fmt.Sprintf("it has %d bytes, expected %d", fileBytes, h.FileBytes())
	case err != nil || h.Chunk != chunkBytes || h.Length > maxBytes:
		return nil, 0, "it is not an encrypted conversation"
	}
	if h.Key != k.id {
		return nil, 0, "it was encrypted with another key"
	}
	salt, err := k.salt(id)
	if err != nil {
		return nil, 0, missingKey(err)
	}
	box, bad := h.Box(k.chats.Derive("chat", salt), []byte(id)), 0
	text, data = []byte{}, data[seal.HeaderBytes:]
	for i := int64(0); i < h.Chunks() && (i == 0 || len(data) > 0); i++ {
		n := h.ChunkBytes(i)
		sealed := data[:min(n+seal.TagBytes, len(data))]
		data = data[len(sealed):]
		chunk, err := box.Open(i, sealed)
		if err != nil {
			bad++
			chunk = bytes.Repeat([]byte("\n"), n)
		}
		text = append(text, chunk...)
	}
	if len(data) > 0 && damage == "" {
		damage = fmt.Sprintf("%d bytes follow its end", len(data))
	}
	if bad > 0 && damage == "" {
		damage = damagedParts(bad, h.Chunks())
	}
	return text, h.Length, damage
}

func missingKey(err error) string {
	if errors.Is(err, seal.ErrNoSalt) {
		return "its key is missing or was destroyed"
	}
	return "its key cannot be read: " + err.Error()
}

func damagedParts(bad int, of int64) string {
	switch {
	case of == 1:
		return "its content is damaged"
	case bad == 1:
		return fmt.Sprintf("1 of its %d parts is damaged", of)
	}
	return fmt.Sprintf("%d of its %d parts are damaged", bad, of)
}
