package host

// The host as the server's source of models. A request gets the running model, or a problem that
// says why it cannot and what to do; only a model that rests is loaded by a request (rest.go).

import (
	"fmt"
	"strings"

	"headroom/app/library"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Acquire finds the running model for a request; see server.Models.
func (h *Host) Acquire(id string) (server.Model, error) {
	h.mu.Lock()
	want, running, failure, resting := h.want, h.running(), h.failure, h.resting
	h.mu.Unlock()
	switch {
	case running != nil && answersTo(running.model, id):
		return server.Model{ID: running.model.ID, Engine: running.engine}, nil
	case running == nil && want != nil && failure == nil && answersTo(want.model, id):
		return server.Model{}, problem.New(problem.Loading,
			"The model "+want.model.ID+" is being loaded",
			fmt.Sprintf("%.0f %% is done", 100*h.loaded(want)), "Try again in a moment.")
	case running == nil && failure != nil && answersTo(want.model, id):
		if p := problem.From(failure); want.reload && p.Code == problem.Crashed {
			return server.Model{}, problem.New(problem.NotRunning, p.Message, p.Why, p.Fix)
		}
		return server.Model{}, problem.New(problem.NotRunning,
			"The model "+want.model.ID+" could not be loaded", failure.Error(), "")
	}
	if resting != nil && answersTo(*resting, id) {
		return server.Model{}, problem.New(problem.NotRunning, "The model "+resting.ID+" rests",
			"nobody used it for a while", "Send a request: it is loaded again then.")
	}
	models := h.models.list()
	for _, m := range models {
		if id == "" || answersTo(m, id) {
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
	return problem.New(problem.NotRunning, "The model "+m.ID+" is not loaded", "no model is",
		"Start it in Headroom.")
}

// answersTo tells whether a request that asks for id means the model: its ID in any case, a copy's,
// or its name without the publisher.
func answersTo(m library.Model, id string) bool {
	return id == "" || m.HasName(id) || strings.EqualFold(id, m.Name)
}

// List returns what a request may name now: the running model, or the one that rests, if any.
// Others must be started first.
func (h *Host) List() []server.ModelInfo {
	h.mu.Lock()
	t := h.running()
	h.mu.Unlock()
	if t == nil {
		if m := h.asleep(); m != nil {
			return []server.ModelInfo{{ID: m.ID, ContextTokens: m.Description.ContextTokens}}
		}
		return nil
	}
	return []server.ModelInfo{{ID: t.model.ID, ContextTokens: t.engine.Info().ContextTokens}}
}

func (h *Host) loaded(t *target) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.progress
}
