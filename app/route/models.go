package route

// Lists of models that have those of other machines, too.

import (
	"slices"
	"strings"

	"headroom/engine/server"
)

// HereModels are this machine's models with all that the server can use of them.
type HereModels interface {
	server.Models
	server.Resolver
	server.TextModels
	server.TaskModels
	server.Wanter
	Crashes() int64
	RoomBytes() int64
}

// Models are the models of this machine and of the others. Only the list and the names have the
// others'; what loads a model means this machine's.
type Models struct {
	HereModels
	Router *Router
}

// Here implements server.Shared.
func (m Models) Here() server.Models { return m.HereModels }

// List implements server.Models. Those that only other machines have come last.
func (m Models) List() []server.ModelInfo {
	list := m.HereModels.List()
	others := m.Router.machines()
	if len(others) == 0 {
		return list
	}
	list = slices.Clone(list)
	at := map[string]int{}
	for i := range list {
		at[strings.ToLower(list[i].ID)] = i
	}
	for _, one := range others {
		s := one.state.Load()
		if s.Err != nil {
			continue
		}
		for _, model := range s.Models {
			key := strings.ToLower(model.ID)
			i, known := at[key]
			if !known {
				i = len(list)
				at[key] = i
				list = append(list, server.ModelInfo{ID: model.ID, State: server.Unloaded,
					ContextTokens: model.ContextTokens, OnlyElsewhere: true})
			}
			list[i].Machines = append(slices.Clip(list[i].Machines), one.stored.Name)
			if list[i].OnlyElsewhere && model.Loaded {
				list[i].State = server.Loaded
			}
		}
	}
	return list
}

// Resolve implements server.Resolver. A name that means no model here may mean one elsewhere.
func (m Models) Resolve(name string) (id string, err error) {
	id, err = m.HereModels.Resolve(name)
	if err == nil || !m.Router.Active() {
		return id, err
	}
	if model := m.Router.elsewhere(name); model != nil {
		return model.ID, nil
	}
	return id, err
}

// elsewhere returns the model that a name means on another machine; nil: there is none.
func (r *Router) elsewhere(name string) *Model {
	for _, m := range r.machines() {
		if model := m.find(name); model != nil && m.state.Load().Err == nil {
			return model
		}
	}
	return nil
}
