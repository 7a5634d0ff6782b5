package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/safetensors"
)

// digests is a Digests in memory.
type digests map[string]string

func (d digests) Digest(name string) (string, bool) { text, ok := d[name]; return text, ok }
func (d digests) SetDigest(name, text string)       { d[name] = text }

// fingerprintOf opens a folder at a given time and returns the fingerprint of its weights, and the
// number of bytes that were read for it. The file system counts as one that keeps change times.
func fingerprintOf(t *testing.T, dir string, d Digests, now time.Time) (sum string, read int) {
	t.Helper()
	return fingerprintOn(t, dir, d, now, func(string) (string, bool) { return "test", true })
}

// fingerprintOn is fingerprintOf with a decision on file systems; nil: the real one.
func fingerprintOn(t *testing.T, dir string, d Digests, now time.Time,
	keeps func(string) (string, bool)) (sum string, read int) {
	t.Helper()
	files, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := openFiles(files, &Config{}, nil)
	defer w.Close()
	w.Digests, w.keepsChangeTime = d, keeps
	if err := w.findDigest(t.Context(), now, func(n int) { read += n }); err != nil {
		t.Fatal(err)
	}
	return w.Fingerprint(), read
}

func writeTensors(t *testing.T, path string, tensors ...safetensors.Tensor) {
	t.Helper()
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFingerprintCoversAll changes one byte in each part of a tensor that is hashed in pieces, a
// name, a type and a shape. Shards and folders do not count.
func TestFingerprintCoversAll(t *testing.T) {
	large, small := zeros("a", safetensors.U8, digestPiece*2+1000), zeros("b", safetensors.U8, 6)
	of := func(files ...[]safetensors.Tensor) string {
		t.Helper()
		dir := t.TempDir()
		for i, tensors := range files {
			writeTensors(t, filepath.Join(dir, "model-"+string(rune('0'+i))+".safetensors"),
				tensors...)
		}
		sum, read := fingerprintOf(t, dir, nil, time.Now())
		if want := len(large.Data) + len(small.Data); read != want {
			t.Errorf("%d bytes read, expected %d", read, want)
		}
		return sum
	}
	both := []safetensors.Tensor{large, small}
	want := of(both)
	if got := of(both[1:], both[:1]); got != want {
		t.Errorf("in two files %s, in one %s", got, want)
	}
	seen := map[string]string{want: "as it is"}
	note := func(name, sum string) {
		if other := seen[sum]; other != "" {
			t.Errorf("%s: the fingerprint is that of %s", name, other)
		}
		seen[sum] = name
	}
	for _, at := range []int{0, 5000, digestPiece - 1, digestPiece, digestPiece + 77_777,
		digestPiece * 2, len(large.Data) - 1} {
		large.Data[at] ^= 1
		note("a byte", of(both))
		large.Data[at] ^= 1
	}
	renamed, typed, shaped := small, small, small
	renamed.Name, typed.DType, shaped.Shape = "c", safetensors.I8, []int{2, 3}
	for _, x := range []safetensors.Tensor{renamed, typed, shaped} {
		note(x.Name+" "+string(x.DType), of([]safetensors.Tensor{large, x}))
	}
}

// TestFingerprintRemembered: a second load reads nothing, unless a file has changed, even one whose
// size and time of modification are as before. Another folder has the same fingerprint.
func TestFingerprintRemembered(t *testing.T) {
	dir, later, known := t.TempDir(), time.Now().Add(time.Hour), digests{}
	path := filepath.Join(dir, "model.safetensors")
	x := zeros("a", safetensors.U8, 10_000)
	writeTensors(t, path, x)
	if _, read := fingerprintOf(t, dir, known, time.Now()); read != 10_000 || len(known) != 0 {
		t.Errorf("a file that is being written: %d bytes read, %d digests kept", read, len(known))
	}
	first, read := fingerprintOf(t, dir, known, later)
	if read != 10_000 || len(known) != 1 {
		t.Fatalf("first: %d bytes read, %d digests kept", read, len(known))
	}
	if again, read := fingerprintOf(t, dir, known, later); again != first || read != 0 {
		t.Errorf("again: %s, %d bytes read; first %s", again, read, first)
	}
	elsewhere := t.TempDir()
	writeTensors(t, filepath.Join(elsewhere, "model.safetensors"), x)
	if copied, read := fingerprintOf(t, elsewhere, known, later); copied != first || read == 0 {
		t.Errorf("a copy: %s, %d bytes read; the first folder %s", copied, read, first)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	x.Data[5000] = 1
	writeTensors(t, path, x)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if edited, read := fingerprintOf(t, dir, known, later); edited == first || read == 0 {
		t.Errorf("edited: %s, %d bytes read", edited, read)
	}
	for name, text := range known { // what is damaged is computed again
		known[name] = strings.TrimSuffix(text, text[strings.Index(text, " ")+1:])
	}
	if _, read := fingerprintOf(t, dir, known, later); read == 0 {
		t.Error("an empty digest was used")
	}
}

// TestFileSystems: on a file system that is not known to keep change times, the digest is neither
// remembered nor taken from one that was remembered there.
func TestFileSystems(t *testing.T) {
	dir, later, known := t.TempDir(), time.Now().Add(time.Hour), digests{}
	writeTensors(t, filepath.Join(dir, "model.safetensors"), zeros("a", safetensors.U8, 1000))
	for _, c := range []struct {
		fileSystem string
		keeps      bool
		read       int
	}{{"exfat", false, 1000}, {"exfat", false, 1000}, {"ext4", true, 1000}, {"ext4", true, 0},
		{"exfat", false, 1000}} {
		_, read := fingerprintOn(t, dir, known, later,
			func(string) (string, bool) { return c.fileSystem, c.keeps })
		if read != c.read {
			t.Errorf("%s: %d bytes read, expected %d", c.fileSystem, read, c.read)
		}
	}
}

// TestWriteThroughMap: a program writes to a page of a file that it has mapped, both before and
// after the digest is remembered. The second write changes no time if the page is still waiting to
// be written to disk. Its weights must have another digest, on every file system.
func TestWriteThroughMap(t *testing.T) {
	dir, later, known := t.TempDir(), time.Now().Add(time.Hour), digests{}
	path := filepath.Join(dir, "model.safetensors")
	writeTensors(t, path, zeros("a", safetensors.U8, 100_000))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	at := len(mapped) - 50_000
	mapped[at] = 1
	before, _ := fingerprintOn(t, dir, known, later, nil)
	nextTick(t, path)
	mapped[at] = 2
	after, read := fingerprintOn(t, dir, known, later, nil)
	if after == before {
		t.Errorf("the digest of other weights was used, %d bytes read, %d digests known", read,
			len(known))
	}
}

// nextTick waits until a change of a file would have a later time than the last change of path.
func nextTick(t *testing.T, path string) {
	t.Helper()
	stamp := func(path string) (s unix.Stat_t) {
		if err := unix.Stat(path, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	was, probe := stamp(path), filepath.Join(t.TempDir(), "probe")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err := os.WriteFile(probe, []byte{1}, 0o600); err != nil {
			t.Fatal(err)
		}
		if s := stamp(probe); s.Ctim.Nano() > was.Ctim.Nano() {
			return
		}
	}
	t.Fatal("the clock of the file system stands still")
}

// TestChangedFile: a file that was written to or replaced since Prefault has changed, and one that
// was only read has not.
func TestChangedFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"": func(path string) error { _, err := os.ReadFile(path); return err },
		"written": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte{1}, 5000)
				err = errors.Join(err, f.Close())
			}
			return err
		},
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+"2", data, 0o600), os.Rename(path+"2", path))
		},
		"removed": os.Remove,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "model.safetensors")
		writeTensors(t, path, zeros("a", safetensors.U8, 10_000))
		files, err := safetensors.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		w := openFiles(files, &Config{}, nil)
		w.Digests = digests{}
		if err := w.Prefault(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		nextTick(t, path)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if got := w.ChangedFile(); (got == path) != (name != "") {
			t.Errorf("%q: the changed file is %q", name, got)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkChangedFile measures the check of a model of 50 files.
func BenchmarkChangedFile(b *testing.B) {
	dir := b.TempDir()
	var all []safetensors.Tensor
	for i := range 50 {
		name := fmt.Sprintf("model-%05d-of-00050.safetensors", i+1)
		var file bytes.Buffer
		all = []safetensors.Tensor{zeros(name, safetensors.U8, 100)}
		if err := errors.Join(safetensors.Write(&file, all, nil),
			os.WriteFile(filepath.Join(dir, name), file.Bytes(), 0o600)); err != nil {
			b.Fatal(err)
		}
	}
	files, err := safetensors.OpenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	w := openFiles(files, &Config{}, nil)
	defer w.Close()
	for b.Loop() {
		if file := w.ChangedFile(); file != "" {
			b.Fatal(file)
		}
	}
}

// TestPrefaultFindsDigest: Prefault stops with the context, and reports progress that never falls.
func TestPrefaultFindsDigest(t *testing.T) {
	w := open(t, "", zeros("a", safetensors.U8, 3*digestPiece))
	w.Digests = digests{}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Prefault(stopped, nil); !errors.Is(err, context.Canceled) || w.digest != "" {
		t.Errorf("stopped: %v, digest %q", err, w.digest)
	}
	last := 0.0
	err := w.Prefault(t.Context(), func(done float64) {
		if done < last || done > 1 {
			t.Errorf("progress %g after %g", done, last)
		}
		last = done
	})
	if err != nil || last != 1 || w.digest == "" {
		t.Errorf("%v, progress %g, digest %q", err, last, w.digest)
	}
}
