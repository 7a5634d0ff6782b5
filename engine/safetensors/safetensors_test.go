package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// withHeader returns a file that consists of the header's length, the header and n zero bytes.
func withHeader(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// TestParseRefuses parses invalid files. Each error must contain the expected text.
func TestParseRefuses(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	tests := []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too few"},
		{"shorter than the length", []byte{1, 2, 3}, "too few"},
		{"truncated header", withHeader("{"+a+"}", 8)[:20], "does not fit"},
		{"length over the limit", append(length(1<<40), "{}"...), "over the limit"},
		{"length that overflows int", append(length(math.MaxUint64), "{}"...), "over the limit"},
		{"length of 1 byte too many", append(length(3), "{}"...), "does not fit"},
		{"no header", length(0), "does not begin"},
		{"not an object", withHeader("[]", 0), "does not begin"},
		{"leading space", withHeader(" {}", 0), "does not begin"},
		{"truncated JSON", withHeader(`{"a":`, 0), "header"},
		{"text after the object", withHeader("{}x", 0), "after the JSON object"},
		{"second object", withHeader("{}{}", 0), "after the JSON object"},
		{"bad UTF-8", withHeader("{\"\xff\":{}}", 0), "UTF-8"},
		{"truncated data", withHeader("{"+a+"}", 7), `"a": data_offsets [0, 8) are beyond`},
		{"too much data", withHeader("{"+a+"}", 9), "1 bytes at the end"},
		{"data without tensors", withHeader("{}", 4), "4 bytes at the end"},
		{"duplicate tensor", withHeader("{"+a+","+a+"}", 8), `key "a" appears twice`},
		{"duplicate by escape", withHeader("{"+a+`,"\u0061":{}}`, 8), `key "a" appears twice`},
		{"duplicate field", withHeader(`{"a":{"dtype":"U8","dtype":"U8"}}`, 0),
			`key "dtype" appears twice`},
		{"duplicate metadata", withHeader(`{"__metadata__":{"k":"1","k":"2"}}`, 0),
			`key "k" appears twice`},
		{"metadata is not a string", withHeader(`{"__metadata__":{"k":1}}`, 0),
			"expected a string"},
		{"metadata is a list", withHeader(`{"__metadata__":[]}`, 0), "expected an object or null"},
		{"truncated metadata", withHeader(`{"__metadata__":`, 0), "header"},
		{"overlap", withHeader("{"+a+`,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12),
			`"b": data_offsets [4, 12) overlap tensor "a"`},
		{"same range twice", withHeader("{"+a+
			`,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
			`"b": data_offsets [0, 8) overlap tensor "a"`},
		{"empty tensor inside another",
			withHeader("{"+a+`,"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}`, 8),
			`"b": data_offsets [4, 4) overlap`},
		{"gap", withHeader("{"+a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16),
			`"b": starts at 12, with a gap of 4 bytes after tensor "a"`},
		{"gap at the start", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`,
			2), "a gap of 1 bytes after the start"},
		{"range too small", withHeader(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8),
			"needs 12"},
		{"range too large", withHeader(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, 8),
			"needs 4"},
		{"range reversed", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}}`, 2),
			"end before they start"},
		{"one offset", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, 1),
			"1 numbers"},
		{"three offsets", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}`, 1),
			"3 numbers"},
		{"negative offset", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 0),
			"got -1"},
		{"offset past 2^63", withHeader(
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808]}}`, 0),
			"got 9223372036854775808"},
		{"fractional offset", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1.0]}}`,
			1), "got 1.0"},
		{"negative dimension", withHeader(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`,
			1), "got -1"},
		{"dimension is a string",
			withHeader(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1),
			"expected a number"},
		// 2^32 * 2^32 overflows to 0 in 64 bits, which would agree with [0, 0).
		{"shape overflows to zero", withHeader(
			`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
			"overflows"},
		// 2^61 * 8 bytes overflows to 0, although the product of the shape does not overflow.
		{"size overflows to zero", withHeader(
			`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0),
			"overflows"},
		{"overflow before a zero",
			withHeader(
				`{"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}`, 0),
			"overflows"},
		{"unknown dtype, overflow", withHeader(
			`{"a":{"dtype":"F31","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
			"overflows"},
		{"no dtype", withHeader(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4),
			"must all be present"},
		{"no shape", withHeader(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1),
			"must all be present"},
		{"no offsets", withHeader(`{"a":{"dtype":"U8","shape":[0]}}`, 0), "must all be present"},
		{"many dimensions", withHeader(`{"a":{"dtype":"U8","shape":[1`+
			strings.Repeat(",1", 100_000)+`],"data_offsets":[0,1]}}`, 1), "more than 16 numbers"},
		{"many offsets", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0`+
			strings.Repeat(",1", 100_000)+`]}}`, 1), "more than 16 numbers"},
		{"a long name", withHeader(`{"`+strings.Repeat("a", 100_000)+
			`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "has 100000 bytes"},
		{"a long key", withHeader(`{"a":{"`+strings.Repeat("a", 100_000)+`":]}}`, 1), "aaa"},
		{"a long dtype", withHeader(`{"a":{"dtype":"`+strings.Repeat("a", 100_000)+
			`","shape":3}}`, 1), "expected ["},
		{"a long number", withHeader(`{"a":{"shape":[`+strings.Repeat("1", 100_000)+`]}}`, 1),
			"expected an integer"},
		{"a string in place of an object", withHeader(`{"a":"`+strings.Repeat("a", 100_000)+`"}`,
			1), "expected {"},
		{"deep JSON", withHeader(`{"a":{"x":`+strings.Repeat("[", 100_000), 1), "nested deeper"},
		{"a million empty tensors", withHeader(emptyTensors(1_000_000), 0), "header"},
		{"null tensor", withHeader(`{"a":null}`, 0), "expected {"},
	}
	for _, tt := range tests {
		_, _, err := parse(tt.file)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, expected one with %q", tt.name, err, tt.want)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes: %.100s", tt.name, len(err.Error()), err)
		}
	}
}

