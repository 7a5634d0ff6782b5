package check

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSetup runs build/setup on a fake machine: its PATH has harmless tools, and an apt-get that
// only logs its arguments. It checks the messages, their order, and the arguments of apt-get.
func TestSetup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the fake machine runs Linux")
	}
	cases := []struct {
		name      string
		args      string
		user      string   // what `id -u` prints
		installed []string // commands that the machine has in addition to the usual ones
		fails     bool
		says      []string // parts of the output, in this order
		apt       string   // arguments of the last apt-get call, "" for none
	}{
		{name: "nothing missing", args: "core", user: "1000", installed: []string{"cc"}},
		{name: "root", args: "core", user: "0",
			says: []string{"missing on this machine", "C compiler for the CPU kernels",
				"installing with apt: gcc"},
			// The fake apt-get installs nothing. build/setup must notice that.
			apt: "install -qq -y --no-install-recommends gcc libc6-dev", fails: true},
		{name: "neither root nor sudo", args: "core", user: "1000", fails: true,
			says: []string{"needs root",
				"sudo apt-get update && sudo apt-get install -y --no-install-recommends gcc " +
					"libc6-dev", "still missing"}},
		{name: "sudo without a password", args: "core", user: "1000", installed: []string{"sudo"},
			fails: true,
			says:  []string{"installing with apt: gcc"},
			apt:   "install -qq -y --no-install-recommends gcc libc6-dev"},
		{name: "one compiler of several", args: "sim", user: "1000",
			installed: []string{"clang-21", "addr2line"}},
		{name: "no compiler", args: "sim", user: "0",
			says: []string{"compiles the Metal kernels", "installing with apt: binutils clang-19"},
			apt:  "install -qq -y --no-install-recommends binutils clang-19", fails: true},
		{name: "unknown component", args: "cores", user: "0", fails: true,
			says: []string{"unknown component cores"}},
		{name: "no component", args: "", user: "0", fails: true,
			says: []string{"build/setup COMPONENT"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := machine(t, c.user, c.installed)
			script, err := filepath.Abs("../setup")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile(script); err != nil {
				t.Fatal(err) // reading the script makes it an input of go test's cache
			}
			command := exec.Command(filepath.Join(path, "bash"),
				append([]string{script}, strings.Fields(c.args)...)...)
			command.Env = []string{"PATH=" + path, "CI=true", "LOG=" + filepath.Join(path, "log"),
				"TMPDIR=" + t.TempDir()}
			out, err := command.CombinedOutput()
			if failed := err != nil; failed != c.fails || err != nil &&
				!errors.As(err, new(*exec.ExitError)) {
				t.Errorf("error %v, want failure: %v", err, c.fails)
			}
			rest := string(out)
			for _, part := range c.says {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Errorf("output:\n%s\nwant %q in the order of %q", out, part, c.says)
				}
				rest = after
			}
			if len(c.says) == 0 && len(out) > 0 {
				t.Errorf("output:\n%s\nwant none", out)
			}
			log, _ := os.ReadFile(filepath.Join(path, "log")) // absent when apt-get was not called
			if last := lastLine(string(log)); !strings.HasSuffix(last, c.apt) || c.apt == "" &&
				last != "" {
				t.Errorf("apt-get was called with %q, want %q", last, c.apt)
			}
		})
	}
}

// machine makes a folder to be the only one in PATH. It has a compiler and other optional tools
// only if installed names them.
func machine(t *testing.T, user string, installed []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"bash", "env", "sed", "tr", "sort", "cut", "dirname", "mktemp",
		"tail", "head", "rm", "cat"} {
		real, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	stubs := map[string]string{
		"go":      "exit 0",
		"uname":   `[ "$1" = -m ] && echo x86_64 || echo Linux`,
		"id":      "echo " + user,
		"apt-get": `echo "$@" >>"$LOG"`,
	}
	for _, name := range installed {
		// sudo runs its command. build/setup only looks for the other tools and does not run them.
		stubs[name] = `[ "$1" = -n ] && shift; exec "$@"`
	}
	stubs["true"] = "exit 0"
	for name, body := range stubs {
		if err := os.WriteFile(filepath.Join(dir, name),
			[]byte("#!"+filepath.Join(dir, "bash")+"\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func lastLine(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return all[len(all)-1]
}
