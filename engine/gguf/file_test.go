package gguf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/gguf"
	"headroom/engine/gguf/gguftest"
)

// sample returns a small file.
func sample() []byte {
	return gguftest.File(gguftest.Metadata{"general.architecture", "llama", "a.flag", true,
		"a.number", 7, "a.float", float32(0.5), "a.texts", []string{"x", "yz"},
		"a.numbers", []int32{-1, 2}},
		[]gguftest.Tensor{
			gguftest.Of("rows", gguf.F32, make([]byte, 24), 2, 3),
			gguftest.Of("blocks", gguf.Q8_0, bytes.Repeat([]byte{1}, 4*34), 2, 64),
		})
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpen reads metadata, tensors and rows.
func TestOpen(t *testing.T) {
	f, err := gguf.Open(write(t, "m.gguf", sample()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := f.Metadata
	number, ok := m.Number("a.number")
	if m.Text("general.architecture") != "llama" || !m.Flag("a.flag", false) || !ok ||
		number != 7 || !slices.Equal(m["a.texts"].Texts, []string{"x", "yz"}) ||
		!slices.Equal(m["a.numbers"].Numbers, []float64{-1, 2}) {
		t.Errorf("the metadata is %v", m)
	}
	if _, ok := m.Number("a.texts"); ok {
		t.Error("an array counts as a number")
	}
	tensor := f.Tensor("blocks")
	if tensor == nil || !slices.Equal(tensor.Shape, []int{2, 64}) || tensor.Rows() != 2 ||
		tensor.RowBytes() != 68 {
		t.Fatalf("the tensor is %+v", tensor)
	}
	row := make([]byte, 68)
	if err := f.ReadRow(tensor, 1, row); err != nil || row[67] != 1 {
		t.Errorf("row 1 ends with %d, %v", row[67], err)
	}
	if err := f.ReadRow(tensor, 2, row); err == nil {
		t.Error("a row after the last was read")
	}
	floats, err := f.Floats(f.Tensor("rows"))
	if err != nil || len(floats) != 6 {
		t.Errorf("%d floats, %v", len(floats), err)
	}
}

// TestTruncated checks that no prefix of a file is accepted.
func TestTruncated(t *testing.T) {
	whole := sample()
	path := filepath.Join(t.TempDir(), "m.gguf")
	for n := range len(whole) - 24 { // the end is padding
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := gguf.Open(path); err == nil {
			_ = f.Close()
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
}

// TestRefuses opens files with one fault.
func TestRefuses(t *testing.T) {
	big := binary.BigEndian.AppendUint32([]byte("GGUF"), 3)
	f32 := func(name string, shape ...int) gguftest.Tensor {
		n := 4
		for _, d := range shape {
			n *= d
		}
		return gguftest.Tensor{Name: name, Type: gguf.F32, Shape: shape, Data: make([]byte, n)}
	}
	changed := func(from, to uint64) []byte { // the last of two tensors has the offset from
		data := gguftest.File(nil, []gguftest.Tensor{f32("a", 8), f32("b", 8)})
		at := bytes.LastIndex(data, binary.LittleEndian.AppendUint64(nil, from))
		binary.LittleEndian.PutUint64(data[at:], to)
		return data
	}
	for want, data := range map[string][]byte{
		"does not begin with GGUF": []byte("GGML............"),
		"big-endian":               append(big, make([]byte, 32)...),
		"version is 1":             append([]byte("GGUF\x01\x00\x00\x00"), make([]byte, 32)...),
		"in tensor \"a\"":          changed(32, 0),
		"multiple of 32":           changed(32, 40),
		"truncated":                changed(32, 1<<20),
		"type 77": gguftest.File(nil, []gguftest.Tensor{{Name: "a", Type: 77, Shape: []int{1},
			Data: make([]byte, 4)}}),
		"multiple of 32 for Q8_0": gguftest.File(nil, []gguftest.Tensor{{Name: "a",
			Type: gguf.Q8_0, Shape: []int{2, 48}, Data: make([]byte, 102)}}),
		"5 dimensions": gguftest.File(nil, []gguftest.Tensor{f32("a", 1, 1, 1, 1, 1)}),
		"general.alignment is 48": gguftest.File(gguftest.Metadata{"general.alignment", 48},
			nil),
		"the key \"k\" twice": gguftest.File(gguftest.Metadata{"k", 1, "k", 2}, nil),
		"the limit is 1194304": gguftest.File(gguftest.Metadata{"a", make([]int32, 3_000_000),
			"b", make([]int32, 3_000_000)}, nil), // all arrays together have a limit
		"more than 67108864": gguftest.File(gguftest.Metadata{"a",
			slices.Repeat([]string{strings.Repeat("a", 4<<20)}, 16)}, nil),
		"two tensors have": gguftest.File(nil, []gguftest.Tensor{f32("a", 8), f32("a", 8)}),
	} {
		f, err := gguf.Open(write(t, "m.gguf", data))
		if err == nil {
			_ = f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}

// TestSplit opens a model of three files by the name of the second.
func TestSplit(t *testing.T) {
	folder := t.TempDir()
	path := func(i, n int) string {
		return filepath.Join(folder, fmt.Sprintf("m-%05d-of-%05d.gguf", i, n))
	}
	for i := range 3 {
		gguftest.Write(t, path(i+1, 3), gguftest.Metadata{"split.no", i, "split.count", 3,
			"split.tensors.count", 3, "file", i},
			[]gguftest.Tensor{gguftest.Of(fmt.Sprint("t", i), gguf.F32,
				[]byte{0, 0, byte(i), 0x40}, 1)})
	}
	f, err := gguf.Open(path(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	values, err := f.Floats(f.Tensor("t2"))
	if n, _ := f.Metadata.Number("file"); err != nil || n != 0 || len(f.Paths()) != 3 ||
		values[0] != 2.03125 {
		t.Errorf("file %g, %d paths, %v, %v", n, len(f.Paths()), values, err)
	}
	_ = f.Close()
	if name := gguf.Name(path(2, 3)); name != "m" {
		t.Errorf("the name is %s", name)
	}
	if found, err := gguf.In(folder); err != nil || found != path(1, 3) {
		t.Errorf("the folder has %s, %v", found, err)
	}
	if err := os.Rename(path(3, 3), path(3, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Open(path(1, 3)); err == nil ||
		!strings.Contains(err.Error(), "m-00003-of-00003.gguf: it is missing") {
		t.Errorf("without the third file: %v", err)
	}
	gguftest.Write(t, path(3, 3), gguftest.Metadata{"split.no", 1, "split.count", 3}, nil)
	if _, err := gguf.Open(path(1, 3)); err == nil || !strings.Contains(err.Error(), "file 2 of") {
		t.Errorf("with the second file twice: %v", err)
	}
	gguftest.Write(t, path(3, 3), gguftest.Metadata{"split.no", 2, "split.count", 3}, nil)
	if _, err := gguf.Open(path(1, 3)); err == nil ||
		!strings.Contains(err.Error(), "2 tensors, expected 3") {
		t.Errorf("with a file that lacks its tensor: %v", err)
	}
	gguftest.Write(t, filepath.Join(folder, "other.gguf"), nil, nil)
	if _, err := gguf.In(folder); err == nil {
		t.Error("a folder with two models has one")
	}
}

// FuzzOpen opens damaged files. Whatever is accepted can be read to its end.
func FuzzOpen(f *testing.F) {
	f.Add(sample())
	f.Add(gguftest.File(gguftest.Metadata{"general.alignment", 64}, nil))
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		file, err := gguf.Open(write(t, "m.gguf", data))
		if err != nil {
			return
		}
		defer file.Close()
		for i := range file.Tensors {
			tensor := &file.Tensors[i]
			row := make([]byte, tensor.RowBytes())
			if err := file.ReadRow(tensor, tensor.Rows()-1, row); err != nil {
				t.Fatalf("the last row of %s: %v", tensor.Name, err)
			}
			if tensor.Type.Readable() && len(row) < 1<<16 {
				tensor.Type.Decode(make([]float32, tensor.Cols()), row)
			}
		}
	})
}
