package checkpoint

// A fingerprint identifies the weights of a model, so that a stored prefix cache is never used with
// another model. Hashing all bytes of a 20 GB model at each start would take longer than loading
// it. Names and shapes alone do not distinguish a fine-tuned model from its base model. So the
// fingerprint hashes the start, the middle and the end of each tensor. Training, merging or another
// quantization changes practically every tensor.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// sampleBytes is the number of bytes hashed at each of the three places in a tensor.
const sampleBytes = 1 << 10

// Fingerprint returns 32 hex digits that identify config.json and the weights. It does not depend
// on the location of the files or on how the tensors are divided into shards. It includes a block
// that drafts and has files of its own. For a random model, whose prefix cache is never stored, it
// returns "".
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
	if block := w.modules[blockModule]; block != nil {
		part([]byte(block.Fingerprint()))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
