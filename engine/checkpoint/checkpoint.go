// Package checkpoint opens a model folder and loads its weights by name. The folder may be an MLX
// conversion or a Hugging Face original. Large matrices are views of the mapped files and stay
// packed or plain as in the file, but integers that other programs have packed become MLX's packing
// (integers.go). Small vectors are copied to float32.
package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// Source is the location of a model's files. It is a folder on disk, whose weights are mapped, or
// an fs.FS, whose weights are read into memory. A Source made by Random has random weights.
type Source struct {
	Dir string
	FS  fs.FS // used when Dir is empty; has the model's files at its root

	random []byte // config.json of a random model
}

// ReadFile reads one of the model's text files, within the limits of package modelfile. If the file
// does not exist, the error wraps fs.ErrNotExist.
func (s Source) ReadFile(name string) ([]byte, error) {
	switch {
	case s.random != nil:
		return s.randomFile(name)
	case s.Dir == "":
		return modelfile.ReadFS(s.FS, name)
	}
	return modelfile.Read(filepath.Join(s.Dir, name))
}

// Has reports whether the model has a file called name.
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

// Config reads and parses config.json. Errors are Problems. Both results are set if only the
// quantization is not supported, so that the caller can name a better reason; see ParseConfig.
func (s Source) Config() (*Config, error) {
	data, err := s.ReadFile("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		if p := s.foreign(); p != nil {
			return nil, p
		}
		if s.Dir != "" {
			if _, dirErr := os.Stat(s.Dir); dirErr != nil {
				return nil, problem.New(problem.ModelNotFound, "There is no model at "+s.Dir,
					"the folder does not exist",
					"Check the path. `headroom models` lists the installed models.")
			}
		}
		return nil, problem.New(problem.ModelNotFound, "There is no model in "+s.String(),
			"it has no config.json",
			"Choose the folder that contains config.json and the .safetensors files.")
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "config.json cannot be read",
			"Download or convert the model again.")
	}
	c, err := ParseConfig(data)
	if s.random != nil || s.Dir == "" {
		return c, err
	}
	if c == nil && errors.Is(err, errNoModelType) {
		if p := s.foreign(); p != nil {
			return nil, p
		}
	}
	if c != nil && err == nil {
		err = s.readModelOpt(c)
	}
	if c != nil {
		modules, moduleErr := modelfile.ReadModules(s.ReadFile)
		if moduleErr != nil {
			return nil, moduleErr
		}
		if c.Modules = modules; modules == nil {
			c.Modules = c.modulesOf(s.Dir)
		}
	}
	return c, err
}

// foreign returns a Problem if the folder holds something that Headroom does not run.
func (s Source) foreign() *problem.Problem {
	if s.random != nil || s.Dir == "" {
		return nil
	}
	return modelfile.Foreign(s.Dir)
}

// tensors opens the model's safetensors files.
func (s Source) tensors() (*safetensors.Checkpoint, error) {
	var files *safetensors.Checkpoint
	var err error
	if s.Dir == "" {
		files, err = safetensors.OpenFS(s.FS)
	} else {
		files, err = safetensors.OpenDir(s.Dir)
	}
	if err != nil {
		// With an index, the folder is a model of which files are missing or damaged.
		if p := s.foreign(); p != nil && !s.Has("model.safetensors.index.json") {
			return nil, p
		}
		// err names the file, or the folder where a file is missing.
		return nil, problem.Wrap(problem.ModelBroken, err, "The model is damaged or incomplete",
			"Download it again.")
	}
	return files, nil
}
