package checkpoint

// What tells two models apart, so that nothing one of them computed is ever taken for the other's.
// Hashing every byte of 20 GB at each start would take longer than loading; names and shapes alone
// cannot tell a fine-tune from its base. So each tensor gives its ends and its middle: retraining,
// merging or quantizing anew changes practically every tensor.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// sampleBytes is read at three places of each tensor.
const sampleBytes = 1 << 10

// Fingerprint is 32 hex digits that depend on config.json and the tensors, wherever the files lie
// and however they are cut into shards; "" for a random model, which is never met again.
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
