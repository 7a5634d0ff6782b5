package agents

// Zed reads settings.json, but keys only from the keychain or the environment:
// https://zed.dev/docs/ai/use-api-access#openai-compatible

import "path/filepath"

var zed = &agent{
	id: "zed", name: "Zed", docs: "https://zed.dev/docs/ai/use-api-access",
	programs: []string{"zed", "zeditor", "zed-editor"},
	apps:     []string{"/Applications/Zed.app"},
	format:   jsonc{},
	file: func(e Environment) string {
		dir := filepath.Join(e.Home, ".config")
		if e.System == "linux" {
			dir = e.configHome()
			if flatpak := e.variable("FLATPAK_XDG_CONFIG_HOME"); flatpak != "" {
				dir = flatpak
			}
		}
		return filepath.Join(dir, "zed", "settings.json")
	},
	edits: func(t Target, _ string) []edit {
		model := object{
			{"name", t.Model},
			{"display_name", t.Model},
			{"max_tokens", t.ContextTokens},
			{"max_output_tokens", t.outputTokens()},
			{"capabilities", object{{"tools", true}, {"images", false},
				{"parallel_tool_calls", true}, {"prompt_cache_key", false}}},
		}
		return []edit{{path: []string{"language_models", "openai_compatible", "Headroom"},
			value: object{{"api_url", t.URL}, {"available_models", []any{model}}}}}
	},
	steps: func(_ Target, key string) []string {
		return []string{
			"Zed keeps API keys in the keychain, where Headroom cannot write. In Zed, run the " +
				"command “agent: open settings” and open LLM Providers, Headroom.",
			"Enter " + keyOr(key, noKey) + " as the API key" + map[bool]string{
				true: ". Zed demands one, although the server needs none.", false: "."}[key == ""],
			"Choose the model in the Agent Panel.",
		}
	},
}
