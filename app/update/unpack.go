package update

// Unpacking an archive. It was verified before, but a mistake in it must not write elsewhere or
// fill the disk.

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	maxUnpackedBytes = 8 << 30
	maxEntries       = 100_000
)

// unpack writes the files of an archive into the new folder dir. Only files, folders and links
// within it are allowed. All are within dir: os.Root refuses any other path.
func unpack(ctx context.Context, archive, dir string) (err error) {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(maxUnpackedBytes)
	archived := tar.NewReader(zipped)
	for range maxEntries {
		h, err := archived.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpackedBytes))
		}
		if err := unpackEntry(root, h, archived); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return fmt.Errorf("it has more than %d files", maxEntries)
}

// unpackEntry writes one file, folder or link.
func unpackEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	mode := fs.FileMode(h.Mode) & 0o755
	if name == "." {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		to := path.Join(path.Dir(name), h.Linkname)
		if path.IsAbs(h.Linkname) || to == ".." || strings.HasPrefix(to, "../") {
			return fmt.Errorf("it is a link to %s, outside of the archive", h.Linkname)
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Sync(), file.Close())
	}
	return fmt.Errorf("it is of the kind %q, expected a file, a folder or a link", h.Typeflag)
}
