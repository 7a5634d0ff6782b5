package service

// Models that clients of the endpoint delete. They go to the Trash by the rules of the Models page,
// and only from folders that Headroom downloads or imports to.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/engine/problem"
)

// remover deletes models; its method remove is for server.Options.
type remover struct {
	allowed func() bool // by the settings
	models  func() []host.Model
	jobs    func() []jobs.Job
	folders func() []string // whose models a client may delete
	// trash moves the copy of a model in a folder to the Trash. Its error is a Problem.
	trash func(id, path string) error
}

func (s *Service) newRemover() *remover {
	return &remover{trash: s.Host.RemoveModel, jobs: s.jobs.Jobs,
		allowed: func() bool { return s.settings.Get().OllamaDelete },
		models:  func() []host.Model { return s.Host.Models(0).Models },
		folders: func() []string {
			return append(modelFolders(s.settings.Get()), library.HubCache())
		}}
}

const onModelsPage = "Move it to the Trash on the Models page."

// remove implements server.Options.Delete. A model has its ID here, with or without a tag, and no
// other name: a name that means another model tomorrow must not delete that one.
func (r *remover) remove(name string) error {
	if !r.allowed() {
		return problem.New(problem.Forbidden, "Apps may not delete models",
			"that is off in the settings",
			"Turn on \"Let apps delete models\" in Settings, or move the model to the Trash on "+
				"the Models page.")
	}
	models := r.models()
	i := slices.IndexFunc(models, func(m host.Model) bool { return m.ID == name })
	if id, ok := strings.CutSuffix(name, ":latest"); i < 0 && ok {
		i = slices.IndexFunc(models, func(m host.Model) bool { return m.ID == id })
	}
	if i < 0 {
		return problem.New(problem.ModelNotFound, fmt.Sprintf("No model has the ID %q", name),
			"only its ID deletes a model, and no other name",
			"Send the ID as GET /v1/models lists it.")
	}
	m := models[i]
	switch {
	case m.Bundled: // RemoveModel has the sentence
		return r.trash(m.ID, "")
	case len(m.Places) != 1:
		return problem.New(problem.BadRequest, "The model "+m.ID+" is in several folders", "",
			"Choose the folder to remove on the Models page.")
	case slices.ContainsFunc(r.jobs(), func(j jobs.Job) bool {
		return j.Kind == jobs.Download && j.Title == m.ID && !j.State.Ended()
	}):
		return problem.New(problem.BadRequest, "The model "+m.ID+" is being downloaded", "",
			"Stop the download on the Models page first.")
	}
	place := m.Places[0]
	if place.Origin != library.Ollama && !library.Contains(r.folders(), place.Path) {
		return problem.New(problem.Forbidden, "Apps may not delete the model "+m.ID,
			"Headroom has neither downloaded nor imported to "+place.Path, onModelsPage)
	}
	return r.trash(m.ID, place.Path)
}
