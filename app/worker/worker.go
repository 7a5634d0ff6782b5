// Package worker runs a model in a separate process, the worker. It implements both sides.
//
//	worker.go    the parent's side: starts the worker and loads the model in it
//	client.go    the loaded model, with the methods of engine.Engine that the app uses
//	stream.go    one request
//	health.go    whether the process answers
//	watchdog.go  ends a worker that hangs
//	suspects.go  prompts that may end the model
//	process.go   the process: pipes, and its start and end
//	stopped_*.go whether the system has stopped it
//	reason.go    why it ended, in words
//	memory_*.go  whether the system ended it for lack of memory
//	gate.go      tests the GPU, also in a worker
//	check.go     checks a model against plain decoding, also in a worker
//	inside.go    the worker's side: Main, the program of the process
//	serve.go     handles the parent's messages and has the engine
//	wire.go      the messages
//	frame.go     their encoding on a pipe
//	log.go       log records of the worker in the parent's log
//
// A fault in a GPU driver or a kernel, or a lack of memory, ends only the worker. Its requests end
// with a Problem of code model_crashed, and the parent continues. When the worker ends, the system
// gets all of its memory back.
//
// The worker is the same program, started with the argument "worker" and two pipes that no other
// program can open. When the parent ends, its pipe closes, and the worker ends too. A worker that
// hangs is killed and counts as crashed.
//
// CRASHES.md is a table of faults: what is promised when, and which test shows it.
//
// Every accepted request ends with exactly one Done event. Close returns after the process has
// ended and is reaped. Messages from the pipe are never trusted to be well-formed.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/problem"
)

// Argument is the command-line argument that runs the program as a worker.
const Argument = "worker"

// Options configure how workers are started. The zero value works.
type Options struct {
	Command []string     // the program and its arguments; nil: this program with Argument
	Log     *slog.Logger // receives the workers' records too; nil: slog.Default()

	// Suspects remembers the prompts that may have ended a worker, and refuses them; nil: none is
	// refused.
	Suspects *Suspects

	// ticks trigger the watchdog's checks in tests; nil: one every watchInterval
	ticks <-chan time.Time
}

func (o Options) log() *slog.Logger {
	if o.Log != nil {
		return o.Log
	}
	return slog.Default()
}

// command returns the program and its arguments.
func (o Options) command() ([]string, error) {
	if len(o.Command) > 0 {
		return o.Command, nil
	}
	path, err := os.Executable()
	return []string{path, Argument}, err
}

// Open starts a worker and loads a model in it, from a folder or the bundled one. The error is a
// Problem, such as those of engine.Open. When ctx ends, loading stops and the worker ends. The
// worker opens the block store a second time, with the same limits. Open panics if o has OpenMetal,
// Times or Draft, which cannot be passed to another process.
func Open(ctx context.Context, src engine.Source, o engine.Options, w Options) (*Model, error) {
	if o.OpenMetal != nil || o.Times != nil || o.Draft != nil {
		panic("worker: Open: engine.Options.OpenMetal, Times and Draft cannot be passed to " +
			"another process: open the model in this one")
	}
	p, err := start(w)
	if err != nil {
		return nil, err
	}
	m, loaded := newModel(p, o), false
	m.suspects, m.name = w.Suspects, src.Dir
	go m.listen()
	defer func() { // also after a panic
		if !loaded {
			_ = m.Close()
		}
	}()
	m.send(&toWorker{Hello: newHello()})
	if o.History != nil {
		for _, s := range o.History.Sequences() {
			m.send(&toWorker{Known: &s})
		}
	}
	m.send(&toWorker{Open: newOpening(src, o, w.log())})
	if err := m.await(ctx, src); err != nil {
		return nil, err
	}
	loaded = true
	m.FollowLogLevel() // the level may have changed during loading
	go m.watch(w.ticks)
	return m, nil
}

// await waits until the model is loaded. Meanwhile it loads the tokenizer and the template in this
// process.
func (m *Model) await(ctx context.Context, src engine.Source) error {
	texts, textsErr := engine.ReadTextProcessor(src)
	select {
	case <-ctx.Done():
		return problem.Wrap(problem.Cancelled, ctx.Err(), "Loading the model was cancelled", "")
	case <-m.process.ended:
		return m.cause("while it was loading a model")
	case <-m.opened:
	}
	switch {
	case m.opening.Problem != nil:
		return m.opening.Problem.problem()
	case textsErr != nil:
		return newWireProblem(textsErr).problem() // notes whether the lack passes
	}
	m.texts = texts
	return nil
}

// check compares the other side's version and protocol with this side's.
func (h *hello) check() error {
	switch own := newHello(); {
	case h == nil:
		return errors.New("it did not send its version")
	case *h != *own:
		return fmt.Errorf("it has version %s with protocol %d, but this process has version %s "+
			"with protocol %d", h.Version, h.Protocol, own.Version, own.Protocol)
	}
	return nil
}

func newHello() *hello { return &hello{Protocol: protocol, Version: version.Version} }

// newOpening returns the message that makes the worker open the model with the same options.
func newOpening(src engine.Source, o engine.Options, log *slog.Logger) *opening {
	w := &opening{Dir: src.Dir, LogLevel: levelOf(log)}
	if b := o.BlockStore; b != nil {
		w.Store = &store{Dir: b.Dir(), Limits: b.Limits()}
		if key := b.Key(); key != nil {
			w.Store.Key = key.Bytes()
		}
	}
	if d := o.DraftModel; d != nil {
		w.DraftModel = &draftModel{DraftModel: *d, Dir: d.Source.Dir}
		w.DraftModel.DraftModel.Source = engine.Source{}
	}
	o.Progress, o.History, o.BlockStore, o.DraftModel = nil, nil, nil, nil
	w.Options.Options = o
	return w
}

// levelOf returns the lowest level that log accepts now. The worker sends no records below it.
func levelOf(log *slog.Logger) int {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return int(slog.LevelDebug)
	}
	return int(slog.LevelInfo)
}
