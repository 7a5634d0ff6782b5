package worker

// The self-test of a faulty GPU may crash the process, so it runs in a worker.

import (
	"context"
	"errors"
	"sync"

	"headroom/engine"
	"headroom/engine/problem"
)

// Gate is selftest.Gate in a worker process: it decides once whether the GPU is used. It is safe
// for concurrent use.
type Gate struct {
	Dir     string // the folder that stores the result; "": none
	Options Options

	mu     sync.Mutex
	answer *gateAnswer // nil: not decided
}

// Device is selftest.Gate.Device. The test stores that it has begun. If it crashes the worker, a
// second worker finds that, does not test again, and reports the crash.
func (g *Gate) Device(ctx context.Context) (device string, warning error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const attempts = 2
	for n := 0; g.answer == nil; n++ {
		answer, err := g.ask(ctx)
		switch {
		case err == nil:
			g.answer = answer
		case ctx.Err() != nil:
			return "", nil, ctx.Err()
		case n+1 == attempts:
			g.answer = &gateAnswer{Device: engine.DeviceCPU,
				Trouble: newWireProblem(problem.Wrap(problem.Internal, err,
					"The GPU is not used, so answers are slower",
					"Run `headroom selftest --out report.txt` and report it with that file."))}
		}
	}
	return g.answer.Device, g.answer.Trouble.err(), nil
}

// ask asks one worker.
func (g *Gate) ask(ctx context.Context) (*gateAnswer, error) {
	p, err := start(g.Options)
	if err != nil {
		return nil, err
	}
	// End the worker through its pipe: if it were killed, the test would count as failed.
	defer context.AfterFunc(ctx, p.outbox.close)()
	p.outbox.send(&toWorker{Hello: newHello()})
	p.outbox.send(&toWorker{Gate: &gateRequest{Dir: g.Dir, LogLevel: levelOf(g.Options.log())}})
	var answer *gateAnswer
	p.listen(func(message *fromWorker) error {
		if message.Gate != nil {
			answer = message.Gate
			p.outbox.close() // ends the worker
		}
		return nil
	})
	if answer == nil {
		return nil, errors.New("the process that tested it ended: " + p.exitReason())
	}
	return answer, nil
}
