package modelfile

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write FILES.md")

// TestDocument compares the table in FILES.md with Limits.
func TestDocument(t *testing.T) {
	const begin, end = "<!-- limits -->\n", "<!-- /limits -->"
	data, err := os.ReadFile("FILES.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("FILES.md has no place for the table")
	}
	var b strings.Builder
	b.WriteString("| file | bytes | nesting of JSON | values | largest known |\n" +
		"|---|---|---|---|---|\n")
	for _, l := range append(Limits, SafetensorsHeader) {
		depth, values := "", ""
		if l.Depth > 0 {
			depth, values = fmt.Sprint(l.Depth), fmt.Sprint(l.Values)
		}
		name := "`" + l.Name + "`"
		switch l.Name {
		case "*":
			name = "any other"
		case SafetensorsHeader.Name:
			name = "header of `*.safetensors`"
		}
		fmt.Fprintf(&b, "| %s | %d MiB | %s | %s | %s |\n", name, l.Bytes>>20, depth, values,
			l.Known)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile("FILES.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(data) {
		t.Error("FILES.md is out of date: go test ./engine/modelfile -update")
	}
}

// TestRead reads files that a hostile folder may have.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, name, want string) {
		t.Helper()
		data, err := Read(filepath.Join(dir, name))
		if want == "" && err != nil || want != "" && (err == nil || len(err.Error()) > 1000 ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %d bytes, %v; want an error about %q", what, len(data), err, want)
		}
		_ = os.Remove(filepath.Join(dir, name))
	}
	config := LimitOf("config.json")
	write("config.json", `{"a":[1,"]]]]\"]",{}]}`)
	check("a small file", "config.json", "")
	write("config.json", strings.Repeat(" ", int(config.Bytes)))
	check("the largest file", "config.json", "")
	write("config.json", "")
	if err := os.Truncate(filepath.Join(dir, "config.json"), 200<<20); err != nil {
		t.Fatal(err)
	}
	check("200 MB", "config.json", "expected at most")
	write("config.json", strings.Repeat("[", config.Depth)+strings.Repeat("]", config.Depth))
	check("the deepest JSON", "config.json", "")
	write("config.json", strings.Repeat("[", config.Depth+1))
	check("deep JSON", "config.json", "nested")
	write("config.json", "["+strings.Repeat("1,", config.Values)+"1]")
	check("many values", "config.json", "values")
	write("chat_template.jinja", strings.Repeat("[", 5000))
	check("a template is not JSON", "chat_template.jinja", "")
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("/dev/zero", "config.json")
	check("a device", "config.json", "device")
	link(dir, "config.json")
	check("a folder", "config.json", "folder")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	link("pipe", "config.json")
	check("a link to a pipe", "config.json", "pipe")
	check("a pipe", "pipe", "pipe")
	link("config.json", "config.json")
	check("a link to itself", "config.json", "config.json")
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := ReadFS(fstest.MapFS{"config.json": {Data: make([]byte, config.Bytes+1)}},
		"config.json"); err == nil {
		t.Error("a long file of an fs.FS")
	}
}

// TestReadUnknownSize reads a file whose size is only known at its end, as in /proc.
func TestReadUnknownSize(t *testing.T) {
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	limit := Limit{Name: "a", Bytes: 10_000}
	data, err := read(strings.NewReader(strings.Repeat("x", 10_000)), empty{info}, "a", limit)
	if err != nil || len(data) != 10_000 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
	if _, err = read(strings.NewReader(strings.Repeat("x", 10_001)), empty{info}, "a",
		limit); err == nil {
		t.Error("a file that is one byte too long was read")
	}
}

type empty struct{ fs.FileInfo }

func (empty) Size() int64 { return 0 }
