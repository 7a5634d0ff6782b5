package engine

// What is measured of a GPU with a model: the fastest division of the work of its kernels, and how
// long its command buffers may be. Both change times, and no answer.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"headroom/engine/device"
	"headroom/engine/problem"
	"headroom/engine/tuning"
	"headroom/kernels/tune"
	"headroom/metal"
)

// tunedGPU is what is known of the engine's GPU.
type tunedGPU struct {
	record  tuning.Record
	halving sync.Once // the bound, after the first timeout
}

// tuningKey returns the key of the engine's records.
func (e *Engine) tuningKey() tuning.Key {
	f := e.device.Facts()
	return tuning.Key{Device: f.Name, System: f.System, Version: e.options.Tuning.Version,
		Model: e.runner.Shapes()}
}

// useTuning makes the GPU use what was measured.
func (e *Engine) useTuning() {
	g := e.device.GPU()
	if g == nil {
		return
	}
	r := e.options.Tuning.Load(e.tuningKey())
	e.tuning.record = r
	g.SetTuned(r.Tuned())
	if e.device.Name != device.Sim { // whose time has nothing to do with a GPU's
		g.SetBound(r.Bound())
	}
}

// deviceError returns the error of requests whose step the device has not completed. After a
// timeout it halves the bound for the next engine with this model, because this one computes
// nothing more.
func (e *Engine) deviceError(err error) error {
	if !errors.Is(err, metal.ErrTimeout) {
		return err
	}
	bound := e.tuning.record.Bound()
	e.tuning.halving.Do(func() {
		next := e.tuning.record.Halved()
		slog.Error("the system has ended the GPU's work because it took too long",
			"bound", bound, "next", next.Bound(), "err", err)
		// The device is lost, so nothing waits for this file.
		if err := e.options.Tuning.Save(next); err != nil {
			slog.Warn("the bound of the GPU's work cannot be kept", "err", err)
		}
	})
	p := problem.New(problem.GPUTimeout,
		"macOS ended the GPU's work because it took too long",
		fmt.Sprintf("it was meant to take at most %d ms at a time; other apps may have used the "+
			"GPU, too", bound.Milliseconds()),
		"Send the request again. The model is loaded anew and gives the GPU less work at a time.")
	p.Err = err
	return p
}

// Tuned is the result of Tune.
type Tuned struct {
	Device, System string
	Model          string // hash of its shapes
	Measured       []tune.Measured
	Kept           []tune.Value
	// Late means that the time was over first. What was not measured keeps its untuned values.
	Late bool
	Took time.Duration // without loading the model
}

// Tune loads a model and measures which values of the choices of the GPU's kernels are fastest for
// it. The values are kept in o.Tuning, and later engines with such a model on this GPU use them.
// They change the speed alone. The device must be a GPU. Errors are Problems, or that of ctx.
func Tune(ctx context.Context, src Source, o Options, t TuneOptions) (*Tuned, error) {
	e := &Engine{options: o}
	var err error
	if e.device, err = device.Open(device.Options{Name: o.Device, OpenMetal: o.OpenMetal,
		Threads: o.Threads}); err != nil {
		return nil, err
	}
	defer e.device.Close()
	e.kernels = e.device.Kernels
	if e.device.GPU() == nil {
		return nil, problem.New(problem.DoesNotFit, "There is no GPU to tune for", "",
			"Models run on the CPU here, which needs no tuning.")
	}
	if err := e.makePlan(src, o.planning()); err != nil {
		return nil, err
	}
	if e.plan.Spec.Vectors != nil {
		return nil, problem.New(problem.BadRequest, "Only models that generate text are tuned",
			"this one computes vectors", "Name another model.")
	}
	if err := e.load(ctx, src); err != nil {
		return nil, err
	}
	defer func() { _, _ = e.weights.Close(), e.draft.close() }()
	return e.measure(ctx, t)
}

// measure runs passes on a Tuner and keeps the result.
func (e *Engine) measure(ctx context.Context, o TuneOptions) (tuned *Tuned, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = cannotTune(fmt.Errorf("panic: %v", p))
		}
	}()
	began := time.Now()
	key := e.tuningKey()
	before := e.options.Tuning.Load(key)
	t := tune.New(ctx, e.device.GPU(), o)
	for _, p := range e.trials() {
		if t.Over() {
			t.Late = true
			break
		}
		if err := e.runner.Trial(t, p.sequences, p.rows, p.context, p.prompt); err != nil {
			return nil, cannotTune(err)
		}
	}
	if err := ctx.Err(); err != nil { // what was measured until then is not kept
		return nil, err
	}
	kept, all, err := t.Done()
	if err != nil {
		return nil, cannotTune(err)
	}
	r := tuning.Record{Key: key, Values: kept, BoundMS: before.BoundMS, At: time.Now().UTC()}
	if err := e.options.Tuning.Save(r); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "The result cannot be kept",
			"Check that the settings folder can be written.")
	}
	return &Tuned{Device: key.Device, System: key.System, Model: key.Model, Measured: all,
		Kept: kept, Late: t.Late, Took: time.Since(began)}, nil
}

func cannotTune(err error) error {
	return problem.Wrap(problem.Internal, err, "The GPU's kernels cannot be tuned",
		"Run `headroom selftest --out report.txt` and report it with that file.")
}

// trial is a pass of Runner.Trial.
type trial struct {
	sequences, rows, context int
	prompt                   bool
}

// trials returns the passes that tuning measures: first what takes most of the time of a chat, then
// drafts, several sequences, and other contexts.
func (e *Engine) trials() (all []trial) {
	longest := e.plan.ContextTokens
	usual := min(4096, longest/2)
	add := func(sequences, rows, context int, prompt bool) {
		if context+rows <= longest {
			all = append(all, trial{sequences, rows, context, prompt})
		}
	}
	add(1, 1, usual, false)
	add(1, min(e.plan.ChunkTokens, longest/2), 0, true)
	for _, rows := range []int{2, 4, 8} {
		add(1, rows, usual, false)
		add(rows, 1, usual, false)
	}
	for context := 256; context < longest; context *= 2 {
		add(1, 1, context, false)
	}
	add(1, min(e.plan.ChunkTokens, longest/2), usual, true)
	add(1, 32, usual, true)
	return all
}

// OpenGPU opens the device named DeviceMetal, DeviceSim or DeviceNV, for its self-test. The caller
// closes it. Errors are Problems.
func OpenGPU(name string) (metal.Device, error) {
	return device.OpenGPU(device.Options{Name: name})
}
