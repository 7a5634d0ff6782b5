package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/engine/safetensors"
)

// digests is a Digests in memory.
type digests map[string]string

func (d digests) Digest(name string) (string, bool) { text, ok := d[name]; return text, ok }
func (d digests) SetDigest(name, text string)       { d[name] = text }

// fingerprintOf opens a folder at a given time and returns the fingerprint of its weights, and the
// number of bytes that were read for it.
func fingerprintOf(t *testing.T, dir string, d Digests, now time.Time) (sum string, read int) {
	t.Helper()
	files, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := openFiles(files, &Config{}, nil)
	defer w.Close()
	w.Digests = d
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
