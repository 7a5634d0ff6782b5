package blockstore

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"headroom/engine/seal"
)

// needKey skips a test while TestMain runs the tests without encryption.
func needKey(t testing.TB) {
	t.Helper()
	if testKey == nil {
		t.Skip("the folder is not encrypted")
	}
}

const secretTitle = "My password is hunter2"

// expectSecret fails if a file of the folder has the title or four consecutive tokens, in either
// byte order.
func expectSecret(t *testing.T, dir string, tokens []int32) {
	t.Helper()
	words := [][]byte{[]byte("hunter2"), []byte("password")}
	for i := 0; i+4 <= len(tokens); i += 4 {
		words = append(words, appendTokens(nil, tokens[i:i+4]), ordered(tokens[i:i+4]))
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		for _, w := range words {
			if bytes.Contains(b, w) {
				t.Errorf("%s has %x in plain text", path, w)
				break
			}
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}

// secretSequence has tokens that are not found by chance.
func secretSequence(seed, n int) Sequence {
	tokens := numbers(seed, n)
	for i := range tokens {
		tokens[i] += 1 << 20
	}
	q := sequence(tokens, true, n)
	q.Title = secretTitle
	return q
}

// TestNothingInPlainText reads every byte of a folder that was used in every way.
func TestNothingInPlainText(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	q := secretSequence(1, 700)
	for range 2 {
		s := open(t, dir, options(t))
		v := s.Model(testModel)
		save(t, v, q)
		if err := load(v, q.Tokens, v.Find(q.Tokens, 700, 0, true)); err != nil {
			t.Fatal(err)
		}
		list, err := s.Conversations(Filter{})
		if err != nil || len(list) != 1 || list[0].Title != secretTitle {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := s.Pin(list[0].Key.String(), true); err != nil {
			t.Fatal(err)
		}
		expectSecret(t, dir, q.Tokens) // with the write-ahead log
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		expectSecret(t, dir, q.Tokens)
		if err := os.Remove(filepath.Join(dir, indexName)); err != nil { // it is rebuilt
			t.Fatal(err)
		}
	}
	plain := newKeys(testModel.Fingerprint, testModel.Format, nil).chain(q.Tokens)
	if _, err := os.Stat(entryPath(dir, plain[0])); err == nil {
		t.Error("a file's name is the hash of its tokens: a guess can be checked")
	}
}

// TestPlainFolderConverted: plain entries of an earlier run are removed, files of others stay.
func TestPlainFolderConverted(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	o := options(t)
	o.Key = nil
	s := open(t, dir, o)
	q := secretSequence(1, 700)
	save(t, s.Model(testModel), q)
	s.Close()
	fill(t, dir, people)
	s = open(t, dir, options(t))
	s.swept.Wait()
	if st := s.Stats(); st.Entries != 0 || st.Foreign != 4 {
		t.Errorf("%+v", st)
	}
	save(t, s.Model(testModel), q)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	s.Close()
	expectSecret(t, dir, q.Tokens)
	expectFiles(t, dir, people)
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) == tempDir {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestOtherKey: a folder of another installation is refused and stays as it is, until its key is
// imported.
func TestOtherKey(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	saveAndPin(t, dir, 1)
	before := contents(t, dir)
	other := seal.NewKey()
	for name, key := range map[string]*seal.Key{"another key": &other, "no key": nil} {
		o := options(t)
		o.Key = key
		s, err := Open(dir, o)
		if !errors.Is(err, ErrOtherKey) && !errors.Is(err, ErrEncrypted) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			s.Close()
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, tempDir)); err != nil || len(left) > 0 {
		t.Errorf("a store that was not opened left %v, %v", left, err)
	}
	after := contents(t, dir)
	for path, text := range before {
		if after[path] != text {
			t.Errorf("%s has changed", path)
		}
	}
	if _, err := ExportKey(dir, other); !errors.Is(err, ErrOtherKey) {
		t.Errorf("export with another key: %v", err)
	}
	folder, err := ExportKey(dir, *testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := ImportKey(dir, other, other); !errors.Is(err, ErrOtherKey) {
		t.Errorf("import of another folder's key: %v", err)
	}
	if err := ImportKey(dir, folder, other); err != nil {
		t.Fatal(err)
	}
	mine := testKey
	testKey = &other
	defer func() { testKey = mine }()
	expectStored(t, dir, 1)
}

// TestEncryptionOff: a folder without entries can become a plain one again.
func TestEncryptionOff(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	saveAndPin(t, dir, 1)
	s := open(t, dir, options(t))
	if _, err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	o := options(t)
	o.Key = nil
	s = open(t, dir, o)
	if tokens := numbers(1, 300); save(t, s.Model(testModel), sequence(tokens, true)).Err != nil ||
		s.Model(testModel).Find(tokens, 300, 0, false).Tokens != 300 {
		t.Error("the plain folder stores nothing")
	}
	if Encrypted(dir) {
		t.Error("the file of keys is still there")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestForgottenIsNoise: copies of a removed conversation's files cannot be read again, with the
// installation's key and everything else that is left. A conversation that shares their beginning
// is whole.
func TestForgottenIsNoise(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	a := numbers(1, 900)
	b := join(a, 300, numbers(2, 400)) // shares the first block
	save(t, v, sequence(a, true, 900))
	save(t, v, sequence(b, true, 700))
	old := contents(t, filepath.Join(dir, blocksDir))
	var salts []byte
	d := findConversation(t, s, 900)
	for _, e := range d.Entries {
		if !e.Shared {
			salts = append(salts, saltOf(t, s, e.Key)...)
		}
	}
	if r, err := s.Remove(d.Key.String()); err != nil || r.Entries != 4 {
		t.Fatalf("removed %+v, %v", r, err)
	}
	keys, err := os.ReadFile(filepath.Join(dir, keysName))
	if err != nil {
		t.Fatal(err)
	}
	for salt := range slices.Chunk(salts, seal.KeyBytes) {
		if bytes.Contains(keys, salt) {
			t.Error("the salt of a removed entry is still in the file")
		}
	}
	if s.keysDirty.Load() {
		t.Error("Remove returned before the salts were synced")
	}
	noise := 0
	for path, text := range old {
		k, err := parseKey(filepath.Base(path)[:64])
		if err != nil {
			t.Fatal(err)
		}
		err = readMemory(t, s, []byte(text), k)
		if s.exists(k) == (err != nil) {
			t.Errorf("%s: in the folder: %v, read with %v", k, s.exists(k), err)
		}
		if errors.Is(err, seal.ErrNoSalt) {
			noise++
		}
	}
	if noise != 4 {
		t.Errorf("%d of 4 removed files are noise", noise)
	}
	// Slots are used again; the old files stay noise.
	save(t, v, sequence(numbers(9, 900), true, 900))
	for path, text := range old {
		if k, _ := parseKey(filepath.Base(path)[:64]); !s.exists(k) {
			if readMemory(t, s, []byte(text), k) == nil {
				t.Errorf("%s is readable with another entry's salt", k)
			}
		}
	}
	if err := load(v, b, v.Find(b, 700, 0, true)); err != nil ||
		v.Find(b, 700, 0, true).Tokens != 700 {
		t.Errorf("the other conversation: %v", err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func findConversation(t *testing.T, s *Store, tokens int) Detail {
	t.Helper()
	list, err := s.Conversations(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Tokens == tokens {
			d, err := s.Show(c.Key.String())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("no conversation of %d tokens", tokens)
	return Detail{}
}

// saltOf returns the salt of an entry.
func saltOf(t *testing.T, s *Store, k Key) []byte {
	t.Helper()
	var slot int
	if err := s.index.db.QueryRow("SELECT slot FROM entries WHERE key = ?", k[:]).Scan(
		&slot); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.dir, keysName))
	if err != nil {
		t.Fatal(err)
	}
	at := 128 + seal.KeyBytes*slot
	return slices.Clone(b[at : at+seal.KeyBytes])
}

// TestCrashWhileForgetting: slots are destroyed, and files and rows are still there. The next
// opening removes them.
func TestCrashWhileForgetting(t *testing.T) {
	needKey(t)
	for _, rebuild := range []bool{false, true} {
		dir := t.TempDir()
		s := open(t, dir, options(t))
		v := s.Model(testModel)
		a, b := numbers(1, 700), numbers(2, 700)
		save(t, v, sequence(a, true, 700))
		save(t, v, sequence(b, true, 700))
		err := s.change(func(tx *sql.Tx) error {
			for _, k := range v.keys.chain(a) {
				if err := s.destroySlot(tx, k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := s.Conversations(Filter{}); err != nil || len(list) == 0 {
			t.Errorf("while rows have no key: %+v, %v", list, err)
		}
		s.Close()
		if rebuild {
			if err := os.Remove(filepath.Join(dir, indexName)); err != nil {
				t.Fatal(err)
			}
		}
		s = open(t, dir, options(t))
		v = s.Model(testModel)
		s.swept.Wait()
		if err := s.Check(); err != nil {
			t.Errorf("rebuilt %v: %v", rebuild, err)
		}
		if n := v.Find(a, 700, 0, false).Tokens; n != 0 {
			t.Errorf("rebuilt %v: found %d tokens whose key is gone", rebuild, n)
		}
		if err := load(v, b, v.Find(b, 700, 0, true)); err != nil {
			t.Errorf("rebuilt %v: %v", rebuild, err)
		}
	}
}

// TestSlotsLeftBehind: slots that a crash filled without a row are overwritten by the next sweep.
func TestSlotsLeftBehind(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	s := open(t, dir, options(t))
	save(t, s.Model(testModel), sequence(numbers(1, 700), true))
	if _, err := s.safe().slots.Fill(77); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir, options(t))
	s.swept.Wait()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	save(t, s.Model(testModel), sequence(numbers(2, 700), true))
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if n, err := s.safe().slots.Count(); err != nil || n > 78 {
		t.Errorf("%d slots, %v", n, err)
	}
}

// TestKeysLostIsLogged: a file of keys that was removed, or cut after its header, costs the entries
// and is named in the log.
func TestKeysLostIsLogged(t *testing.T) {
	needKey(t)
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 128) },
	} {
		dir := t.TempDir()
		saveAndPin(t, dir, 1)
		path := filepath.Join(dir, keysName)
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		for range 2 { // the second opening has nothing to say
			o := options(t)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			s := open(t, dir, o)
			s.swept.Wait()
			s.Close()
		}
		if text := log.String(); strings.Count(text, "has no key for") != 1 ||
			!strings.Contains(text, path) {
			t.Errorf("%s: the log is %q", name, text)
		}
	}
}

// TestKeysLost: without the file of keys all entries are noise and are removed. Files of others
// with that name are refused, not touched.
func TestKeysLost(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	saveAndPin(t, dir, 1)
	path := filepath.Join(dir, keysName)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, options(t))
	s.swept.Wait()
	if st := s.Stats(); st.Entries != 0 {
		t.Errorf("%+v", st)
	}
	save(t, s.Model(testModel), sequence(numbers(2, 700), true))
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	s.Close()
	for _, text := range []string{"", "my keys", strings.Repeat("x", 4000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(dir, options(t)); err == nil {
			s.Close()
			t.Errorf("a folder whose keys are %.10q opens", text)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("the file of keys has changed: %v", err)
		}
	}
}

// forgetDir is the environment variable with the folder of TestForgetWithOthers's child.
const forgetDir = "HEADROOM_BLOCKSTORE_FORGET"

// TestForgetChild is the child process of TestForgetWithOthers.
func TestForgetChild(t *testing.T) {
	dir := os.Getenv(forgetDir)
	if dir == "" {
		t.Skip("the child of TestForgetWithOthers")
	}
	churn(t, dir, 100)
}

// churn saves, loads and removes conversations.
func churn(t *testing.T, dir string, seed int) {
	s := open(t, dir, smallCap(t))
	v := s.Model(testModel)
	for i := range 40 {
		tokens := conversation(seed + i)
		if saved := save(t, v, sequence(tokens, true, 300, len(tokens))); saved.Err != nil &&
			!errors.Is(saved.Err, ErrBudget) && !strings.Contains(saved.Err.Error(), "removed") {
			t.Error(saved.Err)
		}
		if err := load(v, tokens, v.Find(tokens, len(tokens), 0, i%2 == 0)); err != nil &&
			!errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
		list, err := s.Conversations(Filter{})
		if err != nil {
			t.Error(err)
		}
		if len(list) > 0 && i%3 == 0 {
			if _, err := s.Remove(list[i%len(list)].Key.String()); err != nil &&
				!errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		}
	}
}

// TestForgetWithOthers: two processes, and two stores in one of them, save, load, evict and remove
// in one folder. Rows, files and slots agree afterwards.
func TestForgetWithOthers(t *testing.T) {
	needKey(t)
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestForgetChild$")
	child.Env = append(os.Environ(), forgetDir+"="+dir, killDir+"="+t.TempDir())
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { churn(t, dir, 1000*i) })
	}
	all.Wait()
	if err := child.Wait(); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
	s := open(t, dir, smallCap(t))
	s.swept.Wait()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestCodes: two entries of a parent have as many equal codes as equal tokens, and no code tells
// anything across parents or folders.
func TestCodes(t *testing.T) {
	needKey(t)
	s := open(t, t.TempDir(), options(t))
	other := open(t, t.TempDir(), options(t))
	a := numbers(1, 256)
	for n := range a {
		b := slices.Clone(a)
		b[n]++
		x, y := s.safe().codes(Key{1}, a), s.safe().codes(Key{1}, b)
		if got := commonPrefix(fromOrdered(x), fromOrdered(y)); got != n {
			t.Fatalf("%d equal codes, expected %d", got, n)
		}
		for i := n; i < len(a); i++ { // after the first difference none is equal
			if bytes.Equal(x[4*i:4*i+4], y[4*i:4*i+4]) {
				t.Fatalf("code %d is equal after a difference at %d", i, n)
			}
		}
	}
	x := s.safe().codes(Key{1}, a)
	for what, y := range map[string][]byte{"parent": s.safe().codes(Key{2}, a),
		"folder": other.safe().codes(Key{1}, a), "nothing": ordered(a)} {
		if commonPrefix(fromOrdered(x), fromOrdered(y)) > 0 {
			t.Errorf("another %s has the same codes", what)
		}
	}
	if !bytes.Equal(x[:400], s.safe().codes(Key{1}, a[:100])) {
		t.Error("a prefix of the tokens has other codes")
	}
}

// TestRowChanged: a changed secret column is damage of the index, which is rebuilt.
func TestRowChanged(t *testing.T) {
	needKey(t)
	for _, column := range []string{"title", "tokens"} {
		s := open(t, t.TempDir(), options(t))
		q := secretSequence(1, 600)
		save(t, s.Model(testModel), q)
		old := s.index
		if _, err := s.index.db.Exec(fmt.Sprintf(
			"UPDATE entries SET %s = zeroblob(length(%[1]s))", column)); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Show(s.Model(testModel).keys.chain(q.Tokens)[1].String()[:8])
		list, err := s.Conversations(Filter{})
		if err == nil {
			_, err = s.Show(list[0].Key.String())
		}
		if err != nil || len(list) != 1 || list[0].Title != secretTitle || s.index == old {
			t.Errorf("%s: %+v, %v", column, list, err)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", column, err)
		}
	}
}

// TestLongHeader: the header of a file may be longer than a chunk.
func TestLongHeader(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	q := sequence(numbers(1, 256), false)
	q.KV = func(from, to int) []Tensor {
		var all []Tensor
		for i := range 5000 {
			all = append(all, Tensor{fmt.Sprintf("layer.%d.kv", i), [][]byte{{byte(i), 1}, {2, 3}}})
		}
		return all
	}
	if saved := save(t, v, q); saved.Err != nil {
		t.Fatal(saved.Err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	last := Tensor{"layer.4999.kv", [][]byte{make([]byte, 2), make([]byte, 2)}}
	err := readAndCount(t.Context(), v, v.Find(q.Tokens, 256, 0, false),
		func(Block) []Tensor { return []Tensor{last} }, nil)
	if want := byte(4999 % 256); err != nil || last.Pieces[0][0] != want || last.Pieces[1][1] != 3 {
		t.Errorf("%v, %v", last.Pieces, err)
	}
}
