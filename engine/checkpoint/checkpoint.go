// Package checkpoint opens a model folder, MLX-converted or Hugging Face original, and hands an
// architecture its weights in the form layers want: packed matrices as views of the mapped files,
// small vectors as float32.
package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// Source is where a model lies: a folder on disk, which is mapped, an embedded one, which is read
// into memory, or nowhere (Random).
type Source struct {
	Dir string
	FS  fs.FS // used when Dir is empty; the model's files lie at its top

	random []byte // config.json of a model to be made up; see Random
}

// maxTextBytes bounds config.json, tokenizer.json and the like: real ones stay under 50 MB.
const maxTextBytes = 256 << 20

// ReadFile reads one of the model's small files. A missing one is fs.ErrNotExist.
func (s Source) ReadFile(name string) ([]byte, error) {
	switch {
	case s.random != nil:
		return s.randomFile(name)
	case s.Dir == "":
		return fs.ReadFile(s.FS, name)
	}
	path := filepath.Join(s.Dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTextBytes {
		return nil, fmt.Errorf("%s: got %d bytes (%s), expected a regular file of at most %d", path,
			info.Size(), info.Mode().Type(), maxTextBytes)
	}
	return os.ReadFile(path)
}

// Has tells whether the model has a file of that name.
func (s Source) Has(name string) bool {
	var err error
	switch {
	case s.random != nil:
		_, err = s.randomFile(name)
	case s.Dir == "":
		_, err = fs.Stat(s.FS, name)
	default:
		_, err = os.Stat(filepath.Join(s.Dir, name))
	}
	return err == nil
}

func (s Source) String() string {
	switch {
	case s.random != nil:
		return "a random model"
	case s.Dir == "":
		return "the bundled model"
	}
	return s.Dir
}

// Config reads and parses config.json.
func (s Source) Config() (*Config, error) {
	data, err := s.ReadFile("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		if s.Dir != "" {
			if _, dirErr := os.Stat(s.Dir); dirErr != nil {
				return nil, problem.New(problem.ModelNotFound, "There is no model at "+s.Dir,
					"the folder does not exist",
					"Check the path; `headroom models` lists what is there.")
			}
		}
		return nil, problem.New(problem.ModelNotFound, "There is no model in "+s.String(),
			"it has no config.json",
			"Give the folder that holds config.json and the .safetensors files.")
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "config.json cannot be read", "")
	}
	return ParseConfig(data)
}

// tensors opens the safetensors files.
func (s Source) tensors() (*safetensors.Checkpoint, error) {
	var files *safetensors.Checkpoint
	var err error
	if s.Dir == "" {
		files, err = safetensors.OpenFS(s.FS)
	} else {
		files, err = safetensors.OpenDir(s.Dir)
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"The model in "+s.String()+" is damaged or incomplete", "Download it again.")
	}
	return files, nil
}