// emptyTensors returns a header with n tensors without elements.
func emptyTensors(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `%c"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, "{,"[min(i, 1)],
			i)
	}
	return b.String() + "}"
}

// TestUnknownDTypeIsAccepted reads a file in which one tensor has a type that this package does not
// know. The other tensors must be usable. Write does not support such a type.
func TestUnknownDTypeIsAccepted(t *testing.T) {
	tensors, _, err := parse(withHeader(`{"a":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]},`+
		`"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`, 5))
	if err != nil {
		t.Fatal(err)
	}
	if a := tensors[0]; a.DType != "F4" || a.Elements() != 8 || len(a.Data) != 4 {
		t.Errorf("got %s of %d elements in %d bytes, expected F4 of 8 in 4", a.DType, a.Elements(),
			len(a.Data))
	}
	if err := Write(io.Discard, tensors, nil); err == nil ||
		!strings.Contains(err.Error(), `"a": unknown dtype "F4"`) {
		t.Errorf("Write: got error %v, expected unknown dtype", err)
	}
}

func TestParseAccepts(t *testing.T) {
	// The order of the header differs from the order of the data. There is an unknown field, an
	// empty tensor, a scalar, and padding with spaces.
	file := withHeader(`{"z":{"dtype":"U16","shape":[],"data_offsets":[2,4],"new":[{}]},`+
		`"a":{"dtype":"I8","shape":[2,1],"data_offsets":[0,2]},`+
		`"e":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},"__metadata__":{"format":"mlx"}}  `,
		4)
	copy(file[len(file)-4:], []byte{1, 2, 3, 4})
	tensors, metadata, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"format": "mlx"}; !reflect.DeepEqual(metadata, want) {
		t.Errorf("metadata = %v, expected %v", metadata, want)
	}
	base := len(file) - 4
	want := []Tensor{
		{"a", I8, []int{2, 1}, base, base + 2, []byte{1, 2}},
		{"e", F32, []int{0, 7}, base + 2, base + 2, []byte{}},
		{"z", U16, []int{}, base + 2, base + 4, []byte{3, 4}},
	}
	if !reflect.DeepEqual(tensors, want) {
		t.Errorf("tensors = %v, expected %v", tensors, want)
	}
	if n := tensors[2].Elements(); n != 1 {
		t.Errorf("scalar has %d elements, expected 1", n)
	}
}

func TestParseAcceptsNullMetadata(t *testing.T) {
	tensors, metadata, err := parse(withHeader(
		`{"__metadata__":null,"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}`, 2))
	if err != nil || metadata != nil || len(tensors) != 1 {
		t.Errorf("got tensors %v, metadata %v, error %v", tensors, metadata, err)
	}
}

// someTensors returns one tensor of each dtype, with distinct data.
func someTensors() []Tensor {
	var tensors []Tensor
	for d, size := range dtypeBytes {
		data := make([]byte, 6*size)
		for i := range data {
			data[i] = byte(len(d)*16 + size + i)
		}
		tensors = append(tensors,
			Tensor{Name: "<t>." + string(d), DType: d, Shape: []int{2, 3}, Data: data})
	}
	return append(tensors, Tensor{Name: "scalar", DType: U8, Data: []byte{9}},
		Tensor{Name: "empty", DType: F64, Shape: []int{0}})
}

