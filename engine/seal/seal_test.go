package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectors reads testdata/vector.txt, which vector.py made without this package.
func vectors(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/vector.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all[name], err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// counting returns the bytes from, from+1, and so on: a key.
func counting(t testing.TB, from byte) Key {
	t.Helper()
	b := make([]byte, KeyBytes)
	for i := range b {
		b[i] = from + byte(i)
	}
	k, err := KeyOf(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testContent is the content of the vector's file.
func testContent() []byte {
	b := make([]byte, 2500)
	for i := range b {
		b[i] = byte(i * 7 % 251)
	}
	return b
}

// open opens a whole file.
func open(file []byte, key Key, name []byte) ([]byte, error) {
	h, err := ParseHeader(file, int64(len(file)))
	if err != nil {
		return nil, err
	}
	box, at := h.Box(key, name), int64(HeaderBytes)
	var content []byte
	for i := range h.Chunks() {
		n := int64(h.ChunkBytes(i) + TagBytes)
		chunk, err := box.Open(i, bytes.Clone(file[at:at+n]))
		if err != nil {
			return nil, err
		}
		content, at = append(content, chunk...), at+n
	}
	return content, nil
}

// slotsIn returns an open file of slots with this content.
func slotsIn(t testing.TB, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestVector opens and makes the files of vector.txt.
func TestVector(t *testing.T) {
	v := vectors(t)
	s, err := OpenSlots(slotsIn(t, v["slots"]), counting(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	if s.Folder() != counting(t, 32) {
		t.Error("the folder's key is another one")
	}
	if _, err := s.Key(1); !errors.Is(err, ErrNoSalt) {
		t.Errorf("slot 1: %v", err)
	}
	key, err := s.Key(2)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(v["file"], key, []byte("a name")); err != nil ||
		!bytes.Equal(got, testContent()) {
		t.Errorf("file: %d bytes, %v", len(got), err)
	}
	if got, err := open(v["empty"], key, nil); err != nil || len(got) != 0 {
		t.Errorf("empty: %d bytes, %v", len(got), err)
	}
	for name, content := range map[string][]byte{"file": testContent(), "empty": nil} {
		h, err := ParseHeader(v[name], int64(len(v[name])))
		if err != nil {
			t.Fatal(err)
		}
		context := map[string]string{"file": "a name"}[name]
		if h.Key != key.ID() || !bytes.Equal(h.File(key, []byte(context), content), v[name]) {
			t.Errorf("%s: other bytes", name)
		}
	}
	if n, err := s.Count(); err != nil || n != 3 {
		t.Errorf("%d slots, %v", n, err)
	}
	if full, err := s.Full(); err != nil || len(full) != 2 || !full[0] || !full[2] {
		t.Errorf("full slots %v, %v", full, err)
	}
}

// TestEveryBit flips each bit of a file, cuts it at every length, and exchanges its chunks.
func TestEveryBit(t *testing.T) {
	key := counting(t, 9)
	right := NewHeader(key.ID(), 1024, 7, 0).File(key, []byte("name"), testContent())
	wrong := func(what string, file []byte, key Key, name string) {
		t.Helper()
		if _, err := open(file, key, []byte(name)); err == nil {
			t.Fatalf("%s: it opens", what)
		}
	}
	for i := range right {
		if i >= 8 && i < 16 {
			continue // see below
		}
		b := bytes.Clone(right)
		b[i] ^= 1 << (i % 8)
		wrong(fmt.Sprintf("bit of byte %d", i), b, key, "name")
	}
	b := bytes.Clone(right)
	b[8] ^= 1 // the key's ID is in the associated data, too
	wrong("another ID", b, key, "name")
	for n := range right {
		wrong(fmt.Sprintf("cut to %d bytes", n), right[:n], key, "name")
	}
	wrong("extended", append(bytes.Clone(right), 0), key, "name")
	wrong("another key", right, counting(t, 10), "name")
	wrong("another name", right, key, "named")
	const sealed = 1024 + TagBytes
	first, second := right[HeaderBytes:HeaderBytes+sealed], right[HeaderBytes+sealed:]
	swapped := append(bytes.Clone(right[:HeaderBytes]), second[:sealed]...)
	swapped = append(append(swapped, first...), second[sealed:]...)
	wrong("exchanged chunks", swapped, key, "name")
	other := NewHeader(key.ID(), 1024, 7, 0).File(key, []byte("name"), testContent())
	wrong("a chunk of another file of the key", append(bytes.Clone(right[:HeaderBytes+sealed]),
		other[HeaderBytes+sealed:]...), key, "name")
	// A file cut at a chunk whose header says so: its last chunk was not sealed as the last.
	h, _ := ParseHeader(right, int64(len(right)))
	h.Length = 2048
	wrong("cut at a chunk", append(h.Append(nil), right[HeaderBytes:HeaderBytes+2*sealed]...), key,
		"name")
	if got, err := open(right, key, []byte("name")); err != nil ||
		!bytes.Equal(got, testContent()) {
		t.Errorf("the unchanged file: %v", err)
	}
}

func TestLengths(t *testing.T) {
	key := counting(t, 1)
	for _, n := range []int{0, 1, 1023, 1024, 1025, 2048, 5000} {
		content := bytes.Repeat([]byte{7}, n)
		h := NewHeader(key.ID(), 1024, 0, int64(n))
		file := h.File(key, nil, content)
		if int64(len(file)) != h.FileBytes() {
			t.Errorf("%d bytes: a file of %d, expected %d", n, len(file), h.FileBytes())
		}
		if got, err := open(file, key, nil); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if n > 0 && bytes.Contains(file, content[:min(n, 16)]) && n >= 16 {
			t.Errorf("%d bytes: the content is in the file", n)
		}
	}
}

// TestSlots: a destroyed slot has no key, and its file stays noise even with every other key.
func TestSlots(t *testing.T) {
	installation := NewKey()
	f := slotsIn(t, nil)
	s, err := CreateSlots(f, installation, NewKey())
	if err != nil {
		t.Fatal(err)
	}
	keys := map[uint32]Key{}
	for _, slot := range []uint32{0, 5, 9} {
		if keys[slot], err = s.Fill(slot); err != nil {
			t.Fatal(err)
		}
	}
	if keys[0] == keys[5] {
		t.Error("two slots have one key")
	}
	file := NewHeader(s.Folder().ID(), 1024, 5, 0).File(keys[5], nil, testContent())
	if err := errors.Join(s.Destroy(5), s.Sync()); err != nil {
		t.Fatal(err)
	}
	again, err := OpenSlots(f, installation)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Key(5); !errors.Is(err, ErrNoSalt) {
		t.Errorf("the destroyed slot: %v", err)
	}
	for _, slot := range []uint32{0, 9} {
		key, err := again.Key(slot)
		if err != nil || key != keys[slot] {
			t.Errorf("slot %d: %v", slot, err)
		}
		if _, err := open(file, key, nil); !errors.Is(err, ErrUnsealed) {
			t.Errorf("the file opens with slot %d: %v", slot, err)
		}
	}
	if _, err := open(file, again.Folder(), nil); !errors.Is(err, ErrUnsealed) {
		t.Errorf("the file opens with the folder's key: %v", err)
	}
	if full, err := again.Full(); err != nil || len(full) != 2 {
		t.Errorf("full slots %v, %v", full, err)
	}
}

// TestRewrap hands a folder to another installation.
func TestRewrap(t *testing.T) {
	mine, theirs := NewKey(), NewKey()
	f := slotsIn(t, nil)
	s, err := CreateSlots(f, mine, NewKey())
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Fill(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSlots(f, theirs); !errors.Is(err, ErrOtherKey) {
		t.Fatalf("with another key: %v", err)
	}
	exported, err := ParseKey(FormatKey(s.Folder()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSlotsWith(f, NewKey()); !errors.Is(err, ErrOtherKey) {
		t.Errorf("with another folder's key: %v", err)
	}
	if s, err = OpenSlotsWith(f, exported); err != nil {
		t.Fatal(err)
	}
	if err := s.Rewrap(theirs); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenSlots(f, theirs); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Key(0); err != nil || got != want {
		t.Errorf("slot 0: %v", err)
	}
	if _, err := OpenSlots(f, mine); !errors.Is(err, ErrOtherKey) {
		t.Errorf("with the first key: %v", err)
	}
	for _, text := range []string{"", "headroom-cache-key-", "headroom-cache-key-12",
		FormatKey(mine) + "00", FormatKey(mine)[1:]} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is taken for a key", text)
		}
	}
}

// TestSlotsRefused: a damaged header is no reason to erase anything, only an error.
func TestSlotsRefused(t *testing.T) {
	v := vectors(t)["slots"]
	for i := range 96 {
		b := bytes.Clone(v)
		b[i] ^= 4
		if _, err := OpenSlots(slotsIn(t, b), counting(t, 0)); err == nil {
			t.Errorf("byte %d changed: it opens", i)
		}
	}
	for _, n := range []int{0, 7, 127} {
		if _, err := OpenSlots(slotsIn(t, v[:n]), counting(t, 0)); err == nil {
			t.Errorf("cut to %d bytes: it opens", n)
		}
	}
}

// TestKeysDoNotPrint: a key shows in no format and no log.
func TestKeysDoNotPrint(t *testing.T) {
	k := counting(t, 65)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k, "in", struct{ K Key }{k})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&log, verb, k)
		fmt.Fprintf(&log, verb, struct{ K *Key }{&k})
		fmt.Fprintf(&log, verb, struct{ K Key }{k})
	}
	for _, secret := range []string{"ABCDE", "4142", "65 66", "0x41"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in %s", secret, &log)
		}
	}
}

func TestTexts(t *testing.T) {
	texts := counting(t, 3).Texts()
	sealed := texts.Seal(1, []byte("a title"), []byte("row 5"))
	if got, err := texts.Open(1, sealed, []byte("row 5")); err != nil || string(got) != "a title" {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range []struct {
		n       uint64
		context string
	}{{2, "row 5"}, {1, "row 6"}} {
		if _, err := texts.Open(c.n, sealed, []byte(c.context)); !errors.Is(err, ErrUnsealed) {
			t.Errorf("number %d in %s: %v", c.n, c.context, err)
		}
	}
}

func TestDestroyFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "key"), filepath.Join(dir, "another name")
	if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte("secret"), 20_000), 0o600),
		os.Link(path, link)); err != nil {
		t.Fatal(err)
	}
	if err := DestroyFile(path); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(link); err != nil || len(b) != 120_000 ||
		len(bytes.Trim(b, "\x00")) > 0 {
		t.Errorf("%d bytes are left, %v", len(b), err)
	}
	if err := DestroyFile(path); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.Symlink(link, path); err != nil {
		t.Fatal(err)
	}
	if DestroyFile(path) == nil || DestroyFile(dir) == nil {
		t.Error("a link or a folder was destroyed")
	}
}

// FuzzOpen checks that no bytes cause a panic, and that only the sealed file opens.
func FuzzOpen(f *testing.F) {
	v := vectors(f)
	right := v["file"]
	folder := counting(f, 32)
	key := folder.Derive("entry", v["slots"][128+64:])
	f.Add(right)
	f.Add(v["empty"])
	f.Add(right[:HeaderBytes])
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := open(file, key, []byte("a name"))
		if (err == nil) != bytes.Equal(file, right) {
			t.Errorf("%d bytes: %v", len(file), err)
		}
	})
}

// BenchmarkOpen opens chunks of 256 KiB.
func BenchmarkOpen(b *testing.B) {
	key := NewKey()
	h := NewHeader(key.ID(), 256<<10, 0, 256<<10)
	file := h.File(key, nil, make([]byte, h.Length))
	box, buffer := h.Box(key, nil), make([]byte, len(file))
	b.SetBytes(h.Length)
	for b.Loop() {
		if _, err := box.Open(0, buffer[:copy(buffer, file[HeaderBytes:])]); err != nil {
			b.Fatal(err)
		}
	}
}
