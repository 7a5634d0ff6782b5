// Package selftest checks a GPU before a model runs on it, and writes a report for bug reports.
//
// Run checks argument passing and barriers, compares the output of every kernel with that of the
// simulated device (kernels/golden), and compares two short answers of the demo model with known
// tokens. It also checks limits and measures rounding and times. The short form takes seconds.
//
// Gate runs the short form when the GPU, its system or Headroom has changed, stores the outcome,
// and chooses the device that computes.
//
// `headroom selftest` calls Run, and the host uses a Gate when it starts a model. Both treat a
// Mac's GPU and a simulated one alike.
package selftest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"headroom/engine"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/probe"
)

// Options configure Run. Open is required.
type Options struct {
	// Open opens the device. Run calls it several times and closes each device.
	Open    func() (metal.Device, error)
	Short   bool   // run the short form
	Version string // version of Headroom, for the report
	// Repeats is how often each kernel runs; every run must give the same bits. 0 means 2 in the
	// short form and 100 otherwise.
	Repeats int
	Say     func(line string) // called with a line of progress before each part; may be nil
}

// Check is the result of one check.
type Check struct {
	Group, Name string
	Err         error  // nil: passed
	Note        string // a remark on a passed check; may be empty
}

// Speed is the measured memory bandwidth of a kernel.
type Speed struct {
	Name        string
	Bytes       int64
	Took        time.Duration
	GBPerSecond float64
}

// Report is the result of Run. Write prints it.
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
	Figures         []Figure      // of Measure
	Tuned           *engine.Tuned // what tuning measured; nil: nothing
}

// New returns the report of a device to which nothing was added yet.
func New(version string, facts metal.Facts) *Report {
	return &Report{Version: version,
		System: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			runtime.Version()),
		Began: time.Now(), Facts: facts}
}

// The groups of checks, in the order in which they run.
const (
	groupProbes  = "device"
	groupKernels = "kernels"
	groupLimits  = "limits"
	groupDemo    = "the demo model"
)

// Run checks the device. The report has the device's faults; they are not errors. Run returns an
// error if there is no device. When ctx is cancelled, Run stops after the current kernel and
// returns the report so far with the error of ctx.
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
	r := New(o.Version, m.Facts())
	r.Short = o.Short
	r.checkDevice(ctx, m, &o)
	m.Close()
	if ctx.Err() == nil && !(o.Short && len(r.Failures()) > 0) {
		// After a failure, the short form does not need the slowest check.
		r.guard(groupDemo, "answers", func() { r.demo(ctx, &o) })
	}
	r.Took = time.Since(r.Began)
	return r, ctx.Err()
}

// checkDevice runs all checks that need no engine.
func (r *Report) checkDevice(ctx context.Context, m metal.Device, o *Options) {
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

// guard turns a panic of f into a failed check, so that a faulty GPU cannot end the program.
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

// limits checks that every dispatch stayed within the limits of its pipeline.
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
			err = fmt.Errorf("%d bytes of threadgroup memory, at most %d are available", memory,
				r.Facts.MaxThreadgroupMemoryLength)
		}
		r.add(groupLimits, name, err, "")
	}
}

// Failures returns the failed checks.
func (r *Report) Failures() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Err != nil {
			failed = append(failed, c)
		}
	}
	return failed
}

// Passed reports whether checks ran and none failed.
func (r *Report) Passed() bool { return len(r.Checks) > 0 && len(r.Failures()) == 0 }

// FirstFailure describes the first failed check, or returns "" if none failed.
func (r *Report) FirstFailure() string {
	failed := r.Failures()
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s: %v", failed[0].Group, failed[0].Name, failed[0].Err)
}
