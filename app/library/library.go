// Package library finds the models on this machine: the bundled one, those in plain folders, and
// the downloads of Hugging Face's tools, LM Studio, oMLX and Ollama. It copies nothing. Of the
// weights it reads only the headers, and samples to find copies.
//
// roots.go returns the folders to scan. scan.go finds the models in them, and foreign.go finds GGUF
// files and Ollama's models; both read folders through listing.go and trace.go.
// inspect.go determines a model's state. describe.go caches the engine's description of a folder.
// adapters.go finds adapters. places.go finds copies of a model. library.go gives models their IDs.
// A Watcher (watch.go, interest.go) keeps the list up to date.
//
// Invariants: the bundled model comes first. IDs are unique. A folder that looks like a model but
// cannot be used is listed with its error. Err is nil if and only if the model is ready.
package library

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Model is one model of a Library.
type Model struct {
	ID          string // "org/name" or the folder's name; requests use it
	Name        string // last part of ID
	Dir         string // folder, or the file of a GGUF or Ollama model; "" if Bundled
	Bundled     bool
	Source      engine.Source
	State       State
	Description engine.Description // zero unless State is Ready
	Err         error              // why it cannot be used: a *problem.Problem; nil: it can
	GGUF        bool               // a GGUF file or a folder of them, which can be converted
	SizeBytes   int64              // of the weights that are present; 0: not known
	UpdatedAt   time.Time          // last change of its files; zero: not known
	Download    *Download          // nil unless State is Downloading
	Places      []Place            // Dir, then the copies; empty for the bundled model
	// Copies are the IDs that the copies would have beside all models if they were none. The
	// settings may have entries for them, of which only the aliases count.
	Copies []string
	// Adapters are the adapters for the model, in the order in which they were found.
	Adapters []Adapter
}

// Library lists models. Its methods are safe for concurrent use.
type Library struct {
	roots     []string
	options   func(id string) engine.Options
	describer describer

	mu    sync.Mutex
	notes []string // of the last scan
}

// Describe is engine.Describe, or a fake in tests.
type Describe func(engine.Source, engine.Options) (engine.Description, error)

// New returns a library of the bundled model and the models in the roots, which need not exist. The
// options must be those that will open the models, because the memory that a model needs depends on
// them.
func New(roots []string, options engine.Options, describe Describe) *Library {
	return NewPerModel(roots, func(string) engine.Options { return options }, describe)
}

// NewPerModel is like New, with options that depend on the model's ID.
func NewPerModel(roots []string, options func(id string) engine.Options,
	describe Describe) *Library {
	return &Library{roots: slices.Clone(roots), options: options,
		describer: describer{describe: describe}}
}

// Roots returns the folders that are scanned.
func (l *Library) Roots() []string { return slices.Clone(l.roots) }

// Notes returns sentences about the folders that the last scan could not search as a whole.
func (l *Library) Notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

// scanner scans the roots. A Watcher keeps its scanner, and so the listings of unchanged folders.
type scanner struct {
	*Library
	folders *folders
	renew   int // how many stale descriptions the scan may still renew
}

func (l *Library) scanner() *scanner { return &scanner{l, newFolders(), math.MaxInt} }

// Bundled returns the bundled model, which is known before any scan.
func (l *Library) Bundled() Model { return l.scanner().bundled() }

// Scan scans all roots and returns the models.
func (l *Library) Scan() []Model { return l.scanner().scan() }

func (s *scanner) scan() []Model {
	s.folders.scan++
	s.folders.notes = nil
	models := []Model{s.bundled()}
	seen := map[string]bool{}
	var found []folder
	for _, root := range s.roots {
		for _, f := range s.folders.scanRoot(root) {
			if real := f.real(); !seen[real] {
				seen[real] = true
				f.origin = originOf(root, f)
				found = append(found, f)
			}
		}
	}
	s.mu.Lock()
	s.notes = s.folders.notes
	s.mu.Unlock()
	names(found)
	for _, f := range found {
		models = append(models, s.model(f))
	}
	s.describer.forget(seen)
	return s.attach(s.merge(models, found), found)
}

// names gives each model a unique ID. If an ID is taken, the model's path becomes its ID. Models
// that the engine can run get their IDs first.
func names(found []folder) {
	taken := map[string]bool{demo.ID: true}
	for _, foreign := range []bool{false, true} {
		for i := range found {
			f := &found[i]
			if (f.foreign != nil) != foreign {
				continue
			}
			f.name = f.id
			if taken[f.id] {
				f.name = f.dir
			}
			taken[f.name] = true
		}
	}
}

func (s *scanner) bundled() Model {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		panic("library: the demo model is not embedded under \"model\": " + err.Error())
	}
	m := Model{ID: demo.ID, Name: demo.ID, Bundled: true, Source: engine.Source{FS: files},
		State: Ready, UpdatedAt: programTime()}
	m.Description, m.Err = s.describer.bundled(m.Source, s.options(m.ID), s)
	if m.SizeBytes = m.Description.SizeBytes; m.Err != nil {
		m.State = Broken
	}
	return m
}

// programTime returns when the running program was last changed, which has the bundled model; zero:
// not known.
var programTime = sync.OnceValue(func() time.Time {
	path, err := os.Executable()
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
})

