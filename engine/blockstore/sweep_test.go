package blockstore

// Recovery after the loss of the folder or the index, and after a crash.

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFolderDeleted removes the folder of an open store. Its entries become misses, and new entries
// are stored again.
func TestFolderDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 600)
	waitIdle := func() { // so that no background work recreates the folder while it is removed
		s.swept.Wait()
		s.Stats()
	}
	save(t, v, sequence(tokens, true, 600))
	before := v.Find(tokens, 600, 0, true)
	waitIdle()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := load(v, tokens, before); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, expected ErrDamaged", err)
	}
	if p := v.Find(tokens, 600, 0, true); p.Tokens != 0 {
		t.Errorf("found %d tokens in a folder that is gone", p.Tokens)
	}
	if saved := save(t, v, sequence(tokens, true, 600)); saved.Err != nil || saved.Blocks != 3 {
		t.Errorf("saved %+v", saved)
	}
	if err := load(v, tokens, v.Find(tokens, 600, 0, true)); err != nil {
		t.Error(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	// Only the files are removed.
	waitIdle()
	if err := os.RemoveAll(filepath.Join(dir, blocksDir)); err != nil {
		t.Fatal(err)
	}
	// One missing file is enough to start a sweep.
	if err := load(v, tokens, v.Find(tokens, 10, 0, false)); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	s.swept.Wait()
	if saved := save(t, v, sequence(tokens, true, 600)); saved.Err != nil || saved.Blocks != 3 {
		t.Errorf("saved %+v", saved)
	}
	// The folder cannot be recreated: saves fail, and lookups are misses.
	waitIdle()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := v.Find(tokens, 600, 0, false); p.Tokens != 0 {
		t.Errorf("found %d tokens although the folder is a file", p.Tokens)
	}
	if saved := save(t, v, sequence(tokens, true)); saved.Err == nil {
		t.Errorf("saved %+v", saved)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if saved := save(t, v, sequence(tokens, true)); saved.Err != nil || saved.Blocks != 3 {
		t.Errorf("after the obstacle was removed: saved %+v", saved)
	}
	if st := s.Stats(); st.SaveErrors == 0 || st.LastSaveError == "" {
		t.Errorf("stats %+v", st)
	}
}

// TestIndexRebuilt checks that an index that is missing, truncated, garbage or of another version
// is rebuilt with all entries.
func TestIndexRebuilt(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"missing": func(t *testing.T, path string) { os.Remove(path) },
		"empty": func(t *testing.T, path string) {
			edit(t, path, func([]byte) []byte { return nil })
		},
		"garbage": func(t *testing.T, path string) {
			edit(t, path, func(b []byte) []byte { return bytes.Repeat([]byte("garbage "), 5000) })
		},
		"cut": func(t *testing.T, path string) {
			edit(t, path, func(b []byte) []byte { return b[:len(b)/2] })
		},
		"pages": func(t *testing.T, path string) {
			edit(t, path, func(b []byte) []byte {
				copy(b[indexPageBytes:], bytes.Repeat([]byte{0xa5}, len(b)-indexPageBytes))
				return b
			})
		},
		"version": func(t *testing.T, path string) {
			x, err := tryIndex(path, testSealed())
			if err == nil {
				_, err = x.db.Exec("PRAGMA user_version = 99")
				err = errors.Join(err, x.close())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"no tables": func(t *testing.T, path string) {
			x, err := tryIndex(path, testSealed())
			if err == nil {
				_, err = x.db.Exec("DROP TABLE entries")
				err = errors.Join(err, x.close())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, options(t))
			v := s.Model(testModel)
			a, b := numbers(1, 700), join(numbers(1, 700), 300, numbers(2, 300))
			save(t, v, sequence(a, true, 700))
			save(t, v, sequence(b, true, 600))
			if err := s.Pin(v.Find(b, 600, 0, false).Blocks[2].Entry.Key.String()[:8],
				true); err != nil {
				t.Fatal(err)
			}
			before, err := s.Conversations(Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.index.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, filepath.Join(dir, indexName))
			s = open(t, dir, options(t))
			v = s.Model(testModel)
			if err := s.Check(); err != nil {
				t.Error(err)
			}
			for _, tokens := range [][]int32{a, b} {
				p := v.Find(tokens, len(tokens), 0, true)
				if err := load(v, tokens, p); err != nil || p.Tokens != len(tokens) {
					t.Errorf("found %d of %d tokens, %v", p.Tokens, len(tokens), err)
				}
			}
			after, err := s.Conversations(Filter{})
			if err != nil || len(after) != len(before) {
				t.Fatalf("%d conversations, %v; expected %d", len(after), err, len(before))
			}
			for _, was := range before {
				found := false
				for _, c := range after {
					// The index lost these.
					c.Hits, c.LastHit, c.SecondsSaved = was.Hits, was.LastHit, was.SecondsSaved
					found = found || c == was
				}
				if !found {
					t.Errorf("%+v is not among %+v", was, after)
				}
			}
		})
	}
}

// TestIndexDamagedWhileOpen checks that a store whose open index is damaged continues with a new
// one.
func TestIndexDamagedWhileOpen(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	for seed := range 40 {
		save(t, v, sequence(numbers(seed, 700), true))
	}
	if _, err := s.index.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, indexName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Stat()
	for at := int64(indexPageBytes); at < info.Size(); at += indexPageBytes {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xee}, indexPageBytes), at); err != nil {
			t.Fatal(err)
		}
	}
	// Drop the connections' caches. Do so before f.Close, which releases SQLite's locks on the
	// file.
	s.index.db.SetMaxIdleConns(0)
	s.index.db.SetMaxIdleConns(indexConns)
	f.Close()
	for seed := range 40 {
		tokens := numbers(seed, 700)
		v.Find(tokens, 700, 0, false)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for seed := range 40 {
		tokens := numbers(seed, 700)
		p := v.Find(tokens, 700, 0, false)
		if err := load(v, tokens, p); err != nil || p.Tokens != 700 {
			t.Fatalf("found %d tokens, %v", p.Tokens, err)
		}
	}
}

