package blockstore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

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

	if err := clearRest(osDisk{}, to, true); err != nil {
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

// TestIndexWithoutDescriptors: an index that cannot be read for lack of descriptors is an error. It
// stays where it is.
func TestIndexWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	saveAndPin(t, dir, 1)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	x, err := openIndex(dir, filepath.Join(dir, tempDir, newOwner()+".1"), testSealed(), false)
	erased := Erase(dir)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if x != nil || !errors.Is(err, unix.EMFILE) || erased == nil {
		t.Errorf("opened: %v, %v; erased: %v", x != nil, err, erased)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, "*.set-aside-*")); len(aside) > 0 {
		t.Errorf("set aside: %q", aside)
	}
	expectStored(t, dir, 1)
}

// TestEraseSetAside: Erase removes indexes with a damaged header that were set aside, and names the
// files of that name that no store wrote.
func TestEraseSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
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
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
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

// TestFoldersOfOthersStay: a folder that was there before the store stays when the store is erased,
// moved away or discarded. A folder that the store has created goes.
func TestFoldersOfOthersStay(t *testing.T) {
	move := func(from, to string) error {
		m := &Move{From: from, To: to}
		return errors.Join(m.Settle(t.Context()), m.Clear())
	}
	for name, use := range map[string]func(dir, other string) error{
		"erased": func(dir, _ string) error {
			saveAndPin(t, dir, 1)
			return Erase(dir)
		},
		"moved away": func(dir, other string) error {
			saveAndPin(t, dir, 1)
			return move(dir, other)
		},
		"moved here and erased": func(dir, other string) error {
			saveAndPin(t, other, 1)
			return errors.Join(move(other, dir), Erase(dir))
		},
		"discarded": func(dir, other string) error {
			saveAndPin(t, other, 1)
			m := &Move{From: other, To: dir}
			return errors.Join(m.Copy(t.Context()), DiscardMove(dir))
		},
		"discarded before it began": func(dir, other string) error {
			saveAndPin(t, other, 1)
			return errors.Join(makeFolder(osDisk{}, dir), Erase(dir))
		},
	} {
		for _, mine := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "cache")
			if mine {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := use(dir, filepath.Join(t.TempDir(), "other")); err != nil {
				t.Errorf("%s, a person's folder %v: %v", name, mine, err)
			}
			left, err := os.ReadDir(dir)
			if there := err == nil; there != mine || len(left) > 0 {
				t.Errorf("%s, a person's folder %v: it has %v, %v", name, mine, left, err)
			}
		}
	}
}

// TestLinksOfOthersStay: links with the names of a store's files and folders are neither followed
// nor replaced nor removed, and what they lead to stays as it is.
func TestLinksOfOthersStay(t *testing.T) {
	entry := entryPath("", Key{1})
	names := []string{lockName, markName, markName + copySuffix, indexName + "-wal",
		indexName + "-shm", indexName + copySuffix, keysName + copySuffix, pinsDir,
		filepath.Join(blocksDir, "ab"), entry,
		filepath.Join(tempDir, "12-0123456789abcdef.lock"),
		filepath.Join(tempDir, "12-0123456789abcdef.1")}
	for _, target := range []string{"file", "folder", "gone"} {
		dir, outside := t.TempDir(), t.TempDir()
		fill(t, outside, map[string]string{"file": "mine", "folder/file": "mine"})
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.Symlink(filepath.Join(outside, target), path)); err != nil {
				t.Fatal(err)
			}
		}
		from := filepath.Join(t.TempDir(), "from")
		saveAndPin(t, from, 1)
		m := &Move{From: from, To: dir, AlwaysCopy: true}
		_, opened := Open(dir, options(t))
		for what, err := range map[string]error{"Open": opened, "Copy": m.Copy(t.Context()),
			"Settle": m.Settle(t.Context()), "FinishMove": FinishMove(dir)} {
			if err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s, links to a %s: %v", what, target, err)
			}
		}
		_ = DiscardMove(dir)
		if err := errors.Join(Erase(dir), clearRest(osDisk{}, dir, true)); err != nil {
			t.Errorf("links to a %s: %v", target, err)
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			if to, err := os.Readlink(path); err != nil || to != filepath.Join(outside, target) {
				t.Errorf("%s, a link to a %s, leads to %q, %v", name, target, to, err)
			}
		}
		expectFiles(t, outside, map[string]string{"file": "mine", "folder/file": "mine"})
		if left, err := os.ReadDir(outside); err != nil || len(left) != 2 {
			t.Errorf("links to a %s: beside it is %v, %v", target, left, err)
		}
	}
}

// TestOpenBesideLinks opens a store in a folder that has a link with the name of one of its files.
// It works without the link, or says which it is. What the link leads to stays as it is.
func TestOpenBesideLinks(t *testing.T) {
	for _, name := range []string{lockName, markName, indexName, indexName + "-wal",
		indexName + "-shm", indexName + "-journal", keysName, entryPath("", Key{1})} {
		for _, target := range []string{"file", "gone"} {
			dir, outside := t.TempDir(), t.TempDir()
			fill(t, outside, map[string]string{"file": "mine"})
			if err := os.Chmod(filepath.Join(outside, "file"), 0o644); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.Symlink(filepath.Join(outside, target), path)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, err := Open(dir, options(t))
				if err == nil {
					s.swept.Wait()
					err = s.Close()
				}
				if err != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("%s, a link to a %s: %v", name, target, err)
				}
			}
			links, _ := filepath.Glob(path + "*")
			if !slices.ContainsFunc(links, func(path string) bool {
				to, err := os.Readlink(path)
				return err == nil && to == filepath.Join(outside, target)
			}) {
				t.Errorf("%s: the link to a %s is gone", name, target)
			}
			expectFiles(t, outside, map[string]string{"file": "mine"})
			info, err := os.Stat(filepath.Join(outside, "file"))
			if left, _ := os.ReadDir(outside); err != nil || info.Mode().Perm() != 0o644 ||
				len(left) != 1 {
				t.Errorf("%s, a link to a %s: %v, %v, mode %v", name, target, left, err,
					info.Mode())
			}
		}
	}
}

