package host

// Host implements server.Models. A request gets the model that it names, or a Problem that says why
// there is none and what to do. wake.go loads models for requests.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/app/library"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Acquire implements server.Models: it returns the loaded model that id names.
func (h *Host) Acquire(id string) (server.Model, error) {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	i, m, err := h.asked(id, models, rules)
	if err != nil {
		return server.Model{}, err
	}
	if i != nil && i.running() != nil {
		return server.Model{ID: i.model.ID, Engine: i.have.engine}, nil
	}
	return server.Model{}, h.refusal(i, m, id)
}

// Resolve implements server.Resolver.
func (h *Host) Resolve(name string) (id string, err error) {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, m, err := h.asked(name, models, rules)
	return m.ID, err
}

// Task implements server.TaskModels.
func (h *Host) Task(name string) (id string, task modelfile.Task, known bool) {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, m, err := h.asked(name, models, rules)
	if err != nil || m.Err != nil {
		return "", "", false
	}
	return m.ID, m.Description.Task, true
}

// asked returns the model that a request means, and its instance, nil for none. The names in
// anyModel mean the model that a person started last, or else the default model, or else the one
// that was used last. The error is a Problem. The caller holds mu.
func (h *Host) asked(id string, models []library.Model, rules RequestRules) (*instance,
	library.Model, error) {
	if id != "" {
		if i, m, err := h.named(id, models, rules.Aliases); err == nil ||
			!slices.Contains(anyModel, id) {
			return i, m, err
		}
	}
	i := h.chosen
	if i == nil || i.want == nil && i.unloaded == notUnloaded {
		if rules.DefaultModel != "" && rules.Load {
			return h.named(rules.DefaultModel, models, rules.Aliases)
		}
		i = h.front()
	}
	if i == nil {
		return nil, library.Model{}, problem.New(problem.NotRunning, "No model is loaded", "",
			"Start one in Headroom.")
	}
	return i, i.model, nil
}

// anyModel are the names by which clients ask for whichever model is loaded.
var anyModel = []string{"", "default", "default_model"}

// named returns the model that a client means by a name, and its instance, nil for none; see
// library.Meant. Of several, the one in front comes first, then those with an instance. The error
// is a Problem. The caller holds mu.
func (h *Host) named(name string, models []library.Model,
	aliases func(id string) []string) (*instance, library.Model, error) {
	known := make([]library.Model, 0, len(h.instances)+1) // models may lack one from another folder
	front := h.front()
	if front != nil {
		known = append(known, front.model)
	}
	for _, i := range h.instances {
		known = append(known, i.model)
	}
	meant := library.Meant(append(known, models...), name, aliases)
	if at := slices.IndexFunc(meant,
		func(m library.Model) bool { return m.ID == name }); at > 0 { // an ID comes before an alias
		meant = meant[at:]
	}
	if len(meant) > 0 {
		for _, i := range h.instances {
			if i.is(meant[0]) {
				return i, i.model, nil
			}
		}
		return nil, meant[0], nil
	}
	p := library.NotFound(name, models)
	if front != nil && front.running() != nil {
		p.Fix = "Ask for " + front.model.ID + ", which is running."
	}
	return nil, library.Model{}, p
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
		code := problem.NotRunning // a download may end
		if m.State != library.Downloading && neverLoads(m.Err) {
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

// neverLoads reports whether a model cannot be loaded until its files change. A request for it has
// the status 404: clients retry one of 500 and above, which would be in vain.
func neverLoads(err error) bool {
	code := problem.From(err).Code
	return code == problem.ModelBroken || code == problem.UnknownArchitecture
}

// List implements server.Models: it returns the models that a request may name, the loaded ones
// first.
func (h *Host) List() []server.ModelInfo {
	rules, models := h.requestRules(), h.models.list()
	list := h.listInstances(rules)
	aliases := withCopies(models, rules.Aliases)
	if !rules.Load {
		return withAliases(list, aliases)
	}
	listed := make(map[string]bool, len(list))
	for _, one := range list {
		listed[one.ID] = true
	}
	for i := range models {
		if m := &models[i]; m.Err == nil && !listed[m.ID] {
			list = append(list, server.ModelInfo{ID: m.ID, State: server.Unloaded,
				ContextTokens: plannedContext(m), Description: m.Description,
				UpdatedAt: m.UpdatedAt})
		}
	}
	return withAliases(list, aliases)
}

// withCopies returns aliases for which a model has those of its copies, too.
func withCopies(models []library.Model, aliases func(id string) []string) func(string) []string {
	if aliases == nil {
		return nil
	}
	copied := map[string]*library.Model{}
	for i := range models {
		if m := &models[i]; len(m.Copies) > 0 {
			copied[m.ID] = m
		}
	}
	return func(id string) []string {
		if m := copied[id]; m != nil {
			return m.Aliases(aliases)
		}
		return aliases(id)
	}
}

// withAliases adds the aliases of the models to a list. Of several models with the same alias, the
// first has it, and a name that is an ID is no alias.
func withAliases(list []server.ModelInfo, aliases func(id string) []string) []server.ModelInfo {
	if aliases == nil {
		return list
	}
	taken := make(map[string]bool, len(list))
	for _, one := range list {
		taken[strings.ToLower(one.ID)] = true
	}
	for i := range list {
		for _, alias := range aliases(list[i].ID) {
			if key := strings.ToLower(alias); !taken[key] {
				taken[key] = true
				list[i].Aliases = append(list[i].Aliases, alias)
			}
		}
	}
	return list
}

// listInstances returns the entries of List that have an instance.
func (h *Host) listInstances(rules RequestRules) (list []server.ModelInfo) {
	general, ofLoaded := h.generalIdleUnload(), h.rulesOfLoaded()
	h.mu.Lock()
	defer h.mu.Unlock()
	var others []server.ModelInfo
	for _, i := range h.inOrder() {
		one := server.ModelInfo{ID: i.model.ID, State: server.Unloaded,
			ContextTokens: i.contextTokens(), Description: i.model.Description,
			UpdatedAt: i.model.UpdatedAt}
		switch t := i.running(); {
		case t != nil:
			one.State, one.Engine = server.Loaded, t.engine
			one.ContextTokens = t.engine.Info().ContextTokens
			one.MemoryBytes = engineBytes(t.engine.Stats()).Total()
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
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.chosen
	if i == nil || i.want == nil || i.running() != nil {
		return false, nil
	}
	return !h.anyRan, h.refusal(i, i.model, "")
}

// plannedContext returns the context that a model would be loaded with.
func plannedContext(m *library.Model) int {
	if m.Description.PlannedTokens > 0 {
		return m.Description.PlannedTokens
	}
	return m.Description.ContextTokens
}
