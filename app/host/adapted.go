package host

// A model with one of its adapters, by the name that the list has: "model+adapter".

import (
	"fmt"
	"strings"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// ResolveAdapted finds a model as Library.ResolveNamed does, and the adapter that the name has
// after it, as in requests: "model+adapter". The adapter is nil if the name is that of a model.
// models may be nil. The error is a Problem.
func ResolveAdapted(l *library.Library, models []library.Model, nameOrDir string,
	aliases func(id string) []string) (library.Model, *engine.Adapter, error) {
	return findAdapted(nameOrDir,
		func(name string) (library.Model, error) {
			return l.ResolveNamed(models, name, aliases)
		},
		func(m library.Model, adapter string) (*engine.Adapter, error) {
			if m.Bundled && len(models) == 0 {
				models = l.Scan() // m was found without, but not its adapters
			}
			return adapterOf(m, adapter, models)
		})
}

// findAdapted returns what a name means: a model, or a model with one of its adapters. find returns
// the model of a name, and adapterOf an adapter of a model. Errors are Problems.
func findAdapted[M any](name string, find func(name string) (M, error),
	adapterOf func(m M, name string) (*engine.Adapter, error)) (M, *engine.Adapter, error) {
	m, err := find(name)
	base, adapter, adapted := server.CutAdapter(name)
	if err == nil || !adapted || problem.From(err).Code != problem.ModelNotFound {
		return m, nil, err
	}
	model, baseErr := find(base)
	if baseErr != nil {
		if _, a, _ := findAdapted(base, find, adapterOf); a != nil {
			err = problem.New(problem.ModelNotFound, fmt.Sprintf("%q names several adapters", name),
				"a model runs with one adapter at a time", "Name one of them, as in "+base+".")
		}
		return m, nil, err
	}
	a, err := adapterOf(model, adapter)
	return model, a, err
}

// adapterOf returns the adapter of a model that a request names. The list may know of more adapters
// than the model that was once loaded.
func adapterOf(m library.Model, name string, models []library.Model) (*engine.Adapter, error) {
	for i := range models {
		if models[i].ID == m.ID && len(models[i].Adapters) > 0 {
			m.Adapters = models[i].Adapters
		}
	}
	if a, ok := m.Adapter(name); ok {
		return &engine.Adapter{Name: a.Name, Dir: a.Dir}, nil
	}
	why := "there are none in the model folders"
	var names []string
	for _, a := range m.Adapters {
		names = append(names, a.Name)
	}
	if len(names) > 0 {
		why = "its adapters are " + strings.Join(problem.Nearest(name, names), ", ")
	}
	return nil, problem.New(problem.ModelNotFound,
		fmt.Sprintf("The model %s has no adapter %q", m.ID, name), why,
		"Name one of its adapters, or put the adapter's folder into one of the model folders.")
}
