package control

// The other machines over HTTP, as app/machines stores them and app/route knows their state.

import (
	"cmp"
	"net/http"
	"slices"

	"headroom/app/host"
	"headroom/app/machines"
	routing "headroom/app/route"
)

// Router is the part of a app/route's Router that the API uses.
type Router interface {
	Running() []routing.Running
	Cancel(requestID string) bool
	States() []routing.MachineState
	Reload()
}

// Machine is another machine.
type Machine struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	Kind        machines.Kind `json:"kind"`
	URL         string        `json:"url"`
	Certificate string        `json:"certificate"` // SHA-256 of the only one accepted; "": none
	Paired      bool          `json:"paired"`
	HasKey      bool          `json:"hasKey"`     // it wants an API key, which is stored
	Off         bool          `json:"off"`        // nothing is sent to it
	UsedModels  []string      `json:"usedModels"` // IDs; empty: all
	Error       string        `json:"error"`      // why it cannot be used; "": it can, or it is off
	Requests    int           `json:"requests"`   // that it answers for this machine
	RoomBytes   int64         `json:"roomBytes"`  // free for models; 0: unknown
	// Models are those that it had last, without those that are not used.
	Models []MachineModel `json:"models"`
}

// MachineModel is a model of another machine.
type MachineModel struct {
	ID            string `json:"id"`
	Loaded        bool   `json:"loaded"`
	ContextTokens int    `json:"contextTokens"` // 0: unknown
	Requests      int    `json:"requests"`      // of everybody
}

// MachineList is the response of GET /control/machines.
type MachineList struct {
	Machines []Machine `json:"machines"` // in the order in which they were added
	Error    string    `json:"error"`    // why the list cannot be read; "": it can
}

// MachineChange is the body of POST /control/machines and PUT /control/machines/{id}.
type MachineChange struct {
	Name        string        `json:"name"` // "": the host name
	Kind        machines.Kind `json:"kind"` // "": it is asked
	URL         string        `json:"url"`
	Certificate string        `json:"certificate"`
	APIKey      string        `json:"apiKey"` // only when it is added
	UsedModels  []string      `json:"usedModels"`
	Off         bool          `json:"off"`
}

func (c MachineChange) machine() machines.Machine {
	return machines.Machine{Name: c.Name, Kind: c.Kind, URL: c.URL, Certificate: c.Certificate,
		Models: c.UsedModels, Off: c.Off}
}

func (a *API) machineRoutes() []Route {
	list := func(err error) (MachineList, error) {
		if err == nil && a.router != nil {
			a.router.Reload()
		}
		return a.machineList(), err
	}
	return []Route{
		route("GET /control/machines", "Lists the other machines and their models.", "",
			func(*http.Request, nothing) (MachineList, error) { return a.machineList(), nil }),
		route("POST /control/machines", "Adds a machine by its address, once it has answered.",
			`{"url": "http://studio.local:11811", "apiKey": "hr-…"}`,
			func(r *http.Request, c MachineChange) (MachineList, error) {
				m := c.machine()
				m.URL = machines.WithPort(m.Kind, m.URL)
				found, err := routing.Probe(r.Context(), m, c.APIKey, nil)
				if err == nil {
					err = routing.CheckNew(r.Context(), found, a.machines, nil)
				}
				if err == nil {
					m.Kind = found.Kind
					_, err = a.machines.Add(m, c.APIKey)
				}
				return list(err)
			}).withKnownFields(),
		route("PUT /control/machines/{id}",
			"Changes a machine, except its kind, its API key and how it was added.",
			`{"name": "studio", "url": "http://studio.local:11811", "off": true}`,
			func(r *http.Request, c MachineChange) (MachineList, error) {
				m, err := a.machines.Named(r.PathValue("id"))
				if err == nil {
					changed := c.machine()
					changed.ID, changed.Kind, changed.Paired = m.ID, m.Kind, m.Paired
					changed.URL = cmp.Or(changed.URL, m.URL)
					changed.Certificate = cmp.Or(changed.Certificate, m.Certificate)
					err = a.machines.Set(changed)
				}
				return list(err)
			}).withKnownFields(),
		route("DELETE /control/machines/{id}",
			"Removes a machine and its API key. Requests that it answers go on.", "",
			func(r *http.Request, _ nothing) (MachineList, error) {
				_, err := a.machines.Remove(r.PathValue("id"))
				return list(err)
			}),
	}
}

func (a *API) machineList() MachineList {
	list := MachineList{Machines: []Machine{}}
	if err := a.machines.Err(); err != nil {
		list.Error = err.Error()
	}
	var states []routing.MachineState
	if a.router != nil {
		states = a.router.States()
	}
	for _, m := range a.machines.List() {
		one := Machine{ID: m.ID, Name: m.Name, Kind: m.Kind, URL: m.URL,
			Certificate: m.Certificate, Paired: m.Paired, HasKey: m.HasSecret, Off: m.Off,
			UsedModels: append([]string{}, m.Models...), Models: []MachineModel{}}
		i := slices.IndexFunc(states, func(s routing.MachineState) bool { return s.ID == m.ID })
		if i >= 0 {
			s := states[i]
			one.Requests, one.RoomBytes = s.Requests, s.RoomBytes
			if s.Err != nil {
				one.Error = s.Err.Error()
			}
			for _, model := range s.Models {
				one.Models = append(one.Models, MachineModel{model.ID, model.Loaded,
					model.ContextTokens, model.Requests})
			}
		}
		list.Machines = append(list.Machines, one)
	}
	return list
}

// state returns the host's state, with the requests that other machines answer.
func (a *API) state() host.State {
	s := a.host.State()
	if a.router == nil {
		return s
	}
	for _, one := range a.router.Running() {
		phase := "waiting"
		if one.Answers {
			phase = "decode"
		}
		s.Requests = append(s.Requests, host.Request{ID: one.ID, Client: one.Client, Key: one.Key,
			Model: one.Model, Machine: one.Machine, Phase: phase,
			StartedAtUnixMs: one.Begun.UnixMilli()})
	}
	return s
}

// cancel ends a request, here or on another machine. It reports whether there is one with the ID.
func (a *API) cancel(id string) bool {
	return a.host.Cancel(id) || a.router != nil && a.router.Cancel(id)
}
