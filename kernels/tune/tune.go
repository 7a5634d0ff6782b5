// Package tune measures which value of each gpu.Choice is fastest on a GPU, for the operators of a
// model.
//
// A Tuner is a device. A model runs its passes on it. The first time that an operator meets a
// choice for a shape, the Tuner runs the operator with every value, by the GPU's clock, and keeps
// the value that was faster than the untuned one by at least a few percent. It stops when its time
// is over, and all other shapes keep the untuned rule. Operators run several times, so what a model
// has in its caches afterwards has no meaning.
package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headroom/kernels"
	"headroom/kernels/activation"
	"headroom/kernels/attention"
	"headroom/kernels/gpu"
	"headroom/kernels/matmul"
	"headroom/kernels/moe"
	"headroom/kernels/recurrent"
	"headroom/kernels/transfer"
)

// Choices returns the choices of all kernel families.
func Choices() []*gpu.Choice {
	return slices.Concat(activation.Choices(), attention.Choices(), matmul.Choices(),
		moe.Choices(), recurrent.Choices())
}

// Value is the fastest value of a choice for operators of one shape. It can be stored.
type Value struct {
	Choice string
	Shape  gpu.Shape
	Value  int
}

// Resolve returns values as gpu.Device.SetTuned takes them. The error names the first choice or
// value that this version does not have.
func Resolve(values []Value) (map[gpu.Key]int, error) {
	tuned := make(map[gpu.Key]int, len(values))
	all := Choices()
	for _, v := range values {
		i := slices.IndexFunc(all, func(c *gpu.Choice) bool { return c.Name == v.Choice })
		if i < 0 || !slices.Contains(all[i].Values, v.Value) {
			return nil, fmt.Errorf("there is no value %d of %q", v.Value, v.Choice)
		}
		tuned[gpu.Key{Choice: all[i], Shape: v.Shape}] = v.Value
	}
	return tuned, nil
}

// Measured is a choice of one shape with the seconds of each value. A value that the device refuses
// has none.
type Measured struct {
	gpu.Key
	Operator string
	Untuned  int
	Best     int
	Seconds  map[int]float64
}

// Gain returns how many times as fast as the untuned value the best one is.
func (m *Measured) Gain() float64 { return m.Seconds[m.Untuned] / m.Seconds[m.Best] }

// Options configure a Tuner. The zero value works.
type Options struct {
	// Budget is the time for all measurements; 0: DefaultBudget.
	Budget time.Duration
	// Seconds returns the time of an operator, which run runs once. It is called for every value of
	// a choice. nil: the best of several runs by the GPU's clock.
	Seconds func(key gpu.Key, value int, run func() error) (float64, error)
	// Now returns the time for the budget; nil: time.Now.
	Now func() time.Time
	// Progress is called after each choice that was measured, with their number; nil: nothing is.
	Progress func(measured int)
}

// DefaultBudget is the time that tuning takes at most, apart from one run of an operator.
const DefaultBudget = 18 * time.Second

// leastGain is how many times as fast as the untuned value another one must be. Less may be noise.
const leastGain = 1.03

// Tuner is a gpu.Device that measures choices. Only one goroutine may use it at a time.
type Tuner struct {
	*gpu.Device
	// Late is true after the time was over before all choices were measured.
	Late bool

	ctx    context.Context
	o      Options
	ends   time.Time
	met    map[gpu.Key]bool
	all    []Measured
	tuned  map[gpu.Key]int
	cold   kernels.Op // moves more memory than a GPU caches; nil: not made yet
	failed error
}

// errOver is the error of a measurement during which the time was over.
var errOver = errors.New("the time for tuning is over")

// New returns a Tuner for d. Its time begins now, and is over early if ctx ends. Nothing else may
// use d until Done.
func New(ctx context.Context, d *gpu.Device, o Options) *Tuner {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tuner{Device: d, ctx: ctx, o: o, met: map[gpu.Key]bool{}, tuned: map[gpu.Key]int{}}
	if t.o.Seconds == nil {
		t.o.Seconds = t.seconds
	}
	t.ends = o.Now().Add(o.Budget)
	return t
}

// Over reports whether the time is over. Further passes measure nothing.
func (t *Tuner) Over() bool { return t.ctx.Err() != nil || !t.o.Now().Before(t.ends) }

