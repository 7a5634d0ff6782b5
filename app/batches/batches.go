// Package batches keeps OpenAI's files and batches (/v1/files, /v1/batches) and answers the
// requests of batches in the background.
//
//	batches.go  the Store: opening, closing, the index, limits, expiry, erasing
//	object.go   the objects of the API
//	content.go  the content of a file on disk
//	files.go    uploading, reading and deleting files
//	input.go    reading the lines of an input file
//	validate.go what is checked of them
//	run.go      the life of a batch
//	requests.go answering its requests
//	routes.go   the dialect
//
// A folder has everything:
//
//	index.sealed    all files and batches, in JSON
//	file-ID.sealed  the content of a file
//	lock            held by the program that uses the folder
//
// All of it is encrypted with a key that is derived from the installation's, and only the user can
// read it. The index is replaced atomically. It does not have the progress of a batch: that is in
// the output files, whose lines have the custom_ids of what was answered. So a batch goes on after
// a restart, or a crash, where it was. DECISIONS.md says why.
package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"headroom/app/disk"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/seal"
	"headroom/engine/server"
)

// Limits of what clients may store. Each applies to the holder of one API key, except
// maxUnfinished.
const (
	maxFileBytes     = 200 << 20 // of an uploaded file, as at OpenAI
	maxLines         = 50_000    // of an input file, as at OpenAI
	maxFiles         = 1000      // that are not expired
	maxBytes         = 4 << 30   // of all files
	maxBatches       = 1000      // ended ones included
	maxOwnUnfinished = 32        // batches of one key
	maxUnfinished    = 64        // batches of all keys
	maxLineErrors    = 100       // that a failed batch lists
	// maxMessageBytes bounds the message of such an error, since the index has all of them.
	maxMessageBytes  = 200
	maxMetadata      = 16                  // pairs of a batch
	maxMetadataBytes = 4 << 20             // of all batches
	keepTime         = 30 * 24 * time.Hour // of files and of ended batches
	window           = 24 * time.Hour      // for the completion of a batch
	minKeep          = time.Hour           // the shortest expires_after
	defaultWorkers   = 16                  // requests that run or wait at once
)

// Limits of the index.
const (
	maxIndexBytes = 64 << 20 // of the sealed file
	maxIndexText  = maxIndexBytes - 1<<20
	// maxGrowth is how much longer an unfinished batch may get: its errors, IDs and times. A byte
	// of a message takes up to 6 in JSON.
	maxGrowth = maxLineErrors*(6*maxMessageBytes+300) + 4<<10
)

// Options configure a Store. Dir and Key are required.
type Options struct {
	Dir string
	// Key returns the installation's key, or a Problem. It is called when a file is used first.
	Key func() (seal.Key, error)
	// Caller returns who has the API key with that ID; nil: it was removed.
	Caller  func(id string) *guard.Caller
	Workers int          // requests that run or wait at once; 0: 16
	Log     *slog.Logger // nil: slog.Default()

	now        func() time.Time // for tests
	fileBytes  int64            // 0: maxFileBytes
	indexText  int              // 0: maxIndexText
	slotBytes  int              // 0: the constant
	firstPause time.Duration    // before a request is sent again; 0: 1 s
}

// Store is a folder of files and batches, and what answers them. Its methods are safe for
// concurrent use.
type Store struct {
	o     Options
	turn  chan struct{} // of the batch that reads its next request
	slots chan struct{} // one for each request that runs, several for a long one

	mu      sync.Mutex
	lock    *flock.Flock // nil: not open
	key     seal.Key
	index   index
	answer  http.Handler       // nil: not started
	spare   *server.Spare      // processor time
	runs    map[string]*run    // by the ID of the batch
	ctx     context.Context    // of all runs
	stop    context.CancelFunc // ends ctx
	working sync.WaitGroup
	closed  bool
}

