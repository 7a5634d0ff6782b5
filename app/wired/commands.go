package wired

// The commands, as shell scripts for root. They consist of constants and one number, so that no
// input can inject a command. They use full paths, because root's search path may differ. The user
// sees exactly the script that runs.

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"headroom/app/disk"
	"headroom/engine/problem"
)

const (
	variable = "iogpu.wired_limit_mb"
	label    = "app.headroom.wired-limit"
	// daemonPath is the launch daemon that sets the limit at each start (launchd.plist(5)). It is
	// needed because macOS no longer reads /etc/sysctl.conf.
	daemonPath = "/Library/LaunchDaemons/" + label + ".plist"
)

// ErrDeclined means that the user cancelled the password dialog.
var ErrDeclined = errors.New("the administrator's password was not given")

// commands returns the scripts for a limit in MiB. Reset sets the limit earlierMB.
func commands(limitMB, earlierMB int64) Commands {
	unload := "(/bin/launchctl bootout system/" + label + " 2>/dev/null || true)"
	return Commands{
		Set: set(limitMB),
		Persist: strings.Join([]string{
			set(limitMB),
			"/usr/bin/printf '" + strings.ReplaceAll(daemon(limitMB), "\n", `\n`) + "' > " +
				daemonPath,
			"/usr/sbin/chown root:wheel " + daemonPath,
			"/bin/chmod 644 " + daemonPath,
			unload,
			"/bin/launchctl bootstrap system " + daemonPath,
		}, " && \\\n"),
		Reset: strings.Join([]string{set(earlierMB), unload, "/bin/rm -f " + daemonPath},
			" && \\\n"),
	}
}

func set(limitMB int64) string { return fmt.Sprintf("/usr/sbin/sysctl %s=%d", variable, limitMB) }

// daemon returns the property list of the launch daemon. It contains no percent sign, backslash or
// apostrophe, which printf or the shell would interpret.
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

var persistedNumber = regexp.MustCompile(regexp.QuoteMeta(variable) + `=(\d{1,9})<`)

// persistedMB returns the limit that the launch daemon at path sets, or 0 without one.
func persistedMB(path string) int64 {
	const maxBytes = 64 << 10
	text, _, err := disk.Read(path, maxBytes)
	if err != nil {
		return 0
	}
	m := persistedNumber.FindSubmatch(text)
	if m == nil {
		return 0
	}
	limitMB, _ := strconv.ParseInt(string(m[1]), 10, 64) // at most nine digits
	return limitMB
}

// appleScript returns an AppleScript that asks for an administrator's password in the system's
// dialog and then runs a shell script as root.
func appleScript(script string) string {
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(script) + `"`
	const prompt = "Headroom wants to change how much memory the GPU may use."
	return "do shell script " + quoted + ` with prompt "` + prompt +
		`" with administrator privileges`
}

func refused(err error) error {
	if errors.Is(err, ErrDeclined) {
		return problem.Wrap(problem.Cancelled, err, "The wired limit was not changed",
			"Try again, or run the command with sudo in Terminal.")
	}
	return problem.Wrap(problem.Internal, err, "The wired limit could not be changed",
		"Run the command with sudo in Terminal.")
}
