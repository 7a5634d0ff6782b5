package main

// The coding agents. Each has the same two turns: it runs a command in a shell, and the model
// answers from what the command has printed; then a second message of the user continues the
// conversation, in a new process of the agent.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// agent is how one agent is configured and run.
type agent struct {
	// prepare writes configuration files; nil: there are none.
	prepare func(s *session, url string) error
	// env returns further variables.
	env func(s *session, url string) []string
	// args returns the command line for one message of the user. again continues the conversation.
	args func(prompt string, again bool) []string
	// call returns the call of the agent's tool that runs a command in a shell.
	call func(command string) string
	// edit, if it is set, is an agent without tools: an answer that makes it write the file.
	edit string
	// rules is the number of lines in the project's AGENTS.md; 0: 60.
	rules int
}

// The messages of the user and the answers of the model. The marks of the messages are what the
// rules look for, and the answers are what the agents must print.
const (
	firstMark   = "step-one"
	secondMark  = "step-two"
	firstPrompt = "This is " + firstMark +
		": write forty-two into answer.txt with a command, and read it."
	secondPrompt = "This is " + secondMark + ": what did the file say?"
	fileText     = "forty-two"
	printed      = "answer.txt has the text forty-two." // the command prints it
	firstAnswer  = "The command has said what the file has."
	secondAnswer = "It said forty-two, as I have read above."
)

// shell writes the file. What it prints is nowhere else in the conversation, so the rule for it
// fits only the result of the tool.
const shell = `printf forty-two > answer.txt && echo "answer.txt has the text $(cat answer.txt)."`

// leastCached is the part of each prompt after the first that must come from the cache.
const leastCached = 0.95

// script returns the answers of the model, and the number of requests that they answer.
func (a *agent) script() (rules []rule, requests int) {
	if a.edit != "" {
		return []rule{{after: firstMark, answer: firstAnswer + a.edit},
			{after: secondMark, answer: secondAnswer}}, 2
	}
	return []rule{{after: printed, tools: true, answer: firstAnswer},
		{after: firstMark, tools: true, answer: a.call(shell)},
		{after: secondMark, tools: true, answer: secondAnswer}}, 3
}

// writeProject writes a project's rules, which agents add to their prompts.
func (a *agent) writeProject(s *session) error {
	var b strings.Builder
	b.WriteString("# Rules of this project\n\n")
	for i := range cmp.Or(a.rules, 60) {
		fmt.Fprintf(&b, "- Rule %d: file %d.go has at most %d lines, and a test.\n", i, i, 100+i)
	}
	return os.WriteFile(filepath.Join(s.work, "AGENTS.md"), []byte(b.String()), 0o600)
}

// run runs the two turns of an agent.
func (a *agent) run(ctx context.Context, s *session) ([]string, error) {
	server := s.bench.agents
	if err := a.writeProject(s); err != nil {
		return nil, err
	}
	if a.prepare != nil {
		if err := a.prepare(s, server.url()); err != nil {
			return nil, err
		}
	}
	rules, requests := a.script()
	server.script.begin(rules)
	mark := server.log.mark()
	name := s.path(a.args("", false)[0])
	for _, turn := range []struct{ prompt, answer string }{{firstPrompt, firstAnswer},
		{secondPrompt, secondAnswer}} {
		args := a.args(turn.prompt, turn.prompt == secondPrompt)
		out, err := s.command(ctx, a.env(s, server.url()), name, args[1:]...)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(out, turn.answer) {
			return nil, fmt.Errorf("%q is not in the output: %s\n%s", turn.answer, out,
				server.log.tail())
		}
	}
	if data, err := os.ReadFile(filepath.Join(s.work, "answer.txt")); err != nil ||
		strings.TrimSpace(string(data)) != fileText {
		return nil, fmt.Errorf("answer.txt has %q, expected %q: %v", data, fileText, err)
	}
	if err := checkRequests(server.log.requests(mark)); err != nil {
		return nil, err
	}
	if err := checkCached(server.script.answered(), requests); err != nil {
		return nil, err
	}
	const rest = "continues in a second process; at least 95 % of each later prompt is cached"
	if a.edit != "" {
		return []string{"edits a file", rest}, nil
	}
	return []string{"runs a tool", "answers from its result", rest}, nil
}

// checkRequests returns an error if a request was refused or failed.
func checkRequests(requests []request) error {
	for _, r := range requests {
		if r.status >= 400 {
			return fmt.Errorf("a request was refused: %s", r.line)
		}
	}
	return nil
}