// TestLinksInPlaceOfEntries: a move does not replace a link in the place of an entry.
func TestLinksInPlaceOfEntries(t *testing.T) {
	for _, copies := range []bool{false, true} {
		for _, suffix := range []string{"", copySuffix} {
			from, to := filepath.Join(t.TempDir(), "from"), t.TempDir()
			saveAndPin(t, from, 1)
			files, err := filesOf(from, false)
			if err != nil {
				t.Fatal(err)
			}
			m := &Move{From: from, To: to, AlwaysCopy: copies}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := m.Copy(ctx); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			link := filepath.Join(to, files[0].rel) + suffix
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755),
				os.Symlink("gone", link)); err != nil {
				t.Fatal(err)
			}
			err = m.Copy(t.Context())
			if inTheWay := suffix == "" || copies; inTheWay &&
				(err == nil || !strings.Contains(err.Error(), link)) || !inTheWay && err != nil {
				t.Errorf("copies %v, %q: %v", copies, suffix, err)
			}
			if target, err := os.Readlink(link); err != nil || target != "gone" {
				t.Errorf("copies %v, %q: the link leads to %q, %v", copies, suffix, target, err)
			}
		}
	}
}

// TestLockFile: what is in the place of a lock and not a file is neither followed nor waited for.
// A lock that another process holds is waited for only so long. The error names the file.
func TestLockFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	held, err := lockFile(at("held"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := errors.Join(os.Symlink("held", at("link")), os.Symlink("gone", at("dangling")),
		unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "pipe", "folder", "held"} {
		wait := time.Hour
		if name == "held" {
			wait = time.Millisecond
		}
		_, err := lockFile(at(name), wait)
		if err == nil || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(at("gone")); err == nil {
		t.Error("the target of a link was created")
	}
	// Owners of which only a link is left are no open stores.
	fill(t, dir, map[string]string{"tmp/1-00000000000000aa.lock": ""})
	open, err := lockFile(at("tmp/1-00000000000000aa.lock"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := checkUnused(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("an open store: %v", err)
	}
	if err := errors.Join(os.Rename(at("tmp/1-00000000000000aa.lock"), at("elsewhere")),
		os.Symlink("../elsewhere", at("tmp/1-00000000000000aa.lock"))); err != nil {
		t.Fatal(err)
	}
	if err := checkUnused(dir); err != nil {
		t.Errorf("a link to a lock: %v", err)
	}
}

// openSteps is the environment variable with the number of the connection to a database at which
// the child of TestOpenKilled kills itself.
const openSteps = "HEADROOM_BLOCKSTORE_OPEN_STEPS"

// TestOpenKilledChild is the child process of TestOpenKilled.
func TestOpenKilledChild(t *testing.T) {
	left, err := strconv.Atoi(os.Getenv(openSteps))
	if err != nil {
		t.Skip("the child of TestOpenKilled")
	}
	sqlite.RegisterConnectionHook(func(sqlite.ExecQuerierContext, string) error {
		if left--; left == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	})
	s, err := Open(os.Getenv(killDir), options(t))
	if err != nil {
		t.Fatal(err)
	}
	s.swept.Wait()
	s.Close()
}

// TestOpenKilled kills a process that creates a store, at each connection to the new index. The
// index is whole or absent. What the process has left is known as a store's: nothing is set aside,
// and Erase removes everything.
func TestOpenKilled(t *testing.T) {
	for step := 1; ; step++ {
		dir := filepath.Join(t.TempDir(), "cache")
		child := exec.Command(os.Args[0], "-test.run=^TestOpenKilledChild$")
		child.Env = append(os.Environ(), killDir+"="+dir, openSteps+"="+strconv.Itoa(step))
		out, err := child.CombinedOutput()
		if err == nil {
			if step < 3 {
				t.Errorf("the child ended after %d connections", step)
			}
			return
		}
		if !child.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("the child was not killed: %v, %s", err, out)
		}
		path := filepath.Join(dir, indexName)
		if _, err := os.Lstat(path); err == nil && !isIndex(path) {
			t.Errorf("step %d: there is half an index", step)
		}
		if step%2 == 0 { // the next process goes on
			saveAndPin(t, dir, 1)
			expectStored(t, dir, 1)
		}
		if err := Erase(dir); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
		expectGone(t, dir)
	}
}

// TestNameAlone: in a folder without an index and a lock, a file is no entry by its name alone, so
// the folder is no cache and nothing in it is removed.
func TestNameAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, blocksDir, "ab", "ab"+strings.Repeat("0", 62)+".safetensors")
	for _, text := range []string{"mine", "{\"a\": 1}", ""} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := Erase(dir); err != nil || Exists(dir) {
			t.Errorf("%q: exists %t, %v", text, Exists(dir), err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q: the file is %q, %v", text, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("\x10\x00\x00\x00\x00\x00\x00\x00{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Erase(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an entry is left")
	}
}
