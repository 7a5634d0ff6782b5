package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
)

// describe accepts any folder, unless its config.json says otherwise.
func describe(src engine.Source, _ engine.Options) (engine.Description, error) {
	if src.FS != nil {
		return engine.Description{Architecture: "bundled"}, nil
	}
	text, err := os.ReadFile(filepath.Join(src.Dir, "config.json"))
	switch {
	case err != nil:
		return engine.Description{}, err
	case string(text) == "strange":
		return engine.Description{},
			problem.New(problem.UnknownArchitecture,
				"Headroom does not support the architecture \"strange\" yet", "", "")
	case string(text) == "broken":
		return engine.Description{}, problem.New(problem.ModelBroken, "It is broken", "", "")
	}
	return engine.Description{Architecture: string(text)}, nil
}

// plant creates files in a folder: "a -> b" a link, "a = text" a file.
func plant(t *testing.T, root string, lines ...string) string {
	t.Helper()
	for _, line := range lines {
		link, target, isLink := strings.Cut(line, " -> ")
		name, text, _ := strings.Cut(line, " = ")
		if isLink {
			name = link
		}
		err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		if err == nil && isLink {
			err = os.Symlink(target, filepath.Join(root, name))
		} else if err == nil {
			err = os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// tree lists the content of a folder, hidden files included, as "name = text". It follows no links.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			lines = append(lines, rel+" -> "+target)
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, rel+" = "+string(text))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func expectTree(t *testing.T, root string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("%s contains %q, want %q", root, got, want)
	}
}

// noClones is a clone that always fails, as on a file system without clones.
func noClones(_, _ string) error { return errors.ErrUnsupported }

// fixture is an Importer, a folder to import from, and the root.
type fixture struct {
	*Importer
	t          *testing.T
	from, root string
}

func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{t: t, from: filepath.Join(dir, "from"), root: filepath.Join(dir, "root")}
	o := Options{Root: b.root, Describe: describe, clone: noClones}
	for _, c := range change {
		c(&o)
	}
	b.Importer = New(o)
	return b
}

// importAll imports every importable item, and returns the errors of failed and refused items by
// name.
func (b *fixture) importAll(mode Mode, paths ...string) map[string]string {
	b.t.Helper()
	for k, path := range paths {
		paths[k] = filepath.Join(b.from, path)
	}
	wrong := map[string]string{}
	plan := b.Plan(paths, mode, "")
	for _, item := range plan.Items {
		if err := item.Refused; err != nil {
			var p *problem.Problem
			if !errors.As(err, &p) {
				b.t.Errorf("%s: the error is a %T, want a Problem", item.Name, err)
			}
			wrong[item.Name] = err.Error()
			continue
		}
		dir, err := b.Import(context.Background(), item, new(jobs.Progress))
		if err != nil {
			wrong[item.Name] = err.Error()
		} else if dir != item.Target {
			b.t.Errorf("%s was imported to %s, want %s", item.Name, dir, item.Target)
		}
	}
	return wrong
}

func (b *fixture) mustImport(mode Mode, paths ...string) {
	b.t.Helper()
	if wrong := b.importAll(mode, paths...); len(wrong) > 0 {
		b.t.Errorf("errors %q", wrong)
	}
}

