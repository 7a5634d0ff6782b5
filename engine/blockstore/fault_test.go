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

// entryFiles returns the paths of all entries in a folder.
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

// TestBitFlips flips one random bit in each of 1,000 files. Load must reject and remove every file
// that it reads.
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
		if _, err := s.Clear(); err != nil { // blocks after the first damaged one were never read
			t.Fatal(err)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestEveryByteCounts damages every byte of one file of each kind in turn.
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
			err := readMemory(t, s, wrong, k)
			if d := (damage{}); !errors.As(err, &d) {
				t.Fatalf("byte %d of %d changed: got %v, expected damage", i, len(right), err)
			}
		}
		for n := range right {
			err := readMemory(t, s, right[:n], k)
			if d := (damage{}); !errors.As(err, &d) {
				t.Fatalf("cut to %d of %d bytes: got %v, expected damage", n, len(right), err)
			}
		}
		if err := readMemory(t, s, right, k); err != nil {
			t.Errorf("the unchanged file: %v", err)
		}
	}
}

// readMemory reads an entry's file with this content.
func readMemory(t *testing.T, s *Store, b []byte, k Key) error {
	t.Helper()
	return s.safe().readContent(t.Context(), memoryFile{bytes.NewReader(b), int64(len(b))},
		reading{entry: Entry{Key: k, Bytes: int64(len(b))}})
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

// FuzzRead checks that no file causes a panic, and that any file other than the written one is
// rejected.
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
	f.Cleanup(func() { s.Close() })
	f.Add(right)
	f.Add(right[:len(right)-1])
	f.Add([]byte{})
	key := s.Model(testModel).keys.key(kindTail, Key{}, tokens)
	f.Fuzz(func(t *testing.T, b []byte) {
		piece := make([]byte, 96)
		err := s.safe().readContent(t.Context(), memoryFile{bytes.NewReader(b), int64(len(b))},
			reading{entry: Entry{Key: key, Bytes: int64(len(b)), want: tokens},
				targets: []Tensor{{"0.k", [][]byte{piece}}}})
		if (err == nil) != bytes.Equal(b, right) {
			t.Errorf("%d bytes, error %v", len(b), err)
		}
	})
}

func TestDamagedFiles(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"cut":    func(b []byte) []byte { return b[:len(b)-5] },
		"empty":  func(b []byte) []byte { return nil },
		"longer": func(b []byte) []byte { return append(b, 0) },
		"other format": func(b []byte) []byte {
			b = bytes.Replace(b, []byte("block 1"), []byte("block 0"), 1)
			return bytes.Replace(b, []byte("HRSEAL01"), []byte("HRSEAL00"), 1)
		},
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
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
				t.Errorf("after the removal: %d tokens, %v, %+v", p.Tokens, err, s.Stats())
			}
			if saved := save(t, v, sequence(tokens, true)); saved.Blocks != 1 || saved.Err != nil {
				t.Errorf("written again: %+v", saved)
			}
			if p := v.Find(tokens, 600, 0, false); p.Tokens != 600 {
				t.Errorf("found %d tokens after the block was written again", p.Tokens)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNotAFile replaces an entry's file. Load must neither follow a link nor wait for a pipe.
func TestNotAFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error { // to the entry's bytes, outside the folder
			return errors.Join(os.Rename(path+".old",
				filepath.Join(filepath.Dir(path), "..", "..", "away")),
				os.Symlink("../../away", path))
		},
		"loop":   func(path string) error { return os.Symlink(path, path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), options(t))
			v := s.Model(testModel)
			tokens := numbers(1, 256)
			save(t, v, sequence(tokens, false))
			path := entryPath(s.dir, v.keys.chain(tokens)[0])
			if err := errors.Join(os.Rename(path, path+".old"), make(path)); err != nil {
				t.Fatal(err)
			}
			if err := load(v, tokens, v.Find(tokens, 256, 0, false)); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, expected ErrDamaged", err)
			}
			if saved := save(t, v, sequence(tokens, false)); saved.Blocks != 1 {
				t.Errorf("saved %+v", saved)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExchangedFiles checks that a valid file with the name of another entry is rejected.
func TestExchangedFiles(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 256), numbers(2, 256)
	save(t, v, sequence(a, false))
	save(t, v, sequence(b, false))
	if err := os.Rename(entryPath(s.dir, v.keys.chain(a)[0]),
		entryPath(s.dir, v.keys.chain(b)[0])); err != nil {
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

// TestWrongTokensInTheIndex checks that Load rejects a valid file that the index lists with the
// wrong tokens.
func TestWrongTokensInTheIndex(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a, b := numbers(1, 100), numbers(2, 100)
	save(t, v, sequence(a, true))
	if _, err := s.index.db.Exec("UPDATE entries SET codes = ?",
		s.safe().codes(v.keys.root, b)); err != nil {
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
	}{{"read", syscall.EIO, true}, {"open", syscall.EMFILE, false},
		{"open", syscall.EACCES, false}} {
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
				t.Errorf("after the error: found %d tokens", p.Tokens)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneDamagedFile reads several files concurrently, one of them damaged. Only that one is
// removed, even though its error stops the other readers midway.
func TestOneDamagedFile(t *testing.T) {
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
			t.Fatalf("%d of %d entries are left, %d were damaged", st.Entries, before.Entries,
				st.Damaged-before.Damaged)
		}
	}
}
