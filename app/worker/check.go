package worker

// A check of a model: whether what makes it faster changes an answer (app/parity). It loads the
// model several times, with drafts that no other process could propose, so all of it runs in one
// worker. A fault of the GPU or a lack of memory ends only the check.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"headroom/app/parity"
	"headroom/engine/problem"
)

// checkGrace is how long the worker of a check that was stopped may take to end. It has nothing to
// save.
const checkGrace = time.Second

// Check runs parity.Run with the built-in prompts in a worker. Of o it uses Source, Engine, Tokens,
// Other, NoOther, Say and Row; o.Engine has no field that Open refuses. started is called with the
// process's ID; it may be nil. When Check returns, the process has ended and nothing of it is left
// on disk. The error is a Problem.
func Check(ctx context.Context, o parity.Options, started func(pid int), w Options) (*parity.Report,
	error) {
	dir, err := os.MkdirTemp("", "headroom-check-")
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "The check cannot begin",
			"Free space on the disk.")
	}
	// The worker removes it, too, in case this process is killed.
	defer os.RemoveAll(dir)
	p, err := start(w)
	if err != nil {
		return nil, err
	}
	if started != nil {
		started(p.pid)
	}
	defer context.AfterFunc(ctx, func() {
		p.outbox.close() // ends the worker
		time.AfterFunc(checkGrace, p.kill)
	})()
	opening := newOpening(o.Source, o.Engine, w.log())
	p.outbox.send(&toWorker{Hello: newHello()})
	p.outbox.send(&toWorker{Check: &checkRequest{Dir: opening.Dir, Options: opening.Options,
		DraftModel: opening.DraftModel, Tokens: o.Tokens, Store: dir, Other: o.Other,
		NoOther: o.NoOther, LogLevel: opening.LogLevel}})
	var result *checked
	p.listen(func(message *fromWorker) error {
		switch {
		case message.Checked != nil:
			result = message.Checked
			p.outbox.close() // ends the worker
		case message.Step != nil && o.Say != nil:
			o.Say(message.Step.Number, message.Step.Of, message.Step.What)
		case message.Row != nil && o.Row != nil:
			o.Row(*message.Row)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, problem.Wrap(problem.Cancelled, ctx.Err(), "The check was stopped", "")
	case result == nil:
		return nil, problem.New(problem.Crashed, "The model's process ended during the check",
			p.exitReason(), "The log has more. Models that run are not affected.")
	}
	return result.Report, result.Problem.err()
}

// check checks the model and sends the result.
func (s *session) check(q *checkRequest) {
	s.startLog(q.LogLevel)
	defer os.RemoveAll(q.Store)
	report, err := s.compare(q)
	s.send(&fromWorker{Checked: &checked{report, newWireProblem(err)}})
}

// compare runs the check. A panic becomes a Problem, as in load.
func (s *session) compare(q *checkRequest) (r *parity.Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a check panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = problem.New(problem.Internal, "The model could not be checked", fmt.Sprint(p),
				"Please report it with the log.")
		}
	}()
	src, err := sourceIn(q.Dir)
	if err != nil {
		return nil, err
	}
	if q.Options.Options.DraftModel, err = q.DraftModel.model(); err != nil {
		return nil, err
	}
	o := parity.Options{Source: src, Engine: q.Options.Options, Tokens: q.Tokens, Dir: q.Store,
		Other: q.Other, NoOther: q.NoOther,
		Say: func(number, of int, what string) {
			s.send(&fromWorker{Step: &step{number, of, what}})
		},
		Row: func(r parity.Row) { s.send(&fromWorker{Row: &r}) }}
	o.Prompts, err = parity.Encode(s.context, src, parity.Prompts, o.Engine.ContextTokens)
	if err != nil {
		return nil, err
	}
	return parity.Run(s.context, o)
}
