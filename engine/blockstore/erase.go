package blockstore

// This file removes a cache that no process uses, and tells its files from those of others. It
// needs neither the index nor a key, so that a damaged or foreign cache can be removed too.

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Erase removes all files that a store has written to dir, and dir itself if a store has created it
// and it is then empty. It returns ErrInUse if a store has the folder open, in any process. Files
// of others stay. The error names files that were set aside and may be a store's or not.
func Erase(dir string) error { return erase(osDisk{}, dir) }

func erase(files disk, dir string) error {
	own := isOwnFolder(dir)
	if own || Exists(dir) || isDamagedIndex(filepath.Join(dir, indexName)) {
		if err := checkUnused(dir); err != nil {
			return err
		}
		m := &Move{To: dir, disk: files}
		if _, err := m.clearEntries(dir, func(entryFile) bool { return true }); err != nil {
			return err
		}
		if err := clearRest(files, dir, own); err != nil {
			return err
		}
	}
	others, err := clearAside(files, dir)
	if own {
		removeFolder(files, dir)
	}
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("blockstore: %s may be a damaged index or somebody's file, and is left: "+
			"delete it unless you need it", strings.Join(others, ", "))
	}
	return err
}

// HasEntries reports whether there are entries in dir, finished or not.
func HasEntries(dir string) bool {
	files, err := filesOf(dir, true)
	return err != nil || len(files) > 0
}

// IsEntry reports whether the file at path is an entry of the store in dir, by its name and place.
// The sizes of all entries are Stats.Bytes.
func IsEntry(dir, path string) bool {
	_, ours := entryAt(dir, path)
	return ours
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
		if m := asideName.FindStringSubmatch(name); m != nil {
			return isDamagedIndex(filepath.Join(dir, m[1]))
		}
		rest, found := strings.CutPrefix(name, indexName)
		return name == lockName && isLock(path) || name == markName ||
			found && slices.Contains(indexSuffixes, rest)
	}
	_, ours := entryAt(dir, strings.TrimSuffix(path, copySuffix))
	return ours
}
