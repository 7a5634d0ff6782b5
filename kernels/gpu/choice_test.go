package gpu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/kernels"
)

func TestOctave(t *testing.T) {
	for n, want := range map[int]int32{0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 7: 4, 8: 8, 4095: 2048,
		4096: 4096, 1 << 40: 1 << 30} {
		if got := Octave(n); got != want {
			t.Errorf("Octave(%d) = %d, expected %d", n, got, want)
		}
	}
}

// TestChoose: a measured value replaces the untuned one for its shape alone. A value that the
// choice does not have is left out.
func TestChoose(t *testing.T) {
	a := &Choice{Name: "a", Values: []int{1, 2, 4}}
	b := &Choice{Name: "b", Values: []int{1, 2}}
	d := &Device{}
	c := &d.context
	var seen []Key
	d.OnChoice(func(key Key, untuned int) {
		if untuned != 1 {
			t.Errorf("untuned is %d", untuned)
		}
		seen = append(seen, key)
	})
	d.SetTuned(map[Key]int{{a, Shape{7}}: 4, {b, Shape{7}}: 4})
	for _, x := range []struct {
		choice *Choice
		shape  Shape
		want   int
	}{{a, Shape{7}, 4}, {a, Shape{8}, 1}, {b, Shape{7}, 1}} {
		if got := c.Choose(x.choice, x.shape, 1); got != x.want {
			t.Errorf("%s %v: got %d, expected %d", x.choice.Name, x.shape, got, x.want)
		}
	}
	if len(seen) != 3 || seen[0] != (Key{a, Shape{7}}) {
		t.Errorf("seen %v", seen)
	}
}

// TestPace: slower work counts at once, faster work by halves, and short work not at all.
func TestPace(t *testing.T) {
	var p pace
	for _, x := range []struct{ work, took, factor float64 }{
		{1, 0.001, 0}, {0, 1, 0}, {0.1, 0.2, 2}, {0.1, 0.8, 8}, {0.1, 0.2, 5}, {0.1, 0.1, 3},
	} {
		p.observe(x.work, x.took)
		if d := p.factor - x.factor; d > 1e-9 || d < -1e-9 {
			t.Errorf("after %g s for %g: factor %g, expected %g", x.took, x.work, p.factor,
				x.factor)
		}
	}
	if got := p.expected(0.5); got < 1.5-1e-9 || got > 1.5+1e-9 {
		t.Errorf("expects %g, expected 1.5", got)
	}
}

// heavy is an operator with much arithmetic, which can be divided.
type heavy struct {
	*add
	operations int64
	runs       *[]int64
}

func (o heavy) Operations() kernels.Operations { return kernels.Operations{Float32: o.operations} }

func (o heavy) Divide(parts int, run func(Op)) {
	for range parts {
		run(heavy{o.add, o.operations / int64(parts), o.runs})
	}
}

func (o heavy) Metal(c *Context) {
	*o.runs = append(*o.runs, o.operations)
	o.add.Metal(c)
}

// TestBound: operators within the bound share a command buffer, the next one begins another, and a
// longer one is divided.
func TestBound(t *testing.T) {
	_, d := newRecording(t)
	x, out := kernels.NewTensor(d, kernels.F32, 1, 64), kernels.NewTensor(d, kernels.F32, 1, 64)
	d.SetBound(100 * time.Millisecond)
	var runs []int64
	op := func(seconds float64) heavy {
		return heavy{&add{x: x, out: out}, int64(seconds * slowOperations), &runs}
	}
	commits := func() kernels.Ticket { return d.context.commits }
	d.Run(op(0.04))
	d.Run(op(0.04))
	if commits() != 0 {
		t.Errorf("%d commits after 80 ms of work, expected none", commits())
	}
	d.Run(op(0.04))
	if commits() != 1 {
		t.Errorf("%d commits after 120 ms of work, expected 1", commits())
	}
	runs = nil
	d.Run(op(0.35))
	if len(runs) != 4 || commits() != 5 {
		t.Errorf("350 ms of work in %d parts and %d commits, expected 4 and 5", len(runs),
			commits())
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

// TestTry: an operator that the device refuses leaves no error behind.
func TestTry(t *testing.T) {
	m, d := newRecording(t)
	x, out := kernels.NewTensor(d, kernels.F32, 1, 64), kernels.NewTensor(d, kernels.F32, 1, 64)
	wide := &wide{add{x: x, out: out}}
	if err := d.Try(wide); err == nil || !strings.Contains(err.Error(), "this device allows 256") {
		t.Errorf("got %v", err)
	}
	if err := d.Try(&wide.add); err != nil {
		t.Error(err)
	}
	if err := d.Sync(); err != nil || !slices.Contains(m.events, "add") {
		t.Errorf("%v, events %q", err, m.events)
	}
	d.Run(wide)
	if err := d.Try(&wide.add); err == nil {
		t.Error("an earlier error was lost")
	}
}

// wide has more threads than the device allows.
type wide struct{ add }

func (o *wide) Metal(c *Context) {
	addKernel.Dispatch(c, addParams{}, Rows(1, 512), Read(o.x), Write(o.out))
}
