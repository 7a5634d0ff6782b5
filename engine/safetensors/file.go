package safetensors

// A mapped file. Tensors are views of a read-only mapping: Open reads only the header, and pages
// of data are read when they are first used. No data is copied.

import (
	"fmt"
	"maps"
	"os"
	"sort"
)

// File is one mapped file. Its methods are safe for concurrent use, except Close,
// which must come after the last use of the mapping and of any tensor's Data.
type File struct {
	path     string
	mapping  []byte
	tensors  []Tensor // sorted by name
	metadata map[string]string
}

// Open maps the file at path read-only and checks its header. An error names the
// file and the tensor at fault.
func Open(path string) (*File, error) {
	// Stat first: opening a named pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("safetensors: %s is not a regular file", path)
	}
	mapping, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	tensors, metadata, err := parse(mapping)
	if err != nil {
		unmap(mapping)
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return &File{path: path, mapping: mapping, tensors: tensors, metadata: metadata}, nil
}

// Path returns the path passed to Open.
func (f *File) Path() string { return f.path }

// Tensor returns the tensor called name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i := sort.Search(len(f.tensors), func(i int) bool { return f.tensors[i].Name >= name })
	if i == len(f.tensors) || f.tensors[i].Name != name {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Names returns the tensors' names, sorted.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i := range f.tensors {
		names[i] = f.tensors[i].Name
	}
	return names
}

// Metadata returns a copy of the header's __metadata__; nil when it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Mapping returns the whole file, header included, or nil after Close. It starts on a page boundary
// and consists of whole pages: the rest of the last one reads as zero. So a GPU device can use it
// without a copy, with its length rounded up to a whole page.
func (f *File) Mapping() []byte { return f.mapping }

// Close unmaps the file. Mapping and every tensor's Data must not be touched
// afterwards. A second Close does nothing.
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
