package blockstore

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headroom/engine/seal"
)

// people is what a person may have in the folder that becomes the cache's.
var people = map[string]string{
	"notes.txt": "a", ".hidden": "b", "tmp/report.docx": "c", "tmp/photo.jpg": "d",
	"tmp/a.b.c": "e", "tmp/.hidden.txt": "f", "tmp/123-abc.1": "g", "tmp/lock": "h",
	"tmp/folder.1/x.1": "i", "blocks/castle.schem": "j", "blocks/ab/notes.txt": "k",
	"pins/board.txt": "l", "index.sqlite-backup": "m", "index.lock.txt": "n",
	"keys.headroom.txt": "o", "keys": "p",
}

func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func expectFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v, want %q", name, got, err, text)
		}
	}
}

// TestFilesOfOthersStay: a store in a folder with a person's files removes none of them, whether it
// is used, swept, moved away or discarded.
func TestFilesOfOthersStay(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	fill(t, dir, people)
	fill(t, to, people)
	for seed := range 2 { // the second opening sweeps what the first left
		saveAndPin(t, dir, seed)
		expectFiles(t, dir, people)
	}
	fill(t, dir, map[string]string{"tmp/12-0123456789abcdef.7": "left by a crash"})
	s := open(t, dir, options(t))
	s.swept.Wait()
	s.Close()
	expectFiles(t, dir, people)
	if _, err := os.Stat(filepath.Join(dir, "tmp/12-0123456789abcdef.7")); err == nil {
		t.Error("the sweep left a file of a crashed store")
	}

	if err := clearRest(osDisk{}, to); err != nil {
		t.Fatal(err)
	}
	expectFiles(t, to, people)
	m := &Move{From: dir, To: filepath.Join(to, "cache")}
	if err := m.Copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, m.To, people)
	if err := DiscardMove(m.To); err != nil {
		t.Fatal(err)
	}
	expectFiles(t, m.To, people)
	m.To = filepath.Join(to, "again")
	if err := m.Copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Clear(); err != nil {
		t.Fatal(err)
	}
	expectFiles(t, dir, people)
	if Exists(dir) {
		t.Error("the old folder still has a store's files")
	}
}

// TestIndexOfAnother: a file named index.sqlite that no store wrote is renamed, not removed.
func TestIndexOfAnother(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"text": func(path string) error { return os.WriteFile(path, []byte("my index"), 0o644) },
		"database": func(path string) error {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec("CREATE TABLE meals (name TEXT); INSERT INTO meals VALUES ('soup')")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			beside := map[string]string{}
			for _, suffix := range indexSuffixes[1:] {
				beside[suffix] = "my file" + suffix
				if name == "text" {
					fill(t, dir, map[string]string{indexName + suffix: beside[suffix]})
				}
			}
			if err := write(filepath.Join(dir, indexName)); err != nil {
				t.Fatal(err)
			}
			saveAndPin(t, dir, 1)
			aside, err := filepath.Glob(filepath.Join(dir, indexName+".set-aside-*[0-9]"))
			if err != nil || len(aside) != 1 {
				t.Fatalf("set aside: %q, %v", aside, err)
			}
			text, err := os.ReadFile(aside[0])
			want := map[string]string{"text": "my index", "database": "soup"}[name]
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s has %d bytes without %q, %v", aside[0], len(text), want, err)
			}
			for suffix, want := range beside {
				if got, err := os.ReadFile(aside[0] + suffix); name == "text" &&
					string(got) != want {
					t.Errorf("beside it, %s has %q, %v", suffix, got, err)
				}
			}
			if !isIndex(filepath.Join(dir, indexName)) {
				t.Error("the store has no index")
			}
		})
	}
}

// TestIndexIsNoFile: a pipe or a folder in the index's place is renamed, also while the store is
// open. Nothing waits for a writer of the pipe.
func TestIndexIsNoFile(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o644) },
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, indexName)
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		want, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, options(t))
		save(t, s.Model(testModel), sequence(numbers(1, 300), true))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		save(t, s.Model(testModel), sequence(numbers(2, 300), true))
		s.Close()
		aside, _ := filepath.Glob(path + ".set-aside-*[0-9]")
		if len(aside) != 2 || !isIndex(path) {
			t.Fatalf("%s: set aside: %q", name, aside)
		}
		for _, one := range aside {
			if got, err := os.Lstat(one); err != nil || got.Mode() != want.Mode() {
				t.Errorf("%s: %s: %v, %v, want mode %v", name, one, got, err, want.Mode())
			}
		}
	}
}

