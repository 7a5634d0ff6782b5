package checkpoint

// A fingerprint identifies the weights of a model, so that a stored prefix cache is never used with
// another model. Hashing every byte of 20 GB at each start would take longer than loading, and
// names and shapes alone cannot tell a fine-tune from its base. So both ends and the middle of each
// tensor are hashed: training, merging or quantizing again changes practically every tensor.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// sampleBytes is the number of bytes hashed at each of the three places.
const sampleBytes = 1 << 10

// Fingerprint returns 32 hex digits that depend on config.json and the tensors, but not on where
// the files are or how they are split into shards. It is "" for a random model, whose prefix cache
// is not stored.
func (w *Weights) Fingerprint() string {
	if w.files == nil {
		return ""
	}
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	keys := make([]string, 0, len(w.Config.keys))
	for k := range w.Config.keys {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		part([]byte(k))
		part(w.Config.keys[k])
	}
	names := w.files.Names()
	slices.Sort(names)
	for _, name := range names {
		t, _ := w.files.Tensor(name)
		part([]byte(name))
		part([]byte(t.DType))
		for _, n := range t.Shape {
			part(binary.LittleEndian.AppendUint64(nil, uint64(n)))
		}
		n := len(t.Data)
		for _, from := range []int{0, n/2 - sampleBytes/2, n - sampleBytes} {
			from = max(from, 0)
			part(t.Data[from:min(from+sampleBytes, n)])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
