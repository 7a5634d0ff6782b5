package commands

// Names of the list of models, for commands that do not run a server: a model, or a model with one
// of its adapters, as in "model+adapter".

import (
	"fmt"

	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/library"
	"headroom/app/service"
	"headroom/engine"
	"headroom/engine/problem"
)

// resolve returns the model of a name or folder, without loading it.
func resolve(modelsDir []string, name string) (library.Model, error) {
	s := service.OpenSettings().Get()
	m, err := libraryOf(modelsDir).ResolveNamed(nil, name, aliases(s))
	return m, sayDownload(err, name)
}

// resolveAdapted is resolve for a name that may have that of an adapter after it. The adapter is
// nil if there is none.
func resolveAdapted(modelsDir []string, name string) (library.Model, *engine.Adapter, error) {
	s := service.OpenSettings().Get()
	m, a, err := host.ResolveAdapted(libraryOf(modelsDir), nil, name, aliases(s))
	return m, a, sayDownload(err, name)
}

// resolveAlone is resolve for a command that takes no adapter. does says what the command does,
// and fix what to do with an adapter; "": only to leave it out.
func resolveAlone(modelsDir []string, name, does, fix string) (library.Model, error) {
	m, err := resolve(modelsDir, name)
	return m, refuseAdapter(modelsDir, name, does, fix, err)
}

// refuseAdapter returns err, or a better Problem if the name that was not found is that of a model
// with an adapter.
func refuseAdapter(modelsDir []string, name, does, fix string, err error) error {
	if err == nil || problem.From(err).Code != problem.ModelNotFound {
		return err
	}
	m, a, adapted := resolveAdapted(modelsDir, name)
	if a == nil {
		return adapted // it may be better, as for an adapter that the model does not have
	}
	if fix == "" {
		fix = "Name the model alone: " + quoteWord(m.ID) + "."
	}
	return problem.New(problem.BadRequest,
		fmt.Sprintf("%s is a model with an adapter", name), does, fix)
}

// sayDownload adds to the Problem of a model that is not on this machine how it is downloaded, if
// its name is one of the hub.
func sayDownload(err error, name string) error {
	if err == nil || problem.From(err).Code != problem.ModelNotFound || hub.CheckID(name) != nil {
		return err
	}
	p := *problem.From(err)
	p.Fix = "To download it, run: headroom models download " + name
	return &p
}

// libraryOf returns the library of the folders in the settings, and others.
func libraryOf(modelsDir []string) *library.Library {
	s := service.OpenSettings().Get()
	return library.New((&ModelFlags{ModelsDir: modelsDir}).roots(s), engine.Options{},
		engine.Describe)
}
