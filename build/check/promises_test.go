package check

import (
	"errors"
	"io/fs"
	"reflect"
	"testing"
)

func TestMakefile(t *testing.T) {
	report(t, checkMakefile(repositoryText(t, "Makefile")))

	expect(t, checkMakefile(".PHONY: run\nrun: build ## Run it\nbin/x: y\nA := b\n"), "")
	expect(t, checkMakefile(".PHONY: run\nrun: build\n"), "target run has no line of help")
	expect(t, checkMakefile("run: ## Run it\n"), "run is not in .PHONY")
}

// TestCommands checks README and CONTRIBUTING against the Makefile and the command structs. It
// skips a document that does not exist.
func TestCommands(t *testing.T) {
	targets := makeTargets(repositoryText(t, "Makefile"))
	commands, err := subcommands(repository(), "app/commands")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		text, err := fs.ReadFile(repository(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkCommands(name, string(text), targets, commands))
	}
}

func TestCommandsCanFail(t *testing.T) {
	targets := map[string]string{"run": "Run it"}
	commands := map[string]bool{"serve": true}
	cases := []struct{ name, document, want string }{
		{"a target", "Type `make run`.", ""},
		{"a target with a variable", "```\n$ make run ARGS=-v   # loud\n```", ""},
		{"no such target", "```sh\nmake walk\n```", "no target walk"},
		{"prose is no command", "These make sense, make walk not.", ""},
		{"a command", "```\nbin/headroom serve --model x\n```", ""},
		{"no such command", "Say `headroom fly me`.", "no command fly"},
		{"flags first", "`headroom --help`", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkCommands("README.md", c.document, targets, commands), c.want)
		})
	}
}

func TestSubcommands(t *testing.T) {
	got, err := subcommands(treeOf(map[string]string{"app/commands/a.go": "package commands\n" +
		"type cli struct {\n" +
		"\tServe    serveCmd `cmd:\"\" help:\"Serve\"`\n" +
		"\tSelfTest testCmd  `cmd:\"\"`\n" +
		"\tList     listCmd  `cmd:\"\" name:\"models\"`\n" +
		"\tVerbose  bool     `help:\"not a command\"`\n" +
		"}\n"}), "app/commands")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"serve": true, "self-test": true, "models": true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("subcommands %v, want %v", got, want)
	}
}
