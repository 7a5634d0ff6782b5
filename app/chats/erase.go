package chats

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"headroom/app/disk"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// ownName matches the names of the files that a Store writes. The groups are a point, which begins
// the name of an unfinished file, the ID, the suffix, and the number of an unfinished file.
var ownName = regexp.MustCompile(
	`^(\.?)([a-z0-9][a-z0-9-]{0,63})(\.json|\.chat|\.salt)([0-9]*)$`)

// IsOurs reports whether a Store has written the file, by its name and its content. If the header
// of a conversation is damaged, the salt beside it and noise in the rest show whose it is.
func IsOurs(path string) bool {
	name := ownName.FindStringSubmatch(filepath.Base(path))
	if name == nil || (name[1] == "") != (name[4] == "") {
		return false
	}
	data, info, err := readFile(path, maxHeaderBytes)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	switch unfinished := name[1] != ""; name[3] {
	case suffix:
		if unfinished {
			return seal.IsFile(data) || len(data) == 0
		}
		return seal.IsFile(data) || hasSalt(path) && isRest(data)
	case saltSuffix:
		return info.Size() == seal.KeyBytes || unfinished && info.Size() < seal.KeyBytes
	}
	var h header
	if len(data) > 0 && isZero(data) {
		return true // a deletion that was interrupted
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return json.Unmarshal(first, &h) == nil && h.Version > 0 && h.ID == name[2]
}

// hasSalt reports whether there is a salt beside a conversation, destroyed or not.
func hasSalt(path string) bool {
	info, err := os.Lstat(strings.TrimSuffix(path, suffix) + saltSuffix)
	return err == nil && info.Mode().IsRegular() && info.Size() == seal.KeyBytes
}

// isRest reports whether data is what may be left of a conversation whose header is damaged:
// nothing, zeros, or noise after the header. Text and files in well-known formats are not.
func isRest(data []byte) bool {
	if isZero(data) {
		return true
	}
	body := data[min(len(data), seal.HeaderBytes):]
	values := map[byte]bool{}
	for _, b := range body {
		values[b] = true
	}
	// So many of the 256 values are in as many random bytes.
	expected := 256 * (1 - math.Pow(255.0/256, float64(len(body))))
	return len(body) >= minBodyBytes && float64(len(values)) > 0.8*expected &&
		http.DetectContentType(data) == "application/octet-stream"
}

// minBodyBytes is less than the shortest conversation takes, and enough to tell noise from text.
const minBodyBytes = 64

// Erase removes all conversations, damaged ones too, and the folder if it is then empty. Until the
// program ends, writes to these conversations fail with problem.NotFound: a page that still has one
// open must not save it again. The error is a Problem.
func (s *Store) Erase() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if !e.Type().IsRegular() || !IsOurs(path) {
			continue
		}
		if s.erased == nil {
			s.erased = map[string]bool{}
		}
		s.erased[ownName.FindStringSubmatch(e.Name())[2]] = true
		if !strings.HasSuffix(path, suffix) { // a salt, or a text that is not encrypted
			err = errors.Join(err, seal.OverwriteFile(path))
		}
		if removed := os.Remove(path); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	disk.SyncDir(s.dir)
	_ = os.Remove(s.dir) // fails if it holds files of others
	clear(s.known)
	s.changed()
	if err != nil {
		return problem.Wrap(problem.Internal, err, "Not all conversations could be deleted",
			"Check that you may change the files in "+s.dir+".")
	}
	return nil
}

// Dir returns the folder of the conversations.
func (s *Store) Dir() string { return s.dir }

// checkErased returns a Problem if Erase has removed the conversation.
func (s *Store) checkErased(id string) error {
	if s.erased[id] {
		return problem.New(problem.NotFound, "This conversation no longer exists",
			"all conversations were deleted", "Start a new chat.")
	}
	return nil
}
