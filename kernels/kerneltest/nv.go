package kerneltest

// Cases on an NVIDIA GPU: the .metal text that a Mac runs, on hardware, with dispatches at the same time.

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal/nv"
)

// NV opens the NVIDIA GPU, closed when the test ends. Without one it skips the test. compiles tells that the device only compiles.
func NV(t testing.TB, o nv.Options) (d *nv.Device, compiles bool) {
	t.Helper()
	e := nv.FromEnvironment()
	o.CacheDir, o.CompileOnly = e.CacheDir, e.CompileOnly
	d, err := nv.Open(o)
	if errors.Is(err, nv.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, o.CompileOnly
}

// runNV checks every case whose operator has a Metal kernel against the reference, twice, with dispatches side by side and one after
// another, which must give the same bits.
func runNV(t *testing.T, cases []kernels.Case) {
	together, compiles := NV(t, nv.Options{})
	single, _ := NV(t, nv.Options{Streams: 1})
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range cases {
		op, _ := c.New(reference, c.Source())
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got := metalOutputs(t, together, c, map[string]bool{})
			if got == nil || compiles {
				return
			}
			compare(t, together.Facts().Name, c, got, outputs(reference, c))
			if again := metalOutputs(t, single, c, map[string]bool{}); !slices.EqualFunc(got, again, bytes.Equal) {
				t.Errorf("%s: a second run gives other bits", together.Facts().Name)
			}
		})
	}
}
