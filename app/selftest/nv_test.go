//go:build nv && linux

package selftest

import (
	"slices"
	"strings"
	"testing"

	"headroom/kernels/kerneltest"
	"headroom/metal"
	"headroom/metal/nv"
	"headroom/metal/probe"
)

// notOnNV lists the probes that do not apply to an NVIDIA GPU: it copies weights, and the machine
// may have no compiler.
var notOnNV = []string{"wrapped memory", "messages of the compiler"}

// TestNVIDIA: an NVIDIA GPU adds lanes in another order and has another exp. Still, all cases are
// within the tolerance of the golden vectors, and the answers are those of the simulated device.
func TestNVIDIA(t *testing.T) {
	d, compiles := kerneltest.NV(t, nv.Options{})
	r := &Report{Facts: d.Facts()}
	p, err := probe.New(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range p.Run() {
		if !slices.Contains(notOnNV, x.Name) {
			r.add(groupProbes, x.Name, x.Err, "")
		}
	}
	if r.Numbers, err = p.Numbers(); err != nil && !compiles {
		t.Error(err)
	}
	if r.Times, err = p.Times(); err != nil && !compiles {
		t.Error(err)
	}
	o := &Options{Repeats: 3, Say: func(string) {},
		Open: func() (metal.Device, error) { return nv.Open(nv.FromEnvironment()) }}
	for _, f := range families() {
		r.family(t.Context(), d, f, o)
	}
	r.limits()
	r.demo(t.Context(), o)
	if compiles { // the device only compiles, so there are no results
		return
	}
	var text strings.Builder
	if err := r.Write(&text, true); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	for _, c := range r.Failures() {
		t.Errorf("%s, %s: %v", c.Group, c.Name, c.Err)
	}
}
