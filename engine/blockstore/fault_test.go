package blockstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// entryFiles is the paths of all entries in a folder.
func entryFiles(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, blocksDir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func edit(t testing.TB, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// 1,000 files, in each of them one bit anywhere is another one: each is refused, removed and counted, and no wrong byte gets through.
func TestBitFlips(t *testing.T) {
	files := 1000
	if testing.Short() {
		files = 60
	}
	random := rand.New(rand.NewPCG(1, 2))
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 1100)
	for done := 0; done < files; {
		save(t, v, sequence(tokens, true, 300, 1100))
		for _, path := range entryFiles(t, s.dir) {
			edit(t, path, func(b []byte) []byte {
				bit := random.IntN(8 * len(b))
				b[bit/8] ^= 1 << (bit % 8)
				return b
			})
			done++
		}
		for p := v.Find(tokens, 1100, 0, true); p.Tokens > 0; p = v.Find(tokens, 1100, 0, true) {
			if err := load(v, tokens, p); !errors.Is(err, ErrDamaged) {
				t.Fatalf("a flipped bit gave %v, expected ErrDamaged", err)
			}
		}
		for p := v.Find(tokens, 1100, 0, false); p.Tokens > 0; p = v.Find(tokens, 1100, 0, false) {
			if err := load(v, tokens, p); !errors.Is(err, ErrDamaged) {
				t.Fatalf("a flipped bit gave %v, expected ErrDamaged", err)
			}
		}
		if _, err := s.Clear(); err != nil { // blocks behind the first damaged one were never read
			t.Fatal(err)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// Every single byte of one file of each kind, read alone.
func TestEveryByteCounts(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 290)
	save(t, v, sequence(tokens, true, 290))
	for _, path := range entryFiles(t, s.dir) {
		right, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := parseKey(filepath.Base(path)[:64])
		if err != nil {
			t.Fatal(err)
		}
		for i := range right {
			wrong := bytes.Clone(right)
			wrong[i] ^= 0x10
			err := readContent(t.Context(), memoryFile{bytes.NewReader(wrong), int64(len(wrong))}, reading{entry: Entry{Key: k, Bytes: int64(len(wrong))}})
			if d := (damage{}); !errors.As(err, &d) {
				t.Fatalf("byte %d of %d changed: got %v, expected damage", i, len(right), err)
			}
		}
		for n := range right {
			err := readContent(t.Context(), memoryFile{bytes.NewReader(right[:n]), int64(n)}, reading{entry: Entry{Key: k, Bytes: int64(n)}})
			if d := (damage{}); !errors.As(err, &d) {
				t.Fatalf("cut to %d of %d bytes: got %v, expected damage", n, len(right), err)
			}
		}
		if err := readContent(t.Context(), memoryFile{bytes.NewReader(right), int64(len(right))}, reading{entry: Entry{Key: k, Bytes: int64(len(right))}}); err != nil {
			t.Errorf("the right file: %v", err)
		}
	}
}

// memoryFile is a file in memory.
type memoryFile struct {
	*bytes.Reader
	size int64
}

type sizeOnly struct {
	os.FileInfo
	size int64
}

func (s sizeOnly) Size() int64                      { return s.size }
func (f memoryFile) Stat() (os.FileInfo, error)     { return sizeOnly{size: f.size}, nil }
func (f memoryFile) Close() error                   { return nil }
func (f memoryFile) Read(p []byte) (n int, e error) { return f.Reader.Read(p) }

// FuzzRead: no file panics, and one that is not as written is refused.
func FuzzRead(f *testing.F) {
	s, err := Open(f.TempDir(), options(f))
	if err != nil {
		f.Fatal(err)
	}
	tokens := numbers(1, 20)
	save(f, s.Model(testModel), sequence(tokens, true))
	right, err := os.ReadFile(entryFiles(f, s.dir)[0])
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(right)
	f.Add(right[:len(right)-1])
	f.Add([]byte{})
	key := newKeys(testModel.Fingerprint, testModel.Format).name(kindTail, Key{}, tokens)
	f.Fuzz(func(t *testing.T, b []byte) {
		piece := make([]byte, 96)
		err := readContent(t.Context(), memoryFile{bytes.NewReader(b), int64(len(b))},
			reading{Entry{Key: key, Bytes: int64(len(b)), want: tokens}, []Tensor{{"0.k", [][]byte{piece}}}})
		if (err == nil) != bytes.Equal(b, right) {
			t.Errorf("%d bytes, error %v", len(b), err)
		}
	})
}

func TestDamagedFiles(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"cut":          func(b []byte) []byte { return b[:len(b)-5] },
		"empty":        func(b []byte) []byte { return nil },
		"longer":       func(b []byte) []byte { return append(b, 0) },
		"other format": func(b []byte) []byte { return bytes.Replace(b, []byte("block 1"), []byte("block 0"), 1) },
		"zeros":        func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), options(t))
			v := s.Model(testModel)
			tokens := numbers(1, 600)
			save(t, v, sequence(tokens, true))
			edit(t, entryPath(s.dir, v.keys.chain(tokens)[1]), change)
			if err := load(v, tokens, v.Find(tokens, 600, 0, false)); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, expected ErrDamaged", err)
			}
			p := v.Find(tokens, 600, 0, false)
			if err := load(v, tokens, p); err != nil || p.Tokens != 256 || s.Stats().Damaged != 1 {
				t.Errorf("afterwards %d tokens, %v, %+v", p.Tokens, err, s.Stats())
			}
			if saved := save(t, v, sequence(tokens, true)); saved.Blocks != 1 || saved.Err != nil {
				t.Errorf("written again: %+v", saved)
			}
			if p := v.Find(tokens, 600, 0, false); p.Tokens != 600 {
				t.Errorf("healed to %d tokens", p.Tokens)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file under another's name, right in itself, is never taken for the other.
func TestExchangedFiles(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 256), numbers(2, 256)
	save(t, v, sequence(a, false))
	save(t, v, sequence(b, false))
	if err := os.Rename(entryPath(s.dir, v.keys.chain(a)[0]), entryPath(s.dir, v.keys.chain(b)[0])); err != nil {
		t.Fatal(err)
	}
	for _, tokens := range [][]int32{a, b} {
		if err := load(v, tokens, v.Find(tokens, 256, 0, false)); !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v, expected ErrDamaged", err)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// A row whose tokens are wrong leads to a right file of other tokens: it is refused.
func TestWrongTokensInTheIndex(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 100), numbers(2, 100)
	save(t, v, sequence(a, true))
	if _, err := s.index.db.Exec("UPDATE entries SET tokens = ?", ordered(b)); err != nil {
		t.Fatal(err)
	}
	p := v.Find(b, 100, 0, false)
	if p.Tokens != 100 {
		t.Fatalf("found %+v", p)
	}
	if err := load(v, b, p); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, expected ErrDamaged", err)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		op     string
		err    error
		remove bool
	}{{"read", syscall.EIO, true}, {"open", syscall.EMFILE, false}, {"open", syscall.EACCES, false}} {
		t.Run(c.op+" "+c.err.Error(), func(t *testing.T) {
			d := &fakeDisk{}
			o := options(t)
			o.disk = d
			s := open(t, t.TempDir(), o)
			v := s.Model(testModel)
			tokens := numbers(1, 256)
			save(t, v, sequence(tokens, false))
			d.set(c.op, c.err)
			err := load(v, tokens, v.Find(tokens, 256, 0, false))
			if !errors.Is(err, c.err) || errors.Is(err, ErrDamaged) != c.remove {
				t.Errorf("got %v", err)
			}
			d.set(c.op, nil)
			if p := v.Find(tokens, 256, 0, false); (p.Tokens == 0) != c.remove {
				t.Errorf("afterwards %d tokens are found", p.Tokens)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The folder goes away under an open store: what was in it is a miss, what comes is stored again.
func TestFolderDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 600)
	save(t, v, sequence(tokens, true, 600))
	before := v.Find(tokens, 600, 0, true)
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
	// Only the files go, the index stays.
	if err := os.RemoveAll(filepath.Join(dir, blocksDir)); err != nil {
		t.Fatal(err)
	}
	if err := load(v, tokens, v.Find(tokens, 10, 0, false)); !errors.Is(err, ErrDamaged) { // one miss is enough
		t.Fatal(err)
	}
	s.swept.Wait()
	if saved := save(t, v, sequence(tokens, true, 600)); saved.Err != nil || saved.Blocks != 3 {
		t.Errorf("saved %+v", saved)
	}
	// The folder cannot be made again: nothing is stored, nothing breaks.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := v.Find(tokens, 600, 0, false); p.Tokens != 0 {
		t.Errorf("found %d tokens in a file", p.Tokens)
	}
	if saved := save(t, v, sequence(tokens, true)); saved.Err == nil {
		t.Errorf("saved %+v", saved)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if saved := save(t, v, sequence(tokens, true)); saved.Err != nil || saved.Blocks != 3 {
		t.Errorf("afterwards saved %+v", saved)
	}
	if st := s.Stats(); st.SaveErrors == 0 || st.LastSaveError == "" {
		t.Errorf("stats %+v", st)
	}
}

// The index is missing, cut, garbage or of another version: it is made again, and all is found.
func TestIndexRebuilt(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"missing": func(t *testing.T, path string) { os.Remove(path) },
		"empty":   func(t *testing.T, path string) { edit(t, path, func([]byte) []byte { return nil }) },
		"garbage": func(t *testing.T, path string) {
			edit(t, path, func(b []byte) []byte { return bytes.Repeat([]byte("garbage "), 5000) })
		},
		"cut": func(t *testing.T, path string) { edit(t, path, func(b []byte) []byte { return b[:len(b)/2] }) },
		"pages": func(t *testing.T, path string) {
			edit(t, path, func(b []byte) []byte {
				copy(b[indexPageBytes:], bytes.Repeat([]byte{0xa5}, len(b)-indexPageBytes))
				return b
			})
		},
		"version": func(t *testing.T, path string) {
			x, err := tryIndex(path, false)
			if err == nil {
				_, err = x.db.Exec("PRAGMA user_version = 99")
				err = errors.Join(err, x.close())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"no tables": func(t *testing.T, path string) {
			x, err := tryIndex(path, false)
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
			if err := s.Pin(v.Find(b, 600, 0, false).Blocks[2].Entry.Key.String()[:8], true); err != nil {
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
				t.Fatalf("%d conversations, %v, before %d", len(after), err, len(before))
			}
			for _, was := range before {
				found := false
				for _, c := range after {
					c.Hits, c.LastHit, c.SecondsSaved = was.Hits, was.LastHit, was.SecondsSaved // these are the index's alone
					found = found || c == was
				}
				if !found {
					t.Errorf("%+v is not among %+v", was, after)
				}
			}
		})
	}
}

// The index is damaged while it is open: the store goes on with a new one.
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
	s.index.db.SetMaxIdleConns(0) // forget what the connections have read, before the file's locks go with its descriptor
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

// What processes that died left behind is gone after opening, what is nobody's is left alone.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 600), numbers(2, 600)
	save(t, v, sequence(a, true))
	save(t, v, sequence(b, true))
	chain := v.keys.chain(b)
	if _, err := s.index.db.Exec("UPDATE entries SET status = 0, owner = '1-dead' WHERE key = ?", chain[0][:]); err != nil { // died before ready
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
	living, err := lockFile(write("tmp/7-living.lock", ""), true)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	gone := []string{
		write("tmp/1-dead.lock", ""), write("tmp/1-dead.1", "x"), write("tmp/2-unlocked.9", "x"),
		write(filepath.Join(blocksDir, "ab", "ab"+string(bytes.Repeat([]byte("0"), 62))+extension), "no entry"),
	}
	stays := []string{
		write("tmp/7-living.3", "x"), write("blocks/ab/notes.txt", "x"), write("blocks/.DS_Store", "x"), write("README", "x"),
		write(filepath.Join(blocksDir, "cd", "ab"+string(bytes.Repeat([]byte("0"), 62))+extension), "in the wrong folder"),
	}
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
		t.Errorf("a file whose row was never made ready: %d tokens are found", got)
	}
	if got := v.Find(a, 600, 0, false).Tokens; got != 256 {
		t.Errorf("behind a file that is gone %d tokens are found", got)
	}
	if st := s.Stats(); st.Foreign != 1 || st.Entries != 5 {
		t.Errorf("stats %+v", st)
	}
}

// One damaged file of several that are read at once costs no other: here the readers of all others are stopped in the middle.
func TestDamageIsNotCatching(t *testing.T) {
	o := options(t)
	o.Readers = 8
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	tokens := numbers(1, 2000)
	for range 20 {
		save(t, v, sequence(tokens, true))
		edit(t, entryPath(s.dir, v.keys.chain(tokens)[3]), func(b []byte) []byte { return nil })
		before := s.Stats()
		if err := load(v, tokens, v.Find(tokens, 2000, 0, false)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("got %v, expected ErrDamaged", err)
		}
		if st := s.Stats(); st.Damaged != before.Damaged+1 || st.Entries != before.Entries-1 {
			t.Fatalf("%d entries of %d are left, %d are damaged", st.Entries, before.Entries, st.Damaged-before.Damaged)
		}
	}
}
