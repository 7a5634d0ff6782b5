package attention

import (
	"testing"

	"headroom/kernels/kerneltest"
)

// BenchmarkNV times decoding of one token and prefill of a chunk, up to the longest contexts.
func BenchmarkNV(b *testing.B) {
	kerneltest.BenchNV(b, append(LargeTimings(), kerneltest.Timings(kvAppendCases())...))
}
