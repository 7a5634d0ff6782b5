// Package agents sets up coding agents, such as Claude Code and Codex, to use this endpoint. It
// shows what it would write to an agent's configuration file, writes that, and takes it back. It
// also starts an agent in a terminal with the same settings, for which nothing is written.
//
// An agent is one file with one row of the table below. A plan is made of edits: values at paths
// in the file. The file is edited as text, so that comments, order and line ends stay as they are,
// and the result is parsed and compared with the edits before it is shown. What was written is
// recorded, so that Undo gives back the bytes from before. If the file has changed since, only the
// values that are still as written are taken back.
//
//	agents.go       the table
//	claudecode.go, codex.go, opencode.go, zed.go, xcode.go, continuedev.go: one agent each
//	format.go       edits of text, and their check; jsonc.go, toml.go, yaml.go
//	place.go        where configuration files and programs are
//	plan.go         what would be written, as lines; difference.go
//	store.go        writes, undoes and lists; record.go
//	launch.go       the command that starts an agent, and the terminal
package agents

import (
	"fmt"
	"strings"

	"headroom/engine/problem"
)

// Target is what an agent is to use.
type Target struct {
	URL           string `json:"url"` // base URL for OpenAI's clients, with /v1; "": none
	Model         string `json:"model"`
	ContextTokens int    `json:"contextTokens"`
	NeedsKey      bool   `json:"needsKey"` // requests need an API key
}

// outputTokens is the longest answer that an agent may request: enough for a long edit, and most of
// the context is left for the prompt.
func (t Target) outputTokens() int { return min(8192, t.ContextTokens/4) }

// agent is one row of the table. Every function may be nil, but file and edits belong to format.
type agent struct {
	id, name string
	docs     string   // address of the documentation of these settings
	programs []string // names of its command; the first is launched
	apps     []string // paths of its app on a Mac
	format   format   // of its configuration file; nil: it cannot be written from outside
	// leastContext is the context, in tokens, below which it is of little use; 0: not known.
	leastContext int
	// file returns the path of the configuration file, which need not exist.
	file func(e Environment) string
	// edits returns what to write. key is the API key, "" if none is needed.
	edits func(t Target, key string) []edit
	// check returns a Problem if the file must not be written.
	check func(file configFile) error
	// command returns the command that runs the agent without a changed file.
	command func(t Target, key string) Command
	// steps returns what is left for a person to do, in sentences.
	steps func(t Target, key string) []string
}

// table has the agents in the order of the page.
var table = []*agent{claudeCode, codex, opencode, zed, xcode, continueDev}

// find returns the agent with an ID. The error is a Problem.
func find(id string) (*agent, error) {
	var ids []string
	for _, a := range table {
		if a.id == id {
			return a, nil
		}
		ids = append(ids, a.id)
	}
	fix := "The agents are " + joined(ids) + "."
	for _, near := range problem.Nearest(id, ids)[:1] {
		if len(id) > 2 && (problem.Alike(id, near, 2) || strings.HasPrefix(near, id)) {
			fix = "Did you mean " + near + "? " + fix
		}
	}
	return nil, problem.New(problem.NotFound, "There is no agent "+quoted(id), "", fix)
}

// warnings returns sentences about what will not work with this target on this system.
func (a *agent) warnings(t Target, e Environment) []string {
	var list []string
	if e.program(a) == "" {
		list = append(list, a.name+" was not found on this computer. What is written takes effect "+
			"once it is installed.")
	}
	if t.ContextTokens > 0 && t.ContextTokens < a.leastContext {
		list = append(list, fmt.Sprintf("%s needs a context of at least %d tokens, %s has %d. "+
			"Load the model with more, or pick another one.", a.name, a.leastContext, t.Model,
			t.ContextTokens))
	}
	return list
}

// noKey is sent by agents that demand a key where none is needed.
const noKey = "headroom"

// keyOr returns the key, or text if there is none.
func keyOr(key, text string) string {
	if key == "" {
		return text
	}
	return key
}
