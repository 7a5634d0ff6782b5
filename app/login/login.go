// Package login makes Headroom start when the user logs in: with a launch agent on a Mac
// (https://developer.apple.com/library/archive/documentation/MacOSX/Conceptual/BPSystemStartup/Chapters/CreatingLaunchdJobs.html),
// with an autostart entry elsewhere
// (https://specifications.freedesktop.org/autostart-spec/latest/). The state is only in that file:
// deleting the file turns the login item off.
package login

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Item is the login item of one program.
type Item struct {
	program string
	file    string
	text    string
}

// New returns the login item of the program at an absolute path. It fails without a home folder.
func New(program string) (*Item, error) {
	if runtime.GOOS == "darwin" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		return &Item{program, filepath.Join(home, "Library", "LaunchAgents", label+".plist"),
			launchAgent(program)}, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return nil, err
	}
	return &Item{program, filepath.Join(config, "autostart", "headroom.desktop"),
		desktopEntry(program)}, nil
}

// On reports whether the program starts at login. An entry for another path does not count: the app
// may have been moved.
func (i *Item) On() bool {
	text, _, err := disk.Read(i.file, maxBytes)
	return err == nil && string(text) == i.text
}

// Set turns the login item on or off. It takes effect at the next login.
func (i *Item) Set(on bool) error {
	if err := i.checkOurs(); err != nil {
		return err
	}
	if !on {
		if err := os.Remove(i.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the login item: %w", err)
		}
		return nil
	}
	// Until the user has moved an app out of the download folder or disk image, macOS runs it from
	// a copy at a random path.
	if strings.Contains(i.program, "/AppTranslocation/") {
		return problem.New(problem.BadRequest,
			"Headroom cannot open at login from its current location",
			"macOS runs it from a temporary copy because it was never moved to Applications",
			"Move Headroom to Applications, open it there, and try again.")
	}
	err := os.MkdirAll(filepath.Dir(i.file), 0o755)
	if err == nil {
		err = disk.WriteFile(i.file, []byte(i.text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the login item: %w", err)
	}
	return nil
}

// maxBytes bounds what is read of a login item. A longer file is not Headroom's.
const maxBytes = 64 << 10

// checkOurs returns a Problem if the file exists and Headroom did not write it, for this program or
// for one at another path. Such a file is neither removed nor replaced.
func (i *Item) checkOurs() error {
	text, _, err := disk.Read(i.file, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	form := regexp.QuoteMeta(launchAgent(anyProgram))
	if strings.HasSuffix(i.file, ".desktop") {
		form = regexp.QuoteMeta(desktopEntry(anyProgram))
	}
	form = strings.Replace(form, anyProgram, "[^\n]*", 1)
	if err == nil && regexp.MustCompile("^"+form+"$").Match(text) {
		return nil
	}
	return problem.New(problem.BadRequest, "Headroom did not write this login item",
		i.file+" was written or changed by someone else", "Remove it by hand, and try again.")
}

// anyProgram stands for a path where the forms of login items are compared.
const anyProgram = "PROGRAM"

// label is the launch agent's label. It is also the bundle identifier (build/darwin/agent.plist),
// so that System Settings shows Headroom's name and icon in the list of login items.
const label = "app.headroom.agent"

// quietly is the argument with which the program opens no window.
const quietly = "--no-open"

func launchAgent(program string) string {
	var path strings.Builder
	_ = xml.EscapeText(&path, []byte(program)) // writing to a Builder never fails
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>` + path.String() + `</string>
		<string>` + quietly + `</string>
	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>AssociatedBundleIdentifiers</key>
	<string>` + label + `</string>
</dict>
</plist>
`
}

// desktopEntry returns an autostart entry. It escapes the path twice, as the Desktop Entry
// Specification requires: as an argument of Exec, then as a string value.
func desktopEntry(program string) string {
	word := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`, `%`,
		`%%`).Replace(program)
	value := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r",
		`\r`).Replace(`"` + word + `"`)
	return "[Desktop Entry]\nType=Application\nName=Headroom\nComment=Runs language models on " +
		"this machine\nExec=" + value + " " + quietly + "\nTerminal=false\n"
}