// New returns the store in a folder, which need not exist. Nothing is read or written before the
// first request, or Start.
func New(o Options) *Store {
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.fileBytes == 0 {
		o.fileBytes = maxFileBytes
	}
	if o.slotBytes == 0 {
		o.slotBytes = slotBytes
	}
	if o.indexText == 0 {
		o.indexText = maxIndexText
	}
	if o.firstPause == 0 {
		o.firstPause = time.Second
	}
	s := &Store{o: o, turn: make(chan struct{}, 1), slots: make(chan struct{}, o.Workers),
		runs: map[string]*run{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Start lets batches run: answer answers their requests, and spare is the time for all other work
// on them. It goes on with those that an earlier run has left.
func (s *Store) Start(answer http.Handler, spare *server.Spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.spare = answer, spare
	if _, err := os.Lstat(s.indexPath()); err != nil {
		return // there is nothing to go on with, so no key is needed
	}
	if err := s.open(); err != nil {
		s.o.Log.Warn("unfinished batches do not go on", "err", err)
	}
}

// Close ends all requests of batches. They go on after the next Start.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.stop()
	s.mu.Unlock()
	s.working.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlock()
}

func (s *Store) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

func (s *Store) indexPath() string { return filepath.Join(s.o.Dir, indexName) }

// path returns the path of the content of a file.
func (s *Store) path(id string) string { return filepath.Join(s.o.Dir, id+suffix) }

const (
	suffix    = ".sealed"
	indexName = "index" + suffix
	lockName  = "lock"
)

var ownName = regexp.MustCompile(`^(index|file-[0-9a-f]{24})\.sealed$`)

// IsOurs reports whether a file was certainly written by a Store, or is its lock.
func IsOurs(path string) bool {
	name := filepath.Base(path)
	switch {
	case name == lockName:
		info, err := os.Lstat(path)
		return err == nil && info.Mode().IsRegular() && info.Size() == 0
	case name == indexName || temporaryIndex.MatchString(name):
		return isIndex(path)
	}
	return ownName.MatchString(name) && isContent(path)
}

var temporaryIndex = regexp.MustCompile(`^\.index\.sealed\d{1,19}$`)

// isIndex reports whether path is a sealed file.
func isIndex(path string) bool {
	data, _, err := disk.Read(path, maxIndexBytes)
	return err == nil && (seal.IsFile(data) || len(data) == 0)
}

// opened calls do with the folder open. It holds mu meanwhile. Every request for files and batches
// begins with it.
func opened[T any](s *Store, do func() (T, error)) (v T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return v, err
	}
	return do()
}

// open locks the folder and reads the index, unless that is done, and drops what has expired. The
// caller holds mu. The error is a Problem.
func (s *Store) open() error {
	switch {
	case s.closed:
		return problem.New(problem.NotRunning, "The server is shutting down", "", "Try again.")
	case s.lock != nil:
		s.sweep()
		return nil
	}
	installation, err := s.o.Key()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
		return unwritable(err)
	}
	lock, err := disk.TryLock(filepath.Join(s.o.Dir, lockName), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return problem.New(problem.Overloaded,
			"Another Headroom server on this computer has the files and batches",
			"only one server at a time can have them",
			"Send the request to that server, or quit it and try again.")
	}
	if err != nil {
		return unwritable(err)
	}
	key := installation.Derive("batches", nil)
	x, err := readIndex(s.indexPath(), key)
	if err != nil {
		_ = lock.Close()
		return problem.Wrap(problem.Locked, err, "The list of files and batches cannot be read",
			"Delete the folder "+s.o.Dir+" to begin anew.")
	}
	s.lock, s.key, s.index = lock, key, x
	disk.RemoveTemporary(s.o.Dir, func(name string) bool { return name == indexName })
	s.removeUnknown()
	s.sweep()
	for _, b := range s.index.Batches {
		s.launch(b)
	}
	return nil
}

// readIndex reads the index, which need not exist.
func readIndex(path string, key seal.Key) (x index, err error) {
	data, _, err := disk.Read(path, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	h, err := seal.ParseHeader(data, int64(len(data)))
	if err != nil {
		return x, err
	}
	if h.Key != key.ID() {
		return x, seal.ErrOtherKey
	}
	box, text, data := h.Box(key, []byte(indexName)), []byte(nil), data[seal.HeaderBytes:]
	for i := range h.Chunks() {
		n := h.ChunkBytes(i) + seal.TagBytes
		chunk, err := box.Open(i, data[:n])
		if err != nil {
			return x, err
		}
		text, data = append(text, chunk...), data[n:]
	}
	return x, json.Unmarshal(text, &x)
}

// save writes the index. The caller holds mu.
func (s *Store) save() error { return s.saveWithin(s.o.indexText) }

// saveNew writes the index with a new file or batch, unless the list is nearly full. It leaves room
// for the ends of all unfinished batches: what was accepted can always be saved. The caller holds
// mu.
func (s *Store) saveNew() error {
	unfinished := 0
	for _, b := range s.index.Batches {
		if !b.Status.ended() {
			unfinished++
		}
	}
	return s.saveWithin(s.o.indexText - unfinished*maxGrowth)
}

// saveWithin writes the index if its text has at most so many bytes: a longer one could not be read
// again.
func (s *Store) saveWithin(limit int) error {
	data, err := json.Marshal(s.index)
	switch {
	case err != nil:
		return problem.Wrap(problem.Internal, err, "The list of files cannot be written", "")
	case len(data) > limit:
		return problem.New(problem.TooLarge, "The list of files and batches is full",
			fmt.Sprintf("it has %d bytes", len(data)), "Delete files, or wait until some expire.")
	}
	sealed := seal.NewHeader(s.key.ID(), chunkBytes, 0, 0).File(s.key, []byte(indexName), data)
	if err := disk.WriteFile(s.indexPath(), sealed, 0o600); err != nil {
		return unwritable(err)
	}
	disk.SyncDir(s.o.Dir)
	return nil
}

// removeUnknown removes files that the index lacks: uploads that a crash has interrupted.
func (s *Store) removeUnknown() {
	entries, _ := os.ReadDir(s.o.Dir)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if ok && e.Type().IsRegular() && ownName.MatchString(e.Name()) && e.Name() != indexName &&
			s.index.file(id) == nil && isContent(s.path(id)) {
			_ = destroy(s.path(id))
		}
	}
}

