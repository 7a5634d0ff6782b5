package attention

import (
	"testing"

	"headroom/kernels/kerneltest"
)

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }
