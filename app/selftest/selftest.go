// Package selftest tries a GPU before a model is trusted to it, and writes down what a bug report
// should say.
//
//	Run      probes of the way to the device, every kernel against what the simulated device answered (kernels/golden), two short
//	         answers of the demo model against known tokens, limits, rounding, and timings; the short form takes seconds
//	Gate     runs the short form when the GPU, its system or Headroom is new, remembers the outcome, and says what computes
//
// `headroom selftest` is the one, the host's start of a model the other. Neither knows whether the
// device is a Mac's or simulated.
package selftest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/probe"
)

// Options say what to try. Open is required.
type Options struct {
	// Open opens the device; it is called several times, one after another. What it opens is
	// closed.
	Open    func() (metal.Device, error)
	Short   bool
	Version string // Headroom's, for the report
	// Repeats is how often each kernel runs, with the same bits each time; 0: 2 in the short form,
	// 100 otherwise.
	Repeats int
	Say     func(line string) // told what is being tried, a line at a time; may be nil
}

// Check is one thing that was tried.
type Check struct {
	Group, Name string
	Err         error  // nil: passed
	Note        string // what to know of one that passed, "" for nothing
}

// Speed is how fast a kernel moved memory.
type Speed struct {
	Name        string
	Bytes       int64
	Took        time.Duration
	GBPerSecond float64
}

// Report is what was found.
type Report struct {
	Version, System string
	Short           bool
	Began           time.Time
	Took            time.Duration
	Facts           metal.Facts
	Checks          []Check
	Sources         []gpu.SourceReport
	Pipelines       []gpu.PipelineReport
	Numbers         probe.Numbers
	Times           probe.Times
	Speeds          []Speed
}

// The groups of checks, in the order in which they are made.
const (
	groupProbes  = "the way to the GPU"
	groupKernels = "kernels"
	groupLimits  = "limits"
	groupDemo    = "the demo model"
)

// Run tries the device. The error says that there is none; what the device does wrong is in the
// report. Ending ctx ends it between two kernels, which is an error too.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Repeats <= 0 {
		o.Repeats = 100
		if o.Short {
			o.Repeats = 2
		}
	}
	m, err := o.Open()
	if err != nil {
		return nil, err
	}
	r := &Report{Version: o.Version,
		System: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			runtime.Version()),
		Short: o.Short, Began: time.Now(), Facts: m.Facts()}
	r.onDevice(ctx, m, &o)
	m.Close()
	if ctx.Err() == nil && !(o.Short && len(r.Failures()) > 0) {
		// what is wrong already is enough to know
		r.guard(groupDemo, "answers", func() { r.demo(ctx, &o) })
	}
	r.Took = time.Since(r.Began)
	return r, ctx.Err()
}

// onDevice makes all checks that need no engine.
func (r *Report) onDevice(ctx context.Context, m metal.Device, o *Options) {
	r.guard(groupProbes, "probes", func() { r.probe(m, o) })
	if o.Short && len(r.Failures()) > 0 {
		return
	}
	for _, f := range families() {
		r.guard(groupKernels, f.Name, func() { r.family(ctx, m, f, o) })
	}
	r.limits()
	if o.Short || ctx.Err() != nil {
		return
	}
	r.guard(groupKernels, "speeds", func() { r.speeds(ctx, m, o) })
}

func (r *Report) add(group, name string, err error, note string) {
	r.Checks = append(r.Checks, Check{group, name, err, note})
}

// guard turns a panic into a failed check: nothing that a GPU does may end the program.
func (r *Report) guard(group, name string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			r.add(group, name, fmt.Errorf("panic: %v", p), "")
		}
	}()
	f()
}

func (r *Report) probe(m metal.Device, o *Options) {
	o.Say(groupProbes)
	p, err := probe.New(m)
	if err != nil {
		r.add(groupProbes, "compiling", err, "")
		return
	}
	took, log := p.Compile()
	r.Sources = append(r.Sources, gpu.SourceReport{Name: "probe.metal", Compile: took, Log: log})
	for _, x := range p.Run() {
		r.add(groupProbes, x.Name, x.Err, "")
	}
	if len(r.Failures()) > 0 {
		return
	}
	if r.Numbers, err = p.Numbers(); err != nil {
		r.add(groupProbes, "rounding", err, "")
	}
	if r.Times, err = p.Times(); err != nil {
		r.add(groupProbes, "timing", err, "")
	}
}

// limits holds what dispatches needed against what Metal made of each kernel.
func (r *Report) limits() {
	for _, p := range r.Pipelines {
		name := p.Kernel + " of " + p.Source
		if p.Constants != "" {
			name += ", " + p.Constants
		}
		var err error
		memory := p.Facts.StaticThreadgroupMemoryLength + p.ThreadgroupBytes
		switch {
		case p.Facts.ThreadExecutionWidth != 32:
			err = fmt.Errorf("simdgroups of %d threads, expected 32", p.Facts.ThreadExecutionWidth)
		case p.Threads > p.Facts.MaxTotalThreadsPerThreadgroup:
			err = fmt.Errorf("%d threads in a threadgroup, at most %d are allowed", p.Threads,
				p.Facts.MaxTotalThreadsPerThreadgroup)
		case memory > r.Facts.MaxThreadgroupMemoryLength:
			err = fmt.Errorf("%d bytes of threadgroup memory, at most %d are there", memory,
				r.Facts.MaxThreadgroupMemoryLength)
		}
		r.add(groupLimits, name, err, "")
	}
}

// Failures are the checks that failed.
func (r *Report) Failures() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Err != nil {
			failed = append(failed, c)
		}
	}
	return failed
}

// Passed tells whether the device may be trusted.
func (r *Report) Passed() bool { return len(r.Checks) > 0 && len(r.Failures()) == 0 }

// FirstFailure is the first check that failed, in words; "" if none has.
func (r *Report) FirstFailure() string {
	failed := r.Failures()
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s: %v", failed[0].Group, failed[0].Name, failed[0].Err)
}