func TestCopyMoveLink(t *testing.T) {
	files := []string{"m/config.json = x", "m/model.safetensors = weights",
		"m/sub/extra.txt = more", "m/.git/HEAD = hidden"}
	whole := []string{"m/config.json = x", "m/model.safetensors = weights",
		"m/sub/extra.txt = more"}
	t.Run("copy", func(t *testing.T) {
		b := newFixture(t)
		plant(t, b.from, files...)
		b.mustImport(Copy, "m")
		expectTree(t, b.root, whole...)
		expectTree(t, b.from, files...)
	})
	t.Run("move", func(t *testing.T) {
		b := newFixture(t)
		plant(t, b.from, files...)
		b.mustImport(Move, "m")
		expectTree(t, b.root, files...)
		expectTree(t, b.from)
	})
	t.Run("link", func(t *testing.T) {
		b := newFixture(t)
		plant(t, b.from, files...)
		b.mustImport(Link, "m")
		expectTree(t, b.root, "m -> "+b.from+"/m")
		expectTree(t, b.from, files...)
	})
	t.Run("move to another disk", func(t *testing.T) {
		b := newFixture(t)
		plant(t, b.from, files...)
		item := b.Plan([]string{b.from + "/m"}, Move, "").Items[0]
		if err := os.MkdirAll(b.root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := b.copy(context.Background(), item, new(jobs.Progress)); err != nil {
			t.Fatal(err)
		}
		expectTree(t, b.root, whole...)
		expectTree(t, b.from, "m/.git/HEAD = hidden")
	})
	t.Run("clone", func(t *testing.T) {
		var cloned []string
		b := newFixture(t, func(o *Options) {
			o.clone = func(from, to string) error {
				cloned = append(cloned, filepath.Base(to))
				return os.Link(from, to)
			}
			o.write = func() error { return errors.New("a clone writes nothing") }
		})
		plant(t, b.from, files...)
		b.mustImport(Copy, "m")
		expectTree(t, b.root, whole...)
		want := []string{"config.json", "model.safetensors", "extra.txt"}
		if !slices.Equal(cloned, want) {
			t.Errorf("cloned %q, want %q", cloned, want)
		}
	})
}

// A path may be a file of a model, a folder of models, a snapshot of the hub's cache, or its
// repository.
func TestPaths(t *testing.T) {
	hub := []string{"hub/models--org--m/blobs/c = x",
		"hub/models--org--m/snapshots/abc/config.json -> ../../blobs/c",
		"hub/models--org--m/refs/main = abc"}
	cases := []struct {
		name  string
		files []string
		paths []string
		want  []string
	}{
		{"files of one model", []string{"m/config.json = x", "m/a.safetensors = w"},
			[]string{"m/config.json", "m/a.safetensors"},
			[]string{"m/a.safetensors = w", "m/config.json = x"}},
		{"a folder of models", []string{"a/config.json = x", "pub/b/config.json = y", "loose = z"},
			[]string{"."}, []string{"a/config.json = x", "pub/b/config.json = y"}},
		{"several paths", []string{"a/config.json = x", "b/config.json = y"}, []string{"b", "a"},
			[]string{"a/config.json = x", "b/config.json = y"}},
		{"one model by two paths", []string{"a/config.json = x", "b -> a"}, []string{"b", "a"},
			[]string{"b/config.json = x"}},
		{"a hub cache", hub, []string{"hub"}, []string{"org/m/config.json = x"}},
		{"a repository", hub, []string{"hub/models--org--m"}, []string{"org/m/config.json = x"}},
		{"a snapshot", hub, []string{"hub/models--org--m/snapshots/abc"},
			[]string{"org/m/config.json = x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t)
			plant(t, b.from, c.files...)
			b.mustImport(Copy, c.paths...)
			expectTree(t, b.root, c.want...)
		})
	}
}

func TestRefused(t *testing.T) {
	cases := []struct {
		name  string
		files []string
		path  string
		mode  Mode
		want  string // part of the only error
	}{
		{"a missing path", nil, "gone", Copy, "there is no such file or folder"},
		{"a folder of something else", []string{"d/holiday.jpg = x"}, "d", Copy,
			"There is no model in"},
		{"an archive", []string{"m.zip = x"}, "m.zip", Copy, "Unpack it"},
		{"another file", []string{"holiday.jpg = x"}, "holiday.jpg", Copy, "not part of a model"},
		{"a damaged GGUF file", []string{"m.gguf = x"}, "m.gguf", Copy, "begin with GGUF"},
		{"a folder with one", []string{"m/m.gguf = x"}, "m", Copy, "begin with GGUF"},
		{"a folder of GGUF files", []string{"m/a.gguf = x", "m/b.gguf = x"}, "m", Copy,
			"a.gguf and b.gguf are files of different models"},
		{"a folder with config.json and GGUF", []string{"m/config.json = strange", "m/a.gguf = x"},
			"m", Copy, "begin with GGUF"},
		{"an unknown architecture", []string{"m/config.json = strange"}, "m", Copy,
			"the architecture \"strange\""},
		{"broken", []string{"m/config.json = broken"}, "m", Link, "It is broken"},
		{"incomplete", []string{"m/config.json = x", "m/model-00001-of-00002.safetensors = w"}, "m",
			Copy, "not complete yet"},
		{"a link to a file outside",
			[]string{"secret = s", "m/config.json = x", "m/notes.txt -> ../secret"}, "m", Copy,
			"has a link to a file outside it"},
		{"a link to a folder", []string{"m/config.json = x", "m/d/f = x", "m/e -> d"}, "m", Copy,
			"does not link to a file"},
		{"a broken link", []string{"m/config.json = x", "m/notes.txt -> gone"}, "m", Copy,
			"broken link"},
		{"too deep", []string{"m/config.json = x", "m/1/2/3/4/5 = x"}, "m", Copy, "too deep"},
		{"moving a link", []string{"real/config.json = x", "m -> real"}, "m", Move, "is a link"},
		{"moving a link in a folder of models", []string{"real/config.json = x",
			"models/m -> ../real"}, "models", Move, "is a link"},
		{"moving out of the hub's cache", []string{"models--o--m/snapshots/abc/config.json = x"},
			"models--o--m", Move, "Hugging Face's cache"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t)
			plant(t, b.from, c.files...)
			wrong := b.importAll(c.mode, c.path)
			if len(wrong) != 1 {
				t.Fatalf("errors %q, want one", wrong)
			}
			for _, got := range wrong {
				if !strings.Contains(got, c.want) {
					t.Errorf("error %q, want %q in it", got, c.want)
				}
			}
			expectTree(t, b.root)
			expectTree(t, b.from, c.files...)
		})
	}
}

