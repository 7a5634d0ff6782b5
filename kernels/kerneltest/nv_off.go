//go:build !nv || !linux

package kerneltest

import (
	"testing"

	"headroom/kernels"
)

// runNV does nothing: the NVIDIA device needs Linux and the build tag nv. It returns false.
func runNV(*testing.T, []kernels.Case) (only bool) { return false }

// BenchNV skips the benchmark: the NVIDIA device needs Linux and the build tag nv.
func BenchNV(b *testing.B, _ []Timing) {
	b.Skip("the NVIDIA device needs Linux and the build tag nv: go test -tags nv")
}
