package disk

import (
	"os"
	"path/filepath"

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

// IsTemporary reports whether a file with that name (without folder) is a temporary file of
// WriteFile, for a file whose name ends in suffix.
func IsTemporary(name, suffix string) bool {
	ok, _ := filepath.Match(".*"+suffix+"[0-9]*", name)
	return ok
}
