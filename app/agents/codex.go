package agents

// Codex reads config.toml in CODEX_HOME: https://developers.openai.com/codex/config-reference

import (
	"fmt"
	"path/filepath"
	"strconv"
)

var codex = &agent{
	id: "codex", name: "Codex", docs: "https://developers.openai.com/codex/config-reference",
	programs: []string{"codex"},
	format:   toml{},
	file: func(e Environment) string {
		return filepath.Join(e.folder("CODEX_HOME", ".codex"), "config.toml")
	},
	edits: func(t Target, key string) []edit {
		provider := object{{"name", "Headroom"}, {"base_url", t.URL}, {"wire_api", "responses"}}
		if key != "" {
			provider = append(provider,
				member{"http_headers", object{{"Authorization", "Bearer " + key}}})
		}
		return []edit{
			{path: []string{"model"}, value: t.Model},
			{path: []string{"model_provider"}, value: "headroom"},
			{path: []string{"model_context_window"}, value: t.ContextTokens},
			{path: []string{"web_search"}, value: "disabled"}, // a tool of OpenAI's servers
			{path: []string{"model_providers", "headroom"}, value: provider},
		}
	},
	command: func(t Target, key string) Command {
		const provider = "model_providers.headroom."
		values := []Variable{{"model_provider", tomlValue("headroom")},
			{"model_context_window", strconv.Itoa(t.ContextTokens)},
			{"web_search", tomlValue("disabled")},
			{provider + "name", tomlValue("Headroom")},
			{provider + "base_url", tomlValue(t.URL)},
			{provider + "wire_api", tomlValue("responses")}}
		c := Command{Args: []string{"codex", "--model", t.Model}}
		if key != "" { // in the environment, because others can see arguments
			values = append(values, Variable{provider + "env_key", tomlValue("HEADROOM_API_KEY")})
			c.Env = []Variable{{"HEADROOM_API_KEY", key}}
		}
		for _, v := range values {
			c.Args = append(c.Args, "-c", fmt.Sprintf("%s=%s", v.Name, v.Value))
		}
		return c
	},
}
