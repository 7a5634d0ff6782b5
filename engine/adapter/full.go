package adapter

// Full fine-tuning: mlx-lm trains whole layers, and adapters.safetensors has their tensors as they
// are in the model, MODULE.weight and so on. The engine adds nothing to its matrices for them, so
// it does not run them as an adapter. Package convert writes a model with them in their places.

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// fullKind is the fine_tune_type of full fine-tuning.
const fullKind = "full"

// Full are the tensors that full fine-tuning has written.
type Full struct {
	File   *safetensors.File // Close closes it
	Digest [sha256.Size]byte // of the file
	names  map[string]string // of tensors in the file, by their canonical name
}

// IsFull reports whether the folder dir has the result of full fine-tuning.
func IsFull(dir string) bool {
	f, err := readConfigFile(dir)
	return err == nil && f.isFull()
}

func (f *configFile) isFull() bool { return f.Type == "" && f.Kind != nil && *f.Kind == fullKind }

// ReadFull opens the tensors in the folder dir. Errors are Problems.
func ReadFull(dir string) (*Full, error) {
	file, err := safetensors.Open(filepath.Join(dir, mlxName))
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "The trained weights cannot be read",
			"Train or download them again.")
	}
	f := &Full{File: file, names: map[string]string{}}
	if err := f.read(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return f, nil
}

func (f *Full) read() error {
	for _, name := range f.File.Names() {
		key := canonical(name)
		if other, twice := f.names[key]; twice {
			return broken("%.200q and %.200q are one tensor", other, name)
		}
		f.names[key] = name
	}
	if len(f.names) == 0 {
		return broken("%s has no tensors", f.File.Path())
	}
	r, err := f.File.Reader()
	if err != nil {
		return problem.Wrap(problem.ModelBroken, err, "The trained weights cannot be read", "")
	}
	defer r.Close()
	h := sha256.New()
	fmt.Fprintln(h, "full 1")
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, 1<<62)); err != nil {
		return problem.Wrap(problem.ModelBroken, err, "The trained weights cannot be read", "")
	}
	h.Sum(f.Digest[:0])
	return nil
}

// Find returns the tensor that takes the place of the model's tensor called name and shape; ok is
// false if there is none. The error is a Problem: its shape is another one.
func (f *Full) Find(name string, shape []int) (t safetensors.Tensor, ok bool, err error) {
	own, ok := f.names[canonical(name)]
	if !ok {
		return t, false, nil
	}
	t, _ = f.File.Tensor(own)
	if !slices.Equal(t.Shape, shape) {
		return t, true, notFor("its tensor %.200s has shape %s, and that of the model %s", own,
			safetensors.ShapeText(t.Shape...), safetensors.ShapeText(shape...))
	}
	return t, true, nil
}

// Other returns the name of a tensor that is none of the given ones of a model; "": all are.
func (f *Full) Other(model []string) string {
	has := map[string]bool{}
	for _, name := range model {
		has[canonical(name)] = true
	}
	for _, name := range f.File.Names() {
		if !has[canonical(name)] {
			return name
		}
	}
	return ""
}

// Close closes the file.
func (f *Full) Close() error { return f.File.Close() }
