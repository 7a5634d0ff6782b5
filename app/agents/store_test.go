package agents

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/keys"
	"headroom/engine/problem"
)

// TestUndoGivesTheSameBytes is the property: for every file, writing and undoing, also after
// writing again for another model, gives the bytes and the permissions from before.
func TestUndoGivesTheSameBytes(t *testing.T) {
	eachFile(t, func(t *testing.T, a *agent, text string) {
		for _, missing := range []bool{false, true} {
			p := newPlace(t)
			name, _ := filepath.Rel(p.home, a.file(p.store.env))
			want := "(none)"
			if !missing {
				p.put(name, text)
				want = text
			}
			p.write(a.id, keyed())
			if p.state(a.id, keyed()) != Current {
				t.Errorf("after writing: %v", p.state(a.id, keyed()))
			}
			another := keyed()
			another.Model = "another"
			if p.state(a.id, another) != Outdated {
				t.Errorf("for another model: %v", p.state(a.id, another))
			}
			p.write(a.id, another)
			info, err := os.Stat(p.path(name))
			if mode := map[bool]os.FileMode{false: 0o644, true: 0o600}[missing]; err != nil ||
				info.Mode() != mode {
				t.Errorf("%v, mode %v, want %v", err, info.Mode(), mode)
			}
			p.undo(a.id)
			wants(t, "after undo", p.read(name), want)
			if n := len(p.keys.List()); n != 0 {
				t.Errorf("%d keys are left", n)
			}
			if p.state(a.id, keyed()) != NotWritten {
				t.Errorf("after undo: %v", p.state(a.id, keyed()))
			}
			if _, err := os.Stat(p.path(".codex")); missing && err == nil {
				t.Error("the folder that was made is left")
			}
		}
	})
}

// TestUndoAfterChanges: what the user changed since stays, and the plan says so.
func TestUndoAfterChanges(t *testing.T) {
	p := newPlace(t)
	p.put(".claude/settings.json", "{\n  \"model\": \"opus\"\n}\n")
	p.write("claude-code", target)
	text := strings.Replace(p.read(".claude/settings.json"), "\"model\": \"opus\"",
		"\"model\": \"opus\", // mine", 1)
	text = strings.Replace(text, "//", "\n  \"theme\": \"dark\", //", 1)
	text = strings.Replace(text, "http://127.0.0.1:11811\"", "http://other\"", 1)
	p.put(".claude/settings.json", strings.Replace(text, "\"opus\", ,", "\"opus\",", 1))
	if p.state("claude-code", target) != Edited {
		if _, err := p.store.Plan("claude-code", target); err != nil {
			p.put(".claude/settings.json", strings.Replace(text, ", //", ", //", 1))
			t.Fatalf("%v\n%s", err, p.read(".claude/settings.json"))
		}
		t.Errorf("state %v", p.state("claude-code", target))
	}
	plan := p.undo("claude-code")
	has(t, "the notes", strings.Join(plan.Notes, "\n"), "has changed since",
		"env.ANTHROPIC_BASE_URL")
	after := p.read(".claude/settings.json")
	has(t, "the file", after, "// mine", `"theme": "dark"`, `"http://other"`)
	if strings.Contains(after, "ANTHROPIC_AUTH_TOKEN") {
		t.Errorf("the token is left:\n%s", after)
	}
}

// TestWriteAgainKeepsEdits: writing again after the user has added something keeps it, and undo
// then gives the file with it.
func TestWriteAgainKeepsEdits(t *testing.T) {
	p := newPlace(t)
	p.put(".codex/config.toml", "model = \"gpt\"\n")
	p.write("codex", target)
	p.put(".codex/config.toml", p.read(".codex/config.toml")+"\n[tui]\nx = 1 # mine\n")
	another := target
	another.URL = "http://127.0.0.1:5/v1"
	p.write("codex", another)
	has(t, "the file", p.read(".codex/config.toml"), "127.0.0.1:5", "x = 1 # mine")
	p.undo("codex")
	wants(t, "after undo", p.read(".codex/config.toml"), "model = \"gpt\"\n\n[tui]\nx = 1 # mine\n")
}

