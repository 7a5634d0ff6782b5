package wired

// The commands, as shell scripts for root. They are made of constants and one number, so that
// nothing from outside gets into them, and of full paths, since root's search path is not ours.
// What is shown before is what is run.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"headroom/engine/problem"
)

const (
	variable = "iogpu.wired_limit_mb"
	label    = "app.headroom.wired-limit"
	// daemonPath is the launch daemon that sets the limit at each start (launchd.plist(5)):
	// /etc/sysctl.conf is not read any more.
	daemonPath = "/Library/LaunchDaemons/" + label + ".plist"
)

// ErrDeclined means that the person at the machine did not agree.
var ErrDeclined = errors.New("the administrator's password was not given")

// commands are the scripts for a limit.
func commands(limitMB int64) Commands {
	forget := "(/bin/launchctl bootout system/" + label + " 2>/dev/null || true)"
	return Commands{
		Once: set(limitMB),
		Keep: strings.Join([]string{
			set(limitMB),
			"/usr/bin/printf '" + strings.ReplaceAll(daemon(limitMB), "\n", `\n`) + "' > " +
				daemonPath,
			"/usr/sbin/chown root:wheel " + daemonPath,
			"/bin/chmod 644 " + daemonPath,
			forget,
			"/bin/launchctl bootstrap system " + daemonPath,
		}, " && \\\n"),
		Undo: strings.Join([]string{set(0), forget, "/bin/rm -f " + daemonPath}, " && \\\n"),
	}
}

func set(limitMB int64) string { return fmt.Sprintf("/usr/sbin/sysctl %s=%d", variable, limitMB) }

// daemon is the property list. It holds no percent sign, backslash or apostrophe, which printf and
// the shell would take for theirs.
func daemon(limitMB int64) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
<key>Label</key><string>%s</string>
<key>ProgramArguments</key><array><string>/usr/sbin/sysctl</string><string>%s=%d</string></array>
<key>RunAtLoad</key><true/>
</dict>
</plist>
`, label, variable, limitMB)
}

var keptNumber = regexp.MustCompile(regexp.QuoteMeta(variable) + `=(\d{1,9})<`)

// keptMB is what the launch daemon at path sets; 0: there is none.
func keptMB(path string) int64 {
	const mostBytes = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostBytes))
	if err != nil {
		return 0
	}
	m := keptNumber.FindSubmatch(text)
	if m == nil {
		return 0
	}
	limitMB, _ := strconv.ParseInt(string(m[1]), 10, 64) // nine digits
	return limitMB
}

// appleScript is the script that has the system's dialog ask for an administrator and then runs a
// shell script as root.
func appleScript(script string) string {
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(script) + `"`
	return "do shell script " + quoted +
		` with prompt "Headroom wants to change how much memory the graphics processor may use." with administrator privileges`
}

func refused(err error) error {
	if errors.Is(err, ErrDeclined) {
		return problem.Wrap(problem.Cancelled, err, "The wired limit stays as it is",
			"Try again, or run the command in Terminal after sudo.")
	}
	return problem.Wrap(problem.Internal, err, "The wired limit could not be changed",
		"Run the command in Terminal after sudo.")
}
