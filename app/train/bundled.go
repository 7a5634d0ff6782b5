package train

// The bundled model as a folder. It is a part of the program, and mlx-lm reads folders only.

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/app/demo"
	"headroom/app/disk"
	"headroom/engine/problem"
)

// Bundled returns a folder with the bundled model's files, beside the environments. It writes those
// that are missing or differ; Remove deletes them. The folder's name is the model's ID, so adapters
// that are trained with it are listed beneath the bundled model. The error is a Problem.
func (e Environment) Bundled() (string, error) {
	if e.dir == "" {
		return "", notStarted(problem.Internal, "Set HOME.", "there is no home folder")
	}
	dir := e.bundled()
	err := os.MkdirAll(dir, 0o700)
	var files fs.FS
	if err == nil {
		files, err = fs.Sub(demo.Files, "model")
	}
	if err == nil {
		err = writeFiles(files, dir)
	}
	if err != nil {
		return "", problem.Wrap(problem.Internal, err,
			"The bundled model could not be written into a folder for mlx-lm", "")
	}
	return dir, nil
}

func (e Environment) bundled() string { return filepath.Join(e.dir, demo.ID) }

// removeBundled deletes the folder. It follows no link.
func (e Environment) removeBundled() error {
	if info, err := os.Lstat(e.bundled()); err != nil || !info.IsDir() {
		return nil
	}
	return os.RemoveAll(e.bundled())
}

// writeFiles writes the files of a folder without subfolders.
func writeFiles(files fs.FS, dir string) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return err
		}
		path := filepath.Join(dir, entry.Name())
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
			if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
				continue // another training may read it
			}
		}
		if err := disk.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