// TestRefusesAChangedFile: a file that changed after it was shown is not written, nor undone.
func TestRefusesAChangedFile(t *testing.T) {
	p := newPlace(t)
	p.put(".codex/config.toml", "a = 1\n")
	plan, err := p.store.Plan("codex", target)
	if err != nil {
		t.Fatal(err)
	}
	p.put(".codex/config.toml", "a = 2\n")
	_, err = p.store.Write("codex", target, plan.Token)
	expectCode(t, err, problem.Changed)
	wants(t, "the file", p.read(".codex/config.toml"), "a = 2\n")
	another := target
	another.Model = "x"
	plan, _ = p.store.Plan("codex", target)
	_, err = p.store.Write("codex", another, plan.Token)
	expectCode(t, err, problem.Changed)

	p.write("codex", target)
	undo, err := p.store.UndoPlan("codex")
	if err != nil {
		t.Fatal(err)
	}
	p.put(".codex/config.toml", p.read(".codex/config.toml")+"# more\n")
	_, err = p.store.Undo("codex", undo.Token)
	expectCode(t, err, problem.Changed)
}

// TestNotes: a plan says that the agent is not installed, and that the context is too short.
func TestNotes(t *testing.T) {
	p := newPlace(t)
	short := target
	short.ContextTokens = 40960
	plan, err := p.store.Plan("claude-code", short)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "the notes", strings.Join(plan.Notes, "\n"),
		"Claude Code was not found on this computer", "at least 65536 tokens, ", "has 40960")
	p.put(".local/bin/claude", "#!/bin/sh\n")
	if err := os.Chmod(p.path(".local/bin/claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	short.ContextTokens = 65536
	if plan, err = p.store.Plan("claude-code", short); err != nil || len(plan.Notes) > 0 {
		t.Errorf("installed and with a long context: %q, %v", plan.Notes, err)
	}
}

// TestNearNames: only a name that is near is suggested.
func TestNearNames(t *testing.T) {
	p := newPlace(t)
	for name, want := range map[string]string{"cursor": "", "codx": "codex", "z": "",
		"claude": "claude-code", "Opencode": "opencode"} {
		_, err := p.store.Plan(name, target)
		fix := problem.From(err).Fix
		suggested := ""
		if rest, ok := strings.CutPrefix(fix, "Did you mean "); ok {
			suggested, _, _ = strings.Cut(rest, "?")
		}
		if suggested != want {
			t.Errorf("%s: %q", name, fix)
		}
	}
}

func expectCode(t *testing.T, err error, want problem.Code) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestReadOnlyFolder: nothing is written, no key is left, and a sentence says why.
func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere; TestFolderIsAFile is the same for it")
	}
	p := newPlace(t)
	p.put(".codex/config.toml", "a = 1\n")
	if err := os.Chmod(p.path(".codex"), 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(p.path(".codex"), 0o700)
	notWritten(t, p, "a = 1\n")
}

// TestFolderIsAFile: as a folder that cannot be written.
func TestFolderIsAFile(t *testing.T) {
	p := newPlace(t)
	p.put(".codex", "not a folder")
	if _, err := p.store.Plan("codex", keyed()); err == nil {
		t.Error("there is a plan")
	} else {
		has(t, "the error", err.Error(), "~/.codex/config.toml")
	}
	q := newPlace(t)
	q.put(".codex/config.toml", "a = 1\n")
	plan, err := q.store.Plan("codex", keyed())
	if err != nil {
		t.Fatal(err)
	}
	q.put(".config/headroom/agents/codex.json/x", "in the way of the record")
	if _, err := q.store.Write("codex", keyed(), plan.Token); err == nil {
		t.Error("it was written")
	}
	wants(t, "the file", q.read(".codex/config.toml"), "a = 1\n")
	if n := len(q.keys.List()); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestRecordsCannotBeWritten: the error is about the records, and not that another program works
// on them.
func TestRecordsCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	p.put(".config/headroom/agents", "in the way of the folder")
	_, err := p.store.Write("codex", keyed(), "any")
	expectCode(t, err, problem.Internal)
	has(t, "the error", err.Error(), "The records cannot be written")
}

