package clang

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"headroom/metal/msl"
)

// Cache is a folder of compiled files. Several processes may share it.
type Cache struct {
	dir  string
	seed string // part of every hash
}

// OpenCache opens the folder dir; "" means headroom/name in the user's cache folder. The hash of
// every file in the cache covers inputs, the files of trees and the shim's headers.
func OpenCache(dir, name string, inputs []any, trees ...embed.FS) (*Cache, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no home folder: use a folder of this user among the temporary files
			base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
		}
		dir = filepath.Join(base, "headroom", name)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the cache of compiled kernels: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, append(inputs, appleHeaders)...)
	for _, tree := range append(trees, msl.Headers) {
		err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := tree.ReadFile(name)
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return &Cache{dir: dir, seed: string(h.Sum(nil))}, nil
}

// Dir returns the folder.
func (c *Cache) Dir() string { return c.dir }

// File returns the path, without extension, of the file compiled from contents. The file's name
// begins with the base of name, so that people recognize it.
func (c *Cache) File(name, contents string) string {
	sum := sha256.Sum256([]byte(c.seed + contents))
	return filepath.Join(c.dir,
		fmt.Sprintf("%s-%x", strings.TrimSuffix(path.Base(name), ".metal"), sum[:10]))
}

// Have reports whether the cache has file.
func (c *Cache) Have(file string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	if now := time.Now(); now.Sub(info.ModTime()) > 24*time.Hour {
		// marks the file as used, so that sweep keeps it; if that fails, it may be built again
		_ = os.Chtimes(file, now, now)
	}
	return true
}

// Make calls build to make file, unless the cache has it. build must write the result to the path
// out, in the temporary folder dir. A CompileError is cached and returned again the next time. Two
// processes may build the same file at once: each renames a complete file into place.
func (c *Cache) Make(file string, build func(dir, out string) error) error {
	if c.Have(file) {
		return nil
	}
	if text, err := os.ReadFile(file + ".refused"); err == nil {
		return &CompileError{string(text)}
	}
	c.sweep(time.Now())
	dir, err := os.MkdirTemp(c.dir, buildPrefix)
	if err != nil {
		return fmt.Errorf("writing to the cache of compiled kernels: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, filepath.Base(file))
	err = build(dir, out)
	if rejected := (*CompileError)(nil); errors.As(err, &rejected) {
		err = errors.Join(os.WriteFile(out, []byte(rejected.Text), 0o600),
			os.Rename(out, file+".refused"))
		if err != nil {
			return fmt.Errorf("writing to the cache of compiled kernels: %w", err)
		}
		return rejected
	}
	if err != nil {
		return err
	}
	return os.Rename(out, file)
}

// unusedFor is how long a compiled file is kept after its last use.
const unusedFor = 30 * 24 * time.Hour

// buildPrefix begins the names of the temporary folders that Make creates.
const buildPrefix = "headroom-build-"

// Names of compiled files and of temporary folders. People choose the cache's folder, and it may
// hold other files, which the sweep keeps.
var (
	compiledName = regexp.MustCompile(`^.+-[0-9a-f]{20}(\.so|\.ptx|\.cubin)?(\.refused)?$`)
	buildName    = regexp.MustCompile(`^` + buildPrefix + `\d+$`)
)

// sweep removes compiled files that have not been used for unusedFor, and the temporary folders of
// crashed processes. Errors are ignored: another process may be removing them too.
func (c *Cache) sweep(now time.Time) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || now.Sub(info.ModTime()) <= unusedFor {
			continue
		}
		path := filepath.Join(c.dir, e.Name())
		switch {
		case e.Type().IsRegular() && compiledName.MatchString(e.Name()):
			_ = os.Remove(path)
		case e.IsDir() && buildName.MatchString(e.Name()):
			_ = os.RemoveAll(path)
		}
	}
}
