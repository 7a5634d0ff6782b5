package promptfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine/blockstore"
	"headroom/engine/safetensors"
)

// piece returns the bytes of a piece, which depend on what it is of.
func piece(seed string, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(len(seed)*31 + i*7 + int(seed[i%len(seed)]))
	}
	return b
}

// content returns a conversation of so many tokens. The first start tokens have pages of another
// format.
func content(tokens, start int, states ...int) Content {
	c := Content{Info: Info{Model: blockstore.Model{Fingerprint: "f00d", Format: "f16 #1",
		Name: "org/model"}, Computation: "here", Continues: ContinuesMessage,
		Options: `{"a":1}`, Title: "A <title>", Created: time.Unix(1e9, 0)},
		PageTokens: 32, States: states}
	for i := range tokens {
		c.Tokens = append(c.Tokens, int32(i*7%1000))
	}
	c.Block = func(from, to int) (list []blockstore.Tensor, err error) {
		names, size := []string{"0.k", "0.v", "1.latent"}, 40
		if from < start {
			names, size = []string{"0.start.k", "0.start.v"}, 64
		}
		for i, name := range names {
			t := blockstore.Tensor{Name: name}
			for at := from; at < to; at += 32 {
				t.Pieces = append(t.Pieces, piece(fmt.Sprint(name, at), size+i))
			}
			list = append(list, t)
		}
		return list, nil
	}
	c.State = func(position int) ([]blockstore.Tensor, error) {
		return []blockstore.Tensor{
			{Name: "2.conv", Pieces: [][]byte{piece(fmt.Sprint(position), 9)}},
			{Name: "2.state", Pieces: [][]byte{piece(fmt.Sprint("s", position), 33)}}}, nil
	}
	return c
}

func write(t testing.TB, c Content) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "prompt.safetensors")
	bytes, err := Write(context.Background(), path, false, c)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 || info.Size() != bytes {
		t.Fatalf("%v, %v, expected %d bytes", info, err, bytes)
	}
	return path
}

// same reports whether a file has the content.
func same(t *testing.T, f *File, c Content) bool {
	t.Helper()
	want := c.Info
	want.Created = want.Created.UTC()
	if f.Info() != want || !slices.Equal(f.Tokens(), c.Tokens) ||
		!slices.Equal(f.States(), c.States) {
		t.Errorf("got %+v, %d tokens and the states %v", f.Info(), len(f.Tokens()), f.States())
		return false
	}
	equal := func(a, b []blockstore.Tensor) bool {
		return slices.EqualFunc(a, b, func(a, b blockstore.Tensor) bool {
			return a.Name == b.Name && slices.EqualFunc(a.Pieces, b.Pieces, bytes.Equal)
		})
	}
	for from := 0; from < len(c.Tokens); from += blockstore.BlockTokens {
		got, err := f.Block(from)
		want, _ := c.Block(from, min(from+blockstore.BlockTokens, len(c.Tokens)))
		if err != nil || !equal(got, want) {
			t.Errorf("the block at %d: %v", from, err)
			return false
		}
	}
	for _, position := range c.States {
		got, err := f.State(position)
		if want, _ := c.State(position); err != nil || !equal(got, want) {
			t.Errorf("the state after %d: %v", position, err)
			return false
		}
	}
	return true
}

// TestFile writes and reads files of every shape.
func TestFile(t *testing.T) {
	for _, c := range []Content{content(1, 0), content(256, 0), content(257, 0, 1, 256, 257),
		content(700, 512, 700), content(512, 512), content(300, 512, 5), content(2000, 256, 1999)} {
		path := write(t, c)
		f, err := Open(path)
		if err != nil {
			t.Fatalf("%d tokens: %v", len(c.Tokens), err)
		}
		same(t, f, c)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		other, err := safetensors.Open(path) // any reader can open it
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := other.Tensor("tokens"); !ok || x.Shape[0] != len(c.Tokens) {
			t.Errorf("tokens: %+v", x)
		}
		other.Close()
	}
}

