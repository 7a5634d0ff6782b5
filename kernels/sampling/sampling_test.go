package sampling

import (
	"testing"

	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }
