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

// notOnNV are probes of what an NVIDIA GPU does otherwise: weights are copied to it, and its
// machine may have no compiler.
var notOnNV = []string{"wrapped memory", "messages of the compiler"}

// A real GPU that adds up lanes in its own order and has its own exp is near enough to the golden
// vectors, in all cases, and says what the simulated device says.
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
	if compiles { // there are no results to look at
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
