//go:build race

package kerneltest

// RaceDetector tells that the race detector watches. It makes kernels in Go, and the reference, 20
// times as slow.
const RaceDetector = true
