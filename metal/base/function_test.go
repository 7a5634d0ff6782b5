package base

import (
	"slices"
	"strings"
	"testing"

	"headroom/metal"
	"headroom/metal/msl"
)

// TestConstantBits checks that each constant needs exactly one value, of its type, in any order.
func TestConstantBits(t *testing.T) {
	p, err := msl.Parse("c.metal", `#include <metal_stdlib>
using namespace metal;
constant uint offset [[function_constant(3)]];
constant bool twice [[function_constant(1)]];
kernel void k(device float* x [[buffer(0)]], device float* y [[buffer(1), function_constant(twice)]], uint i [[thread_position_in_grid]]) { x[i] = 0.0f; }
`)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string, v any) metal.ConstantValue {
		return metal.ConstantValue{Name: name, Value: v}
	}
	offset, twice := value("offset", uint32(10)), value("twice", true)
	for _, c := range []struct {
		given []metal.ConstantValue
		want  []uint32
		says  string
	}{
		{[]metal.ConstantValue{offset, twice}, []uint32{10, 1}, ""},
		{[]metal.ConstantValue{value("twice", false), offset}, []uint32{10, 0}, ""},
		{[]metal.ConstantValue{offset}, nil, "function constant twice has no value"},
		{[]metal.ConstantValue{offset, twice, offset}, nil,
			"function constant offset has 2 values"},
		{[]metal.ConstantValue{offset, twice, value("more", true)}, nil,
			"got 3 function constants, the source declares 2"},
		{[]metal.ConstantValue{offset, value("twice", 1)}, nil, "bool"},
	} {
		got, err := constantBits(p, c.given)
		if c.says == "" && (err != nil || !slices.Equal(got, c.want)) || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: got %v and %v, expected %v %s", c.given, got, err, c.want, c.says)
		}
	}
	x, y := p.Kernels[0].Buffer(0), p.Kernels[0].Buffer(1)
	off := Function{program: p, constants: []uint32{10, 0}}
	on := Function{program: p, constants: []uint32{10, 1}}
	if off.Absent(x) || !off.Absent(y) || on.Absent(y) {
		t.Error("y must be present only where twice is true, and x always")
	}
}
