package update

// Where an update is prepared, and how it takes the place of the installed folder.
//
// A folder beside the installed one, on the same disk, has it all:
//
//	.headroom-update/headroom-updates    marks the folder as ours
//	.headroom-update/archive             the download
//	.headroom-update/next/               the unpacked archive
//	.headroom-update/previous/           the version before, after an update
//
// The two folders change places in one system call. So whenever the program is killed or power
// fails, a whole version is installed: the old one or the new one.

import (
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

const (
	stageName = ".headroom-update"
	markName  = "headroom-updates"
	markText  = "Headroom prepares its updates in this folder.\n"
)

// place is an installed folder and the folder for its updates.
type place struct{ install string }

func (p place) stage() string         { return filepath.Join(filepath.Dir(p.install), stageName) }
func (p place) at(name string) string { return filepath.Join(p.stage(), name) }
func (p place) archive() string       { return p.at("archive") }
func (p place) next() string          { return p.at("next") }
func (p place) previous() string      { return p.at("previous") }
func (p place) has(folder string) bool {
	info, err := os.Lstat(folder)
	return err == nil && info.IsDir()
}

func (p place) isOurs() bool {
	text, _, err := disk.Read(p.at(markName), int64(len(markText)))
	return err == nil && string(text) == markText
}

// Installed returns the folder that an update of a program replaces: the bundle around it, or the
// folder in which build/linux/install has put it. It returns "" for another program, such as one
// that was built from source.
func Installed(program string) string {
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	dir := filepath.Dir(program)
	if runtime.GOOS == "darwin" {
		bundle, ok := strings.CutSuffix(dir, ".app/Contents/MacOS")
		if !ok {
			return ""
		}
		return bundle + ".app"
	}
	for _, name := range []string{"headroom", "headroom-agent", "headroom-window", "uninstall"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return ""
		}
	}
	return dir
}

// prepare creates the folder for updates, or empties it of what an earlier download has left. The
// version before stays. The error is a Problem.
func (p place) prepare() error {
	err := os.Mkdir(p.stage(), 0o700)
	switch {
	case err == nil:
		err = disk.WriteFile(p.at(markName), []byte(markText), 0o600)
	case errors.Is(err, fs.ErrExist) && !p.isOurs():
		return problem.New(problem.Exists, "The update cannot be prepared",
			p.stage()+" exists, and Headroom has not made it", "Move it elsewhere.")
	case errors.Is(err, fs.ErrExist):
		err = p.clear()
	}
	if err != nil {
		return notWritten(err)
	}
	return nil
}

// clear removes the download and what was unpacked of it.
func (p place) clear() error {
	if !p.isOurs() {
		return nil
	}
	err := os.Remove(p.archive())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(p.next()))
}

// forget removes the folder for updates with all that is in it, the version before too.
func (p place) forget() error {
	if !p.isOurs() {
		return nil
	}
	return os.RemoveAll(p.stage())
}

// exchange lets a folder take the place of the installed one.
func (p place) exchange(folder string) error {
	if !p.has(p.install) || !p.has(folder) {
		return fmt.Errorf("%s or %s is missing", p.install, folder)
	}
	if err := disk.Exchange(folder, p.install); err != nil {
		return err
	}
	disk.SyncDir(p.stage())
	disk.SyncDir(filepath.Dir(p.install))
	return nil
}

// keepPrevious makes a folder the version before, in place of an older one. It does nothing if it
// has done so already.
func (p place) keepPrevious(folder string) error {
	if !p.has(folder) {
		return nil
	}
	if err := os.RemoveAll(p.previous()); err != nil {
		return err
	}
	return disk.Rename(folder, p.previous())
}
