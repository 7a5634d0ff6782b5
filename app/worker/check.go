package worker

// A check of a model: whether what makes it faster changes an answer (app/parity). It loads the
// model several times, with drafts that no other process could propose, so all of it runs in one
// worker. A fault of the GPU or a lack of memory ends only the check. The watchdog ends a check
// that makes no progress, for example when the GPU hangs.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"headroom/app/parity"
	"headroom/engine"
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
	answers := make(chan engine.Heartbeat, 1)
	var watching sync.WaitGroup
	watching.Go(func() { p.watchCheck(w.ticks, answers) })
	p.listen(func(message *fromWorker) error {
		switch {
		case message.Heartbeat != nil:
			select {
			case answers <- *message.Heartbeat:
			default: // nobody has asked
			}
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
	watching.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, problem.Wrap(problem.Cancelled, ctx.Err(), "The check was stopped", "")
	case result == nil:
		return nil, problem.New(problem.Crashed, "The model's process ended during the check",
			p.exitReason(), "The log has more. Models that run are not affected.")
	}
	return result.Report, result.Problem.err()
}

// watchCheck kills the process of a check if it hangs. It returns when the process has ended.
func (p *process) watchCheck(ticks <-chan time.Time, answers <-chan engine.Heartbeat) {
	if ticks == nil {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		ticks = tick.C
	}
	var w watchdog
	stopped := func() bool { return isStopped(p.pid) }
	for open := false; ; {
		select {
		case <-p.ended:
			return
		case <-ticks:
		}
		var answer *engine.Heartbeat
		select {
		case h := <-answers:
			answer, open = &h, false
		default:
		}
		if !open { // the pipe to a stopped process would fill up otherwise
			open = true
			p.outbox.send(&toWorker{Heartbeat: &heartbeatRequest{}})
		}
		if hangs := w.check(true, answer, stopped); hangs != "" {
			p.killHung(ending{reason: hangs})
			return
		}
	}
}

// checkPulse is the progress of a check. The zero value has none.
type checkPulse struct {
	mu     sync.Mutex
	engine *engine.Engine // the last one; nil while one is being opened
	count  uint64         // steps of opening engines, and engines that were opened
}

// advance counts a step. e is the engine that was opened; nil: it is being opened.
func (c *checkPulse) advance(e *engine.Engine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine = e
	c.count++
}

// heartbeat returns the heartbeat of the open engine, or of opening one. The check is always busy.
func (c *checkPulse) heartbeat() (h engine.Heartbeat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != nil {
		h = c.engine.Heartbeat()
	}
	h.Busy, h.Count = true, h.Count+c.count<<32
	return h
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
		Row: func(r parity.Row) { s.send(&fromWorker{Row: &r}) },
		Open: func(ctx context.Context, o engine.Options) (*engine.Engine, error) {
			o.Progress = func(float64) { s.pulse.advance(nil) }
			s.pulse.advance(nil)
			e, err := engine.Open(ctx, src, o)
			if err == nil {
				s.pulse.advance(e)
			}
			return e, err
		}}
	o.Prompts, err = parity.Encode(s.context, src, parity.Prompts, o.Engine.ContextTokens)
	if err != nil {
		return nil, err
	}
	return parity.Run(s.context, o)
}
