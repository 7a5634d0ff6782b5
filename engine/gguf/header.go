package gguf

// The header of a file: metadata, then a description of each tensor. It is not trusted: every
// count and every length is checked before memory is allocated for it.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"
)

// Limits of a header. The largest known ones have 30 MB, 260,000 tokens and 4,000 tensors.
const (
	maxHeaderBytes = 64 << 20
	maxKeys        = 65_536
	maxKeyBytes    = 65_535
	maxTextBytes   = 4 << 20 // such as a chat template
	maxArray       = 4 << 20 // values of all arrays that are kept
	maxTensors     = 200_000
	maxNameBytes   = 255
	maxDimensions  = 4
)

// defaultAlignment is that of the tensors of a file that does not say another.
const defaultAlignment = 32

// Header is what a file begins with.
type Header struct {
	Metadata Metadata
	Tensors  []Tensor // in the order of the file
	// Data is the offset of the data of tensors in the file.
	Data int64
}

// Tensor describes a tensor of a file.
type Tensor struct {
	Name string
	Type Type
	// Shape has the last dimension first in the file. Here the rows come first, as in safetensors.
	Shape []int
	// Offset is that of the first byte in the data of its file, and Bytes the size.
	Offset, Bytes int64

	file int // of File.parts
	data int64
}

// Rows returns the number of rows, and Cols the number of elements of each.
func (t *Tensor) Rows() int {
	rows := 1
	for _, d := range t.Shape[:len(t.Shape)-1] {
		rows *= d
	}
	return rows
}

// Cols returns the number of elements of a row.
func (t *Tensor) Cols() int { return t.Shape[len(t.Shape)-1] }

// RowBytes returns the size of a row in the file.
func (t *Tensor) RowBytes() int { return t.Type.Bytes(t.Cols()) }

// ReadHeader reads the header of a file and no further. Of arrays, it keeps those whose key keep
// wants; nil: all of them. Its errors say what is wrong.
func ReadHeader(file io.Reader, keep func(key string) bool) (*Header, error) {
	r := &reader{r: bufio.NewReaderSize(file, 1<<16)}
	magic, err := r.bytes(4)
	if err != nil || string(magic) != "GGUF" {
		return nil, errors.New("it does not begin with GGUF")
	}
	version, err := r.number(4)
	switch {
	case err != nil:
		return nil, err
	case version&0xffff == 0 && version != 0:
		return nil, errors.New("its numbers are big-endian, expected little-endian")
	case version < 2 || version > 3:
		return nil, fmt.Errorf("its version is %d, expected 2 or 3", version)
	}
	tensors, err := r.numberTo(maxTensors, "tensors")
	if err != nil {
		return nil, err
	}
	h := &Header{Metadata: Metadata{}}
	if err := r.metadata(h, keep); err != nil {
		return nil, err
	}
	for range tensors {
		t, err := r.tensor()
		if err != nil {
			return nil, err
		}
		h.Tensors = append(h.Tensors, t)
	}
	return h, h.place(r.read)
}

// place checks the places of the tensors, and sets that of the data. The header has n bytes.
func (h *Header) place(n int64) error {
	alignment := int64(defaultAlignment)
	if v, ok := h.Metadata["general.alignment"]; ok {
		if alignment = int64(v.Number); v.Number != float64(alignment) || alignment < 8 ||
			alignment > 1<<20 || alignment&(alignment-1) != 0 {
			return fmt.Errorf("general.alignment is %g, expected a power of 2 from 8 on", v.Number)
		}
	}
	h.Data = (n + alignment - 1) / alignment * alignment
	order := make([]*Tensor, len(h.Tensors))
	names := map[string]bool{}
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if order[i] = t; names[t.Name] {
			return fmt.Errorf("two tensors have the name %.80q", t.Name)
		}
		names[t.Name] = true
		if t.Offset%alignment != 0 {
			return fmt.Errorf("tensor %q is at %d, expected a multiple of %d", t.Name, t.Offset,
				alignment)
		}
		t.data = h.Data
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return int(a.Offset - b.Offset) })
	for i := 1; i < len(order); i++ {
		if end := order[i-1].Offset + order[i-1].Bytes; order[i].Offset < end {
			return fmt.Errorf("tensor %q is at %d, in tensor %q, which ends at %d",
				order[i].Name, order[i].Offset, order[i-1].Name, end)
		}
	}
	return nil
}

