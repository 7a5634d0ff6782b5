package agents

// opencode reads opencode.jsonc or opencode.json in its folder, and OPENCODE_CONFIG_CONTENT:
// https://opencode.ai/docs/config/ and https://opencode.ai/docs/providers/

import (
	"os"
	"path/filepath"
	"slices"
)

var opencode = &agent{
	id: "opencode", name: "opencode", docs: "https://opencode.ai/docs/providers/",
	programs: []string{"opencode"},
	format:   jsonc{},
	file:     opencodeFile,
	edits: func(t Target, key string) []edit {
		return append([]edit{{path: []string{"$schema"}, ifMissing: true,
			value: "https://opencode.ai/config.json"}}, opencodeEdits(t, key)...)
	},
	command: func(t Target, key string) Command {
		var content object
		for _, e := range opencodeEdits(t, key) {
			value := e.value
			for _, name := range slices.Backward(e.path[1:]) {
				value = object{{name, value}}
			}
			content = append(content, member{e.path[0], value})
		}
		return Command{Args: []string{"opencode"},
			Env: []Variable{{"OPENCODE_CONFIG_CONTENT", string(encodeJSON(content))}}}
	},
}

func opencodeEdits(t Target, key string) []edit {
	options := object{{"baseURL", t.URL}}
	if key != "" {
		options = append(options, member{"apiKey", key})
	}
	model := "headroom/" + t.Model
	return []edit{
		{path: []string{"model"}, value: model},
		{path: []string{"small_model"}, value: model},
		{path: []string{"provider", "headroom"}, value: object{
			{"npm", "@ai-sdk/openai-compatible"},
			{"name", "Headroom"},
			{"options", options},
			{"models", object{{t.Model, object{
				{"name", t.Model},
				{"limit", object{{"context", t.ContextTokens}, {"output", t.outputTokens()}}},
			}}}},
		}},
	}
}

// opencodeFile returns the file that decides. Of those that exist, opencode reads the .jsonc last.
func opencodeFile(e Environment) string {
	if path := e.variable("OPENCODE_CONFIG"); path != "" {
		return path
	}
	dir := filepath.Join(e.configHome(), "opencode")
	for _, name := range []string{"opencode.jsonc", "opencode.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(dir, "opencode.json")
}
