// Package library finds the models that are on this machine: the bundled one, plain folders, and what Hugging Face's tools,
// LM Studio and oMLX have downloaded. Nothing is copied, and nothing but headers is read.
//
// roots.go says where to look, scan.go knows the layouts, describe.go asks the engine what a folder holds and remembers the
// answer until the folder changes, and this file puts names to them.
//
// Invariants: the bundled model comes first; no two models have the same ID; a folder that looks like a model but cannot be
// used is listed with its error, so that nobody has to wonder where a download went.
package library

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/problem"
)

// Model is one entry.
type Model struct {
	ID          string // "org/name", or the folder's name; what requests ask for
	Name        string // its last part
	Dir         string // "" for the bundled model
	Bundled     bool
	Source      engine.Source
	Description engine.Description // zero when Err is set
	Err         error              // why it cannot be used, a *problem.Problem
}

// Library lists models. Its methods may be called from several goroutines.
type Library struct {
	roots     []string
	options   func(id string) engine.Options
	describer describer
}

// Describe is engine.Describe, or a stand-in for tests.
type Describe func(engine.Source, engine.Options) (engine.Description, error)

// New makes a library over the folders, which need not exist, on top of the bundled model. The options are those that the
// models will be opened with: what a model needs depends on them.
func New(roots []string, options engine.Options, describe Describe) *Library {
	return NewPerModel(roots, func(string) engine.Options { return options }, describe)
}

// NewPerModel is New where options depend on the model's ID.
func NewPerModel(roots []string, options func(id string) engine.Options, describe Describe) *Library {
	return &Library{roots: slices.Clone(roots), options: options, describer: describer{describe: describe}}
}

// Roots are the folders that are looked through.
func (l *Library) Roots() []string { return slices.Clone(l.roots) }

// Scan lists what there is now.
func (l *Library) Scan() []Model {
	models := []Model{l.bundled()}
	taken := map[string]bool{demo.ID: true}
	seen := map[string]bool{}
	for _, root := range l.roots {
		found := scanRoot(root)
		slices.SortFunc(found, func(a, b folder) int { return cmp.Compare(a.id, b.id) })
		for _, f := range found {
			real, err := filepath.EvalSymlinks(f.dir)
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			if taken[f.id] {
				f.id = f.dir // a second copy elsewhere: its path tells it apart
			}
			taken[f.id] = true
			models = append(models, l.model(f))
		}
	}
	l.describer.forget(seen)
	return models
}

func (l *Library) bundled() Model {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		panic("library: the demo model is not embedded under \"model\": " + err.Error())
	}
	m := Model{ID: demo.ID, Name: demo.ID, Bundled: true, Source: engine.Source{FS: files}}
	m.Description, m.Err = l.describer.bundled(m.Source, l.options(m.ID))
	return m
}

func (l *Library) model(f folder) Model {
	m := Model{ID: f.id, Name: filepath.Base(f.id), Dir: f.dir, Source: engine.Source{Dir: f.dir}}
	m.Description, m.Err = l.describer.folder(f.dir, l.options(f.id))
	return m
}

// Resolve finds a model by ID, by the last part of its ID if only one model has it, or by its folder. Empty means the bundled
// one. A model whose folder is broken is returned together with its error.
func (l *Library) Resolve(nameOrDir string) (Model, error) {
	if nameOrDir == "" || nameOrDir == demo.ID {
		m := l.bundled()
		return m, m.Err
	}
	models := l.Scan()
	if m, ok := byName(models, nameOrDir); ok {
		return m, m.Err
	}
	dir := expandHome(nameOrDir)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return l.resolveDir(dir)
	} else if err == nil {
		return Model{}, problem.New(problem.ModelBroken, nameOrDir+" is a file, not a model's folder", "",
			"Name the folder that holds config.json and the .safetensors files.")
	}
	return Model{}, NotFound(nameOrDir, models)
}

func byName(models []Model, name string) (Model, bool) {
	for _, m := range models {
		if m.ID == name {
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

func (l *Library) resolveDir(dir string) (Model, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Model{}, problem.Wrap(problem.ModelBroken, err, "The folder "+dir+" cannot be found", "")
	}
	if f, ok := folderAt(absolute); ok {
		m := l.model(f)
		return m, m.Err
	}
	return Model{}, problem.New(problem.ModelBroken, dir+" is not a model's folder", "it holds no config.json",
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
		"there is "+strings.Join(ids, ", ")+more, "Name one of these, or the folder of another model.")
}
