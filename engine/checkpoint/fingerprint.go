package checkpoint

// A fingerprint identifies the weights of a model, so that a stored prefix cache is never used with
// other weights. It covers every byte of every tensor: an edit of one row changes the keys and
// values of some prompts only, and no sample of the bytes would find it.
//
// Reading 20 GB at each start would take longer than loading the model. So the digest of the
// tensors is remembered together with the stamps of their files (safetensors.Stamp), and only the
// first load of new or changed files computes it. It reads the files in order on all cores, which
// also brings them into memory, as Prefault must. On a file system whose stamps may stay the same
// after a write, it is computed at each load.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/engine/safetensors"
)

// Digests remembers texts by name across restarts. What it cannot remember is computed again.
type Digests interface {
	Digest(name string) (text string, ok bool)
	SetDigest(name, text string)
}

const (
	// digestPiece is the number of bytes of a tensor that one core hashes at a time.
	digestPiece = 4 << 20
	// stampAge is the age from which a stamp is trusted. Two writes of a file within one tick of
	// the file system's clock have the same stamp. FAT has the longest tick, of two seconds.
	stampAge = 2 * time.Second
)

// Fingerprint returns 32 hex digits that identify config.json and the weights. It does not depend
// on the location of the files or on how the tensors are divided into shards. It includes a block
// that drafts and has files of its own. For a random model, whose prefix cache is never stored, it
// returns "". If Digests is nil, nothing is stored either, and paths and stamps of the files stand
// for their content.
func (w *Weights) Fingerprint() string {
	if w.files == nil {
		return ""
	}
	h := sha256.New()
	keys := make([]string, 0, len(w.Config.keys))
	for k := range w.Config.keys {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		hashPart(h, []byte(k))
		hashPart(h, w.Config.keys[k])
	}
	hashPart(h, []byte(w.identity()))
	if block := w.modules[blockModule]; block != nil {
		hashPart(h, []byte(block.Fingerprint()))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// hashPart adds bytes to a hash, and their number, so that no two lists of parts are the same.
func hashPart(h hash.Hash, b []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
}

// identity returns the digest of the tensors, or that of the files' stamps.
func (w *Weights) identity() string {
	if w.digest == "" {
		if _, stamps := w.stamps(); w.Digests == nil && stamps != "" {
			return stamps
		}
		_ = w.findDigest(context.Background(), time.Now(), func(int) {}) // it does not end
	}
	return w.digest
}

// stamps returns a name for the paths of the files, and a digest of the paths and stamps. Files
// that are not in a folder have none.
func (w *Weights) stamps() (name, stamps string) {
	paths, all := sha256.New(), sha256.New()
	for _, f := range w.files.Files() {
		if f.Stamp() == (safetensors.Stamp{}) {
			return "", ""
		}
		path, err := filepath.Abs(f.Path())
		if err != nil {
			return "", ""
		}
		hashPart(paths, []byte(path))
		hashPart(all, fmt.Appendf(nil, "%s %+v", path, f.Stamp()))
	}
	return "weights " + hex.EncodeToString(paths.Sum(nil)[:16]),
		hex.EncodeToString(all.Sum(nil)[:16])
}

// findDigest sets digest to the digest of the tensors, and finds those that are not finite. It
// reads them unless Digests has both with the stamps of the files. It calls done with the number of
// bytes that it has read. now is a time before the call. If ctx ends first, it returns ctx.Err().
func (w *Weights) findDigest(ctx context.Context, now time.Time,
	done func(bytes int)) (err error) {
	remembers := w.Digests != nil && w.remembers()
	if remembers {
		name, stamps := w.stamps()
		text, _ := w.Digests.Digest(name)
		if known, rest, _ := strings.Cut(text, " "); known == stamps && w.recall(rest) {
			return nil
		}
	}
	if w.Digests != nil {
		remembers = w.sync(ctx) && remembers && w.settled(now)
	}
	if w.digest, err = w.digestTensors(ctx, done); err != nil {
		return err
	}
	if text, ok := w.remembered(); ok && remembers {
		name, stamps := w.stamps()
		w.Digests.SetDigest(name, stamps+" "+text)
	}
	return nil
}

// remembers reports whether every file has a stamp that changes with its content.
func (w *Weights) remembers() bool {
	if name, _ := w.stamps(); name == "" {
		return false
	}
	keeps := w.keepsChangeTime
	if keeps == nil {
		keeps = safetensors.KeepsChangeTime
	}
	for _, f := range w.files.Files() {
		if fileSystem, ok := keeps(f.Path()); !ok {
			slog.Debug("the weights are hashed at each load: their file system is not known to "+
				"show every change", "file", f.Path(), "file_system", fileSystem)
			return false
		}
	}
	return true
}

// sync makes every later write of the files change a stamp, and reports whether it could.
func (w *Weights) sync(ctx context.Context) bool {
	for _, f := range w.files.Files() {
		if f.Stamp() == (safetensors.Stamp{}) || ctx.Err() != nil {
			return false
		}
		if err := f.Sync(); err != nil {
			slog.Debug("the digest of the weights is not remembered", "err", err)
			return false
		}
	}
	return true
}

// ChangedFile returns a file of the weights that has been changed or replaced since Prefault; "":
// none. It asks the system for the stamp of each file.
func (w *Weights) ChangedFile() string {
	if w.files == nil {
		return ""
	}
	for _, f := range w.files.Files() {
		if f.Changed() {
			return f.Path()
		}
	}
	if block := w.modules[blockModule]; block != nil {
		return block.ChangedFile()
	}
	return ""
}

// settled reports whether no file has been written to since shortly before now, a time before sync.
// Otherwise a page may have been written to after it, without a change of the stamp since then.
func (w *Weights) settled(now time.Time) bool {
	return !slices.ContainsFunc(w.files.Files(), func(f *safetensors.File) bool {
		return now.Sub(time.Unix(0, f.Stamp().Changed)) < stampAge
	})
}

// digestTensors returns the digest of the names, types, shapes and bytes of all tensors.
func (w *Weights) digestTensors(ctx context.Context, done func(bytes int)) (string, error) {
	var pieces []piece
	for _, f := range w.files.Files() {
		pieces = append(pieces, w.pieces(f)...)
	}
	if err := hashPieces(ctx, pieces, done); err != nil {
		return "", err
	}
	w.notFinite = map[string]bool{}
	noteBroken(pieces, w.notFinite)
	sums := make(map[string][]*piece)
	for i := range pieces {
		p := &pieces[i]
		sums[p.tensor] = append(sums[p.tensor], p)
	}
	h := sha256.New()
	for _, name := range w.files.Names() {
		t, _ := w.files.Tensor(name)
		hashPart(h, []byte(name))
		hashPart(h, []byte(t.DType))
		hashPart(h, fmt.Append(nil, t.Shape))
		for _, p := range sums[name] {
			h.Write(p.sum[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
