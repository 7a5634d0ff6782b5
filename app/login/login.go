// Package login has Headroom started when its user logs in: by a launch agent on a Mac
// (https://developer.apple.com/library/archive/documentation/MacOSX/Conceptual/BPSystemStartup/Chapters/CreatingLaunchdJobs.html),
// by an autostart entry elsewhere (https://specifications.freedesktop.org/autostart-spec/latest/).
// The file is the whole of the setting: who deletes it by hand has turned it off.
package login

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Item is the entry for one program.
type Item struct {
	program string
	file    string
	text    string
}

// New is the entry for the program at that absolute path. It fails where there is no home folder.
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

// On tells whether the program is started at login. An entry for another place, as after the app
// was moved, is none.
func (i *Item) On() bool {
	text, err := os.ReadFile(i.file)
	return err == nil && string(text) == i.text
}

// Set turns it on or off, from the next login on.
func (i *Item) Set(on bool) error {
	if !on {
		if err := os.Remove(i.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no longer starting at login: %w", err)
		}
		return nil
	}
	// A Mac runs an application from a copy under a random path while it lies where the browser or
	// a disk image put it.
	if strings.Contains(i.program, "/AppTranslocation/") {
		return problem.New(problem.BadRequest,
			"Headroom cannot be started at login from where it is",
			"macOS runs it from a temporary copy, since it was never moved to Applications",
			"Move Headroom to Applications, open it there, and try again.")
	}
	err := os.MkdirAll(filepath.Dir(i.file), 0o755)
	if err == nil {
		err = disk.WriteFile(i.file, []byte(i.text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("starting at login: %w", err)
	}
	return nil
}

// label names the launch agent. It is also the bundle's identifier (build/darwin/agent.plist), by
// which the system's list of login items shows Headroom's name and icon instead of a file's.
const label = "app.headroom.agent"

func launchAgent(program string) string {
	var path strings.Builder
	_ = xml.EscapeText(&path, []byte(program)) // a Builder takes everything
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>` + path.String() + `</string>
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

// desktopEntry quotes the path as the Desktop Entry Specification wants it: first for Exec's words,
// then for the file's strings.
func desktopEntry(program string) string {
	word := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`, `%`,
		`%%`).Replace(program)
	value := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r",
		`\r`).Replace(`"` + word + `"`)
	return "[Desktop Entry]\nType=Application\nName=Headroom\nComment=Runs language models on " +
		"this machine\nExec=" + value + "\nTerminal=false\n"
}
