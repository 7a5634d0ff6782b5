// Package worker runs a model in a process of its own, and is both ends of it.
//
//	worker.go  the parent's side: starting the process, loading the model in it
//	client.go  the loaded model, as the host and the server want an engine
//	stream.go  one request of it
//	heart.go   whether it gets on
//	process.go the process: its pipes, what it says on stderr, how it ended and why
//	gate.go    whether the GPU can be trusted, tried in a process of its own too
//	inside.go  the other side: Main, the program that the process is
//	serve.go   its conversation with the parent, over an engine of its own
//	wire.go    what the two tell each other, and frame.go how it gets over a pipe
//
// A fault of a GPU driver, of a kernel in C, or the system that ends programs when memory runs out,
// takes the process and the requests in it: they end with a Problem of code model_crashed, and the
// parent, with all other requests, goes on. When the process has ended, the system has all of its
// memory back.
//
// The process is this very program, started with the one argument "worker", with two pipes that
// nobody else can open. When the parent is gone, however it went, its pipe ends, and so does the
// process.
//
// A process that hangs is ended, and has crashed then like any other.
//
// Invariants: every request that was taken ends with exactly one Done; Close returns when the
// process has ended and is reaped; what comes over the pipe is never trusted to be well-formed.
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

// Word is the argument that makes a program a worker.
const Word = "worker"

// Options say how workers are started. The zero value works.
type Options struct {
	Command []string     // the program and its arguments; nil: this very program with Word
	Log     *slog.Logger // what workers log, and what is said of them; nil: slog.Default()

	// when to look whether a worker gets on; nil: every beatTime. Tests have their own.
	beats <-chan time.Time
}

func (o Options) log() *slog.Logger {
	if o.Log != nil {
		return o.Log
	}
	return slog.Default()
}

// command is the program and its arguments.
func (o Options) command() ([]string, error) {
	if len(o.Command) > 0 {
		return o.Command, nil
	}
	path, err := os.Executable()
	return []string{path, Word}, err
}

// Open starts a process and loads a model in it: one that lies in a folder, or the bundled one.
// Errors are Problems, those of engine.Open among them. Ending ctx stops the loading and ends the
// process. OpenMetal and Times cannot reach another process: with them it panics. The block store
// is opened there once more, under the limits that it has here.
func Open(ctx context.Context, src engine.Source, o engine.Options, w Options) (*Model, error) {
	if o.OpenMetal != nil || o.Times != nil {
		panic(
			"worker: Open: engine.Options.OpenMetal and Times cannot be handed to another " +
				"process: open the model in this one")
	}
	p, err := start(w)
	if err != nil {
		return nil, err
	}
	m, loaded := newModel(p, o), false
	defer func() { // also when reading the texts panics
		if !loaded {
			_ = m.Close()
		}
	}()
	m.tell(&toWorker{Hello: newHello()})
	if o.History != nil {
		for _, s := range o.History.Sequences() {
			m.tell(&toWorker{Known: &s})
		}
	}
	m.tell(&toWorker{Open: newOpening(src, o, w.log())})
	if err := m.await(ctx, src); err != nil {
		return nil, err
	}
	loaded = true
	m.FollowLogLevel() // it may have changed meanwhile
	go m.watch(w.beats)
	return m, nil
}

// await returns when the model is loaded. The texts are read here while it loads there.
func (m *Model) await(ctx context.Context, src engine.Source) error {
	texts, textsErr := engine.ReadTextProcessor(src)
	select {
	case <-ctx.Done():
		return problem.Wrap(problem.Cancelled, ctx.Err(), "Loading the model was stopped", "")
	case <-m.process.ended:
		return m.cause("while it was loading a model")
	case <-m.opened:
	}
	switch {
	case m.opening.Problem != nil:
		return m.opening.Problem.problem()
	case textsErr != nil:
		return textsErr
	}
	m.texts = texts
	return nil
}

// check is what either side makes of the other's greeting.
func (h *hello) check() error {
	switch own := newHello(); {
	case h == nil:
		return errors.New("it did not say which version it is")
	case *h != *own:
		return fmt.Errorf(
			"version %s with protocol %d, where this one is version %s with protocol %d", h.Version,
			h.Protocol, own.Version, own.Protocol)
	}
	return nil
}

func newHello() *hello { return &hello{Protocol: protocol, Version: version.Version} }

// newOpening is what the worker needs to open the model as this process would.
func newOpening(src engine.Source, o engine.Options, log *slog.Logger) *opening {
	w := &opening{Dir: src.Dir, LogLevel: levelOf(log)}
	if b := o.BlockStore; b != nil {
		w.Store = &store{b.Dir(), b.Limits()}
	}
	o.Progress, o.History, o.BlockStore = nil, nil, nil
	w.Options.Options = o
	return w
}

// levelOf is the least important level that is logged now. The worker leaves out what is below; the
// parent what its user hides later.
func levelOf(log *slog.Logger) int {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return int(slog.LevelDebug)
	}
	return int(slog.LevelInfo)
}