// TestRead reads a part of a file into pieces, and skips those that are in memory.
func TestRead(t *testing.T) {
	c := content(700, 256, 300, 700)
	f, err := Open(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	from := 320
	blocks := map[int][]blockstore.Tensor{}
	state := []blockstore.Tensor{{Name: "2.state", Pieces: [][]byte{make([]byte, 33)}},
		{Name: "2.conv", Pieces: [][]byte{make([]byte, 9)}}}
	read := func(ctx context.Context) error {
		return f.Read(ctx, from, func(b blockstore.Block) []blockstore.Tensor {
			list, _ := c.Block(b.From, b.To)
			for i := range list {
				for j := range list[i].Pieces {
					clear(list[i].Pieces[j])
					if b.From+32*j < from {
						list[i].Pieces[j] = nil
					}
				}
			}
			blocks[b.From] = list
			return list
		}, func() []blockstore.Tensor { return state })
	}
	if err := read(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 2 || !bytes.Equal(state[1].Pieces[0], piece("700", 9)) {
		t.Errorf("%d blocks, state %x", len(blocks), state[1].Pieces[0])
	}
	for at, list := range blocks {
		want, _ := c.Block(at, min(at+256, 700))
		for i := range list {
			for j, p := range list[i].Pieces {
				if p != nil && !bytes.Equal(p, want[i].Pieces[j]) {
					t.Errorf("block %d, %s, page %d differs", at, list[i].Name, j)
				}
			}
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := read(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	for name, targets := range map[string][]blockstore.Tensor{
		"another size": {{Name: "2.conv", Pieces: [][]byte{make([]byte, 8)}}},
		"another name": {{Name: "3.conv", Pieces: [][]byte{make([]byte, 9)}}},
		"more pieces":  {{Name: "2.conv", Pieces: make([][]byte, 2)}},
	} {
		state = targets
		if err := read(context.Background()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamage flips a bit in every part of a file, and cuts it everywhere.
func TestDamage(t *testing.T) {
	c := content(300, 256, 5, 300)
	good, err := os.ReadFile(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bad")
	check := func(bad []byte, what string) {
		t.Helper()
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		err := readAll(path)
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has more than a line: %v", what, err)
		}
	}
	for at := 0; at < len(good); at += 7 {
		check(good[:at], fmt.Sprint("cut at ", at))
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		check(bad, fmt.Sprint("bit in byte ", at))
	}
	check(append(bytes.Clone(good), 0), "a byte more")
	if _, err := Open(filepath.Dir(path)); err == nil {
		t.Error("a folder was opened")
	}
}

// readAll reads all of a file.
func readAll(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := 0; at < len(f.Tokens()); at += blockstore.BlockTokens {
		_, failed := f.Block(at)
		err = errors.Join(err, failed)
	}
	for _, at := range f.States() {
		_, failed := f.State(at)
		err = errors.Join(err, failed)
	}
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		return fmt.Errorf("%w %w", ErrDamaged, err)
	}
	return nil
}

// TestForeignFiles: a file of others is never replaced, unless the user says so. A prompt cache is,
// also a damaged one and one of another version. A write that fails leaves the old file.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := content(40, 0)
	old, err := os.ReadFile(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(old)
	damaged[len(damaged)-1] ^= 1
	later := bytes.Replace(old, []byte(formatVersion), []byte("headroom prompt cache 9"), 1)
	var foreign bytes.Buffer
	if err := safetensors.Write(&foreign, []safetensors.Tensor{{Name: "tokens",
		DType: safetensors.U8, Shape: []int{1}, Data: []byte{1}}},
		map[string]string{"format": "mlx"}); err != nil {
		t.Fatal(err)
	}
	failing := c
	failing.Block = func(from, to int) ([]blockstore.Tensor, error) {
		return nil, errors.New("no pages")
	}
	for name, x := range map[string]struct {
		data     []byte
		replaced bool
	}{"text": {[]byte("mine"), false}, "empty": {nil, false}, "mlx": {foreign.Bytes(), false},
		"old": {old, true}, "damaged": {damaged, true}, "later": {later, true},
		".old.123": {[]byte("not ours"), false}} {
		if err := os.WriteFile(at(name), x.data, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			if _, err := Write(context.Background(), at(name), force, failing); err == nil {
				t.Errorf("%s: a write without pages", name)
			}
			if got, err := os.ReadFile(at(name)); err != nil || !bytes.Equal(got, x.data) {
				t.Fatalf("%s has changed after a failed write: %v", name, err)
			}
		}
		_, err := Write(context.Background(), at(name), false, c)
		got, _ := os.ReadFile(at(name))
		if x.replaced != (err == nil) || !x.replaced && !errors.Is(err, ErrExists) ||
			!x.replaced && !bytes.Equal(got, x.data) {
			t.Errorf("%s: %v", name, err)
		}
		if name == ".old.123" {
			continue
		}
		if _, err := Write(context.Background(), at(name), true, c); err != nil {
			t.Errorf("%s, by force: %v", name, err)
		}
	}
	if names, _ := filepath.Glob(at(".*")); len(names) != 1 {
		t.Errorf("temporary files are left, or one of others is gone: %q", names)
	}
}

// FuzzOpen: no file causes a panic, or takes more memory than it has bytes; what can be read is
// what was written.
func FuzzOpen(f *testing.F) {
	for _, c := range []Content{content(40, 0, 40), content(300, 256)} {
		data, err := os.ReadFile(write(f, c))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = readAll(path)
	})
}

// FuzzLayout: no layout that is accepted names bytes outside of the tensors, although its hash is
// right.
func FuzzLayout(f *testing.F) {
	f.Add(40, `{"page_tokens":32,"parts":[{"to":40,"tensors":["0.k"]}],"states":[40],`+
		`"state_tensors":["2.conv"]}`)
	f.Add(300, `{"page_tokens":1,"parts":[{"to":256,"tensors":[]},{"to":300,"tensors":["0.k"]}]}`)
	f.Fuzz(func(t *testing.T, tokens int, text string) {
		if tokens < 1 || tokens > 1000 {
			return
		}
		path := filepath.Join(t.TempDir(), "file")
		if !forge(t, path, tokens, text) {
			return
		}
		_ = readAll(path)
	})
}
