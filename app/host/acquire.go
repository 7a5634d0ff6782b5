package host

// Host implements server.Models. A request gets the model that it names, or a Problem that says why
// there is none and what to do. wake.go loads models for requests.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Acquire implements server.Models: it returns the loaded model that id names. It does not wait for
// the first scan.
func (h *Host) Acquire(id string) (server.Model, error) {
	if h.begins() {
		return server.Model{}, errBegins()
	}
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	i, m, a, err := h.asked(id, models, rules)
	if err != nil {
		return server.Model{}, err
	}
	if i != nil && i.running() != nil {
		return server.Model{ID: i.model.ID, Engine: i.have.engine, Adapter: a}, nil
	}
	return server.Model{}, h.refusal(i, m, id)
}

// Resolve implements server.Resolver.
func (h *Host) Resolve(name string) (id string, err error) {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, m, _, err := h.asked(name, models, rules)
	return m.ID, err
}

// Task implements server.TaskModels.
func (h *Host) Task(name string) (id string, task modelfile.Task, known bool) {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, m, _, err := h.asked(name, models, rules)
	if err != nil || m.Err != nil {
		return "", "", false
	}
	return m.ID, m.Description.Task, true
}

// asked returns the model that a request means, its instance, nil for none, and the adapter that
// the request names after the model, as in "model+adapter", nil for none. The error is a Problem.
// The caller holds mu.
func (h *Host) asked(id string, models []library.Model, rules RequestRules) (*instance,
	library.Model, *engine.Adapter, error) {
	type found struct {
		*instance
		model library.Model
	}
	f, a, err := findAdapted(id,
		func(id string) (f found, err error) {
			f.instance, f.model, err = h.askedModel(id, models, rules)
			return f, err
		},
		func(f found, adapter string) (*engine.Adapter, error) {
			return adapterOf(f.model, adapter, h.known(models))
		})
	return f.instance, f.model, a, err
}

// askedModel returns the model that a request means, and its instance, nil for none. The names in
// anyModel mean the model that a person started last, or else the default model, or else the one
// that was used last. The error is a Problem. The caller holds mu.
func (h *Host) askedModel(id string, models []library.Model, rules RequestRules) (*instance,
	library.Model, error) {
	if id != "" {
		if i, m, err := h.named(id, models, rules); err == nil ||
			!slices.Contains(anyModel, id) {
			return i, m, err
		}
	}
	i := h.chosen
	if i == nil || i.want == nil && i.unloaded == notUnloaded {
		if rules.DefaultModel != "" && rules.Load {
			return h.named(rules.DefaultModel, models, rules)
		}
		i = h.front()
	}
	if i == nil || i.missing() {
		return nil, library.Model{}, problem.New(problem.NotRunning, "No model is loaded", "",
			"Start one in Headroom.")
	}
	return i, i.model, nil
}

// anyModel are the names by which clients ask for whichever model is loaded.
var anyModel = []string{"", "default", "default_model"}

// MeansAny reports whether a request with this name asks for whichever model is loaded, unless a
// model has the name.
func MeansAny(name string) bool { return slices.Contains(anyModel, name) }

// named returns the model that a client means by a name, and its instance, nil for none: the first
// of library.Meant, whatever is loaded. If requests load no models, only those in memory can be
// meant by a name of several. The error is a Problem. The caller holds mu.
func (h *Host) named(name string, models []library.Model, rules RequestRules) (*instance,
	library.Model, error) {
	meant := library.Meant(h.known(models), name, rules.Aliases)
	for _, m := range meant {
		i := h.instanceFor(m)
		if rules.Load || i != nil && (i.want != nil || i.unloaded != notUnloaded) {
			return i, m, nil
		}
	}
	if len(meant) > 0 {
		return h.instanceFor(meant[0]), meant[0], nil
	}
	p := library.NotFound(name, models, rules.Aliases)
	if front := h.front(); front != nil && front.running() != nil {
		p.Fix = "Ask for " + front.model.ID + ", which is running."
	}
	return nil, library.Model{}, p
}

// known returns the models that requests may name: those of the list, after those that a person has
// started from a folder that is not in it. The caller holds mu.
func (h *Host) known(models []library.Model) []library.Model {
	var others []library.Model
	for _, i := range h.instances {
		if !i.missing() && !slices.ContainsFunc(models, i.is) {
			others = append(others, i.model)
		}
	}
	if others == nil {
		return models
	}
	return append(others, models...)
}

// instanceFor returns the instance of a model, nil for none. The caller holds mu.
func (h *Host) instanceFor(m library.Model) *instance {
	for _, i := range h.instances {
		if i.is(m) {
			return i
		}
	}
	return nil
}

