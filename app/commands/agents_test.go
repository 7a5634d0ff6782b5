package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgents shows, writes, launches and undoes with a running server, in a home folder of its own.
func TestAgents(t *testing.T) {
	home := isolate(t)
	t.Setenv("CODEX_HOME", filepath.Join(home, "my codex"))
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	file := filepath.Join(home, "my codex", "config.toml")
	const before = "# mine\nmodel = \"gpt\"\n"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "claude")
	const script = "#!/bin/sh\necho \"$ANTHROPIC_BASE_URL\" \"$@\"\nexit 3\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := headroom("", "agents")
	if code != 0 || !strings.Contains(out, "not running") || !strings.Contains(out, "codex") {
		t.Fatalf("without a server: exit %d, %s%s", code, out, errOut)
	}
	code, _, errOut = headroom("", "agents", "show", "codex")
	if code != 1 || !strings.Contains(errOut, "Headroom is not running") {
		t.Errorf("without a server: exit %d, %s", code, errOut)
	}
	server := startServer(t)
	run := func(want int, stdin string, args ...string) string {
		t.Helper()
		code, out, errOut := headroom(stdin, append([]string{"agents"}, args...)...)
		if code != want {
			t.Fatalf("%q: exit %d, %s%s", args, code, out, errOut)
		}
		return out
	}
	url := "http://" + server.address
	out = run(0, "", "show", "codex")
	for _, want := range []string{"- model = \"gpt\"", "+ model = \"headroom-demo\"",
		"+ base_url = \"" + url + "/v1\"", "  # mine", "codex --model headroom-demo"} {
		if !strings.Contains(out, want) {
			t.Errorf("show lacks %q:\n%s", want, out)
		}
	}
	run(1, "", "write", "codex") // nobody has said yes
	if text, _ := os.ReadFile(file); string(text) != before {
		t.Errorf("without a yes:\n%s", text)
	}
	run(0, "y\n", "write", "codex")
	if text, _ := os.ReadFile(file); !strings.Contains(string(text), url) {
		t.Errorf("written:\n%s", text)
	}
	if out := run(0, ""); !strings.Contains(out, "set up") || !strings.Contains(out, "my codex") {
		t.Errorf("the list:\n%s", out)
	}
	run(0, "", "undo", "codex", "--yes")
	if text, _ := os.ReadFile(file); string(text) != before {
		t.Errorf("after undo:\n%s", text)
	}
	run(1, "", "undo", "codex", "--yes")
	run(1, "", "show", "codx")
	run(1, "", "show", "codex", "--model", "no-such-model")
	out = run(3, "", "launch", "claude-code", "--", "--print", "a b")
	if want := url + " --model headroom-demo --print a b\n"; out != want {
		t.Errorf("launched: %q, want %q", out, want)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nkill -TERM $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(128+15, "", "launch", "claude-code")
}
