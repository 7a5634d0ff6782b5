package blockstore

// This file removes a cache that no process uses, and tells its files from those of others. It
// needs neither the index nor a key, so that a damaged or foreign cache can be removed too.

import (
	"path/filepath"
	"slices"
	"strings"
)

// Erase removes all files that a store has written to dir, and dir itself if it is then empty. It
// returns ErrInUse if a store has the folder open, in any process. Files of others stay.
func Erase(dir string) error {
	if !Exists(dir) {
		return nil
	}
	if err := checkUnused(dir); err != nil {
		return err
	}
	m := &Move{To: dir}
	if _, err := m.clearEntries(dir, func(entryFile) bool { return true }); err != nil {
		return err
	}
	return clearRest(dir)
}

// IsOurs reports whether a store in dir has written the file at path, by its name and place.
func IsOurs(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return false
	}
	switch folder, name := filepath.Split(rel); filepath.Clean(folder) {
	case pinsDir:
		return isPin(name)
	case tempDir:
		return isTemp(name)
	case ".":
		rest, found := strings.CutPrefix(name, indexName)
		return name == lockName || name == markName || found && slices.Contains(indexSuffixes, rest)
	}
	return isEntry(dir, strings.TrimSuffix(path, copySuffix))
}