// A model is not imported into itself.
func TestIntoItself(t *testing.T) {
	for _, mode := range []Mode{Copy, Move, Link} {
		for _, root := range []string{"from/m", "from/m/sub/new", "link/in"} {
			b := newFixture(t, func(o *Options) {
				o.Root = filepath.Join(filepath.Dir(o.Root), root)
			})
			plant(t, b.from, "m/config.json = x", "../link -> from/m")
			before := tree(t, b.from)
			wrong := b.importAll(mode, "m")
			if !strings.Contains(wrong["m"], "inside the model") {
				t.Errorf("%s to %s: %q", mode, root, wrong)
			}
			expectTree(t, b.from, before...)
		}
	}
	b := newFixture(t, func(o *Options) { o.Root = filepath.Join(filepath.Dir(o.Root), "from") })
	plant(t, b.from, "deep/m/config.json = x", "m2/config.json = y")
	b.mustImport(Copy, "deep/m") // beside another one, and above itself
	expectTree(t, b.from, "deep/m/config.json = x", "m/config.json = x", "m2/config.json = y")
}

// A model that is imported by link may have links to files outside its folder.
func TestLinkedModelMayHaveLinks(t *testing.T) {
	b := newFixture(t)
	plant(t, b.from, "weights = w", "m/config.json = x", "m/model.safetensors -> ../weights")
	b.mustImport(Link, "m")
	expectTree(t, b.root, "m -> "+b.from+"/m")
}

func TestNothingIsOverwritten(t *testing.T) {
	for _, mode := range []Mode{Copy, Move, Link} {
		for _, there := range []string{"m", "M", "other"} {
			b := newFixture(t)
			plant(t, b.from, "m/config.json = new")
			plant(t, b.root, there+"/config.json = old")
			wrong := b.importAll(mode, "m")
			if clash := there != "other"; clash != strings.Contains(wrong["m"], "already") {
				t.Errorf("%s over %s: errors %q", mode, there, wrong)
			}
			text, err := os.ReadFile(filepath.Join(b.root, there, "config.json"))
			if err != nil || string(text) != "old" {
				t.Errorf("%s over %s: it holds %q, %v", mode, there, text, err)
			}
		}
		// A folder that is created between Plan and Import is not overwritten either.
		b := newFixture(t)
		plant(t, b.from, "m/config.json = new")
		item := b.Plan([]string{b.from + "/m"}, mode, "").Items[0]
		plant(t, b.root, "m/config.json = old")
		_, err := b.Import(context.Background(), item, new(jobs.Progress))
		if problem.From(err).Code != problem.Exists {
			t.Errorf("%s over a folder created later: %v", mode, err)
		}
		text, err := os.ReadFile(filepath.Join(b.root, "m/config.json"))
		if err != nil || string(text) != "old" {
			t.Errorf("%s over a folder created later: it holds %q, %v", mode, text, err)
		}
	}
}

func TestNames(t *testing.T) {
	cases := []struct{ name, want string }{
		{"Qwen3-0.6B", "Qwen3-0.6B"},
		{"org/name", "org/name"},
		{"a\nb\tc", "a b c"},
		{`quo"te's`, `quo"te's`},
		{"Modell U\u0308", "Modell Ü"},
		{"Modell Ü", "Modell Ü"},
		{"\u202egpj.exe", "gpj.exe"},
		{"..", "model"},
		{"../x", "model/x"},
		{".hidden", "hidden"},
		{"a\\b:c", "a_b_c"},
		{"bad\xffbytes", "bad_bytes"},
		{"/abs/path/m", "m"},
		{strings.Repeat("ü", 150), strings.Repeat("ü", 100)},
		{" ", "model"},
	}
	for _, c := range cases {
		if got := targetName(c.name); got != c.want {
			t.Errorf("targetName(%q) = %q, want %q", c.name, got, c.want)
		}
	}
}

