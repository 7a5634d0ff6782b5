package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"
)

// folder writes files to a new folder. The content "tensors: a b" stands for a safetensors file
// with one-byte tensors called a and b. Any other content is written as it is.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		data := []byte(content)
		if names, ok := strings.CutPrefix(content, "tensors:"); ok {
			var tensors []Tensor
			for _, n := range strings.Fields(names) {
				tensors = append(tensors,
					Tensor{Name: n, DType: U8, Shape: []int{1}, Data: []byte{n[0]}})
			}
			var buf bytes.Buffer
			if err := Write(&buf, tensors, nil); err != nil {
				t.Fatal(err)
			}
			data = buf.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenDir(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // names of the tensors
	}{
		{"one file", map[string]string{"model.safetensors": "tensors: b a"}, "a b"},
		{"shards without index", map[string]string{
			"model-00001-of-00002.safetensors": "tensors: a",
			"model-00002-of-00002.safetensors": "tensors: b",
			"adapters.safetensors":             "tensors: other",
		}, "a b"},
		{"index, other shard name, unlisted file", map[string]string{
			indexName:               `{"metadata":{"total_size":2},"weight_map":{"a":"w1.safetensors","b":"w1.safetensors"}}`,
			"w1.safetensors":        "tensors: a b",
			"model-mtp.safetensors": "tensors: mtp",
			"w2.safetensors":        "tensors: unnamed",
		}, "a b mtp"},
		{"index lists fewer tensors than the shard has", map[string]string{
			indexName:           `{"weight_map":{"a":"model.safetensors"}}`,
			"model.safetensors": "tensors: a b",
		}, "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := OpenDir(folder(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			names := strings.Fields(tt.want)
			if !reflect.DeepEqual(c.Names(), names) {
				t.Errorf("names = %v, expected %v", c.Names(), names)
			}
			if c.Bytes() != int64(len(names)) {
				t.Errorf("Bytes = %d, expected %d", c.Bytes(), len(names))
			}
			for _, n := range names {
				tensor, ok := c.Tensor(n)
				if !ok || tensor.Name != n || tensor.Data[0] != n[0] ||
					c.FileOf(n).Mapping()[tensor.From] != n[0] {
					t.Errorf("tensor %q = %v, %v", n, tensor, ok)
				}
			}
			if _, ok := c.Tensor("unnamed"); ok {
				t.Error("a file that does not belong to the checkpoint was loaded")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenDirRefuses(t *testing.T) {
	index := func(weightMap string) string { return `{"weight_map":` + weightMap + `}` }
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"empty folder", nil, "no model*.safetensors"},
		{"several missing shards", map[string]string{
			indexName: index(
				`{"a":"m1.safetensors","b":"m2.safetensors","c":"m3.safetensors","d":"m3.safetensors"}`),
			"m2.safetensors":  "tensors: b",
			"unrelated.other": "",
		}, indexName +
			" lists files that are missing: m1.safetensors, m3.safetensors"},
		{"shard outside the folder",
			map[string]string{indexName: index(`{"a":"../m.safetensors"}`)}, "plain name"},
		{"absolute path", map[string]string{indexName: index(`{"a":"/m.safetensors"}`)},
			"plain name"},
		{"shard in a subfolder", map[string]string{indexName: index(`{"a":"x/m.safetensors"}`)},
			"plain name"},
		{"backslash", map[string]string{indexName: index(`{"a":"..\\m.safetensors"}`)},
			"plain name"},
		{"parent folder", map[string]string{indexName: index(`{"a":".."}`)}, "plain name"},
		{"listed tensor missing", map[string]string{
			indexName:           index(`{"a":"model.safetensors","b":"model.safetensors"}`),
			"model.safetensors": "tensors: a",
		}, indexName +
			` lists tensors that its files do not have: "b" in model.safetensors`},
		{"listed tensor in another shard", map[string]string{
			indexName:             index(`{"a":"model-1.safetensors","b":"model-2.safetensors"}`),
			"model-1.safetensors": "tensors: a b",
			"model-2.safetensors": "tensors: c",
		}, `"b" in model-2.safetensors`},
		{"tensor in two files", map[string]string{
			"model-1.safetensors": "tensors: a b",
			"model-2.safetensors": "tensors: b",
		}, `"b" is in both`},
		{"damaged shard", map[string]string{
			"model-1.safetensors": "tensors: a",
			"model-2.safetensors": "\x10\x00\x00\x00\x00\x00\x00\x00{}",
		}, "model-2.safetensors: header of 16 bytes does not fit"},
		{"duplicate in the index", map[string]string{indexName: index(`{"a":"m1","a":"m2"}`)},
			"appears twice"},
		{"no weight_map", map[string]string{indexName: `{}`}, "no weight_map"},
		{"index is not JSON", map[string]string{indexName: `x`}, indexName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := OpenDir(folder(t, tt.files))
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, expected one with %q", err, tt.want)
			}
		})
	}
}

func TestOpenFS(t *testing.T) {
	var buf bytes.Buffer
	if err := Write(&buf, []Tensor{{Name: "a", DType: U8, Shape: []int{2}, Data: []byte{1, 2}}},
		nil); err != nil {
		t.Fatal(err)
	}
	c, err := OpenFS(fstest.MapFS{"model.safetensors": {Data: buf.Bytes()},
		"other.safetensors": {Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := c.Tensor("a"); !ok || !bytes.Equal(a.Data, []byte{1, 2}) || c.Bytes() != 2 {
		t.Errorf("tensor a is %v (%t) in %d bytes, expected the bytes 1 and 2", a, ok, c.Bytes())
	}
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(c.FileOf("a").Mapping()))); at%uintptr(
		os.Getpagesize()) != 0 {
		t.Errorf("Mapping is at %#x, expected a page boundary", at)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for name, files := range map[string]fstest.MapFS{
		"no model*.safetensors": {"x": {}},
		"too few":               {"model.safetensors": {}},
		"is in both": {"model-1.safetensors": {Data: buf.Bytes()},
			"model-2.safetensors": {Data: buf.Bytes()}},
	} {
		if _, err := OpenFS(files); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, expected one with %q", err, name)
		}
	}
}

// TestOpenDemo opens the bundled model, which MLX wrote.
func TestOpenDemo(t *testing.T) {
	c, err := OpenDir("../../app/demo/model")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, ok := c.Tensor("language_model.model.embed_tokens.weight")
	// 2,304 rows of 4-bit codes, eight in a 32-bit word.
	if !ok || w.DType != U32 || len(w.Shape) != 2 || w.Shape[0] != 2304 ||
		len(w.Data) != 4*w.Elements() {
		t.Errorf("embedding is %v %v %v, expected U32 with 2,304 rows", w.Name, w.DType, w.Shape)
	}
}
