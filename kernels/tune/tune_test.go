package tune

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"headroom/kernels"
	"headroom/kernels/golden"
	"headroom/kernels/gpu"
	"headroom/kernels/kerneltest"
	"headroom/kernels/transfer"
	"headroom/metal/sim"
)

// device returns the simulated device. With HEADROOM_LONG it looks for races.
func device(t *testing.T) *gpu.Device {
	t.Helper()
	m, err := sim.Open(sim.Options{Check: os.Getenv("HEADROOM_LONG") != ""})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := gpu.New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// some returns the cases of a family that reach every kernel, and every ninth of the others.
func some(t *testing.T, f golden.Family) (cases []kernels.Case) {
	vectors, err := golden.Load(f.Name)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range f.Cases {
		if i%9 == 0 || vectors[c.Name].Short {
			cases = append(cases, c)
		}
	}
	return cases
}

// TestBits runs cases of every family with every value of every choice that they meet. Each must
// give the bits of the untuned value, and every value must be met.
func TestBits(t *testing.T) {
	met := map[string]map[int]bool{}
	for _, f := range golden.Families() {
		d := device(t)
		for _, c := range some(t, f) {
			checkBits(t, d, c, met)
		}
	}
	for _, c := range Choices() {
		for _, v := range c.Values {
			if !met[c.Name][v] {
				t.Errorf("no case has run with value %d of %q", v, c.Name)
			}
		}
	}
	if len(met) != len(Choices()) {
		t.Errorf("operators ask for %d choices, Choices has %d", len(met), len(Choices()))
	}
}

// checkBits runs one case with all values. met has the values that have run, by choice.
func checkBits(t *testing.T, d *gpu.Device, c kernels.Case, met map[string]map[int]bool) {
	run := func(tuned map[gpu.Key]int) (outputs [][]byte, keys map[gpu.Key]int) {
		keys = map[gpu.Key]int{}
		op, outs := c.New(d, c.Rand())
		if _, ok := op.(gpu.Op); !ok {
			return nil, nil
		}
		d.SetTuned(tuned)
		d.OnChoice(func(key gpu.Key, untuned int) { keys[key] = untuned })
		if err := d.Try(op); err != nil {
			t.Errorf("%s: %v", c.Name, err)
			return nil, nil
		}
		d.OnChoice(nil)
		d.SetTuned(nil)
		if err := d.Sync(); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for _, o := range outs {
			outputs = append(outputs, bytes.Clone(kerneltest.Elements(o)))
		}
		return outputs, keys
	}
	want, keys := run(nil)
	for key, untuned := range keys {
		if !slices.Contains(key.Choice.Values, untuned) {
			t.Errorf("%s: %s: the untuned value %d is not among %v", c.Name, key.Choice.Name,
				untuned, key.Choice.Values)
		}
		for _, value := range key.Choice.Values {
			if met[key.Choice.Name] == nil {
				met[key.Choice.Name] = map[int]bool{}
			}
			met[key.Choice.Name][value] = true
			if value == untuned {
				continue
			}
			got, _ := run(map[gpu.Key]int{key: value})
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s: %s: %d gives other bits than %d", c.Name, key.Choice.Name, value,
					untuned)
			}
		}
	}
}

// clock is a fake clock, by which every measurement takes a second, and the time of an operator is
// that of its value.
type clock struct {
	now     time.Time
	seconds func(key gpu.Key, value int) (float64, error)
	runs    int
}

func (c *clock) options(budget time.Duration) Options {
	return Options{Budget: budget, Now: func() time.Time { return c.now },
		Seconds: func(key gpu.Key, value int, run func() error) (float64, error) {
			c.now, c.runs = c.now.Add(time.Second), c.runs+1
			if err := run(); err != nil {
				return 0, err
			}
			return c.seconds(key, value)
		}}
}

// operators returns an operator of some cases of two families, each with choices.
func operators(d *gpu.Device) (ops []kernels.Op) {
	for _, f := range golden.Families() {
		if f.Name != "matmul" && f.Name != "activation" {
			continue
		}
		for _, c := range f.Cases[:20] {
			op, _ := c.New(d, c.Rand())
			ops = append(ops, op)
		}
	}
	return ops
}

// TestBest: the fastest value is kept, once for each shape, and used from then on. A gain within
// the noise is none.
func TestBest(t *testing.T) {
	d := device(t)
	c := &clock{seconds: func(key gpu.Key, value int) (float64, error) {
		switch {
		case value == 2: // the fastest number of rows
			return 1, nil
		case key.Choice.Name == "activation/threads" && value == 128:
			return 0.98 * 2, nil // noise
		case value == 512:
			return 0, errors.New("this value is refused")
		}
		return 2, nil
	}}
	tuner := New(t.Context(), d, c.options(time.Hour))
	ops := operators(d)
	for range 2 {
		for _, op := range ops {
			tuner.Run(op)
		}
	}
	kept, all, err := tuner.Done()
	if err != nil || tuner.Late || len(kept) == 0 {
		t.Fatalf("kept %v, late %t, %v", kept, tuner.Late, err)
	}
	if c.runs != len(all)*4-countOf(all, "matmul/simdgroups share x")*2 {
		t.Errorf("%d runs for %d measurements", c.runs, len(all))
	}
	for _, v := range kept {
		if v.Choice != "matmul/rows of a threadgroup" || v.Value != 2 {
			t.Errorf("kept %+v", v)
		}
	}
	tuned, err := Resolve(kept)
	if err != nil || len(tuned) != len(kept) {
		t.Fatal(tuned, err)
	}
	used := 0
	d.SetTuned(tuned)
	d.OnChoice(func(key gpu.Key, untuned int) {
		if _, ok := tuned[key]; ok {
			used++
		}
	})
	for _, op := range ops {
		d.Run(op)
	}
	if used < len(kept) {
		t.Errorf("%d of %d values were asked for again", used, len(kept))
	}
}

