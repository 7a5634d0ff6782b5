// Package gguf reads models in llama.cpp's format GGUF, version 2 or 3, little-endian.
//
// A file has metadata, descriptions of tensors, and their data (header.go, metadata.go). A large
// model may be split into files called NAME-00001-of-00003.gguf, of which the first has the
// metadata (file.go). The elements of a tensor are plain numbers or blocks: types.go has a row for
// each type, blocks.go the arithmetic of a block, and affine.go the types whose blocks are groups
// of MLX's affine mode.
//
// Nothing here knows a model: engine/gguf/original does.
//
// Source: ggml's docs/gguf.md; the blocks in ggml-common.h and ggml-quants.c, and numpy's form of
// them in the package gguf of PyPI, quants.py.
package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/modelfile"
)

// File is an open model of one or several files. Its methods are safe for concurrent use.
type File struct {
	Metadata Metadata // of the first file
	Tensors  []Tensor // of all files, in their order

	parts []part
}

// part is one of the files.
type part struct {
	path string
	file *os.File
	info os.FileInfo
}

// Changed returns an error if one of the files has changed since it was opened.
func (f *File) Changed() error {
	for _, p := range f.parts {
		now, err := p.file.Stat()
		if err != nil {
			return err
		}
		if now.Size() != p.info.Size() || !now.ModTime().Equal(p.info.ModTime()) {
			return fmt.Errorf("%s has changed", p.path)
		}
	}
	return nil
}

// partName is the name of a file of a split model.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.[gG][gG][uU][fF])$`)

// maxParts bounds the files of a model.
const maxParts = 1000

// Name returns the name of the model in a file with the given path: its name without extension and
// number.
func Name(path string) string {
	name := filepath.Base(path)
	if m := partName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// IsFile reports whether a path has the extension of a GGUF file.
func IsFile(path string) bool { return strings.EqualFold(filepath.Ext(path), ".gguf") }

// IsModel reports whether the file at path begins like a GGUF file, whatever its name is.
func IsModel(path string) bool {
	f, _, err := modelfile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "GGUF"
}

// In returns the file of the model at path, which is a GGUF file or a folder with the files of one
// model; "": there is none. The error says that a folder has several models.
func In(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		if err != nil || !IsFile(path) {
			return "", nil
		}
		return path, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", nil
	}
	var found string
	for _, e := range entries {
		switch name := e.Name(); {
		case !IsFile(name) || strings.HasPrefix(name, "."):
		case strings.Contains(strings.ToLower(name), "mmproj"): // what reads images, beside a model
		case found == "":
			found = name
		case Name(found) != Name(name):
			return "", fmt.Errorf("%s and %s are files of different models", found, name)
		}
	}
	if found == "" {
		return "", nil
	}
	return filepath.Join(path, found), nil
}

// Open opens a model by the path of its file, or of any file of a split one. The caller must close
// it. Errors say which file is invalid or missing, and why.
func Open(path string) (*File, error) {
	paths, err := partsOf(path)
	if err != nil {
		return nil, err
	}
	f := &File{}
	for i, one := range paths {
		if err := f.add(i, one, len(paths)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(one), err), f.Close())
		}
	}
	names := map[string]bool{}
	for _, t := range f.Tensors {
		if names[t.Name] {
			return nil, errors.Join(fmt.Errorf("two files have the tensor %q", t.Name), f.Close())
		}
		names[t.Name] = true
	}
	if n, ok := f.Metadata.Number("split.tensors.count"); ok && int(n) != len(f.Tensors) {
		return nil, errors.Join(fmt.Errorf("the files have %d tensors, expected %d",
			len(f.Tensors), int(n)), f.Close())
	}
	return f, nil
}

// partsOf returns the paths of all files of a model.
func partsOf(path string) ([]string, error) {
	m := partName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return []string{path}, nil
	}
	count, err := strconv.Atoi(m[3])
	if err != nil || count < 1 || count > maxParts {
		return nil, fmt.Errorf("%s: it would be one of %d files, expected 1 to %d",
			filepath.Base(path), count, maxParts)
	}
	var paths []string
	for i := range count {
		paths = append(paths, filepath.Join(filepath.Dir(path),
			fmt.Sprintf("%s-%05d-of-%05d%s", m[1], i+1, count, m[4])))
	}
	return paths, nil
}

// add opens file i of n.
func (f *File) add(i int, path string, n int) error {
	file, info, err := modelfile.Open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && n > 1 {
			return fmt.Errorf("it is missing, and the model has %d files: %w", n, err)
		}
		return err
	}
	f.parts = append(f.parts, part{path, file, info})
	h, err := ReadHeader(file, nil)
	if err != nil {
		return err
	}
	if i == 0 {
		f.Metadata = h.Metadata
	}
	if count, ok := h.Metadata.Number("split.count"); ok && int(count) > 1 && int(count) != n {
		return fmt.Errorf("it is one of %d files, but its name says %d", int(count), n)
	}
	if number, ok := h.Metadata.Number("split.no"); ok && n > 1 && int(number) != i {
		return fmt.Errorf("it is file %d of the model, but its name says %d", int(number)+1, i+1)
	}
	for _, t := range h.Tensors {
		if end := h.Data + t.Offset + t.Bytes; end > info.Size() || end < 0 {
			return fmt.Errorf("tensor %q ends at %d, but the file has %d bytes: it is truncated",
				t.Name, end, info.Size())
		}
		t.file = i
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// Close closes the files.
func (f *File) Close() (err error) {
	for _, p := range f.parts {
		err = errors.Join(err, p.file.Close())
	}
	return err
}

// Paths returns the paths of the files.
func (f *File) Paths() (paths []string) {
	for _, p := range f.parts {
		paths = append(paths, p.path)
	}
	return paths
}

// Bytes returns the size of the files.
func (f *File) Bytes() (n int64) {
	for _, p := range f.parts {
		n += p.info.Size()
	}
	return n
}

// Tensor returns the tensor called name, or nil.
func (f *File) Tensor(name string) *Tensor {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Tensors[i]
}

// ReadRow reads rows of t from the given one on into b, as many as it has room for.
func (f *File) ReadRow(t *Tensor, row int, b []byte) error {
	size := int64(t.RowBytes())
	if row < 0 || int64(row)*size+int64(len(b)) > t.Bytes {
		return fmt.Errorf("tensor %s has %d rows, and %d bytes from row %d on are needed", t.Name,
			t.Rows(), len(b), row)
	}
	_, err := f.parts[t.file].file.ReadAt(b, t.data+t.Offset+int64(row)*size)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return nil
}

// Floats returns the elements of a tensor, which must be small.
func (f *File) Floats(t *Tensor) ([]float32, error) {
	const most = 1 << 24
	if !t.Type.Readable() || t.Rows()*t.Cols() > most {
		return nil, fmt.Errorf("tensor %s has %d elements of %s, expected at most %d floats",
			t.Name, t.Rows()*t.Cols(), t.Type, most)
	}
	b := make([]byte, t.Bytes)
	if err := f.ReadRow(t, 0, b); err != nil {
		return nil, err
	}
	out := make([]float32, t.Rows()*t.Cols())
	t.Type.Decode(out, b)
	return out, nil
}
