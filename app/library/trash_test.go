package library

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

func TestRemove(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("it would use the Finder's Trash")
	}
	root, outside, data := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	plant(t, outside, "m/config.json = x", "pub/m/config.json = x")
	plant(t, root, "models--o--m/blobs/c = x",
		"models--o--m/snapshots/c/config.json -> ../../blobs/c", "odd name%\n/config.json = y",
		"link -> "+filepath.Join(outside, "m"),
		"pub -> "+filepath.Join(outside, "pub"), "one/config.json = z", "again/one/config.json = z")
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	find := func(id string) Model {
		t.Helper()
		m, ok := byName(l.Scan(), id)
		if !ok {
			t.Fatalf("no %q in %s", id, dump(l.Scan()))
		}
		return m
	}
	cases := []struct {
		id, gone string
		trashed  string       // name in the trash
		refused  problem.Code // "": it is removed
	}{
		{"o/m", "models--o--m", "models--o--m", ""},
		{"odd name%\n", "odd name%\n", "odd name%\n", ""},
		{"link", "link", "link", ""},
		{"pub/m", "", "", problem.Forbidden},
		{"one", "one", "one", ""},
		{"again/one", "again/one", "one.2", ""},
		{"headroom-demo", "", "", problem.BadRequest},
	}
	for _, c := range cases {
		err := l.Remove(find(c.id), "")
		if c.refused != "" {
			if err == nil || problem.From(err).Code != c.refused {
				t.Errorf("%q: %v, want %s", c.id, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.id, err)
			continue
		}
		if _, err := os.Lstat(filepath.Join(root, c.gone)); err == nil {
			t.Errorf("%q is still there", c.gone)
		}
		if _, err := os.Lstat(filepath.Join(data, "Trash/files", c.trashed)); err != nil {
			t.Error(err)
		}
		about, err := os.ReadFile(filepath.Join(data, "Trash/info", c.trashed+".trashinfo"))
		if err != nil || strings.Count(string(about), "\n") != 3 ||
			!strings.Contains(string(about), "\nPath="+root+"/") {
			t.Errorf("the .trashinfo of %q: %q, %v", c.trashed, about, err)
		}
	}
	for _, left := range []string{"m/config.json", "pub/m/config.json"} {
		if _, err := os.Stat(filepath.Join(outside, left)); err != nil {
			t.Errorf("the target of a link: %v", err)
		}
	}
}

// TestRemoveAdapter: of an adapter in the hub cache the repository goes. A folder with a model in
// it or outside the roots stays.
func TestRemoveAdapter(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("it would use the Finder's Trash")
	}
	root, outside := t.TempDir(), t.TempDir()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	plant(t, outside, "a/x = x")
	plant(t, root, "a/x = x", "b/m/x = x", "models--o--c/snapshots/1/x = x",
		"models--o--d/snapshots/1/x = x", "models--o--d/snapshots/2/x = x")
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	models := []Model{{ID: "m", Places: []Place{{Dir: filepath.Join(root, "b", "m")}}},
		{ID: "d", Places: []Place{{Dir: filepath.Join(root, "models--o--d", "snapshots", "2")}}}}
	for dir, c := range map[string]struct {
		gone string
		code problem.Code
	}{
		filepath.Join(outside, "a"):                     {"", problem.Forbidden},
		filepath.Join(root, "b"):                        {"", problem.BadRequest},
		filepath.Join(root, "models--o--d/snapshots/1"): {"", problem.BadRequest},
		filepath.Join(root, "a"):                        {"a", ""},
		filepath.Join(root, "models--o--c/snapshots/1"): {"models--o--c", ""},
	} {
		err := l.RemoveAdapter(dir, models)
		if (err == nil) != (c.code == "") || err != nil && problem.From(err).Code != c.code {
			t.Errorf("%s: %v, want %q", dir, err, c.code)
		}
		_, there := os.Lstat(dir)
		_, whole := os.Lstat(filepath.Join(root, c.gone))
		if c.gone == "" && there != nil || c.gone != "" && whole == nil {
			t.Errorf("%s: %v, %v", dir, there, whole)
		}
	}
}

// TestRemoveNeedsOnePlace: with several places, Remove needs the path of one of them.
func TestRemoveNeedsOnePlace(t *testing.T) {
	l := New([]string{"/r"}, engine.Options{}, new(fakeDescribe).describe)
	m := Model{ID: "m", Dir: "/r/a", Places: []Place{{"m", "/r/a", Folder}, {"m", "/r/b", Folder}}}
	cases := []struct {
		model Model
		path  string
		code  problem.Code
	}{
		{m, "", problem.BadRequest},
		{m, "/r/c", problem.NotFound},
		{Model{ID: "q:1", Dir: "/r/q", Places: []Place{{"q:1", "/r/q", Ollama}}}, "",
			problem.BadRequest},
		{Model{ID: "r", Dir: "/r", Places: []Place{{"r", "/r", Folder}}}, "", problem.Forbidden},
	}
	for _, c := range cases {
		if err := l.Remove(c.model, c.path); err == nil || problem.From(err).Code != c.code {
			t.Errorf("%s at %q: %v, want %s", c.model.ID, c.path, err, c.code)
		}
	}
}

// TestForeignFilesInTrash: moving to the trash replaces nothing there, even if the .trashinfo of a
// file is gone. A volume's trash that is a link, or is no folder, is not used.
func TestForeignFilesInTrash(t *testing.T) {
	trash, root := t.TempDir(), t.TempDir()
	plant(t, trash, "files/m = foreign", "files/m.2/a = foreign", "info/m.3.trashinfo = foreign")
	if err := os.Mkdir(filepath.Join(trash, "files", "m.4"), 0o700); err != nil {
		t.Fatal(err) // an empty folder, which a plain rename of a folder would replace
	}
	plant(t, root, "m/config.json = x", "other/m = a file")
	for _, name := range []string{"m", "other/m"} {
		if err := moveInto(trash, filepath.Join(root, name), name); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"files/m": "foreign", "files/m.2/a": "foreign",
		"info/m.3.trashinfo": "foreign", "files/m.5/config.json": "x", "files/m.6": "a file"} {
		if text, err := os.ReadFile(filepath.Join(trash, name)); err != nil ||
			string(text) != want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
	if info, err := os.ReadDir(filepath.Join(trash, "info")); err != nil || len(info) != 3 {
		t.Errorf("%v, %v; want 3 entries", info, err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(trash, link); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{trash: true, filepath.Join(root, "none"): true,
		link: false, filepath.Join(trash, "files/m"): false} {
		if err := checkTrash(path); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}
