package disk

import (
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
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithPermissions(perm))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if _, err := file.Write(data); err != nil {
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
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		m := temporaryName.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() || !written(m[1]) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
