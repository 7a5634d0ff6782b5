package control

// Setting up coding agents over HTTP, as app/agents does it. What is written was shown before: a
// request to write has the token of the plan.

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"headroom/app/agents"
	"headroom/engine/problem"
)

// AgentList is the response of GET /control/agents.
type AgentList struct {
	Target agents.Target   `json:"target"` // what the agents would use
	Agents []agents.Listed `json:"agents"`
}

// AgentPlan is what would be written for an agent, and the command that runs it without that.
type AgentPlan struct {
	agents.Plan
	// Command is what Launch runs, as lines of a shell with the key hidden; "": it has none.
	Command string `json:"command"`
}

// AgentWrite is the body of POST /control/agents/{id}.
type AgentWrite struct {
	Model string `json:"model"` // "": the one in front
	Token string `json:"token"` // of the plan
}

// AgentUndo is the body of POST /control/agents/{id}/undo.
type AgentUndo struct {
	Token string `json:"token"` // of the plan
}

// AgentLaunch is the body of POST /control/agents/{id}/launch.
type AgentLaunch struct {
	Model  string `json:"model"`  // "": the one in front
	Folder string `json:"folder"` // "": the home folder
}

func (a *API) agentRoutes() []Route {
	model := Query{"model", "The model that the agents are to use; without it, the one in front."}
	return []Route{
		route("GET /control/agents", "Lists the coding agents and how they are set up.", "",
			func(r *http.Request, _ nothing) (AgentList, error) {
				t, err := a.agentTarget(r.URL.Query().Get("model"))
				if err != nil {
					return AgentList{}, err
				}
				return AgentList{t, a.agents.List(t)}, nil
			}).withQueries(model),
		route("GET /control/agents/{id}", "Shows what would be written for an agent.", "",
			func(r *http.Request, _ nothing) (AgentPlan, error) {
				id := r.PathValue("id")
				t, err := a.agentTarget(r.URL.Query().Get("model"))
				if err != nil {
					return AgentPlan{}, err
				}
				plan, err := a.agents.Plan(id, t)
				if err != nil {
					return AgentPlan{}, err
				}
				command, err := a.agents.LaunchPlan(id, t)
				return AgentPlan{plan, command}, err
			}).withQueries(model),
		route("POST /control/agents/{id}", "Writes what was shown, and makes the agent's API key.",
			`{"model": "m", "token": "that of the plan"}`,
			func(r *http.Request, b AgentWrite) (agents.Plan, error) {
				t, err := a.agentTarget(b.Model)
				if err != nil {
					return agents.Plan{}, err
				}
				return a.agents.Write(r.PathValue("id"), t, b.Token)
			}).withKnownFields(),
		route("GET /control/agents/{id}/undo", "Shows what would be taken back.", "",
			func(r *http.Request, _ nothing) (agents.Plan, error) {
				return a.agents.UndoPlan(r.PathValue("id"))
			}),
		route("POST /control/agents/{id}/undo",
			"Takes back what was written, as it was shown, and removes the agent's API key.",
			`{"token": "that of the plan"}`,
			func(r *http.Request, b AgentUndo) (agents.Plan, error) {
				return a.agents.Undo(r.PathValue("id"), b.Token)
			}).withKnownFields(),
		route("POST /control/agents/{id}/launch",
			"Opens a terminal that runs an agent. Its configuration stays as it is.",
			`{"model": "m", "folder": "/home/me/project"}`,
			func(r *http.Request, b AgentLaunch) (nothing, error) {
				t, err := a.agentTarget(b.Model)
				if err != nil {
					return nothing{}, err
				}
				return nothing{}, a.agents.Launch(r.PathValue("id"), t, b.Folder)
			}).withKnownFields(),
	}
}

// unknownContextTokens is the context that agents are told of a model whose own is not known.
const unknownContextTokens = 32768

// agentTarget returns what agents are to use: the address, and a model by its ID; "" is the one in
// front, or else the first one. The error is a Problem.
func (a *API) agentTarget(model string) (agents.Target, error) {
	state, known := a.host.State(), model == ""
	t := agents.Target{URL: state.Endpoint.URL, Model: model, NeedsKey: a.needsKey()}
	if t.Model == "" {
		t.Model = state.Engine.Model
	}
	base := "" // the model of an adapter
	for _, m := range a.host.Models(0).Models {
		if t.Model == "" || strings.EqualFold(m.ID, t.Model) {
			t.Model, t.ContextTokens, known = m.ID, m.ContextTokens, true
			break
		}
		for _, adapter := range m.Adapters {
			if strings.EqualFold(adapter.ID, t.Model) {
				t.Model, t.ContextTokens, known, base = adapter.ID, m.ContextTokens, true, m.ID
			}
		}
	}
	if !known {
		return t, problem.New(problem.ModelNotFound,
			fmt.Sprintf("There is no model with the ID %q", model), "",
			"Use an ID that `headroom models` lists.")
	}
	for _, e := range state.Engines {
		if (e.Model == t.Model || e.Model == base) && e.ContextTokens > 0 {
			t.ContextTokens = e.ContextTokens
		}
	}
	t.ContextTokens = cmp.Or(t.ContextTokens, unknownContextTokens)
	return t, nil
}
