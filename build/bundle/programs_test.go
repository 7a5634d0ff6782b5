package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrograms runs build/programs with a fake go command that records its calls. On a Mac the
// deployment target must be the bundle's minimum macOS, not that of the builder. On Linux the build
// tag must select WebKitGTK 4.1.
func TestPrograms(t *testing.T) {
	const fakeGo = `#!/bin/bash
case "$*" in
"run ./build/bundle minimum") echo 14.0 ;;
*) { printf 'CGO_ENABLED=%s' "$CGO_ENABLED"
     for v in MACOSX_DEPLOYMENT_TARGET CGO_CFLAGS CGO_LDFLAGS; do
       [ -z "${!v}" ] || printf ' %s=%s' "$v" "${!v# }"
     done
     printf ' | %s\n' "$*"; } >>"$LOG" ;;
esac
`
	const mac = "CGO_ENABLED=1 MACOSX_DEPLOYMENT_TARGET=14.0 " +
		"CGO_CFLAGS=-g -O2 -mmacosx-version-min=14.0 CGO_LDFLAGS=-mmacosx-version-min=14.0"
	const build = " | build -trimpath -ldflags -s -w -X headroom/app/version.Version=v1.2.3-4-g0 "
	cases := []struct{ system, env, tags string }{
		{"Darwin", mac, "desktop,production"},
		{"Linux", "CGO_ENABLED=1 CGO_CFLAGS=-g -O2", "desktop,production,webkit2_41"},
	}
	for _, c := range cases {
		t.Run(c.system, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go": fakeGo,
				"uname": "#!/bin/bash\necho " + c.system + "\n",
				"git":   "#!/bin/bash\necho v1.2.3-4-g0\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script, err := os.ReadFile("../programs") // makes the test cache depend on it
			if err != nil || len(script) == 0 {
				t.Fatal(err)
			}
			out := filepath.Join(dir, "out")
			command := exec.Command("bash", "../programs", out)
			command.Env = []string{"PATH=" + dir + ":/usr/bin:/bin",
				"LOG=" + filepath.Join(dir, "log"), "CGO_CFLAGS=-g -O2"}
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			got, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			want := c.env + build + "-o " + out + "/headroom ./app/cmd/headroom\n" +
				c.env + build + "-tags " + c.tags + " -o " + out +
				"/headroom-agent ./app/cmd/headroom-agent\n" +
				c.env + build + "-tags " + c.tags + " -o " + out + "/headroom-window .\n"
			if string(got) != want {
				t.Errorf("called:\n%s\nwant:\n%s", got, strings.TrimSpace(want))
			}
		})
	}
}