// reader reads a header.
type reader struct {
	r    *bufio.Reader
	read int64  // bytes
	kept uint64 // values of arrays
}

// take counts bytes that are read next.
func (r *reader) take(n int64) error {
	if r.read += n; n < 0 || r.read > maxHeaderBytes {
		return fmt.Errorf("its header has more than %d bytes", maxHeaderBytes)
	}
	return nil
}

func (r *reader) bytes(n int) ([]byte, error) {
	if err := r.take(int64(n)); err != nil {
		return nil, err
	}
	out := make([]byte, n)
	_, err := io.ReadFull(r.r, out)
	return out, ended(err)
}

// ended returns the error of reading. The end of the file is one that says so.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its header is truncated")
	}
	return err
}

// number reads an unsigned integer of up to eight bytes.
func (r *reader) number(size int) (uint64, error) {
	var b [8]byte
	if err := r.take(int64(size)); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(r.r, b[:size])
	return binary.LittleEndian.Uint64(b[:]), ended(err)
}

// numberTo reads a number of things of eight bytes, and checks its limit.
func (r *reader) numberTo(limit uint64, things string) (uint64, error) {
	n, err := r.number(8)
	if err == nil && n > limit {
		err = fmt.Errorf("it has %d %s, the limit is %d", n, things, limit)
	}
	return n, err
}

func (r *reader) text(limit uint64) (string, error) {
	size, err := r.number(8)
	if err == nil && size > limit {
		err = fmt.Errorf("a text has %d bytes, the limit is %d", size, limit)
	}
	if err != nil {
		return "", err
	}
	b, err := r.bytes(int(size))
	return string(b), err
}

// metadata reads the metadata into h.
func (r *reader) metadata(h *Header, keep func(key string) bool) error {
	keys, err := r.numberTo(maxKeys, "keys")
	if err != nil {
		return err
	}
	for range keys {
		key, err := r.text(maxKeyBytes)
		if err != nil {
			return err
		}
		value, err := r.value(keep == nil || keep(key))
		if err != nil {
			return fmt.Errorf("%.80s: %w", key, err)
		}
		if _, twice := h.Metadata[key]; twice {
			return fmt.Errorf("it has the key %.80q twice", key)
		}
		h.Metadata[key] = value
	}
	return nil
}

// tensor reads the description of a tensor.
func (r *reader) tensor() (t Tensor, err error) {
	if t.Name, err = r.text(maxNameBytes); err != nil {
		return t, err
	}
	if !utf8.ValidString(t.Name) {
		return t, fmt.Errorf("the name of a tensor is %q, which is not valid UTF-8", t.Name)
	}
	n, err := r.number(4)
	if err == nil && (n < 1 || n > maxDimensions) {
		err = fmt.Errorf("tensor %q has %d dimensions, expected 1 to %d", t.Name, n, maxDimensions)
	}
	if err != nil {
		return t, err
	}
	elements := int64(1)
	for range n {
		d, err := r.number(8)
		if err == nil && (d < 1 || d > math.MaxInt32 || elements > math.MaxInt64/int64(d)>>8) {
			err = fmt.Errorf("tensor %q has a dimension of %d", t.Name, d)
		}
		if err != nil {
			return t, err
		}
		elements *= int64(d)
		t.Shape = append(t.Shape, int(d))
	}
	slices.Reverse(t.Shape)
	kind, err := r.number(4)
	if err != nil {
		return t, err
	}
	offset, err := r.number(8)
	if err == nil && offset > math.MaxInt64/2 {
		err = fmt.Errorf("tensor %q is at %d", t.Name, offset)
	}
	if err != nil {
		return t, err
	}
	t.Offset, t.Type = int64(offset), Type(kind)
	info, ok := types[t.Type]
	if !ok {
		return t, fmt.Errorf("tensor %q has the type %d, which is not known", t.Name, kind)
	}
	if t.Cols()%info.elements != 0 {
		return t, fmt.Errorf("tensor %q has rows of %d elements, expected a multiple of %d for %s",
			t.Name, t.Cols(), info.elements, info.name)
	}
	t.Bytes = elements / int64(info.elements) * int64(info.bytes)
	return t, nil
}
