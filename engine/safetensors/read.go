package safetensors

import (
	"errors"
	"io"
	"io/fs"

	"headroom/engine/modelfile"
)

// errNotInFile is the error of Reader if there is no file.
var errNotInFile = errors.New("the data is not in a file")

// Reader opens the file again, to read it with system calls instead of page faults. A thread in a
// fault holds a core of the Go scheduler, and stops the garbage collector, until the storage has
// answered; one in a system call does neither. It returns an error unless the file is still the one
// that is mapped. The caller must close it.
func (f *File) Reader() (interface {
	io.ReaderAt
	io.Closer
}, error) {
	if f.stamp == (Stamp{}) {
		return nil, errNotInFile
	}
	file, _, err := modelfile.Open(f.path)
	if err != nil {
		return nil, err
	}
	stamp, err := stampOf(file.Fd())
	if err == nil && (stamp.Device != f.stamp.Device || stamp.Inode != f.stamp.Inode ||
		stamp.Size != f.stamp.Size) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
