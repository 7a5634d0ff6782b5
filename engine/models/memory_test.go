package models_test

// With a quantized cache, no step may make a float copy of a sequence's keys or values. The test
// measures the peak memory while it computes a long prompt and decodes.

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/kernels/cpu"
)

const (
	firstTokens = 1_024
	childEnv    = "HEADROOM_TEST_MEMORY_CHILD"
)

// longTokens returns the length of the prompt: 16,000 tokens in the long form, otherwise 6,000.
func longTokens() int {
	if long() {
		return 16_000
	}
	return 6_000
}

// TestNoFloatCopyOfTheCache computes a long prompt with the default cache, K8 and V4 or V8, and
// decodes 16 tokens. It does so in a child process. The child first writes to the whole cache, and
// the first 1,024 tokens use all weights and activations. After that, the peak memory must not grow
// with the context.
//
// A float copy of the keys of one layer would need 2 heads * 128 * 6,000 tokens * 2 bytes = 3.1 MB
// in float16, or 6.1 MB in float32 (8.2 and 16.4 MB at 16,000 tokens). A copy of the values would
// need the same.
func TestNoFloatCopyOfTheCache(t *testing.T) {
	const slackBytes = 1 << 20
	if os.Getenv(childEnv) != "" {
		grown := readLong(t)
		fmt.Println("grown", grown)
		return
	}
	if runtime.GOOS != "linux" || testing.Short() || cpu.Best() == cpu.Generic {
		t.Skip("the test needs /proc, and computes thousands of tokens")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoFloatCopyOfTheCache$",
		"-test.count=1")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var grown int64
	_, after, _ := strings.Cut(string(out), "grown ")
	if n, _ := fmt.Sscan(after, &grown); n != 1 {
		t.Fatalf("the child process did not report its memory: %s", out)
	}
	t.Logf("from %d to %d tokens the peak grew by %d KiB", firstTokens, longTokens()+16, grown>>10)
	if grown > slackBytes {
		t.Errorf("from %d to %d tokens the peak grew by %.1f MB, expected at most %.1f",
			firstTokens, longTokens()+16, float64(grown)/1e6, slackBytes/1e6)
	}
}

// readLong computes the prompt in the child process. It returns the growth of the peak memory after
// the first 1,024 tokens, in bytes.
func readLong(t *testing.T) int64 {
	r, tok := newDemoWith(t, false, cache.Default())
	longTokens := longTokens()
	for _, region := range r.PageRegions(false) {
		for i := range r.pages {
			clear(region.Piece(int32(i)))
		}
	}
	ids := make([]int32, longTokens+16)
	for i, x := 0, uint32(12345); i < len(ids); i++ {
		// The random number generator of Numerical Recipes gives the same ids in each run.
		x = x*1664525 + 1013904223
		ids[i] = int32((x >> 8) % uint32(tok.VocabSize()))
	}
	var before int64
	for from := 0; from < longTokens; from += demoChunk {
		part := ids[from:min(from+demoChunk, longTokens)]
		r.step(part, from, []int32{int32(len(part) - 1)})
		if from+len(part) == firstTokens {
			// One decode step, so that the memory of decoding is part of the first measurement.
			r.step(ids[firstTokens:firstTokens+1], firstTokens, []int32{0})
			before = peakBytes(t)
		}
	}
	for pos := longTokens; pos < len(ids); pos++ {
		r.step(ids[pos:pos+1], pos, []int32{0})
	}
	return peakBytes(t) - before
}

// peakBytes returns the peak resident memory of the process.
func peakBytes(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("/proc/self/status has no VmHWM")
	return 0
}
