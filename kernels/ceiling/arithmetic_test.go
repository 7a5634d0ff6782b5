package ceiling

import (
	"testing"
	"time"

	"headroom/kernels/cpu"
)

// TestLoopDoesCountedOperations checks that every instruction set adds up all the products that
// operations counts.
func TestLoopDoesCountedOperations(t *testing.T) {
	const blocks = 7
	for _, isa := range cpu.Available() {
		c := cpu.NewContext(cpu.Options{ISA: isa, Threads: 1})
		w := widthOf(isa)
		l := newLoop(int8s, c.Threads, blocks)
		c.Parallel(l, 0, 4, 1)
		var want int32
		for i := range w.bytes {
			want += int32(l.codes[i]) * int32(l.bytes[i])
		}
		if want == 0 {
			t.Fatal("the operands' products cancel out: the test could not fail")
		}
		if want *= int32(w.ints * blocks * rounds); l.ints[0] != want {
			t.Errorf("%s: int8 sum %d, expected %d", isa, l.ints[0], want)
		}
		f := newLoop(float32s, c.Threads, blocks)
		c.Parallel(f, 0, 4, 1)
		var sum float32
		for i, x := range f.x {
			sum += x * f.y[i]
		}
		if sum == 0 {
			t.Fatal("the operands' products cancel out: the test could not fail")
		}
		if sum *= float32(w.floats * blocks * rounds); f.floats[0] != sum {
			t.Errorf("%s: float32 sum %g, expected %g", isa, f.floats[0], sum)
		}
		c.Close()
	}
}

func TestOpsRatesArePositive(t *testing.T) {
	for _, isa := range cpu.Available() {
		c := cpu.NewContext(cpu.Options{ISA: isa, Threads: 1})
		ints, floats := Int8Ops(c, 20*time.Millisecond), Float32Ops(c, 20*time.Millisecond)
		t.Logf("%s, one thread: int8 %.0f Gop/s, float32 %.0f GFLOP/s", isa, ints/1e9, floats/1e9)
		if ints <= 0 || floats <= 0 {
			t.Errorf("%s: int8 %g, float32 %g operations a second", isa, ints, floats)
		}
		c.Close()
	}
}
