package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/google/renameio/v2"
)

// WriteFile writes data to the file at path, replacing it atomically: after a crash the file has
// its old or its new content, and a failed write leaves the old file. The mode is perm (before the
// umask), regardless of the old file's mode. A symbolic link at path is replaced, not followed. The
// new content is synced to disk; the folder is not, see SyncDir.
//
// renameio.WriteFile would keep the mode of an existing file: a secret that other users can read
// would stay readable.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return WriteFrom(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom is WriteFile with the content that write writes. An error of write leaves the old file.
func WriteFrom(path string, perm os.FileMode, write func(io.Writer) error) error {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithPermissions(perm))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if err := write(file); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// temporaryName matches the names of WriteFile's temporary files: a dot, the file's name, and a
// random number.
var temporaryName = regexp.MustCompile(`^\.(.+?)\d{1,19}$`)

// leftoverAge is the age from which a temporary file counts as left behind. Writing takes far less.
const leftoverAge = time.Minute

// RemoveTemporary removes the temporary files that killed programs left in dir: those of WriteFile
// for files whose names written accepts. Errors are ignored: the files are only in the way.
func RemoveTemporary(dir string, written func(name string) bool) {
	for _, path := range Temporary(dir, written) {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(path)
		}
	}
}

// Temporary returns the paths of WriteFile's temporary files in dir, of any age, for files whose
// names written accepts.
func Temporary(dir string, written func(name string) bool) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		m := temporaryName.FindStringSubmatch(e.Name())
		if m != nil && e.Type().IsRegular() && written(m[1]) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// maxCopies bounds the number of copies that KeepCopy and SetAside make beside a file.
const maxCopies = 100

// SetAside renames the file at path to path.label-1, or 2 if that exists, and so on, and returns
// the new path. It replaces nothing.
func SetAside(path, label string) (aside string, err error) {
	for n := 1; n <= maxCopies; n++ {
		aside = fmt.Sprintf("%s.%s-%d", path, label, n)
		if err = Rename(path, aside); !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
	}
	return aside, fmt.Errorf("there are %d copies beside %s: remove them", maxCopies, path)
}

// Copies returns the paths of the files that SetAside and KeepCopy have made beside path, and
// Temporary's.
func Copies(path, label string) (paths []string) {
	dir, name := filepath.Split(path)
	paths = Temporary(dir, func(written string) bool { return written == name })
	copied := regexp.MustCompile("^" + regexp.QuoteMeta(name+"."+label) + `-[1-9][0-9]*$`)
	entries, _ := os.ReadDir(dir) // there may be no folder
	for _, e := range entries {
		if e.Type().IsRegular() && copied.MatchString(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// KeepCopy writes data, the content of the file at path, to path.label-1, or 2 if that exists, and
// so on, and returns the path of the copy. It replaces nothing, and makes no second copy of the
// same data. Only the user can read the copy.
func KeepCopy(path, label string, data []byte) (copied string, err error) {
	for n := 1; n <= maxCopies; n++ {
		copied = fmt.Sprintf("%s.%s-%d", path, label, n)
		earlier, _, err := Read(copied, int64(len(data)))
		if err == nil && bytes.Equal(earlier, data) {
			return copied, nil
		}
		file, err := os.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return copied, err
		}
		_, err = file.Write(data)
		return copied, errors.Join(err, file.Sync(), file.Close())
	}
	return copied, fmt.Errorf("there are %d copies beside %s: remove them", maxCopies, path)
}
