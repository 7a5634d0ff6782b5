// Package library finds the models that are on this machine: the bundled one, plain folders, and
// what Hugging Face's tools, LM Studio, oMLX and Ollama have downloaded. Nothing is copied, and
// nothing but headers is read.
//
// roots.go says where to look. scan.go knows the layouts and foreign.go those of other programs,
// over listings of folders (listing.go, trace.go). inspect.go tells what is ready from what is
// still on its way, describe.go asks the engine what a folder holds and remembers the answer until
// the folder changes, places.go finds copies of one model, and this file puts names to them. A
// Watcher (watch.go) keeps the list as a fresh scan would make it.
//
// Invariants: the bundled model comes first; no two models have the same ID; a folder that looks
// like a model but cannot be used is listed with its error, so that nobody has to wonder where a
// download went; Err is nil for ready models and no others.
package library

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/problem"
)

// Model is one entry.
type Model struct {
	ID          string // "org/name", or the folder's name; what requests ask for
	Name        string // its last part
	Dir         string // "" for the bundled model; a file for what other programs keep as one
	Bundled     bool
	Source      engine.Source
	State       State
	Description engine.Description // zero unless State is Ready
	Err         error              // why it cannot be used, a *problem.Problem
	SizeBytes   int64              // of its weights, as far as they are here; 0: not known
	UpdatedAt   time.Time          // when its files last changed; zero: not known
	Download    *Download          // of one that is Downloading, else nil
	// where it lies: Dir first, then copies of the same content; empty for the bundled one
	Places []Place
}

// Library lists models. Its methods may be called from several goroutines.
type Library struct {
	roots     []string
	options   func(id string) engine.Options
	describer describer
}

// Describe is engine.Describe, or a stand-in for tests.
type Describe func(engine.Source, engine.Options) (engine.Description, error)

// New makes a library over the folders, which need not exist, on top of the bundled model. The
// options are those that the models will be opened with: what a model needs depends on them.
func New(roots []string, options engine.Options, describe Describe) *Library {
	return NewPerModel(roots, func(string) engine.Options { return options }, describe)
}

// NewPerModel is New where options depend on the model's ID.
func NewPerModel(roots []string, options func(id string) engine.Options,
	describe Describe) *Library {
	return &Library{roots: slices.Clone(roots), options: options,
		describer: describer{describe: describe}}
}

// Roots are the folders that are looked through.
func (l *Library) Roots() []string { return slices.Clone(l.roots) }

// scanner is one scan.
type scanner struct {
	*Library
	folders *folders
	renew   int // descriptions that may be made anew only because they are old
}

func (l *Library) scanner() *scanner { return &scanner{l, newFolders(), math.MaxInt} }

// Scan lists what there is now.
func (l *Library) Scan() []Model { return l.scanner().scan() }

func (s *scanner) scan() []Model {
	s.folders.scan++
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
	names(found)
	for _, f := range found {
		models = append(models, s.model(f))
	}
	s.describer.forget(seen)
	return s.merge(models, found)
}

// names gives each model an ID of its own: the second of a name is called by its path. What cannot
// be loaded anyway takes what names are left.
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
		State: Ready}
	m.Description, m.Err = s.describer.bundled(m.Source, s.options(m.ID), s)
	if m.SizeBytes = m.Description.SizeBytes; m.Err != nil {
		m.State = Broken
	}
	return m
}

func (s *scanner) model(f folder) Model {
	m := Model{ID: f.name, Name: filepath.Base(f.name), Dir: f.dir,
		Source: engine.Source{Dir: f.dir}, Places: []Place{{f.id, f.dir, f.origin}}}
	s.inspect(&m, f)
	return m
}

// Resolve finds a model by ID, by the last part of its ID if only one model has it, or by its
// folder. Empty means the bundled one. A model that cannot be used is returned together with its
// error.
func (l *Library) Resolve(nameOrDir string) (Model, error) { return l.ResolveAmong(nil, nameOrDir) }

// ResolveAmong is Resolve by a list that somebody has at hand, such as a Watcher's; nil: by a scan.
// The model that is found is looked at anew.
func (l *Library) ResolveAmong(models []Model, nameOrDir string) (Model, error) {
	s := l.scanner()
	if nameOrDir == "" || nameOrDir == demo.ID {
		m := s.bundled()
		return m, m.Err
	}
	if m, ok := byName(models, nameOrDir); ok {
		if m, ok := s.again(m); ok {
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
	} else if err == nil {
		return Model{}, problem.New(problem.ModelBroken,
			nameOrDir+" is a file, not a model's folder", "",
			"Name the folder that holds config.json and the .safetensors files.")
	}
	return Model{}, NotFound(nameOrDir, models)
}

// again looks at a listed model as it is now; false where it is gone.
func (s *scanner) again(m Model) (Model, bool) {
	if m.Bundled || m.State == NotLoadable {
		return m, true
	}
	s.folders.scan++
	f, ok := s.folders.folderAt(m.Dir)
	if !ok || f.foreign != nil {
		return Model{}, false
	}
	f.name = m.ID
	now := s.model(f)
	now.Places = m.Places
	return now, true
}

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
		if strings.EqualFold(m.ID, name) || strings.EqualFold(m.Name, name) {
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
	return Model{}, problem.New(problem.ModelBroken, dir+" is not a model's folder",
		"it holds no config.json",
		"Name the folder that holds config.json and the .safetensors files.")
}

// NotFound says that there is no such model, and what there is instead.
func NotFound(name string, models []Model) *problem.Problem {
	const most = 12
	var ids []string
	for _, m := range models {
		if m.Err == nil {
			ids = append(ids, m.ID)
		}
	}
	more := ""
	if len(ids) > most {
		ids, more = ids[:most], fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return problem.New(problem.ModelNotFound, fmt.Sprintf("There is no model %q here", name),
		"there is "+strings.Join(ids, ", ")+more,
		"Name one of these, or the folder of another model.")
}
