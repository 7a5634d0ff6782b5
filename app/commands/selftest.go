package commands

// The self-test of the GPU, and its report.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"headroom/app/control"
	"headroom/app/demo"
	"headroom/app/selftest"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/metal"
	"headroom/metal/darwin"
)

// Selftest is `headroom selftest`.
type Selftest struct {
	Device  string `help:"Device to test: metal (the default on a Mac), sim (the simulated GPU, the default elsewhere) or, for development, nv." enum:",metal,sim,nv" default:"" placeholder:"DEVICE"`
	Short   bool   `help:"Run the short test, as on the first start. It takes seconds instead of minutes."`
	Repeats int    `help:"Runs of each kernel, which must all give the same bits. Default: 100, or 2 for sim and --short." placeholder:"N"`
	Out     string `help:"File for the full report, to attach to a bug report." placeholder:"FILE" type:"path"`
	Tune    bool   `help:"Instead of testing, measure which division of their work is fastest for the GPU's kernels with --model, and use it from now on. Takes up to 20 seconds."`
	Figures bool   `help:"Instead of testing, time the kernels at the sizes of real models. Takes some minutes."`
	Model   string `help:"Model for --tune: a name, a folder, or a shape of headroom bench. Default: the bundled demo model." placeholder:"MODEL"`
}

// Validate rejects a negative number, and flags without effect. kong calls it.
func (c *Selftest) Validate() error {
	if c.Repeats < 0 {
		return fmt.Errorf("--repeats is %d, expected 0 or more", c.Repeats)
	}
	if c.Model != "" && !c.Tune {
		return errors.New("--model is for --tune")
	}
	if c.Tune || c.Figures {
		switch {
		case c.Short:
			return errors.New("--short is for the test, and --tune and --figures replace it")
		case c.Repeats != 0:
			return errors.New("--repeats is for the test, and --tune and --figures replace it")
		}
	}
	return nil
}

// Run tests the GPU and prints the report. Exit code 1 means that a test failed.
func (c *Selftest) Run(ctx context.Context, t *terminal) (err error) {
	device := c.Device
	if device == "" {
		device = engine.DeviceMetal
		if runtime.GOOS != "darwin" {
			device = engine.DeviceSim
			fmt.Fprintf(t.err, "There is no Metal on %s: trying the simulated GPU.\n", runtime.GOOS)
		}
	}
	open := func() (metal.Device, error) { return engine.OpenGPU(device) }
	repeats := c.Repeats
	if device == engine.DeviceSim {
		repeats = cmp.Or(repeats, 2)
	}
	file, err := createReport(c.Out)
	if err != nil {
		return err
	}
	defer file.remove()
	if c.Tune || c.Figures {
		return c.measure(ctx, t, device, open, file)
	}
	var r *selftest.Report
	err = endSoon(ctx, func() (err error) {
		r, err = selftest.Run(ctx, selftest.Options{Open: open, Short: c.Short,
			Version: version.Version, Repeats: repeats, Say: sayUntil(ctx, t)})
		return err
	})
	switch {
	case interrupted(err):
		fmt.Fprintln(t.err, "Interrupted before the end of the test. No report was written.")
		return err
	case err != nil:
		return notAvailable(err)
	}
	if device == engine.DeviceMetal {
		newGate().Note(r)
	}
	if err := errors.Join(r.Write(t.out, false), file.write(r)); err != nil {
		return err
	}
	if r.Passed() {
		return nil
	}
	if c.Out == "" {
		fmt.Fprintln(t.err, "For a bug report: headroom selftest --out report.txt")
	}
	return exitProblem
}

func notAvailable(err error) error {
	return problem.Wrap(problem.DoesNotFit, err, "This device is not available",
		"Use --device sim for the simulated GPU, which needs clang (build/setup sim), on Linux.")
}

// sayUntil returns what prints lines of progress until ctx ends.
func sayUntil(ctx context.Context, t *terminal) func(line string) {
	return func(line string) {
		if ctx.Err() == nil {
			fmt.Fprintln(t.err, line)
		}
	}
}