// Run implements kernels.Device. It measures the choices that op is the first to meet, then runs
// op with the values that were kept. After the time is over it does nothing: the rest of a pass
// may take seconds on a slow device.
func (t *Tuner) Run(op kernels.Op) {
	if t.Over() {
		t.Late = true
		return
	}
	if _, ok := op.(gpu.Op); !ok {
		t.Device.Run(op)
		return
	}
	type meeting struct {
		key     gpu.Key
		untuned int
	}
	var fresh []meeting
	t.Device.OnChoice(func(key gpu.Key, untuned int) {
		if !t.met[key] {
			t.met[key] = true
			fresh = append(fresh, meeting{key, untuned})
		}
	})
	t.Device.Run(op)
	t.Device.OnChoice(nil)
	for _, m := range fresh {
		if t.failed != nil {
			return
		}
		if t.Over() {
			t.Late = true
			return
		}
		t.measure(op, m.key, m.untuned)
	}
}

// measure times op with every value of a choice and keeps the best one.
func (t *Tuner) measure(op kernels.Op, key gpu.Key, untuned int) {
	m := Measured{Key: key, Operator: op.Name(), Untuned: untuned, Best: untuned,
		Seconds: map[int]float64{}}
	for _, value := range key.Choice.Values {
		t.tuned[key] = value
		t.Device.SetTuned(t.tuned)
		seconds, err := t.o.Seconds(key, value, func() error { return t.once(op) })
		switch {
		case errors.Is(err, errOver): // half a measurement chooses nothing
			t.Late = true
			delete(t.tuned, key)
			t.Device.SetTuned(t.tuned)
			return
		case err == nil:
			m.Seconds[value] = seconds
		case t.Device.Sync() != nil: // the device computes nothing more
			t.failed = err
			return
		}
	}
	for value, seconds := range m.Seconds {
		best := m.Seconds[m.Best]
		if seconds*leastGain < m.Seconds[untuned] && (seconds < best ||
			seconds == best && value < m.Best) {
			m.Best = value
		}
	}
	t.tuned[key] = m.Best
	if m.Best == untuned {
		delete(t.tuned, key)
	}
	t.Device.SetTuned(t.tuned)
	t.all = append(t.all, m)
	if t.o.Progress != nil {
		t.o.Progress(len(t.all))
	}
}

// once runs op alone in a command buffer.
func (t *Tuner) once(op kernels.Op) error {
	if err := t.Device.Sync(); err != nil {
		return err
	}
	if err := t.Device.Try(op); err != nil {
		return err
	}
	return t.Device.Sync()
}

const (
	coldBytes  = 128 << 20 // more than the caches of a GPU
	leastRuns  = 3
	mostRuns   = 12
	enoughTime = 0.02 // seconds after which the best run is good enough
)

// seconds is the shortest of several runs by the GPU's clock. What one run has left in the GPU's
// caches is replaced before the next, as other layers do in a model. The error is errOver if the
// time is over first.
func (t *Tuner) seconds(_ gpu.Key, _ int, run func() error) (float64, error) {
	best, sum := 0.0, 0.0
	for n := range mostRuns + 1 {
		if t.Over() {
			return 0, errOver
		}
		if err := t.cool(); err != nil {
			return 0, err
		}
		if t.Over() {
			return 0, errOver
		}
		before := t.Device.GPUSeconds()
		if err := run(); err != nil {
			return 0, err
		}
		took := t.Device.GPUSeconds() - before
		if n == 0 {
			continue // it may have compiled the kernel
		}
		if n == 1 || took < best {
			best = took
		}
		if sum += took; n >= leastRuns && sum > enoughTime {
			break
		}
	}
	return best, nil
}

// cool replaces what is in the GPU's caches.
func (t *Tuner) cool() error {
	if t.cold == nil {
		b := t.Device.NewBuffer(2 * coldBytes)
		t.cold = &transfer.Copy{Buffer: b, From: 0, To: coldBytes, Bytes: coldBytes}
	}
	t.Device.Run(t.cold)
	return t.Device.Sync()
}

// Done returns what was kept and everything that was measured. The device keeps the values. The
// error is that of the device, which then computes nothing more.
func (t *Tuner) Done() (kept []Value, all []Measured, err error) {
	for _, m := range t.all {
		if m.Best != m.Untuned {
			kept = append(kept, Value{m.Choice.Name, m.Shape, m.Best})
		}
	}
	return kept, t.all, t.failed
}
