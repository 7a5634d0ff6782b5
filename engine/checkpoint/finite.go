package checkpoint

// Weights that are not finite numbers. A damaged file may have some, and caches of keys and values
// that are quantized would hide them: their codes are finite. So all bytes are checked, where they
// are read anyway: while their digest is computed, or by Prefault if there is none. A tensor that
// nothing reads may have any values.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// notFinite finds elements of a type that are infinite or NaN, eight bytes at a time. Adding one to
// the masked bits of an element carries into its first bit only if all of them are set. The zero
// value finds none.
type notFinite struct {
	mask, one, first uint64
	signed           bool // the first bit, which is not in the mask, may have any value
}

var (
	notFiniteF32  = notFinite{0x7f80_0000 * twice, 0x0080_0000 * twice, 0x8000_0000 * twice, true}
	notFiniteBF16 = notFinite{0x7f80 * fourfold, 0x0080 * fourfold, 0x8000 * fourfold, true}
	notFiniteF16  = notFinite{0x7c00 * fourfold, 0x0400 * fourfold, 0x8000 * fourfold, true}
	// E4M3 has no infinity. All bits but the sign are NaN.
	notFiniteE4M3 = notFinite{0x7f * eightfold, 0x01 * eightfold, 0x80 * eightfold, true}
	// E8M0, the powers of two, has no sign. All bits are NaN.
	notFiniteE8M0 = notFinite{0x7f * eightfold, 0x01 * eightfold, 0x80 * eightfold, false}
)

// Factors that repeat an element in a word.
const (
	twice     = 0x0000_0001_0000_0001
	fourfold  = 0x0001_0001_0001_0001
	eightfold = 0x0101_0101_0101_0101
)

// in reports whether an element of b is not finite. b has whole elements.
func (n notFinite) in(b []byte) bool {
	if n == (notFinite{}) {
		return false
	}
	found, signs := uint64(0), uint64(0)
	if n.signed {
		signs = n.first
	}
	word := func(v uint64) uint64 { return (v&n.mask + n.one) & (v | signs) }
	for ; len(b) >= 32; b = b[32:] {
		found |= word(binary.LittleEndian.Uint64(b)) |
			word(binary.LittleEndian.Uint64(b[8:])) |
			word(binary.LittleEndian.Uint64(b[16:])) |
			word(binary.LittleEndian.Uint64(b[24:]))
	}
	var rest [32]byte // zero is finite
	copy(rest[:], b)
	for i := 0; i < len(rest); i += 8 {
		found |= word(binary.LittleEndian.Uint64(rest[i:]))
	}
	return found&n.first != 0
}

// notFiniteOf returns what finds the elements of a tensor that are not finite. Bytes are codes of
// any value, unless the name says that they are scales.
func (w *Weights) notFiniteOf(t safetensors.Tensor) notFinite {
	switch t.DType {
	case safetensors.F32:
		return notFiniteF32
	case safetensors.BF16:
		return notFiniteBF16
	case safetensors.F16:
		return notFiniteF16
	case safetensors.F8E4M3:
		return notFiniteE4M3
	case safetensors.F8E8M0:
		return notFiniteE8M0
	case safetensors.U8:
		return w.notFiniteScales(t)
	}
	return notFinite{}
}

// notFiniteScales is notFiniteOf for a tensor of bytes. Those of MLX's NVFP4, of which each has two
// words of codes, are E4M3. All others are E8M0.
func (w *Weights) notFiniteScales(t safetensors.Tensor) notFinite {
	if module, ok := strings.CutSuffix(t.Name, scalesSuffix); ok {
		codes, _ := w.files.Tensor(module + weightSuffix)
		if codes.DType == safetensors.U32 && codes.Elements() == 2*t.Elements() {
			return notFiniteE4M3
		}
		return notFiniteE8M0
	}
	if strings.HasSuffix(t.Name, hfScalesSuffix) || strings.HasSuffix(t.Name, blockScaleSuffix) {
		return notFiniteE8M0
	}
	return notFinite{}
}

// checkTensor returns a Problem if a tensor, which the model needs, is known to have a value that
// is not finite.
func (w *Weights) checkTensor(name string) error {
	if !w.notFinite[name] {
		return nil
	}
	return problem.New(problem.ModelBroken, "The model's weights are damaged",
		fmt.Sprintf("tensor %s has a value that is not a finite number", name),
		"Download or convert the model again.")
}

// maxNotFinite is the number of damaged tensors up to which a digest is remembered.
const maxNotFinite = 100

// remembered returns the text that says what is known of the tensors: their digest, and the names
// of those that are not finite. ok is false if there are too many.
func (w *Weights) remembered() (text string, ok bool) {
	names, err := json.Marshal(slices.Sorted(maps.Keys(w.notFinite)))
	return w.digest + " " + string(names), err == nil && len(w.notFinite) <= maxNotFinite
}

// recall sets what remembered has returned. It returns false for any other text, such as that of
// earlier versions, which did not check.
func (w *Weights) recall(text string) bool {
	digest, list, _ := strings.Cut(text, " ")
	var names []string
	if digest == "" || json.Unmarshal([]byte(list), &names) != nil {
		return false
	}
	w.digest, w.notFinite = digest, map[string]bool{}
	for _, name := range names {
		w.notFinite[name] = true
	}
	return true
}