func TestWriteThenOpen(t *testing.T) {
	metadata := map[string]string{"format": "mlx", "note": "a & b\n\"c\""}
	var first []byte
	for range 4 { // someTensors returns another order each time
		var buf bytes.Buffer
		if err := Write(&buf, someTensors(), metadata); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = buf.Bytes()
		}
		if !bytes.Equal(first, buf.Bytes()) {
			t.Fatal("the order of the tensors changes the file")
		}
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, first, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Metadata(), metadata) {
		t.Errorf("metadata = %v, expected %v", f.Metadata(), metadata)
	}
	if !bytes.Equal(f.Mapping(), first) {
		t.Error("Mapping differs from the file")
	}
	if addr := uintptr(unsafe.Pointer(unsafe.SliceData(f.Mapping()))); addr%uintptr(
		os.Getpagesize()) != 0 {
		t.Errorf("Mapping at %#x is not page aligned", addr)
	}
	for _, want := range someTensors() {
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || len(got.Shape) != len(want.Shape) ||
			!bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: got %v, expected %v", want.Name, got, want)
			continue
		}
		if got.From%want.DType.Bytes() != 0 {
			t.Errorf("%s: starts at %d, not aligned to %d bytes", want.Name, got.From,
				want.DType.Bytes())
		}
		if !bytes.Equal(f.Mapping()[got.From:got.To], want.Data) {
			t.Errorf("%s: Mapping[%d:%d] differs from its data", want.Name, got.From, got.To)
		}
	}
	if n := len(f.Names()); n != len(someTensors()) {
		t.Errorf("%d names, expected %d", n, len(someTensors()))
	}
	if _, ok := f.Tensor("absent"); ok {
		t.Error("found a tensor that does not exist")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error("second Close:", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	ok := Tensor{Name: "a", DType: U8, Shape: []int{1}, Data: []byte{1}}
	with := func(change func(*Tensor)) []Tensor { t := ok; change(&t); return []Tensor{t} }
	tests := []struct {
		name    string
		tensors []Tensor
		want    string
	}{
		{"same name twice", []Tensor{ok, ok}, "twice"},
		{"reserved name", with(func(t *Tensor) { t.Name = "__metadata__" }), "reserved"},
		{"bad UTF-8", with(func(t *Tensor) { t.Name = "\xff" }), "UTF-8"},
		{"wrong size", with(func(t *Tensor) { t.Data = nil }), "needs 1"},
		{"negative", with(func(t *Tensor) { t.Shape = []int{-1} }), "negative"},
		{"no dtype", with(func(t *Tensor) { t.DType = "" }), "unknown dtype"},
	}
	for _, tt := range tests {
		var buf bytes.Buffer
		err := Write(&buf, tt.tensors, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, expected one with %q", tt.name, err, tt.want)
		}
		if buf.Len() > 0 {
			t.Errorf("%s: wrote %d bytes before the error", tt.name, buf.Len())
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.safetensors")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		empty:                      "too few",
		dir:                        "not a regular file",
		filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): got error %v, expected one with %q", path, err, want)
		}
	}
}

// FuzzOpen checks that parse returns an error, or tensors that cover the data section exactly. If
// Write supports their types, writing and parsing them again must give the same tensors.
func FuzzOpen(f *testing.F) {
	var buf bytes.Buffer
	if err := Write(&buf, someTensors(), map[string]string{"k": "v"}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add(withHeader(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(withHeader(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`,
		0))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, metadata, err := parse(file)
		if err != nil {
			return
		}
		sum, unknown := 0, false
		for _, tensor := range tensors {
			if tensor.DType.Bytes() == 0 {
				unknown = true
			} else if size, err := sizeBytes(tensor.DType, tensor.Shape); err != nil ||
				size != len(tensor.Data) {
				t.Fatalf("%q: %d bytes of data, expected %d (%v)", tensor.Name, len(tensor.Data),
					size, err)
			}
			sum += len(tensor.Data)
		}
		header := int(binary.LittleEndian.Uint64(file))
		if sum != len(file)-lengthBytes-header {
			t.Fatalf("tensors cover %d of %d bytes", sum, len(file)-lengthBytes-header)
		}
		if unknown {
			return // Write does not support unknown types
		}
		var buf bytes.Buffer
		if err := Write(&buf, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		again, metadataAgain, err := parse(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(tensors) || !reflect.DeepEqual(metadata, metadataAgain) {
			t.Fatalf("round trip gave %d tensors and %v, expected %d and %v", len(again),
				metadataAgain, len(tensors), metadata)
		}
		for i := range again {
			if again[i].Name != tensors[i].Name || !bytes.Equal(again[i].Data, tensors[i].Data) {
				t.Fatalf("round trip changed %q", tensors[i].Name)
			}
		}
	})
}
