package attention

import "headroom/kernels/gpu"

// The choices of this family. Segments, and the order of all sums in them, do not depend on any.
// The largest values bound the records of segments, which are scratch memory.
var (
	decodeVectors = &gpu.Choice{Name: "attention/decode vectors",
		Values:  []int{1, 2, 3, 4, 5, 6, 7, 8},
		Untuned: "8, or as few as give at most 128 threadgroups"}
	decodeSimdgroups = &gpu.Choice{Name: "attention/decode simdgroups", Values: []int{2, 4, 8},
		Untuned: "8 for at most 128 threadgroups, else 4"}
	decodeSplit = &gpu.Choice{Name: "attention/decode threadgroups without segments",
		Values: []int{1, 64, metalFull}, Untuned: "256"}
	prefillSplit = &gpu.Choice{Name: "attention/prefill threadgroups without segments",
		Values: []int{1, 16, metalTileFull, 64}, Untuned: "32"}
	appendSimdgroups = &gpu.Choice{Name: "attention/append simdgroups", Values: []int{1, 2, 4, 8},
		Untuned: "4"}
)

// Choices returns how the kernels of this family may divide their work.
func Choices() []*gpu.Choice {
	return []*gpu.Choice{decodeVectors, decodeSimdgroups, decodeSplit, prefillSplit,
		appendSimdgroups}
}

// cacheShape returns a Shape of the cache's sizes and formats, and of two sizes of the work.
func (c *Cache) shape(work, more int) gpu.Shape {
	return gpu.Shape{int32(c.KVHeads), int32(c.HeadDim), c.KFormat.shape(), c.VFormat.shape(),
		gpu.Octave(work), gpu.Octave(more)}
}

// shape returns a number for what a kernel's time depends on.
func (f Format) shape() int32 {
	return int32(f.Kind)<<24 | int32(f.DType)<<16 | int32(f.bits())<<10 | int32(f.group())
}