// checkCached returns an error if a prompt after the first was not cached, or if there are fewer
// than n.
func checkCached(all []served, n int) error {
	if len(all) < n {
		return fmt.Errorf("the script has answered %d requests, expected %d: %v", len(all), n, all)
	}
	for _, one := range all {
		fmt.Printf("      after %q: %d of %d prompt tokens were cached\n", one.after, one.cached,
			one.prompt)
	}
	for _, one := range all[1:] {
		if float64(one.cached) < leastCached*float64(one.prompt) {
			return fmt.Errorf("only %d of %d prompt tokens were cached after %q", one.cached,
				one.prompt, one.after)
		}
	}
	return nil
}

var claudeCode = &agent{
	env: func(_ *session, url string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_AUTH_TOKEN=any",
			"ANTHROPIC_DEFAULT_OPUS_MODEL=" + model, "ANTHROPIC_DEFAULT_SONNET_MODEL=" + model,
			"ANTHROPIC_DEFAULT_HAIKU_MODEL=" + model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
	},
	args: func(prompt string, again bool) []string {
		args := []string{"claude", "--print", prompt, "--model", model, "--output-format", "json",
			"--allowedTools", "Bash"}
		if again {
			args = append(args, "--continue")
		}
		return args
	},
	call: func(command string) string {
		return call("Bash", "command", command, "description", "Write and read a file")
	},
}

var codex = &agent{
	prepare: func(s *session, url string) error {
		_, err := s.write("codex/config.toml", fmt.Sprintf(`model = %q
model_provider = "headroom"
model_context_window = %d
web_search = "disabled"

[model_providers.headroom]
name = "Headroom"
base_url = "%s/v1"
wire_api = "responses"
`, model, contextTokens, url))
		return err
	},
	env: func(s *session, _ string) []string {
		return []string{"CODEX_HOME=" + filepath.Join(s.home, "codex")}
	},
	args: func(prompt string, again bool) []string {
		args := []string{"codex", "exec", "--skip-git-repo-check", "--json",
			"--sandbox", "danger-full-access"}
		if again {
			args = append(args, "resume", "--last")
		}
		return append(args, prompt)
	},
	call: func(command string) string { return call("exec_command", "cmd", command) },
}

var opencode = &agent{
	env: func(_ *session, url string) []string {
		return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_CONFIG_CONTENT=" + fmt.Sprintf(
			`{"model": "headroom/%[1]s", "small_model": "headroom/%[1]s",
			"permission": {"bash": "allow"}, "provider": {"headroom": {
				"npm": "@ai-sdk/openai-compatible", "name": "Headroom",
				"options": {"baseURL": "%[2]s/v1"},
				"models": {"%[1]s": {"limit": {"context": %[3]d, "output": 4096}}}}}}`,
			model, url, contextTokens)}
	},
	args: func(prompt string, again bool) []string {
		args := []string{"opencode", "run", "--model", "headroom/" + model, "--format", "json"}
		if again {
			args = append(args, "--continue")
		}
		return append(args, prompt)
	},
	call: func(command string) string {
		return call("bash", "command", command, "description", "Write and read a file")
	},
}

var pi = &agent{
	prepare: func(s *session, url string) error {
		_, err := s.write("pi/models.json", fmt.Sprintf(`{"providers": {"headroom": {
	"baseUrl": "%s/v1", "api": "openai-completions", "apiKey": "any",
	"models": [{"id": %q, "contextWindow": %d, "maxTokens": 4096}]}}}`, url, model, contextTokens))
		return err
	},
	env: func(s *session, _ string) []string {
		return []string{"PI_CODING_AGENT_DIR=" + filepath.Join(s.home, "pi"), "PI_OFFLINE=1"}
	},
	args: func(prompt string, again bool) []string {
		args := []string{"pi", "--provider", "headroom", "--model", model, "--print",
			"--mode", "json"}
		if again {
			args = append(args, "--continue")
		}
		return append(args, prompt)
	},
	call: func(command string) string { return call("bash", "command", command) },
}

var aider = &agent{
	env: func(_ *session, url string) []string {
		return []string{"OPENAI_API_BASE=" + url + "/v1", "OPENAI_API_KEY=any",
			"LITELLM_LOCAL_MODEL_COST_MAP=True"}
	},
	args: func(prompt string, again bool) []string {
		args := []string{"aider", "--model", "openai/" + model, "--yes", "--no-git",
			"--no-check-update", "--no-show-release-notes", "--analytics-disable",
			"--no-show-model-warnings", "--no-pretty", "--map-tokens", "0",
			"--read", "AGENTS.md", "--message", prompt}
		if again {
			args = append(args, "--restore-chat-history")
		}
		return append(args, "answer.txt")
	},
	edit: "\n\nanswer.txt\n```\n" + fileText + "\n```\n",
	// aider has files and reminders after the conversation. They are computed again in each turn,
	// with up to 1,024 tokens before them, where the engine has kept no state.
	rules: 495,
}
