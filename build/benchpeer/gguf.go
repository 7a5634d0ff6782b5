package main

// The GGUF format, version 3, as far as a model for llama-bench needs it: metadata, and tensors of
// random weights. All numbers are little-endian. A file has the magic "GGUF", the version, the
// numbers of tensors and of metadata entries, the entries, a description of each tensor, and from
// the next multiple of 32 bytes on the data of the tensors, each padded to 32 bytes.
//
// Source: ggml's docs/gguf.md, and the blocks in ggml-common.h.

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// blockType is the type of a tensor in a GGUF file.
type blockType struct {
	name     string
	id       uint32
	file     uint32 // general.file_type of a model with mostly this type
	elements int    // of a block
	bytes    int    // of a block
	// fill sets the scales of a block of random bytes, so that its elements have about the given
	// standard deviation. In typeF32 it sets the one element.
	fill func(block []byte, deviation float64)
}

// A 4-bit code 0 to 15 has a standard deviation of 4.6, an int8 one of 74, and the codes of MXFP4
// one of 2.9.
var (
	typeF32 = blockType{"F32", 0, 0, 1, 4, func(b []byte, deviation float64) {
		uniform := float64(binary.LittleEndian.Uint32(b))/math.MaxUint32 - 0.5
		bits := math.Float32bits(float32(uniform * math.Sqrt(12) * deviation))
		binary.LittleEndian.PutUint32(b, bits)
	}}
	typeQ40 = blockType{"Q4_0", 2, 2, 32, 18, func(b []byte, deviation float64) {
		binary.LittleEndian.PutUint16(b, float16(deviation/4.6))
	}}
	typeQ41 = blockType{"Q4_1", 3, 3, 32, 20, func(b []byte, deviation float64) {
		binary.LittleEndian.PutUint16(b, float16(deviation/4.6))
		binary.LittleEndian.PutUint16(b[2:], float16(-7.5*deviation/4.6))
	}}
	typeQ80 = blockType{"Q8_0", 8, 7, 32, 34, func(b []byte, deviation float64) {
		binary.LittleEndian.PutUint16(b, float16(deviation/74))
	}}
	typeMXFP4 = blockType{"MXFP4", 39, 38, 32, 17, func(b []byte, deviation float64) {
		_, exponent := math.Frexp(deviation)
		b[0] = uint8(125 + exponent)
	}}
)

// float16 returns the half-precision number nearest to a number that is normal in half precision.
func float16(x float64) uint16 {
	const step = 1 << 13 // of float32's fraction
	bits := math.Float32bits(float32(x))
	return uint16(bits>>31<<15) | uint16((bits<<1>>1-112<<23+step/2)>>13)
}

// entry is a metadata entry. Its value is a string, uint32, float32 or bool, or a slice of bool or
// uint32.
type entry struct {
	key   string
	value any
}

// tensor describes a tensor of random values.
type tensor struct {
	name string
	kind blockType
	// shape is as in GGUF: the number of columns comes first, then rows and experts.
	shape []int
	// constant is the value of all elements of an F32 tensor; 0: they are random.
	constant float32
}

// bytes returns the size of the data of t, without padding.
func (t *tensor) bytes() int {
	n := 1
	for _, size := range t.shape {
		n *= size
	}
	return n / t.kind.elements * t.kind.bytes
}

// alignment is that of the data in the file.
const alignment = 32

func padding(n int) int { return (alignment - n%alignment) % alignment }

// The types of metadata values.
const (
	ggufUint32  = 4
	ggufFloat32 = 6
	ggufBool    = 7
	ggufString  = 8
	ggufArray   = 9
)

// writer writes numbers and counts the bytes. It ignores all writes after an error.
type writer struct {
	out   *bufio.Writer
	bytes int
	err   error
}

func (w *writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
		w.bytes += len(b)
	}
}

func (w *writer) uint32(n uint32) { w.write(binary.LittleEndian.AppendUint32(nil, n)) }
func (w *writer) uint64(n int)    { w.write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

func (w *writer) string(s string) {
	w.uint64(len(s))
	w.write([]byte(s))
}

func (w *writer) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	w.write([]byte{b})
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case uint32:
		w.uint32(ggufUint32)
		w.uint32(v)
	case float32:
		w.uint32(ggufFloat32)
		w.uint32(math.Float32bits(v))
	case bool:
		w.uint32(ggufBool)
		w.bool(v)
	case string:
		w.uint32(ggufString)
		w.string(v)
	case []bool:
		w.uint32(ggufArray)
		w.uint32(ggufBool)
		w.uint64(len(v))
		for _, one := range v {
			w.bool(one)
		}
	case []uint32:
		w.uint32(ggufArray)
		w.uint32(ggufUint32)
		w.uint64(len(v))
		for _, one := range v {
			w.uint32(one)
		}
	default:
		panic(fmt.Sprintf("benchpeer: a metadata value of type %T", v))
	}
}

// writeGGUF writes a file. The random weights are the same in each run.
func writeGGUF(out io.Writer, metadata []entry, tensors []tensor) error {
	w := &writer{out: bufio.NewWriterSize(out, 1<<20)}
	w.write([]byte("GGUF"))
	w.uint32(3)
	w.uint64(len(tensors))
	w.uint64(len(metadata))
	for _, e := range metadata {
		w.string(e.key)
		w.value(e.value)
	}
	offset := 0
	for i := range tensors {
		t := &tensors[i]
		if t.shape[0]%t.kind.elements != 0 {
			return fmt.Errorf("%s has rows of %d elements, want a multiple of %d for %s", t.name,
				t.shape[0], t.kind.elements, t.kind.name)
		}
		w.string(t.name)
		w.uint32(uint32(len(t.shape)))
		for _, n := range t.shape {
			w.uint64(n)
		}
		w.uint32(t.kind.id)
		w.uint64(offset)
		offset += t.bytes() + padding(t.bytes())
	}
	w.write(make([]byte, padding(w.bytes)))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range tensors {
		w.data(&tensors[i], random)
	}
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

// data writes the elements of t. Products of a row with inputs of size 1 have about size 1.
func (w *writer) data(t *tensor, random *rand.Rand) {
	deviation := 1 / math.Sqrt(float64(t.shape[0]))
	const blocks = 4096 // at a time; the buffer is a multiple of 8 bytes for every type
	buffer := make([]byte, blocks*t.kind.bytes)
	for left := t.bytes(); left > 0 && w.err == nil; left -= len(buffer) {
		for i := 0; i < len(buffer); i += 8 {
			binary.LittleEndian.PutUint64(buffer[i:], random.Uint64())
		}
		buffer = buffer[:min(left, len(buffer))]
		for b := buffer; len(b) > 0; b = b[t.kind.bytes:] {
			if t.constant != 0 {
				binary.LittleEndian.PutUint32(b, math.Float32bits(t.constant))
			} else {
				t.kind.fill(b, deviation)
			}
		}
		w.write(buffer)
	}
	w.write(make([]byte, padding(t.bytes())))
}
