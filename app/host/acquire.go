package host

// Host implements server.Models. A request gets the running model, or a Problem that says why there
// is none and what to do. A request loads a model only if that model was unloaded for being idle
// (idle.go).

import (
	"fmt"
	"slices"
	"strings"

	"headroom/app/library"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Acquire implements server.Models: it returns the running model if id names it.
func (h *Host) Acquire(id string) (server.Model, error) {
	named := h.named(id)
	h.mu.Lock()
	want, running, failure, unloaded := h.want, h.running(), h.failure, h.idle.unloaded
	h.mu.Unlock()
	switch {
	case running != nil && named(running.model):
		return server.Model{ID: running.model.ID, Engine: running.engine}, nil
	case running == nil && want != nil && failure == nil && named(want.model):
		return server.Model{}, problem.New(problem.Loading,
			"The model "+want.model.ID+" is being loaded",
			fmt.Sprintf("%.0f %% is done", 100*h.loadProgress(want)), "Try again in a moment.")
	case running == nil && failure != nil && named(want.model):
		return server.Model{}, want.refusal(failure)
	}
	if unloaded != nil && named(*unloaded) {
		return server.Model{}, problem.New(problem.NotRunning,
			"The model "+unloaded.ID+" was unloaded",
			"it was idle", "Send a request: that loads it again.")
	}
	models := h.models.list()
	for _, m := range models {
		if named(m) {
			if m.Err != nil && id != "" {
				return server.Model{}, problem.New(problem.NotRunning,
					"The model "+m.ID+" cannot be loaded", m.Err.Error(), "")
			}
			return server.Model{}, notRunning(m, running, id)
		}
	}
	p := library.NotFound(id, models)
	if running != nil {
		p.Fix = "Ask for " + running.model.ID + ", which is running."
	}
	return server.Model{}, p
}

func notRunning(m library.Model, running *target, asked string) error {
	switch {
	case running != nil:
		return problem.New(problem.NotRunning, "The model "+m.ID+" is not loaded",
			running.model.ID+" is running",
			"Load it in Headroom, or ask for "+running.model.ID+".")
	case asked == "":
		return problem.New(problem.NotRunning, "No model is loaded", "", "Start one in Headroom.")
	}
	return problem.New(problem.NotRunning, "The model "+m.ID+" is not loaded",
		"no model is loaded", "Start it in Headroom.")
}

// anyModel are the names by which clients ask for whichever model is loaded.
var anyModel = []string{"", "default", "default_model"}

// named returns a function that reports whether a client means a model by a name; see
// library.Meant.
func (h *Host) named(id string) func(library.Model) bool {
	if id == "" {
		return func(library.Model) bool { return true }
	}
	h.mu.Lock()
	var models []library.Model // the list may lack them: one may be loaded from any folder
	for _, t := range []*target{h.running(), h.want} {
		if t != nil {
			models = append(models, t.model)
		}
	}
	if h.idle.unloaded != nil {
		models = append(models, *h.idle.unloaded)
	}
	h.mu.Unlock()
	if len(models) == 0 || !models[0].HasName(id) { // usually, it is the running one
		models = append(models, h.models.list()...)
	}
	meant := library.Meant(models, id, h.options.Aliases)
	if meant == nil && slices.Contains(anyModel, id) {
		return func(library.Model) bool { return true }
	}
	return func(m library.Model) bool {
		return slices.ContainsFunc(meant,
			func(other library.Model) bool { return strings.EqualFold(other.ID, m.ID) })
	}
}

// List implements server.Models: it returns the running model, or the one that was unloaded for
// being idle. A request for any other model fails, so they are not listed.
func (h *Host) List() []server.ModelInfo {
	h.mu.Lock()
	t := h.running()
	h.mu.Unlock()
	if t == nil {
		if m := h.unloadedModel(); m != nil {
			return []server.ModelInfo{{ID: m.ID, ContextTokens: m.Description.ContextTokens}}
		}
		return nil
	}
	return []server.ModelInfo{{ID: t.model.ID, ContextTokens: t.engine.Info().ContextTokens}}
}

func (h *Host) loadProgress(t *target) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.progress
}
