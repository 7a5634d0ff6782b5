package keys

// The file of keys. It is small, replaced atomically, and only the user can read it.

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/app/disk"
	"headroom/engine/problem"
)

const (
	fileName = "keys.json"
	// version is that of files with keys of paired machines. Files without one stay of version 1,
	// so that earlier Headrooms can change them.
	version  = 2
	maxBytes = 4 << 20
	lockWait = 5 * time.Second // for another program that is writing

	maxKeys      = 1000
	maxNameRunes = 64
	maxModels    = 200
	maxIDBytes   = 500 // of a model

	// MaxPerMinute is the largest RequestsPerMinute. The time of each of these requests is kept.
	MaxPerMinute = 10_000
	// MaxConcurrent is the largest ConcurrentRequests. A server has no more connections.
	MaxConcurrent = 1024
)

// document is the content of the file.
type document struct {
	Version int   `json:"version"`
	Keys    []Key `json:"keys"`
}

// load reads the file when the store is opened.
func (s *Store) load() error {
	data, info, err := disk.Read(s.path(), maxBytes)
	if _, exists := os.Lstat(s.path()); errors.Is(err, fs.ErrNotExist) &&
		errors.Is(exists, fs.ErrNotExist) { // not a link to a missing file
		return nil
	}
	var d document
	if err == nil {
		d, err = parse(data)
	}
	if err != nil {
		s.unread, s.warned = err, info
		return fmt.Errorf("the file of API keys cannot be read: %w. No named key is accepted, and "+
			"requests need a key. Repair %s, or remove it and start Headroom again", err, s.path())
	}
	s.adopt(d, info)
	return nil
}

// refresh reads the file again if it has been replaced. A file that is missing or that cannot be
// read changes nothing. mu is locked.
func (s *Store) refresh() {
	info, err := os.Stat(s.path())
	if err != nil || same(info, s.info) || same(info, s.warned) {
		return
	}
	data, info, err := disk.Read(s.path(), maxBytes)
	var d document
	if err == nil {
		d, err = parse(data)
	}
	if err != nil {
		s.warned = info
		if len(s.list) == 0 {
			s.unread = err // somebody may have added the first key
		}
		slog.Warn("the file of API keys cannot be read, so the keys that were read before stay",
			"file", s.path(), "keys", len(s.list), "err", err, "fix", "repair or remove it")
		return
	}
	s.adopt(d, info)
}

func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime())
}

// adopt makes the keys of a document those of the store. Requests with keys that it has no more
// end. mu is locked, or s is new.
func (s *Store) adopt(d document, info os.FileInfo) {
	s.list, s.info, s.unread, s.readOnly = d.Keys, info, nil, d.Version > version
	s.hashes = make([][32]byte, len(s.list))
	for i := range s.list {
		sum, _ := hex.DecodeString(s.list[i].Hash) // parse and Add have checked it
		copy(s.hashes[i][:], sum)
	}
	for id, st := range s.states {
		if s.indexOf(id) < 0 {
			st.end()
			delete(s.states, id)
		}
	}
}

// indexOf returns the place of the key with an ID in list; -1 if there is none. mu is locked.
func (s *Store) indexOf(id string) int {
	return slices.IndexFunc(s.list, func(k Key) bool { return k.ID == id })
}

// parse reads the text of the file. A file in which anything makes no sense is refused whole:
// leaving out a limit would allow more than its key may.
func parse(data []byte) (d document, err error) {
	if err = json.Unmarshal(data, &d); err != nil {
		return d, err
	}
	switch {
	case d.Version < 1:
		return d, fmt.Errorf("its version is %d, expected 1 or more", d.Version)
	case d.Keys == nil: // a list that was lost must not open the endpoint
		return d, errors.New(`it has no list "keys"`)
	case d.Version <= version: // a wrong name of a limit must not lift it
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&document{}); err != nil {
			return d, err
		}
	}
	if len(d.Keys) > maxKeys {
		return d, fmt.Errorf("it has %d keys, the limit is %d", len(d.Keys), maxKeys)
	}
	for i, k := range d.Keys {
		if sum, err := hex.DecodeString(k.Hash); err != nil || len(sum) != 32 ||
			k.ID != strings.ToLower(k.Hash)[:idDigits] {
			return d, fmt.Errorf("the key %q has no SHA-256, or another ID than its beginning",
				k.Name)
		}
		err := cmp.Or(checkName(k.Name), k.Limits.check(), checkCertificate(k.Certificate))
		if err != nil {
			return d, fmt.Errorf("the key %q: %w", k.Name, err)
		}
		if slices.ContainsFunc(d.Keys[:i], func(other Key) bool {
			return other.ID == k.ID || strings.EqualFold(other.Name, k.Name)
		}) {
			return d, fmt.Errorf("there are two keys %q", k.Name)
		}
	}
	return d, nil
}

