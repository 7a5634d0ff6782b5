package library

// Removing a model moves it to the Trash. On Linux that is freedesktop.org's trash (Trash
// specification 1.0): a .trashinfo file, then a rename, so nothing is copied. On a Mac the system
// does it (trash_darwin.go).

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

	"headroom/app/disk"
	"headroom/engine/problem"
)

// Remove moves a model's folder to the Trash: the place at path, or its only place if path is "".
// In the hub cache that is the repository with all its snapshots. A link is moved without its
// target. Remove refuses folders outside the library's roots. The error is a Problem.
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
		return problem.New(problem.BadRequest, "The model "+m.ID+" is in several folders", "",
			"Choose the folder to remove.")
	case place == nil:
		return problem.New(problem.NotFound, "The model "+m.ID+" is not in "+path, "",
			"Refresh the list: it may have been moved or removed.")
	case place.Origin == Ollama:
		return problem.New(problem.BadRequest, "Ollama manages this model",
			"its files may be shared with other models", "Run: ollama rm "+place.ID)
	}
	return l.trash(whole(place.Dir, place.Origin == HuggingFace), "model")
}

// RemoveAdapter is like Remove for the folder of an adapter. models are those of the list: a folder
// with one of them in it is refused. The error is a Problem.
func (l *Library) RemoveAdapter(dir string, models []Model) error {
	repository := filepath.Base(filepath.Dir(filepath.Dir(dir)))
	dir = whole(dir, strings.HasPrefix(repository, "models--"))
	for i := range models {
		for _, p := range models[i].Places {
			if within(p.Dir, dir) {
				return problem.New(problem.BadRequest, "Headroom does not remove this folder",
					dir+" has the model "+models[i].ID+", too", "Remove the adapter by hand.")
			}
		}
	}
	return l.trash(dir, "adapter")
}

// whole returns the folder to remove: of a snapshot in the hub cache, that of the repository.
func whole(dir string, inHub bool) string {
	if snapshots := filepath.Dir(dir); inHub && filepath.Base(snapshots) == "snapshots" {
		return filepath.Dir(snapshots)
	}
	return dir
}

// trash moves a folder to the Trash. what it has is a word for the Problem.
func (l *Library) trash(dir, what string) error {
	if !Contains(l.roots, dir) {
		return problem.New(problem.Forbidden, "Headroom does not remove this folder",
			dir+" is outside the folders that Headroom scans", "Remove it by hand.")
	}
	if err := trashed(dir); err != nil {
		return problem.Wrap(problem.Internal, err, "The "+what+" could not be moved to the Trash",
			"Remove "+dir+" by hand.")
	}
	return nil
}

// Contains reports whether path, which may be a link, is inside a root and neither a root nor above
// one. It resolves links in the parent folder only.
func Contains(roots []string, path string) bool {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false
	}
	path = filepath.Join(parent, filepath.Base(path))
	in := false
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if within(real, path) {
			return false // the root itself, or a folder above it
		}
		in = in || within(path, real)
	}
	return in
}

// freedesktopTrash moves path to the user's trash, or to its volume's trash.
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
	trash := filepath.Join(top, fmt.Sprintf(".Trash-%d", os.Getuid()))
	if err := checkTrash(trash); err != nil {
		return err
	}
	return moveInto(trash, path, relative)
}

// checkTrash requires that a volume's trash is missing, or a folder of this user. Other users may
// write to the volume and could lead files elsewhere.
func checkTrash(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() ||
		ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a folder of this user, as the Trash specification requires",
			dir)
	}
	return nil
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

// moveInto moves path to a trash folder under a unique name. origin is the path in its .trashinfo.
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
		// O_EXCL reserves the name.
		file, err := os.OpenFile(about, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err == nil {
			// The name may be taken by a file whose .trashinfo is gone.
			err = disk.Rename(path, filepath.Join(files, name))
		}
		if err == nil {
			return nil
		}
		if removed := os.Remove(about); !errors.Is(err, fs.ErrExist) || removed != nil {
			return errors.Join(err, removed)
		}
	}
}

// mountPoint returns the topmost folder above path on the same device.
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

// within reports whether path is dir or inside it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