func (s *scanner) model(f folder) Model {
	m := Model{ID: f.name, Name: filepath.Base(f.name), Dir: f.dir,
		Source: engine.Source{Dir: f.dir}, Places: []Place{{f.id, f.dir, f.origin}}}
	s.inspect(&m, f)
	return m
}

// Resolve finds a model by ID, by the last part of its ID if that is unique, or by its folder. ""
// means the bundled model. For a model that is not ready, it returns the model and its error.
func (l *Library) Resolve(nameOrDir string) (Model, error) { return l.ResolveAmong(nil, nameOrDir) }

// ResolveNamed is like ResolveAmong, and knows a model by the names by which requests get it, too;
// aliases are those of Meant. models may be nil.
func (l *Library) ResolveNamed(models []Model, nameOrDir string,
	aliases func(id string) []string) (Model, error) {
	m, err := l.ResolveAmong(models, nameOrDir)
	if err == nil || nameOrDir == "" {
		return m, err
	}
	if models == nil {
		models = l.Scan()
	}
	if meant := Meant(models, nameOrDir, aliases); len(meant) > 0 {
		return l.ResolveAmong(models, meant[0].ID)
	}
	if m.ID == "" && problem.From(err).Code == problem.ModelNotFound {
		err = NotFound(nameOrDir, models, aliases)
	}
	return m, err
}

// ResolveAmong is like Resolve, but searches a given list, such as a Watcher's, before it scans. It
// inspects a listed model again, because the list may be stale.
func (l *Library) ResolveAmong(models []Model, nameOrDir string) (Model, error) {
	s := l.scanner()
	if nameOrDir == "" || nameOrDir == demo.ID {
		m := s.bundled()
		return m, m.Err
	}
	if m, ok := byName(models, nameOrDir); ok {
		if m, ok := s.reinspect(m); ok {
			return m, m.Err
		}
	}
	models = s.scan()
	if m, ok := byName(models, nameOrDir); ok {
		return m, m.Err
	}
	dir := expandHome(nameOrDir)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return s.resolveDir(dir)
	} else if err == nil && isGGUF(dir) {
		return Model{}, modelfile.Format(formatGGUF, "")
	} else if err == nil {
		return Model{}, problem.New(problem.ModelBroken,
			nameOrDir+" is a file, not a model folder", "",
			"Choose the folder that contains config.json and the .safetensors files.")
	}
	return Model{}, NotFound(nameOrDir, models, nil)
}

// reinspect inspects a listed model again. It returns false if the model is gone.
func (s *scanner) reinspect(m Model) (Model, bool) {
	if m.Bundled || m.State.IsNoModel() {
		return m, true
	}
	s.folders.scan++
	f, ok := s.folders.folderAt(m.Dir)
	if !ok || f.foreign != nil {
		return Model{}, false
	}
	f.name = m.ID
	now := s.model(f)
	now.Places, now.Copies, now.Adapters = m.Places, m.Copies, m.Adapters
	return now, true
}

// byName returns the model with this ID, or else with a copy of this ID, or else the only model
// whose ID or name is equal if case is ignored, or ":latest" is added, as in Ollama.
func byName(models []Model, name string) (Model, bool) {
	for _, m := range models {
		if m.ID == name {
			return m, true
		}
	}
	for _, m := range models {
		if m.HasName(name) {
			return m, true
		}
	}
	var found []Model
	for _, m := range models {
		if strings.EqualFold(m.ID, name) || strings.EqualFold(m.Name, name) ||
			strings.EqualFold(m.ID, name+latest) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return Model{}, false
	}
	return found[0], true
}

func (s *scanner) resolveDir(dir string) (Model, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Model{}, problem.Wrap(problem.ModelBroken, err, "The folder "+dir+" cannot be found",
			"")
	}
	s.folders.scan++
	if f, ok := s.folders.folderAt(absolute); ok {
		f.name = f.id
		m := s.model(f)
		return m, m.Err
	}
	_, err = engine.Source{Dir: absolute}.Config()
	if p := problem.From(err); err != nil && p.Code == problem.ModelBroken { // it is no file
		return Model{}, p
	}
	return Model{}, problem.New(problem.ModelBroken, dir+" is not a model folder",
		"it has no config.json",
		"Choose the folder that contains config.json and the .safetensors files.")
}

// NotFound returns the Problem for an unknown model. It lists up to 12 names of models that are
// ready, the most similar first. These are IDs, and the aliases (nil: none) that Meant finds.
func NotFound(name string, models []Model, aliases func(id string) []string) *problem.Problem {
	const most = 12
	var ids []string
	for _, m := range models {
		if m.Err != nil {
			continue
		}
		ids = append(ids, m.ID)
		for _, alias := range m.Aliases(aliases) {
			if meant := Meant(models, alias, aliases); len(meant) > 0 && meant[0].ID == m.ID &&
				!slices.Contains(ids, alias) {
				ids = append(ids, alias)
			}
		}
	}
	ids = problem.Nearest(name, ids)
	more := ""
	if len(ids) > most {
		ids, more = ids[:most], fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return problem.New(problem.ModelNotFound, fmt.Sprintf("There is no model %q here", name),
		"the models are "+strings.Join(ids, ", ")+more,
		"Use one of these, or the folder of another model.")
}
