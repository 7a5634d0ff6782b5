// Package gguftest writes small GGUF files for tests.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"

	"headroom/engine/gguf"
)

// Metadata has keys, each followed by its value: a string, a bool, an int (uint32 in the file), a
// float32, or a slice of strings, float32 or int32.
type Metadata []any

// Tensor is a tensor of a file: its shape with rows first, and its data.
type Tensor struct {
	Name  string
	Type  gguf.Type
	Shape []int
	Data  []byte
}

// Of returns a tensor.
func Of(name string, kind gguf.Type, data []byte, shape ...int) Tensor {
	return Tensor{name, kind, shape, data}
}

const alignment = 32

// File returns a file of version 3.
func File(metadata Metadata, tensors []Tensor) []byte {
	w := writer("GGUF")
	w.number(uint32(3))
	w.number(uint64(len(tensors)))
	w.number(uint64(len(metadata) / 2))
	for i := 0; i < len(metadata); i += 2 {
		w.text(metadata[i].(string))
		w.value(metadata[i+1])
	}
	offset := 0
	for _, t := range tensors {
		w.text(t.Name)
		w.number(uint32(len(t.Shape)))
		for i := len(t.Shape) - 1; i >= 0; i-- {
			w.number(uint64(t.Shape[i]))
		}
		w.number(uint32(t.Type))
		w.number(uint64(offset))
		offset += padded(len(t.Data))
	}
	w = append(w, make([]byte, padded(len(w))-len(w))...)
	for _, t := range tensors {
		w = append(append(w, t.Data...), make([]byte, padded(len(t.Data))-len(t.Data))...)
	}
	return w
}

// Write writes a file of version 3 to path.
func Write(t testing.TB, path string, metadata Metadata, tensors []Tensor) {
	t.Helper()
	if err := os.WriteFile(path, File(metadata, tensors), 0o644); err != nil {
		t.Fatal(err)
	}
}

func padded(n int) int { return (n + alignment - 1) / alignment * alignment }

type writer []byte

func (w *writer) number(v any) {
	var err error
	if *w, err = binary.Append(*w, binary.LittleEndian, v); err != nil {
		panic("gguftest: " + err.Error())
	}
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case string:
		w.number(uint32(8))
		w.text(v)
	case bool:
		w.number(uint32(7))
		w.number(v)
	case int:
		w.number([]uint32{4, uint32(v)})
	case float32:
		w.number(uint32(6))
		w.number(v)
	case []string:
		w.number([]uint32{9, 8})
		w.number(uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	case []float32:
		w.number([]uint32{9, 6})
		w.number(uint64(len(v)))
		w.number(v)
	case []int32:
		w.number([]uint32{9, 5})
		w.number(uint64(len(v)))
		w.number(v)
	default:
		panic(fmt.Sprintf("gguftest: a value of type %T", v))
	}
}

// Float32 returns the bytes of a number.
func Float32(v float32) (b [4]byte) {
	binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
	return b
}
