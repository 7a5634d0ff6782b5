package library

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// fakeDescribe reads the architecture from config.json as plain text, and counts its calls.
type fakeDescribe struct{ calls int }

func (f *fakeDescribe) describe(src engine.Source, _ engine.Options) (engine.Description, error) {
	f.calls++
	if src.FS != nil {
		return engine.Description{Architecture: "bundled"}, nil
	}
	text, err := os.ReadFile(filepath.Join(src.Dir, "config.json"))
	switch {
	case err != nil:
		return engine.Description{}, err
	case string(text) == "panic":
		panic("an odd folder")
	case string(text) == "broken":
		return engine.Description{}, problem.New(problem.ModelBroken, "It is broken", "", "")
	}
	return engine.Description{Architecture: string(text)}, nil
}

// plant creates files in a folder: a path ending in "/" is a folder, "a -> b" a link, "a = text" a
// file.
func plant(t *testing.T, root string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var err error
		if link, target, ok := strings.Cut(line, " -> "); ok {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o755)
			err = os.Symlink(target, filepath.Join(root, link))
		} else if name, text, ok := strings.Cut(line, " = "); ok {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
			err = os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
		} else {
			err = os.MkdirAll(filepath.Join(root, line), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// list formats a scan as "id architecture" or "id: error".
func list(models []Model) []string {
	var lines []string
	for _, m := range models {
		if m.Err != nil {
			lines = append(lines, m.ID+": "+m.Err.Error())
		} else {
			lines = append(lines, m.ID+" "+m.Description.Architecture)
		}
	}
	return lines
}

func TestScan(t *testing.T) {
	const commit = "0123456789abcdef"
	cases := []struct {
		name  string
		files []string
		want  []string // without the bundled model
	}{
		{"nothing", nil, nil},
		{"plain folders, one to four levels deep",
			[]string{"b/config.json = x", "a/config.json = y", "pub/m/config.json = z",
				"pub/deep/er/config.json = w", "pub/three/down/here/config.json = u",
				"pub/is/too/far/down/config.json = v"},
			[]string{"a y", "b x", "deep/er w", "down/here u", "pub/m z"}},
		{"the folder above Hugging Face's cache and other programs' folders",
			[]string{"huggingface/hub/models--org--m/snapshots/ffff/config.json = x",
				"huggingface/hub/datasets--org--d/m/config.json = x",
				"ollama/models/blobs/sha256-1 = x", "ollama/models/manifests/r/library/q/4b = " +
					`{"layers":[{"digest":"sha256:1","size":7}]}`}, []string{"org/m x",
				"q:4b: This model is in Ollama's format: Headroom runs .safetensors. Download " +
					"the model in MLX's or Hugging Face's format: a folder of .safetensors " +
					"files."}},
		{"the root itself", []string{"config.json = x", "sub/config.json = y"}, []string{"ROOT x"}},
		{"hub cache: refs/main decides", []string{
			"models--org--my--model/blobs/c1 = right", "models--org--my--model/blobs/c2 = wrong",
			"models--org--my--model/snapshots/" + commit + "/config.json -> ../../blobs/c1",
			"models--org--my--model/snapshots/ffff/config.json -> ../../blobs/c2",
			"models--org--my--model/refs/main = " + commit + "\n"},
			[]string{"org/my--model right"}},
		{"hub cache without refs", []string{"models--org--m/snapshots/ffff/config.json = x"},
			[]string{"org/m x"}},
		{"hub cache: refs/main points outside the repository",
			[]string{"models--org--m/snapshots/ffff/config.json = x",
				".secret/in/here/config.json = s",
				"models--org--m/refs/main = ../../.secret/in/here"}, []string{"org/m x"}},
		{"a broken link",
			[]string{"models--org--m/snapshots/ffff/config.json -> ../../blobs/gone",
				"models--org--m/snapshots/ffff/model.safetensors = w"},
			[]string{"org/m: The model is incomplete: config.json is missing. Finish the " +
				"download, or download the model again."}},
		{"a download in progress", []string{"models--org--m/blobs/abc.incomplete = x"},
			[]string{"org/m: The model is not complete yet: 1 file is incomplete. Wait for the " +
				"download, or resume it in the program that started it."}},
		{"no model at all", []string{"models--org--tok/snapshots/ffff/tokenizer.json = x",
			"datasets--a--b/snapshots/f/config = x", ".hidden/config.json = x", "a file = x"}, nil},
		{"weights without config", []string{"m/model.safetensors = x"},
			[]string{"m: The model is incomplete: config.json is missing. Finish the download, " +
				"or download the model again."}},
		{"broken", []string{"m/config.json = broken", "ok/config.json = x"},
			[]string{"m: It is broken", "ok x"}},
		{"a panic is one folder's error", []string{"m/config.json = panic", "ok/config.json = x"},
			[]string{"m: The model could not be examined: an odd folder. Please report it.",
				"ok x"}},
		{"linked folder, listed once", []string{"zz/config.json = x", "aa -> zz"},
			[]string{"aa x"}},
		{"links to the folder itself and to those above it",
			[]string{"org/m/config.json = x", "plain/config.json = y", "loose.gguf = z", "a -> .",
				"org/a -> ..", "org/b -> ../org", "org/c -> ../../..", "top -> /"},
			[]string{"loose: This model is in GGUF format: Headroom runs .safetensors. Import " +
				"it to convert it to MLX's format: drop the file on Headroom's window, or use " +
				"`headroom models import FILE`.",
				"org/m x", "plain y"}},
		{"odd names", []string{"a[b]*/model.safetensors = x", "a[b]*/config.json = x"},
			[]string{"a[b]* x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, c.files...)
			got := list(New([]string{root, filepath.Join(root, "gone")}, engine.Options{},
				new(fakeDescribe).describe).Scan())
			for i, line := range got {
				got[i] = strings.Replace(line, filepath.Base(root)+" ", "ROOT ", 1)
			}
			want := append([]string{"headroom-demo bundled"}, c.want...)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestTooManyFolders checks that a scan of a home folder ends, that it has looked into the folders
// near the root first, and that it says so.
func TestTooManyFolders(t *testing.T) {
	defer func(most int) { maxFolders = most }(maxFolders)
	maxFolders = 20
	root := t.TempDir()
	for i := range 30 {
		plant(t, root, fmt.Sprintf("a/%d/", i))
	}
	plant(t, root, "z/config.json = near", "a/9/m/config.json = far")
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	if got := list(l.Scan())[1:]; !slices.Equal(got, []string{"z near"}) {
		t.Errorf("got %q", got)
	}
	want := []string{root + " has more than 20 folders. Models in the others are not found: name " +
		"the folder that contains them."}
	if got := l.Notes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	maxFolders = 100
	if got := list(l.Scan())[1:]; !slices.Equal(got, []string{"9/m far", "z near"}) ||
		len(l.Notes()) != 0 {
		t.Errorf("got %q, %q", got, l.Notes())
	}
}

func TestUnreadable(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "empty/", "full/m/config.json = x", "file = x")
	gone, file := filepath.Join(root, "gone"), filepath.Join(root, "file")
	t.Setenv("HEADROOM_MODELS", filepath.Join(root, "full")+":"+gone)
	got := Unreadable([]string{filepath.Join(root, "empty"), file})
	want := []string{"The folder " + file + " cannot be searched for models: not a directory.",
		"There is no folder " + gone + " to look for models in."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTwoModelsWithTheSameName(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	plant(t, a, "m/config.json = first")
	plant(t, b, "m/config.json = second")
	l := New([]string{a, b}, engine.Options{}, new(fakeDescribe).describe)
	want := []string{"headroom-demo bundled", "m first", filepath.Join(b, "m") + " second"}
	if got := list(l.Scan()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if m, err := l.Resolve("m"); err != nil || m.Description.Architecture != "first" {
		t.Errorf("Resolve(m) = %+v, %v; want the first", m, err)
	}
}

func TestResolve(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	plant(t, root, "models--org--Big-4bit/snapshots/ffff/config.json = x",
		"pub/same/config.json = 1", "pub2/same/config.json = 2", "bad/config.json = broken",
		"f = file", "ollama/blobs/sha256-1 = x",
		`ollama/manifests/registry.ollama.ai/library/llama3.2/latest = `+
			`{"layers":[{"digest":"sha256:1","size":1}]}`)
	plant(t, elsewhere, "mine/config.json = y", "empty/", "x.gguf = z")
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	cases := []struct {
		ask  string
		id   string
		code problem.Code // "" for none
	}{
		{"", "headroom-demo", ""},
		{"headroom-demo", "headroom-demo", ""},
		{"org/Big-4bit", "org/Big-4bit", ""},
		{"big-4BIT", "org/Big-4bit", ""},
		{"pub2/same", "pub2/same", ""},
		{"same", "", problem.ModelNotFound}, // two of them
		{"gpt-4", "", problem.ModelNotFound},
		{"Llama3.2", "llama3.2:latest", problem.UnknownArchitecture},
		{"bad", "bad", problem.ModelBroken},
		{filepath.Join(elsewhere, "mine"), "mine", ""},
		{filepath.Join(elsewhere, "empty"), "", problem.ModelBroken},
		{filepath.Join(root, "f"), "", problem.ModelBroken},
		{filepath.Join(elsewhere, "x.gguf"), "", problem.UnknownArchitecture},
		{filepath.Join(root, "models--org--Big-4bit"), "org/Big-4bit", ""},
		{filepath.Join(root, "models--org--Big-4bit/snapshots/ffff"), "org/Big-4bit", ""},
	}
	for _, c := range cases {
		m, err := l.Resolve(c.ask)
		if c.code == "" && err != nil || c.code != "" &&
			(err == nil || problem.From(err).Code != c.code) || m.ID != c.id {
			t.Errorf("Resolve(%q) = %q, %v; want %q, code %q", c.ask, m.ID, err, c.id, c.code)
		}
	}
	_, err := l.Resolve("gpt-4")
	for _, id := range []string{"headroom-demo", "org/Big-4bit", "pub/same"} {
		if !strings.Contains(err.Error(), id) {
			t.Errorf("the error does not name %s: %v", id, err)
		}
	}
}

func TestDescriptionsAreCachedUntilAFileChanges(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "m/config.json = x")
	var fake fakeDescribe
	l := New([]string{root}, engine.Options{}, fake.describe)
	l.Scan()
	l.Scan()
	if fake.calls != 2 { // the bundled model and m
		t.Errorf("%d calls for two scans, want 2", fake.calls)
	}
	plant(t, root, "m/config.json = longer")
	if got := list(l.Scan()); got[1] != "m longer" || fake.calls != 3 {
		t.Errorf("after a change: %q, %d calls", got, fake.calls)
	}
}

func TestRoots(t *testing.T) {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "HF_HUB_CACHE": "", "HF_HOME": "",
		"OLLAMA_MODELS": "", "XDG_DATA_HOME": "/data",
		"HEADROOM_MODELS": "/e1" + string(filepath.ListSeparator) + "/e2"} {
		t.Setenv(name, value)
	}
	own := "/data/headroom/models"
	if runtime.GOOS == "darwin" {
		own = home + "/Library/Application Support/Headroom/models"
	}
	want := []string{"/flag", "/e1", "/e2", own, home + "/.cache/huggingface/hub",
		home + "/.lmstudio/models", home + "/.cache/lm-studio/models", home + "/.omlx/models",
		home + "/.ollama/models"}
	if got := Roots([]string{"/flag", "", "/e1"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("HF_HOME", "/hf")
	if got := Roots(nil); !slices.Contains(got, "/hf/hub") {
		t.Errorf("HF_HOME is not used: %q", got)
	}
	t.Setenv("HF_HUB_CACHE", "/hub")
	if got := Roots(nil); !slices.Contains(got, "/hub") || slices.Contains(got, "/hf/hub") {
		t.Errorf("HF_HUB_CACHE does not override HF_HOME: %q", got)
	}
}

func TestErrorsAreProblems(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "m/config.json = panic")
	var p *problem.Problem
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	if m := l.Scan()[1]; !errors.As(m.Err, &p) {
		t.Errorf("Err is a %T, want a Problem", m.Err)
	}
}

// TestTimeOfTheBundledModel: it is that of the program, which has the model.
func TestTimeOfTheBundledModel(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	l := New(nil, engine.Options{}, new(fakeDescribe).describe)
	if got := l.Scan()[0].UpdatedAt; !got.Equal(info.ModTime()) {
		t.Errorf("got %v, want %v", got, info.ModTime())
	}
}

// TestConfigIsNoFile: a folder whose config.json is a pipe says so, and not that there is none.
func TestConfigIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "config.json"), 0o600); err != nil {
		t.Skip(err)
	}
	l := New(nil, engine.Options{}, engine.Describe)
	if _, err := l.Resolve(dir); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("got %v", err)
	}
}
