package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// agentScript stands for an agent: it says what it was given.
const agentScript = "#!/bin/sh\npwd\nprintf '%s\\n' \"$ANTHROPIC_BASE_URL\" " +
	"\"$ANTHROPIC_AUTH_TOKEN\" \"$HEADROOM_API_KEY\" \"$OPENCODE_CONFIG_CONTENT\" \"$@\"\n"

// TestLaunch runs the script as a terminal does: in the folder, with address, model and key, and it
// removes itself. No configuration file is written.
func TestLaunch(t *testing.T) {
	for _, id := range []string{"claude-code", "codex", "opencode"} {
		p := newPlace(t)
		a, _ := find(id)
		p.put(".local/bin/"+a.programs[0], agentScript)
		p.put("terminals/xterm", "")
		for _, name := range []string{".local/bin/" + a.programs[0], "terminals/xterm"} {
			if err := os.Chmod(p.path(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p.store.env.Variable = func(name string) string {
			return map[string]string{"PATH": p.path("terminals")}[name]
		}
		folder := p.path("it's a $project")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		odd := keyed()
		odd.Model = "it's/a \"model\""
		var script string
		p.store.run = func(argv []string) error {
			if argv[0] != p.path("terminals/xterm") || argv[1] != "-e" || len(argv) != 3 {
				t.Errorf("the terminal's arguments are %q", argv)
			}
			script = argv[2]
			return nil
		}
		if err := p.store.Launch(id, odd, folder); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(script); err != nil || info.Mode() != 0o700 {
			t.Fatalf("%v, mode %v", err, info.Mode())
		}
		out, err := exec.Command(script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		key := ""
		if r, _ := p.store.load(id); len(p.keys.List()) == 1 {
			key = r.Key
		}
		model := odd.Model
		if id == "opencode" { // in JSON
			model = string(encodeJSON(model))
		}
		has(t, id, string(out), folder+"\n", "http://127.0.0.1:11811", model, key)
		if key == "" || p.keys.Find(key) == nil {
			t.Errorf("%s: the key %q", id, key)
		}
		if _, err := os.Stat(script); err == nil {
			t.Error("the script is still there")
		}
		if _, err := os.Stat(filepath.Dir(a.file(p.store.env))); err == nil {
			t.Error("a configuration was made")
		}
		text, err := p.store.LaunchPlan(id, odd)
		if err != nil || strings.Contains(text, key) {
			t.Errorf("%v; the key is shown:\n%s", err, text)
		}
		// A second launch has the same key.
		if c, err := p.store.Command(id, odd); err != nil ||
			!strings.Contains(c.Text(), key) {
			t.Errorf("again: %v\n%s", err, c.Text())
		}
		p.undo(id)
		if len(p.keys.List()) != 0 {
			t.Error("the key is left")
		}
	}
}

// TestEnviron: the folder of the program comes first on the PATH, and the settings follow.
func TestEnviron(t *testing.T) {
	c := Command{Env: []Variable{{"A", "1"}}, Args: []string{"/opt/node/bin/codex"}}
	got := strings.Join(c.Environ([]string{"PATH=/bin", "B=2"}), " ")
	wants(t, "with a path", got, "PATH=/bin B=2 PATH=/opt/node/bin:/bin A=1")
	c.Args[0] = "codex"
	wants(t, "without a path", strings.Join(c.Environ([]string{"PATH=/bin"}), " "), "PATH=/bin A=1")
}

// TestLaunchSaysWhatIsMissing: no terminal, no such folder, an agent without a command.
func TestLaunchSaysWhatIsMissing(t *testing.T) {
	p := newPlace(t)
	err := p.store.Launch("codex", target, "")
	if err == nil || !strings.Contains(err.Error(), "No terminal") {
		t.Errorf("no terminal: %v", err)
	}
	p.store.env.System = "darwin"
	for id, folder := range map[string]string{"codex": "/no/such/folder", "zed": ""} {
		p.store.run = func([]string) error { t.Error("a terminal was opened"); return nil }
		if err := p.store.Launch(id, target, folder); err == nil {
			t.Errorf("%s in %q was launched", id, folder)
		}
	}
}

// TestTerminalOfAMac opens a .command file, which needs no permission.
func TestTerminalOfAMac(t *testing.T) {
	p := newPlace(t)
	p.store.env.System = "darwin"
	p.store.run = func(argv []string) error {
		wants(t, "arguments", strings.Join(argv[:3], " "), "/usr/bin/open -a Terminal")
		if filepath.Ext(argv[3]) != ".command" {
			t.Errorf("the file is %s", argv[3])
		}
		return nil
	}
	if err := p.store.Launch("claude-code", target, ""); err != nil {
		t.Error(err)
	}
}