// sweep drops files and batches whose time is over. The caller holds mu.
func (s *Store) sweep() {
	now := s.o.now().Unix()
	files, batches := len(s.index.Files), len(s.index.Batches)
	s.index.Batches = slices.DeleteFunc(s.index.Batches, func(b *storedBatch) bool {
		return b.Status.ended() && b.CreatedAt+int64((keepTime+window).Seconds()) < now
	})
	s.index.Files = slices.DeleteFunc(s.index.Files, func(f *storedFile) bool {
		gone := f.ExpiresAt < now && s.user(f.ID) == nil
		if gone {
			s.destroyed(f.ID)
		}
		return gone
	})
	if len(s.index.Files) < files || len(s.index.Batches) < batches {
		if err := s.save(); err != nil {
			s.o.Log.Warn("expired files are still listed", "err", err)
		}
	}
}

// destroyed removes the content of a file, or logs why it cannot.
func (s *Store) destroyed(id string) {
	if err := destroy(s.path(id)); err != nil {
		s.o.Log.Warn("a file of a batch could not be removed", "file", id, "err", err)
	}
}

// user returns an unfinished batch that reads or writes a file; nil: there is none.
func (s *Store) user(id string) *storedBatch {
	for _, b := range s.index.Batches {
		if !b.Status.ended() && (b.InputFileID == id || b.Output == id || b.Faults == id) {
			return b
		}
	}
	return nil
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.o.Dir }

// Forget stops all batches and forgets everything, and calls erase, which may remove the files.
// Afterwards the store is empty, and may be used.
func (s *Store) Forget(erase func() error) error {
	s.mu.Lock()
	s.stop()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.working.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlock()
	err := erase()
	s.index, s.closed = index{}, was
	s.ctx, s.stop = context.WithCancel(context.Background())
	return err
}

// Erase deletes the files and batches in a folder, which need not exist. No Store may have it open.
func Erase(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := disk.TryLock(filepath.Join(dir, lockName), 0o600)
	if errors.Is(err, disk.ErrLocked) {
		return fmt.Errorf("another Headroom has them open. Quit it, then delete everything again")
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Name() == lockName || !e.Type().IsRegular() || !IsOurs(path) {
			continue
		}
		remove := destroy
		if !strings.HasPrefix(e.Name(), "file-") {
			remove = seal.DestroyFile
		}
		err = errors.Join(err, remove(path))
	}
	if path := filepath.Join(dir, lockName); IsOurs(path) {
		err = errors.Join(err, os.Remove(path))
	}
	err = errors.Join(err, lock.Close())
	disk.SyncDir(dir)
	_ = os.Remove(dir) // unless there is something else
	return err
}

// newFile returns a file that expires after the usual time.
func (s *Store) newFile(owner, name, purpose string) *storedFile {
	now := s.o.now()
	return &storedFile{Owner: owner, File: File{ID: generate.NewID("file-"), Object: "file",
		CreatedAt: now.Unix(), ExpiresAt: now.Add(keepTime).Unix(), Filename: name,
		Purpose: purpose, Status: "processed"}}
}

func unwritable(err error) error {
	if disk.IsFull(err) {
		return problem.Wrap(problem.DiskFull, err, "The disk is too full for the file",
			"Free some space, or delete files.")
	}
	return problem.Wrap(problem.Internal, err, "The file cannot be written",
		"Check the permissions of Headroom's folders.")
}

// badParam returns an error about one parameter.
var badParam = generate.BadParam
