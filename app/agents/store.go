package agents

// The store of what was written: it lists agents, writes, undoes and launches. Servers and the
// command line may use one folder at the same time.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"headroom/app/disk"
	"headroom/app/keys"
	"headroom/engine/problem"
)

// Keys are the named API keys of the endpoint, of which each agent gets its own.
type Keys interface {
	Add(name string, l keys.Limits) (keys.Key, string, error)
	Remove(nameOrID string) (keys.Key, int, error)
	List() []keys.Listed
}

// Store writes the configuration of agents and remembers what it wrote. Its methods are safe for
// concurrent use, also by other processes.
type Store struct {
	dir  string // of the records
	env  Environment
	keys Keys // nil: no key can be made
	run  func(argv []string) error

	mu sync.Mutex
}

// New returns a store with its records below the settings folder. keys may be nil.
func New(settingsDir string, env Environment, keys Keys) *Store {
	return &Store{dir: filepath.Join(settingsDir, "agents"), env: env, keys: keys, run: start}
}

// Dir returns the folder of the records.
func (s *Store) Dir() string { return s.dir }

// State is how an agent's configuration stands to the target.
type State string

// The states.
const (
	NotWritten State = "notWritten"
	Current    State = "current"  // the file says what would be written
	Outdated   State = "outdated" // address, model or key have changed since
	Edited     State = "edited"   // what was written has been changed by others
	Manual     State = "manual"   // there is no file to write
)

// Listed is an agent and its state.
type Listed struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Docs        string `json:"docs"` // address of the documentation of these settings
	State       State  `json:"state"`
	Program     string `json:"program"` // path of its command or app; "": not found
	Path        string `json:"path"`    // of its configuration file; "": it cannot be written
	CanUndo     bool   `json:"canUndo"`
	CanLaunch   bool   `json:"canLaunch"`
	KeyName     string `json:"keyName"` // of its own API key; "": it has none
	Unavailable string `json:"unavailable"`
}

// List returns all agents, for a target with or without an address.
func (s *Store) List(t Target) []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Listed, 0, len(table))
	for _, a := range table {
		list = append(list, s.listed(a, t))
	}
	return list
}

func (s *Store) listed(a *agent, t Target) Listed {
	l := Listed{ID: a.id, Name: a.name, Docs: a.docs, State: Manual,
		Program: s.env.short(s.env.program(a)), CanLaunch: a.command != nil}
	r, err := s.load(a.id)
	l.KeyName, l.CanUndo = s.keyName(r), r.Path != "" || s.keyName(r) != ""
	if a.format == nil {
		return l
	}
	l.Path, l.State = s.env.short(a.file(s.env)), NotWritten
	if t.URL == "" && r.Path != "" {
		l.State = Current
	}
	if err == nil && t.URL != "" {
		l.State, err = s.state(a, t, r)
	}
	if err != nil {
		p := problem.From(err)
		l.Unavailable = p.Message + ": " + p.Why + "."
	}
	return l
}

// state compares the file with what would be written.
func (s *Store) state(a *agent, t Target, r record) (State, error) {
	p, err := s.plan(a, t, r, s.keyFor(t, r))
	switch {
	case err != nil && r.Path != "":
		return Edited, err
	case err != nil:
		return NotWritten, err
	case len(p.Lines) == 0 && p.file.exists:
		return Current, nil
	case r.Path == "":
		return NotWritten, nil
	}
	tree, err := a.format.parse(trimMark(p.file.text))
	if err != nil || !p.file.exists {
		return Edited, nil
	}
	for _, w := range r.Edits {
		if now, depth := lookup(tree, w.Path); depth < len(w.Path) || canonical(now) != w.Value {
			return Edited, nil
		}
	}
	return Outdated, nil
}

// keyFor returns the key that would be written: none, the one in use, or one yet to be made.
func (s *Store) keyFor(t Target, r record) string {
	switch {
	case !t.NeedsKey:
		return ""
	case s.keyName(r) != "":
		return r.Key
	}
	return newKeyText
}