// Add makes a key and returns its text, which is stored nowhere. The error is a Problem.
func (s *Store) Add(name string, l Limits) (added Key, text string, err error) {
	name = strings.TrimSpace(name)
	if err := cmp.Or(checkName(name), l.check()); err != nil {
		return Key{}, "", err
	}
	text = newKey()
	added = hashed(text)
	added.Name, added.Limits = name, l.normal()
	added.Created = s.now().UTC().Truncate(time.Second)
	err = s.change(func(list []Key) ([]Key, error) {
		if err := nameIsFree(list, name, ""); err != nil {
			return nil, err
		}
		if len(list) >= maxKeys {
			return nil, problem.New(problem.BadRequest,
				fmt.Sprintf("There are %d API keys already", maxKeys), "", "Remove one first.")
		}
		return append(list, added), nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return added, text, nil
}

// Set replaces the name and the limits of the key with an ID. The error is a Problem.
func (s *Store) Set(id, name string, l Limits) (k Key, err error) {
	name = strings.TrimSpace(name)
	if err := cmp.Or(checkName(name), l.check()); err != nil {
		return Key{}, err
	}
	err = s.change(func(list []Key) ([]Key, error) {
		i := slices.IndexFunc(list, func(k Key) bool { return k.ID == id })
		if i < 0 {
			return nil, notFound(id, list)
		}
		if err := nameIsFree(list, name, id); err != nil {
			return nil, err
		}
		list[i].Name, list[i].Limits = name, l.normal()
		k = list[i]
		return list, nil
	})
	return k, err
}

// Named returns the key with a name or an ID. The error is a Problem.
func (s *Store) Named(nameOrID string) (Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	i, err := indexOf(s.list, nameOrID)
	if err != nil {
		return Key{}, err
	}
	return s.list[i], nil
}

// indexOf returns the index of the key with a name or an ID. The error is a Problem.
func indexOf(list []Key, nameOrID string) (int, error) {
	nameOrID = strings.TrimSpace(nameOrID)
	i := slices.IndexFunc(list, func(k Key) bool { return strings.EqualFold(k.Name, nameOrID) })
	if i < 0 {
		i = slices.IndexFunc(list, func(k Key) bool { return k.ID == nameOrID })
	}
	if i < 0 {
		return 0, notFound(nameOrID, list)
	}
	return i, nil
}

// Remove removes the key with a name or an ID. Requests with it end. left is the number of keys
// that are left, without those of paired machines. The error is a Problem.
func (s *Store) Remove(nameOrID string) (removed Key, left int, err error) {
	err = s.change(func(list []Key) ([]Key, error) {
		i, err := indexOf(list, nameOrID)
		if err != nil {
			return nil, err
		}
		removed = list[i]
		list = slices.Delete(list, i, i+1)
		left = forClients(list)
		return list, nil
	})
	return removed, left, err
}

func notFound(nameOrID string, list []Key) error {
	fix := "There are no named keys: make one in Settings or with `headroom keys add NAME`."
	if len(list) > 0 {
		names := make([]string, len(list))
		for i, k := range list {
			names[i] = k.Name
		}
		slices.SortFunc(names, compareNames)
		fix = "The keys are " + strings.Join(names, ", ") + "."
	}
	return problem.New(problem.NotFound, fmt.Sprintf("There is no API key %q", nameOrID), "", fix)
}

// nameIsFree returns a Problem if another key than that with the ID has the name.
func nameIsFree(list []Key, name, id string) error {
	if slices.ContainsFunc(list, func(k Key) bool {
		return k.ID != id && strings.EqualFold(k.Name, name)
	}) {
		return problem.New(problem.Exists, fmt.Sprintf("There is an API key %q already", name), "",
			"Choose another name, or remove that key first.")
	}
	return nil
}

// change applies a change to a copy of the keys in the file, and writes them. Nothing changes if
// the change or the writing fails. The error is a Problem.
func (s *Store) change(change func([]Key) ([]Key, error)) error {
	failed := func(err error) error {
		return problem.Wrap(problem.Internal, err, "The API keys could not be saved",
			"Check that the folder "+s.dir+" can be written to.")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return failed(err)
	}
	unlock, err := disk.LockFolder(s.dir, lockWait)
	if err != nil {
		return failed(err)
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if info, err := os.Stat(s.path()); s.unread != nil || err == nil && !same(info, s.info) {
		return problem.New(problem.Internal, "The API keys cannot be changed",
			"their file cannot be read",
			"Repair "+s.path()+", or remove it and start Headroom again.")
	}
	if s.readOnly {
		return problem.New(problem.Internal, "The API keys cannot be changed",
			"a later version of Headroom has written them", "Use that version.")
	}
	list, err := change(slices.Clone(s.list))
	if err != nil {
		return err
	}
	d := document{Version: 1, Keys: list}
	if slices.ContainsFunc(list, func(k Key) bool { return k.Certificate != "" }) {
		d.Version = version
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("they would have %d bytes, the limit is %d", len(text), maxBytes)
	}
	if err == nil {
		err = disk.WriteFile(s.path(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return failed(err)
	}
	info, err := os.Stat(s.path())
	if err != nil {
		return failed(err)
	}
	s.adopt(d, info)
	return nil
}

// checkName returns a Problem if a key may not have this name.
func checkName(name string) error {
	bad := func(why string) error {
		return problem.New(problem.BadRequest, "The name of the API key is not valid", why,
			fmt.Sprintf("Use a name of 1 to %d characters, such as laptop.", maxNameRunes))
	}
	switch {
	case name == "":
		return bad("it is empty")
	case utf8.RuneCountInString(name) > maxNameRunes:
		return bad("it is too long")
	case !utf8.ValidString(name) || strings.ContainsFunc(name,
		func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("it has a character that cannot be printed")
	case strings.TrimSpace(name) != name:
		return bad("it begins or ends with a space")
	}
	return nil
}

// check returns a Problem if a limit makes no sense.
func (l Limits) check() error {
	for _, n := range []struct {
		what        string
		value, most int
	}{{"requests per minute", l.RequestsPerMinute, MaxPerMinute},
		{"concurrent requests", l.ConcurrentRequests, MaxConcurrent}} {
		if n.value < 0 || n.value > n.most {
			return problem.New(problem.BadRequest,
				fmt.Sprintf("%d is not a valid number of %s", n.value, n.what), "",
				fmt.Sprintf("Use 1 to %d, or 0 for no limit.", n.most))
		}
	}
	if l.Priority != Interactive && l.Priority != Batch {
		return problem.New(problem.BadRequest, fmt.Sprintf("%q is not a priority", l.Priority), "",
			`Use "batch", or "" for interactive.`)
	}
	if len(l.Models) > maxModels {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("%d models are too many for one API key", len(l.Models)), "",
			fmt.Sprintf("List up to %d, or none for all.", maxModels))
	}
	for _, id := range l.Models {
		if strings.TrimSpace(id) == "" || len(id) > maxIDBytes {
			return problem.New(problem.BadRequest, fmt.Sprintf("%q is not a model", id), "",
				"Use the ID of a model, as `headroom models` lists it.")
		}
	}
	return nil
}

// normal returns the limits with each model once.
func (l Limits) normal() Limits {
	l.Models = slices.Clone(l.Models)
	slices.Sort(l.Models)
	l.Models = slices.Compact(l.Models)
	return l
}

// compareNames orders names as people expect: without regard to case.
func compareNames(a, b string) int {
	return cmp.Or(strings.Compare(strings.ToLower(a), strings.ToLower(b)), strings.Compare(a, b))
}
