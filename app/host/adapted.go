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
	m, err := l.ResolveNamed(models, nameOrDir, aliases)
	at := strings.LastIndex(nameOrDir, server.AdapterSign)
	if err == nil || at < 0 || problem.From(err).Code != problem.ModelNotFound {
		return m, nil, err
	}
	base, baseErr := l.ResolveNamed(models, nameOrDir[:at], aliases)
	if baseErr != nil {
		if _, a, _ := ResolveAdapted(l, models, nameOrDir[:at], aliases); a != nil {
			err = severalAdapters(nameOrDir, at)
		}
		return m, nil, err
	}
	if base.Bundled && len(models) == 0 {
		models = l.Scan() // base was found without, but not its adapters
	}
	a, err := adapterOf(base, nameOrDir[at+1:], models)
	return base, a, err
}

// severalAdapters is the Problem of a name with two adapters, the second of which begins after the
// sign at an index.
func severalAdapters(name string, at int) error {
	return problem.New(problem.ModelNotFound, fmt.Sprintf("%q names several adapters", name),
		"a model runs with one adapter at a time", "Name one of them, as in "+name[:at]+".")
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
