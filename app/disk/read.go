package disk

// Reading of small files that others may have replaced: settings, tokens, lists of jobs.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"headroom/engine/modelfile"
)

// ErrTooLong means that a file has more bytes than Read may read.
var ErrTooLong = errors.New("the file is too long")

// Read returns the content of the regular file at path, which may have up to limit bytes, and its
// state before it was read. It refuses a pipe or a device at once: reading one might never end. If
// the file is longer, the error wraps ErrTooLong.
func Read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	file, info, err := modelfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, info, fmt.Errorf("%w: %s is longer than %d bytes", ErrTooLong, path, limit)
	}
	return data, info, err
}
