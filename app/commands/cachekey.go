package commands

// `headroom cache export-key` and `import-key`. A cache's folder that is copied to another computer
// can be read there only with the folder's key.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"headroom/app/cache"
	"headroom/app/disk"
	"headroom/app/service"
	"headroom/engine/problem"
)

// CacheExportKey is `headroom cache export-key`.
type CacheExportKey struct {
	File string `arg:"" help:"New file for the key, which only you can read; - prints the key." placeholder:"FILE"`
}

// CacheImportKey is `headroom cache import-key`.
type CacheImportKey struct {
	File string `arg:"" help:"File that export-key has written; - reads standard input." placeholder:"FILE"`
}

// Run writes the key. It replaces no file.
func (e *CacheExportKey) Run(c *Cache, t *terminal) error {
	o, err := c.folder()
	if err != nil {
		return err
	}
	installation, err := service.OpenVault().Key()
	if err != nil {
		return err
	}
	key, err := cache.ExportKey(o.Dir, installation)
	if err != nil {
		return err
	}
	if e.File == "-" {
		_, err = fmt.Fprintln(t.out, key)
		return err
	}
	f, err := os.OpenFile(e.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return problem.New(problem.Exists, e.File+" exists", "", "Name a new file.")
	}
	if err == nil {
		_, err = fmt.Fprintln(f, key)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The key could not be written", "")
	}
	_, err = fmt.Fprintf(t.out, "The key of the cache in %s is in %s. Whoever has both can read "+
		"the conversations in the cache.\n", o.Dir, e.File)
	return err
}

// maxKeyFileBytes bounds the file of an exported key, which has one line.
const maxKeyFileBytes = 1 << 10

// Run hands the folder to this installation. It changes none of its entries.
func (i *CacheImportKey) Run(c *Cache, t *terminal) error {
	o, err := c.folder()
	if err != nil {
		return err
	}
	var text []byte
	if i.File == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, maxKeyFileBytes))
	} else {
		text, _, err = disk.Read(i.File, maxKeyFileBytes)
	}
	if err != nil && !errors.Is(err, disk.ErrTooLong) { // ImportKey refuses what is too long
		return problem.Wrap(problem.BadRequest, err, "The key cannot be read", "")
	}
	installation, err := service.OpenVault().Key()
	if err != nil {
		return err
	}
	if err := cache.ImportKey(o.Dir, string(text), installation); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "The cache in %s can be used here now.\n", o.Dir)
	return err
}