// TestAnotherFile: a file that was written is not forgotten when the agent looks elsewhere, as with
// a variable that only some shells have.
func TestAnotherFile(t *testing.T) {
	p := newPlace(t)
	p.put(".codex/config.toml", "a = 1\n")
	p.write("codex", target)
	p.store.env.Variable = func(name string) string {
		return map[string]string{"CODEX_HOME": p.path("other")}[name]
	}
	_, err := p.store.Plan("codex", target)
	expectCode(t, err, problem.Exists)
	has(t, "the error", err.Error(), "~/.codex/config.toml")
	if l := p.store.List(target)[1]; l.State != Edited || !l.CanUndo || l.Unavailable == "" {
		t.Errorf("listed: %+v", l)
	}
	p.undo("codex")
	wants(t, "after undo", p.read(".codex/config.toml"), "a = 1\n")
	p.write("codex", target)
	has(t, "the other file", p.read("other/config.toml"), target.URL)
}

func notWritten(t *testing.T, p *place, text string) {
	t.Helper()
	plan, err := p.store.Plan("codex", keyed())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.Write("codex", keyed(), plan.Token); err == nil {
		t.Error("it was written")
	} else {
		has(t, "the error", err.Error(), "~/.codex/config.toml", "permission")
	}
	wants(t, "the file", p.read(".codex/config.toml"), text)
	if n := len(p.keys.List()); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	if p.store.List(keyed())[1].CanUndo {
		t.Error("something can be undone")
	}
	if r, err := p.store.load("codex"); err != nil || r.KeyID != "" || r.Key != "" {
		t.Errorf("the record keeps a key that was removed: %q, %v", r.KeyID, err)
	}
}