// TestSweep checks that opening removes what crashed processes left behind, and leaves foreign
// files alone.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 600), numbers(2, 600)
	save(t, v, sequence(a, true))
	save(t, v, sequence(b, true))
	chain := v.keys.chain(b)
	// A crash before the row was marked ready.
	if _, err := s.index.db.Exec(
		"UPDATE entries SET status = 0, owner = '1-00000000000000aa' WHERE key = ?",
		chain[0][:]); err != nil {
		t.Fatal(err)
	}
	s.Close()
	write := func(path, text string) string {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	living, err := lockFile(write("tmp/7-00000000000000cc.lock", ""), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	gone := []string{
		write("tmp/1-00000000000000aa.lock", ""), write("tmp/1-00000000000000aa.1", "x"),
		write("tmp/2-00000000000000bb.9", "x"),
		write(filepath.Join(blocksDir, "ab", "ab"+string(bytes.Repeat([]byte("0"), 62))+extension),
			"no entry"),
	}
	stays := []string{
		write("tmp/7-00000000000000cc.3", "x"), write("blocks/ab/notes.txt", "x"),
		write("tmp/report.docx", "x"), write("tmp/a.b.c", "x"), write("tmp/.hidden.txt", "x"),
		write("tmp/1-00000000000000aa.txt", "x"), write("tmp/1-dead.lock", "x"),
		write("blocks/.DS_Store", "x"), write("README", "x"),
		write(filepath.Join(blocksDir, "cd", "ab"+string(bytes.Repeat([]byte("0"), 62))+extension),
			"in the wrong folder"),
	}
	right, err := os.ReadFile(entryPath(dir, v.keys.chain(a)[0]))
	if err != nil {
		t.Fatal(err)
	}
	// A valid entry under another name.
	gone = append(gone, write(
		filepath.Join(blocksDir, "ef", "ef"+string(bytes.Repeat([]byte("0"), 62))+extension),
		string(right)))
	if err := os.Remove(entryPath(dir, v.keys.chain(a)[1])); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, options(t))
	s.swept.Wait()
	s.Close()
	for _, path := range gone {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	s = open(t, dir, options(t))
	v = s.Model(testModel)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if got := v.Find(b, 600, 0, false).Tokens; got != 600 {
		t.Errorf("found %d tokens, although the crash left a complete file", got)
	}
	if got := v.Find(a, 600, 0, false).Tokens; got != 256 {
		t.Errorf("found %d tokens, expected the 256 before the missing file", got)
	}
	if st := s.Stats(); st.Foreign != 2 || st.Entries != 5 {
		t.Errorf("stats %+v", st)
	}
}

// TestStaleIndexClosed replaces the index of an open store. When the store closes, it must not
// remove the write-ahead log of the new index.
func TestStaleIndexClosed(t *testing.T) {
	dir := t.TempDir()
	tokens := numbers(1, 600)
	stale := open(t, dir, options(t))
	save(t, stale.Model(testModel), sequence(tokens, true))
	if err := os.Remove(filepath.Join(dir, indexName)); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, options(t))
	s.swept.Wait()
	log := filepath.Join(dir, indexName+"-wal")
	before, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := stale.index.close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(log); err != nil || !os.SameFile(before, after) {
		t.Errorf("the log of the new index is gone: %v", err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestRebuiltOnce checks that a store with a damaged index does not discard the new index of
// another store.
func TestRebuiltOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, options(t)), open(t, dir, options(t))
	a.swept.Wait()
	b.swept.Wait() // b's sweep would notice that the index is gone
	path := filepath.Join(dir, indexName)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	tokens := numbers(1, 300)
	save(t, a.Model(testModel), sequence(tokens, true))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b.broken.Store(true)
	if p := b.Model(testModel).Find(tokens, 300, 0, false); p.Tokens != 300 {
		t.Errorf("found %d tokens", p.Tokens)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the index was replaced again: %v", err)
	}
}

// lockingDisk tries to take a lock before it removes its file, as a store would that is being
// opened.
type lockingDisk struct {
	osDisk
	t *testing.T
}

func (d lockingDisk) Remove(path string) error {
	if filepath.Ext(path) == ".lock" {
		if held, err := isLocked(path); err != nil || !held {
			d.t.Errorf("%s is removed, and another store could take it: %v", path, err)
		}
	}
	return d.osDisk.Remove(path)
}

// TestSweepHoldsLocks: who removes a lock holds it. Else a store could take it in between, and
// would look dead while it writes.
func TestSweepHoldsLocks(t *testing.T) {
	dir, o := t.TempDir(), options(t)
	o.disk = lockingDisk{t: t}
	open(t, dir, o).Close()
	left := filepath.Join(dir, tempDir, "1-00000000000000aa.lock")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, o)
	s.swept.Wait()
	s.Close()
	if _, err := os.Stat(left); err == nil {
		t.Error("the lock of a store that is gone is still there")
	}
}
