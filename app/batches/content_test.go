package batches

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/seal"
)

// FuzzForm reads forms, as a client may send them. What is read must have passed to save.
func FuzzForm(f *testing.F) {
	for _, content := range []string{"", question("a"), "\r\n--"} {
		_, body := formOf(content, "purpose", "batch", "expires_after[seconds]", "7200")
		f.Add(body)
	}
	kind, _ := formOf("")
	boundary := kind[strings.Index(kind, "=")+1:]
	f.Fuzz(func(t *testing.T, body []byte) {
		line, _, _ := bytes.Cut(body, []byte("\r\n"))
		if b := bytes.TrimPrefix(line, []byte("--")); len(b) > 0 && len(b) < 70 {
			boundary = string(b)
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/files", bytes.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		saved := 0
		form, err := readForm(r, func(content io.Reader) error {
			saved++
			_, err := io.Copy(io.Discard, content)
			return err
		})
		if err == nil && (saved != 1 || form.purpose != "batch" || len(form.name) > maxName) {
			t.Errorf("%+v, saved %d times", form, saved)
		}
	})
}

// FuzzLines validates input files. A file without errors has only requests, each of which can be
// read again.
func FuzzLines(f *testing.F) {
	f.Add([]byte(questions("q", 2)))
	f.Add([]byte(question("a") + question("a")))
	f.Add([]byte("{}\n\xff\n\n[1]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		total, errs := validated(bytes.NewReader(data), "/v1/chat/completions")
		if len(errs) > maxLineErrors || len(errs) == 0 && total == 0 {
			t.Errorf("%d lines, %d errors", total, len(errs))
		}
	})
}

// FuzzContent reads content files. A file that a writer has not written has at most what one has.
func FuzzContent(f *testing.F) {
	key, _ := seal.KeyOf(make([]byte, seal.KeyBytes))
	path := filepath.Join(f.TempDir(), "x")
	w, err := create(path, key, "x")
	if err != nil {
		f.Fatal(err)
	}
	_, _ = w.Write([]byte("one\n"))
	_, _ = w.Write([]byte("two\n"))
	_ = w.close()
	data, _ := os.ReadFile(path)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := newReader(bytes.NewReader(data), int64(len(data)), key, "x")
		if err != nil {
			return
		}
		text, _ := io.ReadAll(r)
		if r.end > int64(len(data)) || len(text) > len(data) {
			t.Errorf("%q, end %d of %d bytes", text, r.end, len(data))
		}
	})
}

// TestContent: what is appended after a restart follows what was whole, under another nonce, and
// records that were changed, moved or taken from another file are not read.
func TestContent(t *testing.T) {
	key, path := seal.NewKey(), filepath.Join(t.TempDir(), "x")
	w, err := create(path, key, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one\n", "two\n", strings.Repeat("half", 99)} {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(path)
	if err := os.Truncate(path, int64(len(whole))-1); err != nil {
		t.Fatal(err)
	}
	read := func(id string) (string, int64, error) {
		r, err := open(path, key, id)
		if err != nil {
			return "", 0, err
		}
		defer r.close()
		text, err := io.ReadAll(r)
		return string(text), r.end, err
	}
	text, end, err := read("x")
	if text != "one\ntwo\n" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	if w, err = resume(path, key, "x", end); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("half")[:3])
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	now, _ := os.ReadFile(path)
	if text, end, err := read("x"); text != "one\ntwo\nhal" || err != nil ||
		end != int64(len(now)) {
		t.Fatalf("%q, %v, %d of %d bytes", text, err, end, len(now))
	}
	if tail := whole[end+lengthBytes:][:3]; bytes.Contains(now, tail) {
		t.Error("the same text was sealed in the same way: a nonce was used twice")
	}
	if _, _, err := read("y"); err == nil {
		t.Error("a file with another ID was read")
	}
	now[len(now)-10] ^= 1
	_ = os.WriteFile(path, now, 0o600)
	if text, _, err := read("x"); text != "one\ntwo\n" || err == nil {
		t.Errorf("changed: %q, %v", text, err)
	}
	if err := destroy(path); err != nil {
		t.Error(err)
	}
}

// TestForeign: nobody else's file is removed, whatever its name: not by Erase, not at a start, and
// not through a link.
func TestForeign(t *testing.T) {
	w := newWorld(t)
	f := w.upload("", question("a"))
	w.store.Close()
	mine := filepath.Join(t.TempDir(), "mine")
	name := func(c string) string { return "file-" + strings.Repeat(c, 24) + suffix }
	kept := map[string]string{"notes.txt": "mine", name("b"): "mine, too", name("c"): "x",
		".index.sealed9": "mine", "file-x.sealed": magic + "mine"}
	for file, text := range kept {
		if err := os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(mine, []byte(magic+"mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mine, filepath.Join(w.dir, name("d"))); err != nil {
		t.Fatal(err)
	}
	w.begin()
	if l := must[List](w, "", http.MethodGet, "/v1/files", ""); len(l.Data) != 1 {
		t.Fatalf("%+v", l)
	}
	if err := w.store.Forget(func() error { return Erase(w.dir) }); err != nil {
		t.Error(err)
	}
	for file, text := range kept {
		if got, err := os.ReadFile(filepath.Join(w.dir, file)); string(got) != text {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if got, err := os.ReadFile(mine); string(got) != magic+"mine" {
		t.Errorf("behind the link: %q, %v", got, err)
	}
	for _, gone := range []string{f.ID + suffix, indexName, lockName} {
		if _, err := os.Lstat(filepath.Join(w.dir, gone)); err == nil {
			t.Errorf("%s is left", gone)
		}
	}
}