// keyName returns the name of a record's key, "" if it has none or the key was removed.
func (s *Store) keyName(r record) string {
	if s.keys == nil || r.KeyID == "" {
		return ""
	}
	for _, k := range s.keys.List() {
		if k.ID == r.KeyID {
			return k.Name
		}
	}
	return ""
}

// Plan returns what Write would do. The error is a Problem.
func (s *Store) Plan(id string, t Target) (Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := find(id)
	if err != nil {
		return Plan{}, err
	}
	if err := t.check(); err != nil {
		return Plan{}, err
	}
	r, err := s.load(id)
	if err != nil {
		return Plan{}, err
	}
	key := s.keyFor(t, r)
	p, err := s.plan(a, t, r, key)
	if err == nil && key == newKeyText {
		p.NewKey = s.freeName(a.name)
	}
	return p.Plan, err
}

func (t Target) check() error {
	if t.URL != "" && t.Model != "" {
		return nil
	}
	return problem.New(problem.NotRunning, "There is no address and model to set up",
		"Headroom is not running, or has no model", "Start Headroom, and choose a model.")
}

// UndoPlan returns what Undo would do. The error is a Problem.
func (s *Store) UndoPlan(id string) (Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, r, err := s.recorded(id)
	if err != nil {
		return Plan{}, err
	}
	p, err := s.undoPlan(a, r)
	return p.Plan, err
}

func (s *Store) recorded(id string) (*agent, record, error) {
	a, err := find(id)
	if err != nil {
		return nil, record{}, err
	}
	r, err := s.load(id)
	return a, r, err
}

// changed is the Problem of a file that is not as it was shown.
func changed(path string) error {
	return problem.New(problem.Changed, path+" has changed since it was shown",
		"another program or you have changed it, or the address, model or key is another now",
		"Look at the change again. Nothing was written.")
}

// Write writes what Plan has shown. token is the plan's. The error is a Problem.
func (s *Store) Write(id string, t Target, token string) (Plan, error) {
	unlock, err := s.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	a, r, err := s.recorded(id)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return Plan{}, err
	}
	shown, err := s.plan(a, t, r, s.keyFor(t, r))
	switch {
	case err != nil:
		return Plan{}, err
	case a.format == nil && !t.NeedsKey:
		return Plan{}, problem.New(problem.BadRequest, a.name+" cannot be set up from outside",
			"it has no configuration file for that", "Follow the steps.")
	case shown.Token != token:
		return Plan{}, changed(a.name)
	}
	old := r
	key, r, madeKey, err := s.ensureKey(a, t, r)
	if err != nil {
		return Plan{}, err
	}
	p, err := s.plan(a, t, r, key)
	switch {
	case err != nil:
	case a.format == nil: // only a key is made
		err = s.save(id, r)
	default:
		err = s.write(id, old, r, p)
	}
	if err != nil && madeKey { // nobody knows it
		_, _, _ = s.keys.Remove(r.KeyID)
	}
	return p.Plan, err
}

// write writes the file and the record r, or leaves the record old. The record comes first: what it
// says of a file that is not written yet is that the file has changed, which takes nothing back.
func (s *Store) write(id string, old, r record, p planned) error {
	if p.file.exists {
		if err := s.backUp(id, p.file); err != nil {
			return err
		}
	}
	r.Path, r.Target, r.Existed, r.Before = p.file.path, p.file.target, p.exists, p.base
	r.After, r.Edits = hashOf(p.after), p.edits
	folders, err := makeFolders(filepath.Dir(p.file.target))
	r.Folders = slices.Concat(r.Folders, folders)
	if err == nil {
		err = s.save(id, r)
	}
	if err == nil {
		err = s.replace(p.file, p.after)
		if err != nil {
			_ = s.save(id, old)
		}
	}
	if err != nil {
		removeFolders(folders)
	}
	return err
}

// backUp keeps a copy of the file beside the records.
func (s *Store) backUp(id string, f configFile) error {
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		path := filepath.Join(s.dir, id+"-"+filepath.Base(f.path))
		_, err = disk.KeepCopy(path, "before", f.text)
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "No copy of "+s.env.short(f.path)+
			" could be kept, so it was not changed", "Check the permissions of "+s.dir+".")
	}
	return nil
}

