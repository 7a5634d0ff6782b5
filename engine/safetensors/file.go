package safetensors

// A mapped file. Tensors are views of a read-only mapping. Open reads only the header. The pages of
// the data are read when they are first used. No data is copied.

import (
	"fmt"
	"maps"
	"sort"
)

// File is one mapped file. Its methods are safe for concurrent use, except Sync and
// Close. Close must be called after the last use of Mapping and of the Data of its tensors.
type File struct {
	path     string
	mapping  []byte
	stamp    Stamp
	tensors  []Tensor // sorted by name
	metadata map[string]string
}

// Open maps the file at path read-only and checks its header. Errors name the file, and the tensor
// if one is not valid.
func Open(path string) (*File, error) {
	mapping, stamp, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	tensors, metadata, err := parse(mapping)
	if err != nil {
		unmap(mapping)
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return &File{path: path, mapping: mapping, stamp: stamp, tensors: tensors,
		metadata: metadata}, nil
}

// Path returns the path passed to Open.
func (f *File) Path() string { return f.path }

// Tensor returns the tensor with the given name. ok is false if the file does not have it.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	i := sort.Search(len(f.tensors), func(i int) bool { return f.tensors[i].Name >= name })
	if i == len(f.tensors) || f.tensors[i].Name != name {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Names returns the names of the tensors, sorted.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i := range f.tensors {
		names[i] = f.tensors[i].Name
	}
	return names
}

// Metadata returns a copy of __metadata__ in the header. It is nil if the header has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Mapping returns the contents of the whole file, including the header. After Close it returns nil.
// The mapping starts on a page boundary, and the rest of its last page reads as zero. So a GPU can
// use it without a copy, with its length rounded up to whole pages.
func (f *File) Mapping() []byte { return f.mapping }

// Close unmaps the file. Mapping and the Data of tensors must not be used afterwards. A second call
// does nothing.
func (f *File) Close() error {
	mapping := f.mapping
	f.mapping, f.tensors = nil, nil
	if mapping == nil {
		return nil
	}
	if err := unmap(mapping); err != nil {
		return fmt.Errorf("safetensors: close %s: %w", f.path, err)
	}
	return nil
}
