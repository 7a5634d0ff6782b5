package library

// Removing a model means the trash, where its owner can take it back. On Linux that is
// freedesktop.org's trash (Trash specification 1.0): a file about it first, then a rename, so
// nothing is copied. On a Mac the system does it (trash_darwin.go).

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// Remove moves a model's folder to the trash: the place at path, or "" for the only one. In the hub
// cache that is the repository with all its snapshots. A link goes without what it leads to, and
// nothing that lies outside the library's folders is touched.
func (l *Library) Remove(m Model, path string) error {
	if m.Bundled {
		return problem.New(problem.BadRequest, "The bundled model cannot be removed",
			"it is part of the program", "")
	}
	if path == "" && len(m.Places) == 1 {
		path = m.Dir
	}
	var place *Place
	for i := range m.Places {
		if m.Places[i].Dir == path {
			place = &m.Places[i]
		}
	}
	switch {
	case path == "":
		return problem.New(problem.BadRequest, "The model "+m.ID+" lies in several places", "",
			"Say which of its folders is to go.")
	case place == nil:
		return problem.New(problem.NotFound, "The model "+m.ID+" does not lie in "+path, "",
			"Look again: it may have been moved or removed.")
	case place.Origin == Ollama:
		return problem.New(problem.BadRequest, "Ollama keeps this model",
			"its files may belong to other models too", "Run: ollama rm "+place.ID)
	}
	dir := place.Dir
	if at := filepath.Dir(filepath.Dir(dir)); place.Origin == HuggingFace &&
		filepath.Base(filepath.Dir(dir)) == "snapshots" {
		dir = at
	}
	if !l.inside(dir) {
		return problem.New(problem.Forbidden, "This folder is not Headroom's to remove",
			dir+" lies outside the folders that are looked through", "Remove it by hand.")
	}
	if err := trashed(dir); err != nil {
		return problem.Wrap(problem.Internal, err, "The model could not be moved to the trash",
			"Remove "+dir+" by hand.")
	}
	return nil
}

// inside tells whether what lies at path, which may be a link itself, lies in a root by its real
// path, and is not a root.
func (l *Library) inside(path string) bool {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false
	}
	path = filepath.Join(parent, filepath.Base(path))
	in := false
	for _, root := range l.roots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if within(real, path) {
			return false // the root itself, or a folder that holds it
		}
		in = in || within(path, real)
	}
	return in
}

// freedesktopTrash moves what lies at path to the trash of its user, or to that of its volume.
func freedesktopTrash(path string) error {
	dir, err := homeTrash()
	if err == nil {
		err = moveInto(dir, path, path)
	}
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	top, err := mountPoint(path)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(top, path)
	if err != nil {
		return err
	}
	return moveInto(filepath.Join(top, fmt.Sprintf(".Trash-%d", os.Getuid())), path, relative)
}

func homeTrash() (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "Trash"), nil
}

// moveInto puts path into a trash folder, under a name of its own. origin is what its .trashinfo
// says.
func moveInto(trash, path, origin string) error {
	files, info := filepath.Join(trash, "files"), filepath.Join(trash, "info")
	for _, dir := range []string{files, info} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("[Trash Info]\nPath=%s\nDeletionDate=%s\n",
		(&url.URL{Path: origin}).EscapedPath(), time.Now().Format("2006-01-02T15:04:05"))
	for n := 1; ; n++ {
		name := filepath.Base(path)
		if n > 1 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		about := filepath.Join(info, name+".trashinfo")
		file, err := os.OpenFile(about, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // takes the name
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(path, filepath.Join(files, name))
		}
		if err != nil {
			return errors.Join(err, os.Remove(about))
		}
		return nil
	}
}

// mountPoint is the topmost folder above path on the same device.
func mountPoint(path string) (string, error) {
	device := func(path string) (uint64, error) {
		info, err := os.Lstat(path)
		if err != nil {
			return 0, err
		}
		return uint64(info.Sys().(*syscall.Stat_t).Dev), nil
	}
	at, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	here, err := device(at)
	if err != nil {
		return "", err
	}
	for {
		up := filepath.Dir(at)
		if there, err := device(up); up == at || err != nil || there != here {
			return at, nil
		}
		at = up
	}
}

// within tells whether path is dir or lies in it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
