package commands

// The self-test of the GPU, and its report.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"

	"headroom/app/control"
	"headroom/app/selftest"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/metal"
	"headroom/metal/darwin"
	"headroom/metal/sim"
)

// Selftest is `headroom selftest`.
type Selftest struct {
	Device  string `help:"Device to test: metal (the default on a Mac) or sim (the simulated GPU, the default elsewhere)." enum:",metal,sim" default:"" placeholder:"DEVICE"`
	Short   bool   `help:"Run the short test, as on the first start. It takes seconds instead of minutes."`
	Repeats int    `help:"Runs of each kernel, which must all give the same bits. Default: 100, or 2 for sim and --short." placeholder:"N"`
	Out     string `help:"File for the full report, to attach to a bug report." placeholder:"FILE" type:"path"`
}

// Validate rejects a negative number. kong calls it.
func (c *Selftest) Validate() error {
	if c.Repeats < 0 {
		return fmt.Errorf("--repeats is %d, expected 0 or more", c.Repeats)
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
	open := darwin.Open
	repeats := c.Repeats
	if device == engine.DeviceSim {
		open = func() (metal.Device, error) { return sim.Open(sim.Options{}) }
		repeats = cmp.Or(repeats, 2)
	}
	file := io.Discard
	if c.Out != "" { // fail before the test, not after it
		f, err := os.Create(c.Out)
		if err != nil {
			return problem.Wrap(problem.BadRequest, err, "The report could not be written",
				"Choose another file.")
		}
		file = f
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	r, err := selftest.Run(ctx,
		selftest.Options{Open: open, Short: c.Short, Version: version.Version, Repeats: repeats,
			Say: func(line string) { fmt.Fprintln(t.err, line) }})
	switch {
	case err != nil && r != nil:
		return err // canceled
	case err != nil:
		return problem.Wrap(problem.DoesNotFit, err, "This device is not available",
			"Use --device sim for the simulated GPU, which needs clang (build/setup sim), on "+
				"Linux.")
	}
	if device == engine.DeviceMetal {
		newGate().Note(r)
	}
	if err := errors.Join(r.Write(t.out, false), r.Write(file, true)); err != nil {
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
