package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunFailsWithAShard runs .ci/run with stand-ins for make, the go command and build/test. A
// shard that fails or does not finish must fail the run, after the others have run too.
func TestRunFailsWithAShard(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, due string
		passes    bool
		says      []string
	}{
		{"all pass", "good 9", true, []string{"ci: good passed", "ci: fuzz passed", "CI total"}},
		{"none due", "", true, []string{"ci: fuzz passed"}},
		{"one fails", "bad 9\ngood 9", false,
			[]string{"ci: bad failed", "ci: good passed", "did not pass: bad"}},
		{"one hangs", "hangs 1\ngood 9", false,
			[]string{"ci: hangs did not finish within 1 s", "ci: good passed",
				"did not pass: hangs"}},
		{"fuzzing finds something", "finding 9", false, []string{"did not pass: finding fuzz"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				".ci/run":     string(script),
				"bin/make":    "#!/bin/sh\n",
				"build/setup": "#!/bin/sh\n",
				"bin/go": "#!/bin/sh\ncase $3 in due) printf '%s\\n' '" + c.due +
					"' ;; fuzz) echo a FuzzA ;; esac\n",
				"build/test": "#!/bin/sh\ncase $1 in good) ;; bad) exit 1 ;;" +
					" hangs) exec sleep 60 ;; finding) touch found; exit 1 ;;" +
					" fuzz) [ ! -e found ] && [ \"$FUZZ_TARGETS\" = 'a FuzzA' ] ;; *) exit 3 ;;" +
					" esac\n",
			} {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.Command(filepath.Join(dir, ".ci/run"))
			run.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"))
			text, err := run.CombinedOutput()
			if (err == nil) != c.passes {
				t.Errorf("got %v, expected success %v", err, c.passes)
			}
			for _, want := range c.says {
				if !strings.Contains(string(text), want) {
					t.Errorf("the output lacks %q:\n%s", want, text)
				}
			}
		})
	}
}
