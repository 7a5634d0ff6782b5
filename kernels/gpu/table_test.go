package gpu

import (
	"errors"
	"fmt"
	"testing"

	"headroom/metal/sim"
)

// sumSource adds the integers of a table to the sum that the previous dispatch left in scratch.
var sumSource = &Source{Name: "gpu/table_test.metal", Text: `
#include <metal_stdlib>
using namespace metal;
struct P { uint n; uint start; };
kernel void sum(constant P& p [[buffer(0)]], device const int* table [[buffer(1)]], device int* total [[buffer(2)]],
                uint i [[thread_position_in_grid]]) {
  if (i != 0) return;
  int s = p.start != 0 ? 0 : total[0];
  for (uint k = 0; k < p.n; k++) s += table[k];
  total[0] = s;
}
`}

type sumParams struct{ N, Start uint32 }

var sum = NewKernel[sumParams](sumSource, "sum")

// TestTables passes more tables than a ring holds, some of them equal, and adds them up in scratch
// memory. Each dispatch must see the integers of the time of its call, although the host changes
// the slice at once.
func TestTables(t *testing.T) {
	m, err := sim.Open(sim.Options{Check: true, Seed: 3})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := &d.context
	const n = 4096
	total := c.Scratch(4)
	want := 0
	for i := range 64 { // 16 KiB each, 1 MiB in all
		table := c.Table(n)
		for k := range table {
			table[k] = int32(i / 2 * (k % 3)) // pairs of equal tables
		}
		for _, x := range table {
			want += int(x)
		}
		p := sumParams{N: n}
		if i == 0 {
			p.Start = 1
		}
		sum.Dispatch(c, p, Rows(1, 32), Ints(table), total)
		clear(table)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	b := total.memory.buffers[0].Bytes()[total.from:]
	if got := fmt.Sprint(int(b[0]) | int(b[1])<<8 | int(b[2])<<16 |
		int(b[3])<<24); got != fmt.Sprint(want) {
		t.Errorf("got a total of %s, expected %d", got, want)
	}
	sum.Dispatch(c, sumParams{}, Rows(1, 32), Ints(make([]int32, ringBytes)), total)
	if err := d.Sync(); err == nil {
		t.Error("a table larger than the ring gave no error")
	}
}