// Folders with unusual names are imported. A name in another Unicode form is the same name.
func TestOddFolders(t *testing.T) {
	b := newFixture(t)
	plant(t, b.from, "new\nline/config.json = a", "it's \"quoted\"/config.json = b",
		"U\u0308/config.json = c", "deep/Ü/config.json = d")
	wrong := b.importAll(Copy, "new\nline", `it's "quoted"`, "U\u0308", "deep/Ü")
	expectTree(t, b.root, "new line/config.json = a", "it's \"quoted\"/config.json = b",
		"Ü/config.json = c")
	if len(wrong) != 1 || !strings.Contains(wrong["Ü"], "already") {
		t.Errorf("errors %q, want the second Ü refused", wrong)
	}
}

func TestNamed(t *testing.T) {
	b := newFixture(t)
	plant(t, b.from, "m/config.json = x")
	plan := b.Plan([]string{b.from + "/m"}, Copy, "my/own")
	if got := plan.Items[0].Target; got != b.root+"/my/own" {
		t.Errorf("target %q", got)
	}
}

func TestKnownModelsStayWhereTheyAre(t *testing.T) {
	b := newFixture(t, func(o *Options) {
		root := filepath.Dir(o.Root)
		o.Known = func() []library.Model {
			return library.New([]string{filepath.Join(root, "from")}, engine.Options{},
				describe).Scan()
		}
	})
	plant(t, b.from, "m/config.json = x")
	if wrong := b.importAll(Copy, "m"); !strings.Contains(wrong["m"], "already in the list") {
		t.Errorf("errors %q", wrong)
	}
}

// A copy that is stopped, or fails because the disk is full, keeps its complete files and resumes
// with the others.
func TestStoppedCopiesResume(t *testing.T) {
	var writes, allowed int
	var fault error
	b := newFixture(t, func(o *Options) {
		o.write = func() error {
			if writes++; writes > allowed {
				return fault
			}
			return nil
		}
	})
	plant(t, b.from, "m/a.safetensors = 1", "m/b.safetensors = 22", "m/config.json = x")
	item := b.Plan([]string{b.from + "/m"}, Copy, "").Items[0]
	run := func() (int, jobs.Job, error) {
		writes = 0
		list := jobs.NewList()
		job, err := list.Wait(context.Background(), list.Start(b.Job(item)).ID)
		return writes, job, err
	}
	fault, allowed = syscall.ENOSPC, 1
	if _, job, _ := run(); problem.From(job.Err).Code != problem.DiskFull || job.DoneBytes != 1 {
		t.Errorf("on a full disk: %+v", job)
	}
	expectUnfinished(t, b, "a.safetensors = 1")
	fault, allowed = context.Canceled, 1
	if _, job, _ := run(); job.DoneBytes != 3 || job.TotalBytes != 4 {
		t.Errorf("%d of %d bytes done, want 3 of 4", job.DoneBytes, job.TotalBytes)
	}
	expectUnfinished(t, b, "a.safetensors = 1", "b.safetensors = 22")
	allowed = 10
	if wrote, job, _ := run(); job.State != jobs.Done || wrote != 1 || job.Result != b.root+"/m" {
		t.Errorf("%d writes, %+v; want one write for the last file", wrote, job)
	}
	expectTree(t, b.root, "m/a.safetensors = 1", "m/b.safetensors = 22", "m/config.json = x")
}

