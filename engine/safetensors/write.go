package safetensors

// Writing a file. Before anything is written, names, sizes and the length of the header are checked
// in the same way as in Open.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"headroom/engine/modelfile"
)

// Write writes one file with the given tensors and metadata, which may be nil. It ignores From and
// To of a tensor. Tensors with wider types come first, and tensors of the same width are sorted by
// name. So the file does not depend on the order of tensors. The header is padded to a multiple of
// 8 bytes, so every tensor is aligned to its type.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	sorted := slices.Clone(tensors)
	header, err := Header(sorted, metadata)
	for i := 0; i < len(sorted) && err == nil; i++ {
		err = sorted[i].checkData()
	}
	if err != nil {
		return fmt.Errorf("safetensors: write: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: write header: %w", err)
	}
	for i := range sorted {
		if _, err := w.Write(sorted[i].Data); err != nil {
			return fmt.Errorf("safetensors: write tensor %q: %w", sorted[i].Name, err)
		}
	}
	return nil
}

// Header returns the bytes of a file before its data. It sorts tensors as Write does, and sets From
// and To, which are then their ranges in the file. Their Data is not used, so that a file can be
// written in parts.
func Header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.Bytes(), a.DType.Bytes()), cmp.Compare(a.Name, b.Name))
	})
	header, err := appendHeader(make([]byte, lengthBytes), tensors, metadata)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-lengthBytes))
	for i := range tensors {
		tensors[i].From += len(header)
		tensors[i].To += len(header)
	}
	return header, nil
}

// appendHeader sets From and To, relative to the data section, and appends the padded JSON header.
// The tensors must be in the order of their data.
func appendHeader(b []byte, tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b = append(b, '{')
	var err error
	if metadata != nil {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("metadata %q is not valid UTF-8", k)
			}
		}
		b = append(b, `"`+metadataKey+`":`...)
		if b, err = appendJSON(b, metadata); err != nil { // encoding/json sorts the keys
			return nil, err
		}
	}
	names := make(map[string]bool, len(tensors))
	offset := 0
	for i := range tensors {
		t := &tensors[i]
		if names[t.Name] {
			return nil, fmt.Errorf("tensor %q appears twice", t.Name)
		}
		names[t.Name] = true
		size, err := checkWritable(t)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		t.From, t.To = offset, offset+size
		if len(b) > lengthBytes+1 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, t.Name); err != nil {
			return nil, err
		}
		b = append(b, ':')
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		b, err = appendJSON(b, struct {
			DType   DType  `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.DType, shape, [2]int{t.From, t.To}})
		if err != nil {
			return nil, err
		}
		offset += size
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if int64(len(b)-lengthBytes) > modelfile.SafetensorsHeader.Bytes {
		return nil, fmt.Errorf("header of %d bytes is over the limit of %d", len(b)-lengthBytes,
			modelfile.SafetensorsHeader.Bytes)
	}
	return b, nil
}

// checkWritable returns the size of the data of a tensor.
func checkWritable(t *Tensor) (int, error) {
	if t.Name == metadataKey || !utf8.ValidString(t.Name) {
		return 0, errors.New("name is reserved or not valid UTF-8")
	}
	return sizeBytes(t.DType, t.Shape)
}

func (t *Tensor) checkData() error {
	if len(t.Data) != t.To-t.From {
		return fmt.Errorf("tensor %q: has %d bytes of data, but %s of shape %s needs %d", t.Name,
			len(t.Data), t.DType, ShapeText(t.Shape...), t.To-t.From)
	}
	return nil
}

// appendJSON appends v as JSON, without escapes for HTML and without a newline.
func appendJSON(b []byte, v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...), nil
}
