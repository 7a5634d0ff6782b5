package safetensors

// A checkpoint that is not a folder on disk: the model embedded in the program.

import (
	"fmt"
	"io/fs"
	"slices"
)

// OpenFS reads the checkpoint at the top of fsys into memory: every model*.safetensors. It has no index, as a model that ships
// inside a program is whole or the program does not build.
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
		data, err := fs.ReadFile(fsys, shard)
		if err != nil {
			return nil, fmt.Errorf("safetensors: %w", err)
		}
		tensors, metadata, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("safetensors: %s: %w", shard, err)
		}
		if err := c.add(&File{path: shard, mapping: data, tensors: tensors, metadata: metadata, borrowed: true}); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.names)
	return c, nil
}
