// Package worker runs a model in a separate process. It implements both sides.
//
//	worker.go   the parent's side: starts the process and loads the model in it
//	client.go   the loaded model, with the methods of engine.Engine that the app uses
//	stream.go   one request
//	watchdog.go ends a process that hangs
//	process.go  the process: pipes, standard error, and how it ended
//	gate.go     tests the GPU, also in a separate process
//	inside.go   the worker's side: Main, the program of the process
//	serve.go    its messages with the parent, and its engine
//	wire.go     the messages
//	frame.go    their encoding on a pipe
//
// A fault in a GPU driver or a kernel, or a lack of memory, ends only this process and its
// requests. They end with a Problem of code model_crashed, and the parent goes on. The system gets
// all of the process's memory back when it ends.
//
// The process is the same program, started with the argument "worker" and two pipes that no other
// program can open. When the parent ends, its pipe closes and the process ends too.
//
// A process that hangs is killed and counts as crashed.
//
// Invariants: every accepted request ends with exactly one Done event. Close returns after the
// process has ended and is reaped. Messages from the pipe are never trusted to be well-formed.
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

// Word is the command-line argument that runs the program as a worker.
const Word = "worker"

// Options configure how workers are started. The zero value works.
type Options struct {
	Command []string     // the program and its arguments; nil: this program with Word
	Log     *slog.Logger // of the workers, and about them; nil: slog.Default()

	// ticks start the checks of the watchdog, for tests; nil: one every watchInterval
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
	return []string{path, Word}, err
}

// Open starts a process and loads a model in it, from a folder or the bundled one. Errors are
// Problems, those of engine.Open included. When ctx ends, loading stops and the process ends. The
// process opens the block store again, with the same limits. Open panics if o has OpenMetal or
// Times, which cannot be passed to another process.
func Open(ctx context.Context, src engine.Source, o engine.Options, w Options) (*Model, error) {
	if o.OpenMetal != nil || o.Times != nil {
		panic(
			"worker: Open: engine.Options.OpenMetal and Times cannot be passed to another " +
				"process: open the model in this one")
	}
	p, err := start(w)
	if err != nil {
		return nil, err
	}
	m, loaded := newModel(p, o), false
	defer func() { // also after a panic
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
	m.FollowLogLevel() // it may have changed during loading
	go m.watch(w.ticks)
	return m, nil
}

// await waits until the model is loaded. Meanwhile it reads the tokenizer and the template here.
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

// check compares the other side's version and protocol with our own.
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

// newOpening returns the message that opens the model as this process would.
func newOpening(src engine.Source, o engine.Options, log *slog.Logger) *opening {
	w := &opening{Dir: src.Dir, LogLevel: levelOf(log)}
	if b := o.BlockStore; b != nil {
		w.Store = &store{b.Dir(), b.Limits()}
	}
	o.Progress, o.History, o.BlockStore = nil, nil, nil
	w.Options.Options = o
	return w
}

// levelOf returns the lowest level that log accepts now, for the worker to filter by.
func levelOf(log *slog.Logger) int {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return int(slog.LevelDebug)
	}
	return int(slog.LevelInfo)
}