// TestLinks: a link stays a link; one that leads out of the home folder is said, and a dangling one
// is refused.
func TestLinks(t *testing.T) {
	p := newPlace(t)
	p.put("dotfiles/codex.toml", "a = 1\n")
	outside := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(outside, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{".codex/config.toml": "../dotfiles/codex.toml",
		".claude/settings.json": outside, ".continue/config.yaml": "nowhere"} {
		if err := os.MkdirAll(filepath.Dir(p.path(link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	inside, err := p.store.Plan("codex", target)
	if err != nil || inside.LeadsTo != "~/dotfiles/codex.toml" ||
		strings.Contains(strings.Join(inside.Notes, ""), "home folder") {
		t.Errorf("%v, leads to %q, notes %q", err, inside.LeadsTo, inside.Notes)
	}
	out, err := p.store.Plan("claude-code", target)
	if err != nil || !strings.Contains(strings.Join(out.Notes, ""), "out of your home folder") {
		t.Errorf("%v, notes %q", err, out.Notes)
	}
	if _, err := p.store.Plan("continue", target); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a dangling link: %v", err)
	}
	p.write("codex", target)
	p.write("claude-code", target)
	if info, err := os.Lstat(p.path(".codex/config.toml")); err != nil ||
		info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	has(t, "the file behind the link", p.read("dotfiles/codex.toml"), "headroom")
	p.undo("codex")
	p.undo("claude-code")
	wants(t, "after undo", p.read("dotfiles/codex.toml"), "a = 1\n")
	if data, _ := os.ReadFile(outside); string(data) != "{}\n" {
		t.Errorf("outside, after undo: %q", data)
	}
}

// TestKeys: a needed key is made with the agent's name, shown by its first characters only, kept
// when the model changes, made again when it was removed, and given up by undo.
func TestKeys(t *testing.T) {
	p := newPlace(t)
	if _, _, err := p.keys.Add("Codex", keys.Limits{}); err != nil { // of the user
		t.Fatal(err)
	}
	plan, err := p.store.Plan("codex", keyed())
	if err != nil || plan.NewKey != "Codex 2" {
		t.Fatalf("%v, new key %q", err, plan.NewKey)
	}
	has(t, "the plan", shown(plan), "Bearer hr-(the new key)")
	done := p.write("codex", keyed())
	list := p.keys.List()
	if len(list) != 2 || list[1].Name != "Codex 2" {
		t.Fatalf("keys %v", list)
	}
	text := p.read(".codex/config.toml")
	i := strings.Index(text, "Bearer ")
	key, _, _ := strings.Cut(text[i+len("Bearer "):], "\"")
	if c := p.keys.Find(key); c == nil || c.Name != "Codex 2" {
		t.Errorf("the written key %q is nobody's", key)
	}
	if strings.Contains(shown(done), key) {
		t.Error("the key is shown")
	}
	another := keyed()
	another.Model = "x"
	p.write("codex", another)
	has(t, "for another model", p.read(".codex/config.toml"), key)
	if _, _, err := p.keys.Remove("Codex 2"); err != nil {
		t.Fatal(err)
	}
	if p.state("codex", another) != Outdated {
		t.Errorf("without its key: %v", p.state("codex", another))
	}
	p.write("codex", another)
	if strings.Contains(p.read(".codex/config.toml"), key) {
		t.Error("the removed key is written again")
	}
	p.undo("codex")
	if list := p.keys.List(); len(list) != 1 || list[0].Name != "Codex" {
		t.Errorf("keys after undo: %v", list)
	}
	if data, err := os.ReadFile(filepath.Join(p.store.dir, "codex.json")); err == nil {
		t.Errorf("a record is left: %s", data)
	}
}

func shown(p Plan) (text string) {
	for _, l := range p.Lines {
		text += string(l.Kind) + " " + l.Text + "\n"
	}
	return text
}

// TestOldKeyIsHidden: the key in the file is hidden in a plan that takes it out, too.
func TestOldKeyIsHidden(t *testing.T) {
	p := newPlace(t)
	p.write("codex", keyed())
	r, err := p.store.load("codex")
	if err != nil || !strings.Contains(p.read(".codex/config.toml"), r.Key) {
		t.Fatalf("the key is not in the file: %v", err)
	}
	plan, err := p.store.Plan("codex", target)
	if err != nil || len(plan.Lines) == 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, l := range plan.Lines {
		if strings.Contains(l.Text, r.Key) {
			t.Errorf("the plan shows the key: %s", l.Text)
		}
	}
}

// TestXcode: it has steps only, and a key of its own where one is needed.
func TestXcode(t *testing.T) {
	p := newPlace(t)
	plan, err := p.store.Plan("xcode", target)
	if err != nil || len(plan.Lines) != 0 {
		t.Fatalf("%v, %v", err, plan.Lines)
	}
	has(t, "the steps", strings.Join(plan.Steps, "\n"), "Locally Hosted", "11811", target.Model)
	if _, err := p.store.Write("xcode", target, plan.Token); err == nil {
		t.Error("it was written")
	}
	done := p.write("xcode", keyed())
	list := p.keys.List()
	if len(list) != 1 || list[0].Name != "Xcode" {
		t.Fatalf("keys %v", list)
	}
	has(t, "the steps", strings.Join(done.Steps, "\n"), "Internet Hosted", "API key hr-")
	p.undo("xcode")
	if len(p.keys.List()) != 0 {
		t.Error("the key is left")
	}
}

// TestContinueKeepsItsOldFormat: a config.yaml would put the user's config.json out of use.
func TestContinueKeepsItsOldFormat(t *testing.T) {
	p := newPlace(t)
	p.put(".continue/config.json", `{"models": []}`)
	_, err := p.store.Plan("continue", target)
	expectCode(t, err, problem.Exists)
}

// TestPlaces: files are where the agents look, on both systems and with their variables.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ id, system, variables, want string }{
		{"claude-code", "darwin", "", "/h/.claude/settings.json"},
		{"claude-code", "linux", "CLAUDE_CONFIG_DIR=/c", "/c/settings.json"},
		{"codex", "linux", "", "/h/.codex/config.toml"},
		{"codex", "darwin", "CODEX_HOME=/x/codex", "/x/codex/config.toml"},
		{"opencode", "darwin", "", "/h/.config/opencode/opencode.json"},
		{"opencode", "linux", "XDG_CONFIG_HOME=/x", "/x/opencode/opencode.json"},
		{"opencode", "linux", "OPENCODE_CONFIG=/x/my.json", "/x/my.json"},
		{"zed", "darwin", "XDG_CONFIG_HOME=/x", "/h/.config/zed/settings.json"},
		{"zed", "linux", "XDG_CONFIG_HOME=/x", "/x/zed/settings.json"},
		{"zed", "linux", "FLATPAK_XDG_CONFIG_HOME=/f", "/f/zed/settings.json"},
		{"continue", "linux", "", "/h/.continue/config.yaml"},
		{"continue", "linux", "CONTINUE_GLOBAL_DIR=/g", "/g/config.yaml"},
	} {
		a, err := find(c.id)
		if err != nil {
			t.Fatal(err)
		}
		e := Environment{Home: "/h", System: c.system, Variable: func(name string) string {
			variable, value, _ := strings.Cut(c.variables, "=")
			return map[bool]string{true: value}[variable == name]
		}}
		wants(t, c.id+" "+c.system+" "+c.variables, a.file(e), c.want)
	}
	p := newPlace(t)
	p.put(".config/opencode/opencode.jsonc", "{}")
	wants(t, "opencode.jsonc", opencodeFile(p.store.env), p.path(".config/opencode/opencode.jsonc"))
}

// TestUnknownAgent names the right one.
func TestUnknownAgent(t *testing.T) {
	_, err := newPlace(t).store.Plan("codx", target)
	if err == nil || !strings.Contains(err.Error(), "codex") {
		t.Errorf("%v", err)
	}
}

// TestRowsAreWhole: an ID is a name of a file.
func TestRowsAreWhole(t *testing.T) {
	var ids []string
	for _, a := range table {
		if slices.Contains(ids, a.id) || strings.Trim(a.id, "abcdefghijklmnopqrstuvwxyz-") != "" ||
			!strings.HasPrefix(a.docs, "https://") ||
			(a.format == nil) != (a.file == nil) || (a.format == nil) != (a.edits == nil) ||
			a.format == nil && a.steps == nil {
			t.Errorf("row %q", a.id)
		}
		ids = append(ids, a.id)
	}
}

// TestForeignFiles: undo and launch remove only what Headroom made. A file that another wrote
// beside it stays, and so do a configuration that has changed, and what a new link leads to.
func TestForeignFiles(t *testing.T) {
	p := newPlace(t)
	p.write("codex", target)
	p.put(".codex/auth.json", "theirs")
	text := p.read(".codex/config.toml")
	p.undo("codex")
	wants(t, "the configuration", p.read(".codex/config.toml"), "(none)")
	wants(t, "the file beside it", p.read(".codex/auth.json"), "theirs")

	p.write("codex", target)
	p.put("dotfiles/config.toml", text) // the same bytes, moved away by its owner
	if err := os.Remove(p.path(".codex/config.toml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dotfiles/config.toml", p.path(".codex/config.toml")); err != nil {
		t.Fatal(err)
	}
	p.undo("codex")
	if got := p.read("dotfiles/config.toml"); got == "(none)" || strings.Contains(got, "headroom") {
		t.Errorf("behind the link: %s", got)
	}
	if _, err := os.Lstat(p.path(".codex/config.toml")); err != nil {
		t.Errorf("the link: %v", err)
	}

	const dir = ".config/headroom/agents/"
	p.put(dir+"launch-1.command", "theirs")
	p.put(dir+"launch-2.command", scriptBegin+"old")
	p.put(dir+"launch-3.command", scriptBegin+"young")
	p.put("script", scriptBegin+"elsewhere")
	if err := os.Symlink(p.path("script"), p.path(dir+"launch-4.command")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir + "launch-1.command", dir + "launch-2.command", "script"} {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(p.path(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.store.writeScript("x"); err != nil {
		t.Fatal(err)
	}
	wants(t, "a foreign script", p.read(dir+"launch-1.command"), "theirs")
	wants(t, "an old script", p.read(dir+"launch-2.command"), "(none)")
	wants(t, "a young script", p.read(dir+"launch-3.command"), scriptBegin+"young")
	wants(t, "behind a link", p.read("script"), scriptBegin+"elsewhere")
}