// expectUnfinished expects exactly these files in the unfinished copy, besides its journal.
func expectUnfinished(t *testing.T, b *fixture, want ...string) {
	t.Helper()
	var got []string
	for _, line := range tree(t, b.root) {
		if dir, rest, _ := strings.Cut(line, "/"); !strings.HasPrefix(dir, ".headroom-import-") {
			t.Errorf("%q is not in a hidden folder", line)
		} else if !strings.HasPrefix(rest, journalName) {
			got = append(got, rest)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the copy has %q, want %q", got, want)
	}
}

func TestDiscard(t *testing.T) {
	b := newFixture(t, func(o *Options) { o.write = func() error { return errors.New("no") } })
	plant(t, b.from, "m/config.json = x")
	item := b.Plan([]string{b.from + "/m"}, Copy, "").Items[0]
	if _, err := b.Import(context.Background(), item, new(jobs.Progress)); err == nil {
		t.Fatal("no error")
	}
	for range 2 {
		if err := b.Discard(item); err != nil {
			t.Error(err)
		}
		expectTree(t, b.root)
	}
}

// If the original changes before a copy resumes, changed files are copied again and removed files
// are removed.
func TestChangedOriginal(t *testing.T) {
	fail := true
	b := newFixture(t, func(o *Options) {
		calls := 0
		o.write = func() error {
			if calls++; fail && calls == 3 {
				return syscall.ENOSPC
			}
			return nil
		}
	})
	plant(t, b.from, "m/a.txt = 1", "m/b.txt = 2", "m/config.json = x")
	plan := func() Item { return b.Plan([]string{b.from + "/m"}, Copy, "").Items[0] }
	_, _ = b.Import(context.Background(), plan(), new(jobs.Progress))
	stale := plan()
	plant(t, b.from, "m/a.txt = longer")
	if err := os.Remove(filepath.Join(b.from, "m/b.txt")); err != nil {
		t.Fatal(err)
	}
	fail = false
	if _, err := b.Import(context.Background(), stale, new(jobs.Progress)); err == nil {
		t.Error("a stale plan was carried out")
	}
	if _, err := b.Import(context.Background(), plan(), new(jobs.Progress)); err != nil {
		t.Error(err)
	}
	expectTree(t, b.root, "m/a.txt = longer", "m/config.json = x")
}

// A blob whose content does not match its name is refused.
func TestDamagedBlob(t *testing.T) {
	for text, damaged := range map[string]bool{"right": false, "wrong": true} {
		b := newFixture(t)
		sum := sha256.Sum256([]byte("right"))
		name := hex.EncodeToString(sum[:])
		plant(t, b.from, "models--o--m/blobs/"+name+" = "+text,
			"models--o--m/snapshots/abc/config.json = x",
			"models--o--m/snapshots/abc/model.safetensors -> ../../blobs/"+name)
		wrong := b.importAll(Copy, "models--o--m")
		if got := strings.Contains(wrong["o/m"], "checksum"); got != damaged {
			t.Errorf("%s: errors %q", text, wrong)
		}
	}
}

func TestDiskTooSmall(t *testing.T) {
	err := checkSpace(Item{Name: "m"}, t.TempDir(), 1<<60)
	if problem.From(err).Code != problem.DiskFull {
		t.Errorf("an exabyte: %v", err)
	}
}

// TestForeignFilesInCopy: files that the import did not create survive a copy, its resumption and
// Discard, also behind links that lead out of the unfinished folder.
func TestForeignFilesInCopy(t *testing.T) {
	fail, writes := true, 0
	b := newFixture(t, func(o *Options) {
		o.write = func() error {
			if writes++; fail && writes == 2 { // after config.json
				return syscall.ENOSPC
			}
			return nil
		}
	})
	outside := t.TempDir()
	plant(t, outside, "b.txt = foreign")
	plant(t, b.from, "m/config.json = x", "m/sub/b.txt = y")
	item := b.Plan([]string{b.from + "/m"}, Copy, "").Items[0]
	run := func() error {
		_, err := b.Import(context.Background(), item, new(jobs.Progress))
		return err
	}
	if run() == nil {
		t.Fatal("no error")
	}
	dir := unfinished(item)
	// A line that another program wrote into the journal leads nowhere outside.
	file, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(file, "{\"file\":\"../../%s\"}\n", filepath.Base(b.from))
	file.Close()
	if err := errors.Join(os.Remove(filepath.Join(dir, "sub")),
		os.Symlink(outside, filepath.Join(dir, "sub"))); err != nil {
		t.Fatal(err)
	}
	plant(t, dir, "mine.txt = foreign")
	fail = false
	if run() == nil {
		t.Error("the copy went through a link")
	}
	if err := b.Discard(item); err == nil {
		t.Error("Discard does not say that files are left")
	}
	expectTree(t, outside, "b.txt = foreign")
	if text, err := os.ReadFile(filepath.Join(dir, "mine.txt")); string(text) != "foreign" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	plant(t, dir, "config.json = foreign") // discarded, so that this is not the copy's
	if err := run(); problem.From(err).Code != problem.Exists {
		t.Errorf("%v, want a file in the way", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "config.json")); string(text) != "foreign" {
		t.Errorf("%q, %v", text, err)
	}
	expectTree(t, b.from, "m/config.json = x", "m/sub/b.txt = y")
}

// TestMoveKeepsChangedOriginal: a move across disks keeps an original that changed after its copy
// was verified.
func TestMoveKeepsChangedOriginal(t *testing.T) {
	b := newFixture(t)
	plant(t, b.from, "m/config.json = x")
	item := b.Plan([]string{b.from + "/m"}, Copy, "").Items[0]
	plant(t, b.from, "m/config.json = edited")
	if err := removeOriginal(item); err == nil {
		t.Error("no error")
	}
	expectTree(t, b.from, "m/config.json = edited")
}