func countOf(all []Measured, name string) (n int) {
	for _, m := range all {
		if m.Choice.Name == name {
			n++
		}
	}
	return n
}

// TestBudget: when the time is over, the rest keeps the untuned values.
func TestBudget(t *testing.T) {
	d := device(t)
	c := &clock{seconds: func(_ gpu.Key, value int) (float64, error) {
		return 1 / float64(1+value), nil
	}}
	tuner := New(t.Context(), d, c.options(10*time.Second))
	for _, op := range operators(d) {
		tuner.Run(op)
	}
	_, all, err := tuner.Done()
	if err != nil || !tuner.Late || !tuner.Over() {
		t.Errorf("late %t, over %t, %v", tuner.Late, tuner.Over(), err)
	}
	if most := 10 + 4; c.runs > most || len(all) < 2 {
		t.Errorf("%d runs of a second in a budget of 10 s, %d measurements", c.runs, len(all))
	}
}

// TestEnds: a Tuner whose context has ended, and one whose time ends while an operator is measured,
// runs nothing more and keeps nothing of what it has not completed.
func TestEnds(t *testing.T) {
	d := device(t)
	ops := operators(d)
	ctx, cancel := context.WithCancel(t.Context())
	c := &clock{seconds: func(_ gpu.Key, value int) (float64, error) { return float64(value), nil }}
	o := c.options(time.Hour)
	told := 0
	o.Progress = func(measured int) {
		if told = measured; measured == 2 {
			cancel()
		}
	}
	tuner := New(ctx, d, o)
	for _, op := range ops {
		tuner.Run(op)
	}
	if _, all, err := tuner.Done(); err != nil || len(all) != 2 || told != 2 || !tuner.Late {
		t.Errorf("%d measured, %d told, late %t, %v", len(all), told, tuner.Late, err)
	}
	now, runs := time.Unix(0, 0), 0
	tuner = New(t.Context(), d, Options{Budget: 3 * time.Second,
		Now: func() time.Time { return now }})
	tuner.cold = &transfer.Copy{Buffer: d.NewBuffer(2 << 16), To: 1 << 16, Bytes: 1 << 16}
	_, err := tuner.seconds(gpu.Key{}, 0, func() error {
		now, runs = now.Add(time.Second), runs+1
		return tuner.once(ops[0])
	})
	if !errors.Is(err, errOver) || runs != 3 {
		t.Errorf("%d runs of a second in a budget of 3 s, %v", runs, err)
	}
}

// TestClock measures by the device's own clock.
func TestClock(t *testing.T) {
	d := device(t)
	tuner := New(t.Context(), d, Options{Budget: time.Nanosecond})
	tuner.ends = time.Now().Add(time.Hour)
	tuner.cold = &transfer.Copy{Buffer: d.NewBuffer(2 << 16), To: 1 << 16, Bytes: 1 << 16}
	op := operators(d)[0]
	tuner.Run(op)
	tuner.ends = time.Now()
	if _, all, err := tuner.Done(); err != nil || len(all) != 1 || all[0].Seconds[256] <= 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestResolve refuses what this version does not have.
func TestResolve(t *testing.T) {
	for _, v := range []Value{{Choice: "attention/width", Value: 4},
		{Choice: "matmul/rows of a threadgroup", Value: 16}, {}} {
		if tuned, err := Resolve([]Value{v}); err == nil {
			t.Errorf("%+v: %v", v, tuned)
		}
	}
}

func erase(t kernels.Tensor) {
	for r := range t.Rows {
		clear(t.RowRange(r, r+1).Bytes())
	}
}

// TestBound: operators that are divided, and command buffers that end early, give the same bits.
func TestBound(t *testing.T) {
	divided := 0
	for _, f := range golden.Families() {
		d := device(t)
		for _, c := range some(t, f) {
			op, outs := c.New(d, c.Rand())
			if _, ok := op.(gpu.Divisible); !ok {
				continue
			}
			d.SetBound(0)
			d.Run(op)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			var want [][]byte
			for _, o := range outs {
				want = append(want, bytes.Clone(kerneltest.Elements(o)))
				erase(o)
			}
			parts := 0
			op.(gpu.Divisible).Divide(1000, func(gpu.Op) { parts++ })
			if parts > 1 {
				divided++
			}
			d.SetBound(time.Nanosecond)
			d.Run(op)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			for i, o := range outs {
				if !bytes.Equal(kerneltest.Elements(o), want[i]) {
					t.Errorf("%s in %d parts: other bits", c.Name, parts)
				}
			}
		}
	}
	if divided < 10 {
		t.Errorf("%d cases were divided, expected at least 10", divided)
	}
}
