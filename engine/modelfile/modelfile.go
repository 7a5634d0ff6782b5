// Package modelfile opens and reads the files of a model folder, none of which is trusted.
//
// A folder may contain anything: a file of many gigabytes, a named pipe that blocks its reader, a
// link to a device, JSON nested a million levels deep. So every file has a row in Limits, and is
// read here: only if it is a regular file, only up to its size, and only if its JSON is not deeper
// and has no more values than any parser of it can bear. FILES.md shows the table.
//
// Foreign says what a folder holds that is no language model which Headroom runs (foreign.go).
package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Limit bounds one kind of file.
type Limit struct {
	Name   string // of the file; "*" stands for any other name
	Bytes  int64
	Depth  int    // nested arrays and objects; 0: the file is not JSON
	Values int    // JSON values
	Known  string // what the largest known file has
}

// Limits has the bounds of every file of a model folder, except for weights; see SafetensorsHeader.
var Limits = []Limit{
	{"config.json", 4 << 20, 32, 200_000, "0.3 MB, with a packing for each module"},
	{"generation_config.json", 1 << 20, 16, 20_000, "2 KB"},
	{"tokenizer.json", 64 << 20, 64, 8_000_000, "34 MB, 1.5 million values"},
	{"tokenizer.model", 32 << 20, 0, 0, "5 MB, 256,000 tokens"},
	{"tekken.json", 64 << 20, 16, 4_000_000, "20 MB, 600,000 values"},
	{"tiktoken.model", 32 << 20, 0, 0, "3 MB, 164,000 tokens"},
	{"tokenizer_config.json", 16 << 20, 32, 1_000_000, "2 MB, with all added tokens"},
	{"chat_template.jinja", 1 << 20, 0, 0, "40 KB"},
	{"model.safetensors.index.json", 64 << 20, 8, 1_000_000, "20 MB, 210,000 tensors"},
	{"*", 4 << 20, 32, 200_000, ""},
}

// SafetensorsHeader bounds the header of a file of weights.
var SafetensorsHeader = Limit{"header of *.safetensors", 64 << 20, 16, 8_000_000,
	"10 MB, 90,000 tensors"}

// LimitOf returns the limit of a file with the given name.
func LimitOf(name string) Limit {
	other := Limits[len(Limits)-1]
	for _, l := range Limits {
		if l.Name == name {
			return l
		}
	}
	other.Name = name
	if filepath.Ext(name) != ".json" {
		other.Depth, other.Values = 0, 0
	}
	return other
}

// Open opens the regular file at path for reading. It never blocks, and refuses everything else: a
// folder, a pipe, a device, or a link to one of them.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not wait
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is not a regular file but a %s", path, kind(info.Mode()))
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// Read reads the file at path within the limit of its name. If the file does not exist, the error
// wraps fs.ErrNotExist. JSON has no byte order mark, and no Infinity or NaN; see Decode.
func Read(path string) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, info, path, LimitOf(filepath.Base(path)))
}

// ReadAs is like Read, for the file at path that a folder has under another name: the blob behind a
// link.
func ReadAs(name, path string) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, info, path, LimitOf(name))
}

// ReadFS is like Read, for a file of fsys.
func ReadFS(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		return nil, err
	}
	return read(f, info, name, LimitOf(name))
}

// pointerPrefix begins the text that Git LFS leaves in place of a file that it has not fetched.
// Source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
var pointerPrefix = []byte("version https://git-lfs.github.com/spec/")

// read reads a file whose size is info's or, if it grows meanwhile, larger.
func read(r io.Reader, info fs.FileInfo, path string, limit Limit) ([]byte, error) {
	tooLong := func(bytes int64) error {
		return fmt.Errorf("%s has %d bytes, expected at most %d", path, bytes, limit.Bytes)
	}
	if info.Size() > limit.Bytes {
		return nil, tooLong(info.Size())
	}
	data := make([]byte, 0, info.Size()+1)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit.Bytes:
			return nil, tooLong(int64(len(data)))
		case errors.Is(err, io.EOF):
			if bytes.HasPrefix(data, pointerPrefix) {
				return nil, fmt.Errorf("%s is only a Git LFS pointer; run git lfs pull in the "+
					"folder", filepath.Base(path))
			}
			if err := limit.Check(data); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if limit.Depth > 0 {
				data = Standard(data)
			}
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}

// Check returns an error if data is longer than the limit, or is JSON that is nested deeper or has
// more values. It does not check the syntax, but what it accepts is cheap to parse.
func (l Limit) Check(data []byte) error {
	if int64(len(data)) > l.Bytes {
		return fmt.Errorf("it has %d bytes, expected at most %d", len(data), l.Bytes)
	}
	if l.Depth == 0 {
		return nil
	}
	depth, values, inString := 0, 1, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > l.Depth {
				return fmt.Errorf("its JSON is nested deeper than %d levels", l.Depth)
			}
			values++
		case c == ']' || c == '}':
			depth--
		case c == ',' || c == ':':
			if values++; values > l.Values {
				return fmt.Errorf("its JSON has more than %d values", l.Values)
			}
		}
	}
	return nil
}

// Excerpt returns the beginning of a text from a model's file, for an error.
func Excerpt(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