// TestEraseSetAside: Erase removes indexes with a damaged header that were set aside, and names the
// files of that name that no store wrote.
func TestEraseSetAside(t *testing.T) {
	dir := t.TempDir()
	saveAndPin(t, dir, 1)
	path := filepath.Join(dir, indexName)
	index, err := os.ReadFile(path)
	if err != nil || !isDamagedIndex(path) {
		t.Fatalf("an index of %d bytes without the mark, %v", len(index), err)
	}
	copy(index, "garbage garbage garbage")
	fill(t, dir, map[string]string{indexName: string(index), indexName + "-wal": "secret"})
	saveAndPin(t, dir, 1) // sets it aside
	aside, _ := filepath.Glob(path + ".set-aside-*")
	if len(aside) < 2 {
		t.Fatalf("set aside: %q", aside)
	}
	for _, one := range aside {
		if !IsOurs(dir, one) {
			t.Errorf("%s does not count as stored", one)
		}
	}
	mine := map[string]string{indexName + ".set-aside-7": "mine",
		indexName + ".set-aside-7-wal": "mine", indexName + ".set-aside-copy": "mine"}
	fill(t, dir, mine)
	for range 2 { // the second time, there is nothing but these files
		err = Erase(dir)
		if err == nil || !strings.Contains(err.Error(), ".set-aside-7-wal") ||
			strings.Contains(err.Error(), "copy") {
			t.Errorf("Erase: %v", err)
		}
		expectFiles(t, dir, mine)
	}
	for name := range mine {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Erase(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("an empty folder that no store uses was removed: %v", err)
	}
	saveAndPin(t, dir, 1)
	fill(t, dir, map[string]string{indexName: string(index)})
	if err := Erase(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the store's own folder is left: %v", err)
	}
}

// TestForeignKeys: a folder with a foreign file of the keys' name is refused with a key and
// without, and stays as it is.
func TestForeignKeys(t *testing.T) {
	dir := t.TempDir()
	mine := map[string]string{keysName: "my keys", indexName: "my index",
		indexName + "-wal": "my log", lockName: "", "blocks/a.txt": "a", "tmp/b.txt": "b"}
	fill(t, dir, mine)
	plain, sealed := options(t), options(t)
	key := seal.NewKey()
	plain.Key, sealed.Key = nil, &key
	for _, o := range []Options{plain, sealed} {
		if s, err := Open(dir, o); err == nil {
			s.Close()
			t.Errorf("opened, with a key: %v", o.Key != nil)
		}
		expectFiles(t, dir, mine)
	}
}

// TestExists: a folder is a store's by the store's files, not by a name that others use too.
func TestExists(t *testing.T) {
	used := t.TempDir()
	saveAndPin(t, used, 1)
	damaged := t.TempDir()
	saveAndPin(t, damaged, 1)
	fill(t, damaged, map[string]string{indexName: "garbage"})
	entries := t.TempDir()
	saveAndPin(t, entries, 1)
	for _, name := range []string{indexName, lockName} {
		if err := os.Remove(filepath.Join(entries, name)); err != nil {
			t.Fatal(err)
		}
	}
	others := t.TempDir()
	fill(t, others, people)
	fill(t, others, map[string]string{indexName: "not ours"})
	for dir, want := range map[string]bool{used: true, damaged: true, entries: true,
		others: false, t.TempDir(): false, filepath.Join(used, "missing"): false} {
		if got := Exists(dir); got != want {
			t.Errorf("Exists(%s) = %v, want %v", dir, got, want)
		}
	}
}

// TestFreshIndexIsPrivate: no one else can read the index or the files that SQLite keeps beside it,
// from the moment they exist.
func TestFreshIndexIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, options(t))
	defer s.Close()
	save(t, s.Model(testModel), sequence(numbers(1, 300), true))
	names := 0
	for _, suffix := range indexSuffixes {
		info, err := os.Stat(filepath.Join(dir, indexName+suffix))
		if err != nil {
			continue
		}
		names++
		if mode := info.Mode().Perm(); mode != fs.FileMode(0o600) {
			t.Errorf("%s has mode %o", info.Name(), mode)
		}
	}
	if names < 3 {
		t.Errorf("%d files of the index, want the database, its log and its shared memory", names)
	}
}