// unchanged returns a Problem if a file is no longer as it was read.
func (s *Store) unchanged(f configFile) error {
	now, err := s.env.readConfig(f.path)
	if err == nil && (now.exists != f.exists || now.target != f.target ||
		string(now.text) != string(f.text)) {
		err = changed(s.env.short(f.path))
	}
	return err
}

// replace writes a file atomically, with the permissions that it has, unless it has changed since
// it was read.
func (s *Store) replace(f configFile, text []byte) error {
	err := s.unchanged(f)
	if err != nil {
		return err
	}
	if err = disk.WriteFile(f.target, text, f.mode); err == nil {
		err = os.Chmod(f.target, f.mode) // the umask may have taken some
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, s.env.short(f.path)+" could not be written",
			"Check the permissions of the file and of its folder.")
	}
	return nil
}

// makeFolders makes a folder and returns those that did not exist, the innermost last.
func makeFolders(dir string) (made []string, err error) {
	if _, err := os.Stat(dir); err == nil {
		return nil, nil
	}
	made, err = makeFolders(filepath.Dir(dir))
	if err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return made, problem.Wrap(problem.Internal, err, "The folder of the configuration could "+
			"not be made", "Check the permissions of "+filepath.Dir(dir)+".")
	}
	return append(made, dir), nil
}

// removeFolders removes folders that are empty, the last one first.
func removeFolders(dirs []string) {
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir)
	}
}

// Undo takes back what UndoPlan has shown. token is the plan's. The error is a Problem.
func (s *Store) Undo(id, token string) (Plan, error) {
	unlock, err := s.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	a, r, err := s.recorded(id)
	if err != nil {
		return Plan{}, err
	}
	p, err := s.undoPlan(a, r)
	switch {
	case err != nil:
		return Plan{}, err
	case p.Token != token:
		return Plan{}, changed(p.Path)
	case p.Deletes:
		if err := s.unchanged(p.file); err != nil {
			return Plan{}, err
		}
		if err := os.Remove(p.file.target); err != nil {
			return Plan{}, problem.Wrap(problem.Internal, err, p.Path+" could not be removed", "")
		}
		removeFolders(r.Folders)
	case p.file.exists:
		if err := s.replace(p.file, p.after); err != nil {
			return Plan{}, err
		}
	}
	if s.keyName(r) != "" {
		if _, _, err := s.keys.Remove(r.KeyID); err != nil {
			return p.Plan, err
		}
	}
	return p.Plan, s.save(id, record{})
}

// ensureKey returns the key to write, and the record with it. made says that it is a new one.
func (s *Store) ensureKey(a *agent, t Target, r record) (key string, with record, made bool,
	err error) {
	if key = s.keyFor(t, r); key != newKeyText {
		return key, r, false, nil
	}
	if s.keys == nil {
		return "", r, false, problem.New(problem.Internal, "No API key can be made", "", "")
	}
	k, text, err := s.keys.Add(s.freeName(a.name), keys.Limits{})
	if err != nil {
		return "", r, false, err
	}
	r.KeyID, r.Key = k.ID, text
	return text, r, true, nil
}

// freeName returns a name that no key has yet.
func (s *Store) freeName(name string) string {
	if s.keys == nil {
		return name
	}
	taken := map[string]bool{}
	for _, k := range s.keys.List() {
		taken[k.Name] = true
	}
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s %d", name, n)
	}
	return free
}

// lock keeps other callers and processes from changing records.
func (s *Store) lock() (unlock func(), err error) {
	s.mu.Lock()
	err = os.MkdirAll(s.dir, 0o700)
	free := func() {}
	if err == nil {
		free, err = disk.LockFolder(s.dir, 5*time.Second)
	}
	switch {
	case errors.Is(err, disk.ErrLocked):
		err = problem.Wrap(problem.Busy, err, "Another program sets up agents now", "Try again.")
	case err != nil:
		err = problem.Wrap(problem.Internal, err, "The records cannot be written",
			"Check "+s.dir+" and its permissions.")
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return func() { free(); s.mu.Unlock() }, nil
}

func trimMark(text []byte) []byte {
	if len(text) >= 3 && string(text[:3]) == string(byteOrderMark) {
		return text[3:]
	}
	return text
}