// measure tunes, takes the figures, or both, and reports the result.
func (c *Selftest) measure(ctx context.Context, t *terminal, device string,
	open func() (metal.Device, error), file *reportFile) error {
	var r *selftest.Report
	var choices atomic.Int64
	say := sayUntil(ctx, t)
	err := endSoon(ctx, func() error {
		m, err := open()
		if err != nil {
			return notAvailable(err)
		}
		r = selftest.New(version.Version, m.Facts())
		if c.Figures {
			err = r.Measure(ctx, m, say)
		}
		m.Close()
		if err == nil && c.Tune {
			r.Tuned, err = c.tune(ctx, device, say, &choices)
		}
		return err
	})
	switch {
	case interrupted(err) && c.Tune:
		fmt.Fprintf(t.err, "Interrupted with %s measured. No tuning was kept, and no report was "+
			"written.\n", count(int(choices.Load()), "choice"))
		return err
	case interrupted(err):
		fmt.Fprintln(t.err, "Interrupted before the last figure. No report was written.")
		return err
	case err != nil:
		return err
	}
	if err := errors.Join(r.Write(t.out, false), file.write(r)); err != nil {
		return err
	}
	return c.offerReport(ctx, t, r)
}

// tune tunes the GPU for the model, and says once a second how many choices were measured.
func (c *Selftest) tune(ctx context.Context, device string, say func(line string),
	choices *atomic.Int64) (*engine.Tuned, error) {
	src, err := engine.Source{}, error(nil)
	if c.Model == "" {
		src.FS, err = fs.Sub(demo.Files, "model")
	} else {
		src, err = benchSource(c.Model)
	}
	if err != nil {
		return nil, err
	}
	say("tuning: loading the model")
	var said time.Time
	return engine.Tune(ctx, src, engine.Options{Device: device, Tuning: tuningDir()},
		engine.TuneOptions{Budget: tuneBudget, Progress: func(measured int) {
			choices.Store(int64(measured))
			if time.Since(said) >= time.Second {
				said = time.Now()
				say("tuning: " + count(measured, "choice") + " measured")
			}
		}})
}

// tuneBudget is the time for tuning; 0: the usual one. Tests set it.
var tuneBudget time.Duration

// offeredReport is the file that is offered for a report.
const offeredReport = "headroom-report.txt"

// offerReport asks whether to save the report, if there is a person and no file yet.
func (c *Selftest) offerReport(ctx context.Context, t *terminal, r *selftest.Report) error {
	if c.Out != "" {
		return nil
	}
	if !canAsk(t) {
		fmt.Fprintln(t.err, "To keep the report: --out report.txt")
		return nil
	}
	yes, err := askYes(ctx, t, "Save the report as "+offeredReport+" in this folder?", false)
	if err != nil || !yes {
		return err
	}
	f, err := os.OpenFile(offeredReport, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return reportProblem(err, "Use --out FILE.")
	}
	return errors.Join(r.Write(f, true), f.Close())
}

// tuningDir is where engines find and keep what was measured of a GPU.
func tuningDir() engine.Tuning {
	return engine.Tuning{Dir: gateDir(), Version: version.Version}
}

// DeviceFlag selects the device of a benchmark.
type DeviceFlag struct {
	Device string `help:"Device to run on: cpu, metal or, for development, sim and nv. Default: metal if it is available and passes its self-test." enum:",cpu,metal,sim,nv" default:"" placeholder:"DEVICE"`
}

// choose selects the device, after its self-test if it needs one.
func (f *DeviceFlag) choose(ctx context.Context) (err error) {
	if f.Device != "" {
		return nil
	}
	var trouble error
	if f.Device, trouble, err = newGate().Device(ctx); trouble != nil {
		slog.Warn("the GPU is not used", "err", trouble)
	}
	return err
}

// newGate returns the gate that decides whether this Mac's GPU is used.
func newGate() *selftest.Gate {
	return &selftest.Gate{Open: darwin.Open, Version: version.Version, Dir: gateDir()}
}

// gateDir returns the folder of the gate's result, "" for none.
func gateDir() string {
	dir, err := control.SettingsDir()
	if err != nil {
		return ""
	}
	return dir
}
