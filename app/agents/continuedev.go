package agents

// Continue reads config.yaml in its folder: https://docs.continue.dev/reference

import (
	"os"
	"path/filepath"

	"headroom/engine/problem"
)

var continueDev = &agent{
	id: "continue", name: "Continue", docs: "https://docs.continue.dev/reference",
	programs: []string{"cn"},
	format:   yaml{},
	file: func(e Environment) string {
		return filepath.Join(e.folder("CONTINUE_GLOBAL_DIR", ".continue"), "config.yaml")
	},
	check: func(f configFile) error {
		old := filepath.Join(filepath.Dir(f.path), "config.json")
		if _, err := os.Stat(old); f.exists || err != nil {
			return nil
		}
		return problem.New(problem.Exists, "Continue's configuration is config.json, in its old "+
			"format", "Continue ignores it as soon as there is a config.yaml",
			"Convert it first, as https://docs.continue.dev/reference/yaml-migration says.")
	},
	edits: func(t Target, key string) []edit {
		return []edit{
			{path: []string{"name"}, value: "Headroom", ifMissing: true},
			{path: []string{"version"}, value: "0.0.1", ifMissing: true},
			{path: []string{"schema"}, value: "v1", ifMissing: true},
			{path: []string{"models", "Headroom"}, value: object{
				{"name", "Headroom"},
				{"provider", "openai"},
				{"model", t.Model},
				{"apiBase", t.URL},
				{"apiKey", keyOr(key, noKey)},
				{"roles", []any{"chat", "edit", "apply"}},
				{"capabilities", []any{"tool_use"}},
				{"defaultCompletionOptions", object{{"contextLength", t.ContextTokens},
					{"maxTokens", t.outputTokens()}}},
			}},
		}
	},
}
