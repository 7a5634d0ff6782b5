package agents

// Claude Code reads settings.json, whose "env" are environment variables that override the shell's:
// https://code.claude.com/docs/en/settings and https://code.claude.com/docs/en/env-vars

import (
	"path/filepath"
	"strconv"
	"strings"
)

var claudeCode = &agent{
	id: "claude-code", name: "Claude Code", docs: "https://code.claude.com/docs/en/llm-gateway",
	programs: []string{"claude"}, leastContext: 65536, // its prompt alone has over 20,000
	format: jsonc{},
	file: func(e Environment) string {
		return filepath.Join(e.folder("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")
	},
	edits: func(t Target, key string) []edit {
		var edits []edit
		for _, v := range claudeVariables(t, key) {
			edits = append(edits, edit{path: []string{"env", v.Name}, value: v.Value})
		}
		return edits
	},
	command: func(t Target, key string) Command {
		return Command{Env: claudeVariables(t, key), Args: []string{"claude", "--model", t.Model}}
	},
}

// claudeVariables returns the variables. Every size of model that Claude Code asks for is the one
// model. It adds /v1 to the address itself.
func claudeVariables(t Target, key string) []Variable {
	return []Variable{
		{"ANTHROPIC_BASE_URL", strings.TrimSuffix(t.URL, "/v1")},
		{"ANTHROPIC_AUTH_TOKEN", keyOr(key, noKey)},
		{"ANTHROPIC_MODEL", t.Model},
		{"ANTHROPIC_DEFAULT_OPUS_MODEL", t.Model},
		{"ANTHROPIC_DEFAULT_SONNET_MODEL", t.Model},
		{"ANTHROPIC_DEFAULT_HAIKU_MODEL", t.Model},
		{"CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.Itoa(t.outputTokens())},
		{"CLAUDE_CODE_AUTO_COMPACT_WINDOW", strconv.Itoa(t.ContextTokens)},
		{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
	}
}
