package main

// The table of clients.

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// kind says how a client is run.
type kind uint8

const (
	agents kind = iota // against the scripted model, by a row of agentTable
	sdks               // against bin/headroom
)

// origin is where a client comes from.
type origin string

const (
	npm           origin = "npm"
	sdkPackages   origin = "sdks"  // Python; the name of the lock file and of the environment
	aiderPackages origin = "aider" // aider needs other versions of what the SDKs need
	formPackages  origin = "forms" // Instructor needs another version of OpenAI's SDK
	goModules     origin = "Go"
	recorded      origin = "recorded" // requests of a program that is not installed
)

// key identifies a package.
func (o origin) key(name string) string { return string(o) + " " + name }

// String returns the name of the registry.
func (o origin) String() string {
	switch o {
	case sdkPackages, aiderPackages, formPackages:
		return "PyPI"
	}
	return string(o)
}

// client is a row of the table.
type client struct {
	name    string // on the command line and in the table
	kind    kind
	from    origin
	pkg     string
	version string // "": that of the lock file
	api     string // the API that it uses
	// run runs it and returns what it did, in the words of the table.
	run func(context.Context, *session) ([]string, error)
}

func (c client) key() string { return c.from.key(c.pkg) }

// label names the package for readers.
func (c client) label() string {
	if c.from == recorded {
		return c.pkg + ", its requests"
	}
	return fmt.Sprintf("%s `%s`", c.from, c.pkg)
}

var clients = []client{
	{name: "Claude Code", from: npm, pkg: "@anthropic-ai/claude-code", api: "Messages",
		run: claudeCode.run},
	{name: "Codex", from: npm, pkg: "@openai/codex", api: "Responses", run: codex.run},
	{name: "opencode", from: npm, pkg: "opencode-ai", api: "Chat", run: opencode.run},
	{name: "pi", from: npm, pkg: "@earendil-works/pi-coding-agent", api: "Chat", run: pi.run},
	{name: "aider", from: aiderPackages, pkg: "aider-chat", api: "Chat", run: aider.run},
	{name: "OpenAI for Python", kind: sdks, from: sdkPackages, pkg: "openai",
		api: "Chat, Completions, Responses", run: scriptFile("openai_python.py")},
	{name: "OpenAI for Node.js", kind: sdks, from: npm, pkg: "openai",
		api: "Chat, Completions, Responses", run: scriptFile("openai_node.mjs")},
	{name: "OpenAI for Go", kind: sdks, from: goModules, pkg: "github.com/openai/openai-go/v3",
		api: "Chat, Responses", run: openAIGo},
	{name: "Anthropic for Python", kind: sdks, from: sdkPackages, pkg: "anthropic",
		api: "Messages", run: scriptFile("anthropic_python.py")},
	{name: "Ollama for Python", kind: sdks, from: sdkPackages, pkg: "ollama", api: "Ollama",
		run: scriptFile("ollama_python.py")},
	{name: "Ollama for Node.js", kind: sdks, from: npm, pkg: "ollama", api: "Ollama",
		run: scriptFile("ollama_node.mjs")},
	{name: "LangChain", kind: sdks, from: sdkPackages, pkg: "langchain-openai", api: "all",
		run: scriptFile("langchain_python.py")},
	{name: "LlamaIndex", kind: sdks, from: formPackages, pkg: "llama-index-llms-openai-like",
		api: "Chat, Ollama", run: scriptFile("llama_index_python.py")},
	{name: "Instructor", kind: sdks, from: formPackages, pkg: "instructor", api: "Chat",
		run: scriptFile("instructor_python.py")},
	{name: "TypeSafe", kind: sdks, from: sdkPackages, pkg: "typesafe-sdk", api: "System One",
		run: scriptFile("decisions_python.py")},
	{name: "LiteLLM", kind: sdks, from: sdkPackages, pkg: "litellm", api: "all",
		run: scriptFile("litellm_python.py")},
	{name: "AI SDK", kind: sdks, from: npm, pkg: "ai", api: "Chat, Responses, Messages",
		run: scriptFile("ai_sdk_node.mjs")},
	{name: "pydantic-ai", kind: sdks, from: sdkPackages, pkg: "pydantic-ai-slim",
		api: "Chat, Responses, Messages", run: scriptFile("pydantic_ai_python.py")},
	{name: "lm-eval", kind: sdks, from: sdkPackages, pkg: "lm-eval", api: "Completions",
		run: lmEval},
	{name: "Open WebUI", kind: sdks, from: recorded, pkg: "open-webui", version: openWebUIVersion,
		api: "Chat, Ollama", run: runOpenWebUI},
	{name: "Schemathesis", kind: sdks, from: sdkPackages, pkg: "schemathesis", api: "all",
		run: endpoint.run},
	{name: "Schemathesis, control", kind: sdks, from: sdkPackages, pkg: "schemathesis",
		api: "control", run: controlAPI.run},
}

// choose returns the clients with these names or of these kinds; without names, all.
func choose(names []string) ([]client, error) {
	if len(names) == 0 {
		return clients, nil
	}
	var chosen []client
	for _, name := range names {
		known := false
		for _, c := range clients {
			is := strings.EqualFold(c.name, name) || name == "agents" && c.kind == agents ||
				name == "sdks" && c.kind == sdks
			known = known || is
			if is && !slices.ContainsFunc(chosen, func(d client) bool { return d.name == c.name }) {
				chosen = append(chosen, c)
			}
		}
		if !known {
			return nil, fmt.Errorf("there is no client %q; choose agents, sdks or names of "+
				"build/clients/table.go", name)
		}
	}
	return chosen, nil
}
