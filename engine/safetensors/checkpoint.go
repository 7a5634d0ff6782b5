package safetensors

// A checkpoint is the set of all tensors in the safetensors files of a model folder. Every
// model*.safetensors belongs to it, even if the index does not list the file, such as a separate
// MTP head. If there is an index, the files that it lists belong to the checkpoint too. The index
// also shows whether a download is complete.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"headroom/engine/modelfile"
)

const (
	indexName    = "model.safetensors.index.json"
	shardPattern = "model*.safetensors"
	maxListed    = 8 // maximum number of names in an error message
)

// Checkpoint holds the mapped files of one model folder. As with File, its methods are safe for
// concurrent use, except Close.
type Checkpoint struct {
	files []*File
	owner map[string]*File // by tensor name
	names []string         // sorted
	bytes int64
}

// OpenDir maps the checkpoint in the folder dir: every model*.safetensors, and every file that
// model.safetensors.index.json lists. It returns an error if a listed file is missing, if a file
// lacks a tensor that the index lists for it, or if two files contain the same tensor.
func OpenDir(dir string) (*Checkpoint, error) {
	index, err := readIndex(filepath.Join(dir, indexName))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	shards, err := listShards(dir, index)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	c := &Checkpoint{owner: make(map[string]*File)}
	if err := c.load(dir, shards, index); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenFile maps one file as a checkpoint.
func OpenFile(path string) (*Checkpoint, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{owner: make(map[string]*File)}
	if err := c.add(f); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	slices.Sort(c.names)
	return c, nil
}

// load opens the shards in order, and checks that they have the tensors that the index lists.
func (c *Checkpoint) load(dir string, shards []string, index map[string]string) error {
	for _, shard := range shards {
		f, err := Open(filepath.Join(dir, shard))
		if err != nil {
			return err
		}
		if err := c.add(f); err != nil {
			return err
		}
	}
	slices.Sort(c.names)
	var absent []string
	for name, shard := range index {
		f := c.owner[name]
		if f == nil || filepath.Base(f.path) != shard {
			absent = append(absent, fmt.Sprintf("%q in %s", name, shard))
		}
	}
	if len(absent) > 0 {
		return fmt.Errorf("safetensors: %s: %s lists tensors that its files do not have: %s",
			dir, indexName, list(absent))
	}
	return nil
}

// add takes ownership of an open file and adds its tensors.
func (c *Checkpoint) add(f *File) error {
	c.files = append(c.files, f)
	if n := len(c.names) + len(f.tensors); n > maxTensors {
		return fmt.Errorf("safetensors: %s: the model has more than %d tensors", f.path, maxTensors)
	}
	for i := range f.tensors {
		t := &f.tensors[i]
		if other, dup := c.owner[t.Name]; dup {
			return fmt.Errorf(
				"safetensors: tensor %q is in both %s and %s: remove the file that does not "+
					"belong to the model", t.Name, other.path, f.path)
		}
		c.owner[t.Name] = f
		c.names = append(c.names, t.Name)
		c.bytes += int64(len(t.Data))
	}
	return nil
}

// Tensor returns the tensor with the given name. ok is false if no file has it.
func (c *Checkpoint) Tensor(name string) (t Tensor, ok bool) {
	f, ok := c.owner[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensor(name)
}

// FileOf returns the file that has the tensor with the given name, or nil if no file has it. From
// and To of the tensor are offsets in Mapping of that file.
func (c *Checkpoint) FileOf(name string) *File { return c.owner[name] }

// Files returns the mapped files, sorted by name. The caller must not change the slice.
func (c *Checkpoint) Files() []*File { return c.files }

// Names returns the names of all tensors, sorted.
func (c *Checkpoint) Names() []string { return slices.Clone(c.names) }

// Bytes returns the total size of all tensors, without the headers.
func (c *Checkpoint) Bytes() int64 { return c.bytes }

// Close unmaps all files; see File.Close.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	c.files, c.owner, c.names, c.bytes = nil, nil, nil, 0
	return errors.Join(errs...)
}

// listShards returns the sorted names of the files of the checkpoint in dir. It returns an error if
// a file that the index lists does not exist.
func listShards(dir string, index map[string]string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var shards []string
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		present[e.Name()] = true
		if ok, _ := filepath.Match(shardPattern, e.Name()); ok {
			shards = append(shards, e.Name())
		}
	}
	var missing []string
	for _, shard := range index {
		if present[shard] {
			shards = append(shards, shard)
		} else {
			missing = append(missing, shard)
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 {
		return nil, fmt.Errorf("%s: %s lists files that are missing: %s", dir, indexName,
			list(missing))
	}
	slices.Sort(shards)
	if shards = slices.Compact(shards); len(shards) == 0 {
		return nil, fmt.Errorf("%s: no %s found: check that this is the model's folder", dir,
			shardPattern)
	}
	return shards, nil
}

// readIndex returns the weight_map of the index, which maps tensor names to file names. If there is
// no index, it returns nil and no error.
func readIndex(path string) (map[string]string, error) {
	data, err := modelfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	weightMap, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return weightMap, nil
}

func parseIndex(data []byte) (map[string]string, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not valid UTF-8")
	}
	var weightMap map[string]string
	dec := json.NewDecoder(bytes.NewReader(data))
	err := readObject(dec, func(key string) (err error) {
		if key == "weight_map" {
			weightMap, err = readStrings(dec)
			return err
		}
		var skipped json.RawMessage
		return dec.Decode(&skipped)
	})
	if err != nil {
		return nil, err
	}
	if weightMap == nil {
		return nil, errors.New("has no weight_map")
	}
	for name, shard := range weightMap {
		if strings.ContainsAny(shard, "/\\\x00") || shard == "" || shard == "." || shard == ".." {
			return nil, fmt.Errorf("weight_map has %q for tensor %q, "+
				"expected the plain name of a file in the same folder", modelfile.Excerpt(shard),
				modelfile.Excerpt(name))
		}
	}
	return weightMap, nil
}

// list joins at most maxListed names for an error message.
func list(names []string) string {
	slices.Sort(names)
	for i := range min(len(names), maxListed) {
		names[i] = modelfile.Excerpt(names[i])
	}
	if rest := len(names) - maxListed; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), rest)
	}
	return strings.Join(names, ", ")
}