// refusal returns the Problem of a request for a model that is not loaded, and that the request
// does not load. i is the model's instance, nil for none. id is the name that the request used. The
// caller holds mu.
func (h *Host) refusal(i *instance, m library.Model, id string) error {
	switch {
	case i != nil && i.failure != nil:
		return i.want.refusal(i.failure)
	case i != nil && i.want != nil:
		return problem.New(problem.Loading, "The model "+m.ID+" is being loaded",
			fmt.Sprintf("%.0f %% is done", 100*i.want.progress), "Try again in a moment.")
	case i != nil && i.unloaded != notUnloaded:
		why := "it was idle"
		if i.unloaded == forRoom {
			why = "another model needed its memory"
		}
		return problem.New(problem.NotRunning, "The model "+m.ID+" was unloaded", why,
			"Send a request: that loads it again.")
	case m.Err != nil:
		code := problem.NotRunning
		if neverLoads(m.Err) {
			code = problem.ModelNotFound
		}
		return problem.New(code, "The model "+m.ID+" cannot be loaded", m.Err.Error(), "")
	}
	if front := h.front(); front != nil && front.running() != nil {
		return problem.New(problem.NotRunning, "The model "+m.ID+" is not loaded",
			front.model.ID+" is running",
			"Load it in Headroom, or ask for "+front.model.ID+".")
	}
	return problem.New(problem.NotRunning, "The model "+m.ID+" is not loaded",
		"no model is loaded", "Start it in Headroom.")
}

// neverLoads reports whether a model cannot be loaded until its files change: they are gone,
// damaged, or not all there yet. A request for it has the status 404: clients retry one of 500 and
// above, which would be in vain.
func neverLoads(err error) bool {
	switch problem.From(err).Code {
	case problem.ModelNotFound, problem.ModelBroken, problem.UnknownArchitecture:
		return true
	}
	return false
}

// List implements server.Models: it returns the models that a request may name, the loaded ones
// first. While Listed returns false, models may be missing; see modelsSoon.
func (h *Host) List() []server.ModelInfo {
	rules, models := h.requestRules(), h.modelsSoon()
	_, _, room := h.readMemory()
	list := h.listInstances(rules, room)
	if rules.Load {
		listed := make(map[string]bool, len(list))
		for _, one := range list {
			listed[one.ID] = true
		}
		for i := range models {
			if m := &models[i]; m.Err == nil && !listed[m.ID] {
				list = append(list, server.ModelInfo{ID: m.ID, State: server.Unloaded,
					ContextTokens: needOf(m.Description, nil, room, 0).ContextTokens,
					Description:   m.Description,
					UpdatedAt:     m.UpdatedAt})
			}
		}
	}
	h.addAliases(list, models, rules)
	return addAdapters(list, models)
}

// addAdapters adds to a list, after each model, an entry for each of its adapters.
func addAdapters(list []server.ModelInfo, models []library.Model) (all []server.ModelInfo) {
	of := map[string][]library.Adapter{}
	for i := range models {
		of[models[i].ID] = models[i].Adapters
	}
	for _, one := range list {
		all = append(all, one)
		for _, a := range of[one.ID] {
			entry := one
			entry.ID, entry.Base, entry.Aliases = one.ID+server.AdapterSign+a.Name, one.ID, nil
			entry.UpdatedAt, entry.MemoryBytes = a.UpdatedAt, 0
			all = append(all, entry)
		}
	}
	return all
}

// addAliases adds to the entries of a list the aliases by which a request gets the model.
func (h *Host) addAliases(list []server.ModelInfo, models []library.Model, rules RequestRules) {
	if rules.Aliases == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	aliases := map[string][]string{}
	for _, m := range h.known(models) {
		aliases[m.ID] = append(aliases[m.ID], m.Aliases(rules.Aliases)...)
	}
	for i := range list {
		one := &list[i]
		for _, alias := range aliases[one.ID] {
			same := func(other string) bool { return strings.EqualFold(other, alias) }
			_, m, err := h.named(alias, models, rules)
			if err == nil && m.ID == one.ID && !strings.EqualFold(alias, one.ID) &&
				!slices.ContainsFunc(one.Aliases, same) {
				one.Aliases = append(one.Aliases, alias)
			}
		}
	}
}

// listInstances returns the entries of List that have an instance.
func (h *Host) listInstances(rules RequestRules, roomBytes int64) (list []server.ModelInfo) {
	general, ofLoaded := h.generalIdleUnload(), h.rulesOfLoaded()
	h.mu.Lock()
	defer h.mu.Unlock()
	var others []server.ModelInfo
	for _, i := range h.inOrder() {
		if i.missing() {
			continue
		}
		one := server.ModelInfo{ID: i.model.ID, State: server.Unloaded,
			ContextTokens: i.contextTokens(roomBytes), Description: i.model.Description,
			UpdatedAt: i.model.UpdatedAt}
		switch t := i.running(); {
		case t != nil:
			one.State, one.Engine = server.Loaded, t.engine
			one.ContextTokens = t.engine.Info().ContextTokens
			one.MemoryBytes = engineBytes(t.engine.Stats()).Used()
			if after := h.idleLimit(i, ofLoaded[one.ID], general); after > 0 {
				one.UnloadAt = i.usedAt.Add(after)
			}
			list = append(list, one)
			continue
		case i.want != nil && i.failure == nil:
			one.State = server.Loading
		}
		if i.unloaded != notUnloaded || rules.Load && i.model.Err == nil {
			others = append(others, one)
		}
	}
	return append(list, others...)
}

// Wanted implements server.Wanter.
func (h *Host) Wanted() (first bool, err error) {
	if h.begins() {
		return true, errBegins()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.chosen
	if i == nil || i.want == nil || i.running() != nil {
		return false, nil
	}
	return !h.anyRan, h.refusal(i, i.model, "")
}
