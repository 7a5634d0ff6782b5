package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestReader: Reader reads the bytes of the mapping, and no file that has taken the place of the
// mapped one.
func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	write := func(path string) {
		t.Helper()
		var file bytes.Buffer
		if err := Write(&file, someTensors(), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := f.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]byte, len(f.Mapping())-8)
	if _, err := r.ReadAt(got, 8); err != nil || !bytes.Equal(got, f.Mapping()[8:]) {
		t.Errorf("other bytes than in the mapping, %v", err)
	}
	write(path + ".new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Reader(); err == nil {
		t.Error("another file was opened")
	}
	if _, err := (&File{path: path}).Reader(); err == nil {
		t.Error("data that is not in a file was opened")
	}
}
