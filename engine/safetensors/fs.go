package safetensors

// Reading a checkpoint from an fs.FS, such as the model that is embedded in the program.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// OpenFS reads every model*.safetensors at the root of fsys into anonymous pages. It ignores an
// index, because an embedded model is always complete.
func OpenFS(fsys fs.FS) (*Checkpoint, error) {
	shards, err := fs.Glob(fsys, shardPattern)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("safetensors: no %s found in the embedded model", shardPattern)
	}
	slices.Sort(shards)
	c := &Checkpoint{owner: make(map[string]*File)}
	for _, shard := range shards {
		data, err := readPages(fsys, shard)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("safetensors: %w", err), c.Close())
		}
		tensors, metadata, err := parse(data)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("safetensors: %s: %w", shard, err), unmap(data),
				c.Close())
		}
		if err := c.add(&File{path: shard, mapping: data, tensors: tensors,
			metadata: metadata}); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	slices.Sort(c.names)
	return c, nil
}

// readPages reads a file into whole pages outside the Go heap, which a GPU can use without a copy.
func readPages(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := newPages(info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), unmap(data))
	}
	return data, nil
}
