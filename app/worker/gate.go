package worker

// A GPU that cannot be trusted may take the process down that tries it. So it is tried in one of
// its own.

import (
	"context"
	"errors"
	"sync"

	"headroom/engine"
	"headroom/engine/problem"
)

// Gate is selftest.Gate in a process of its own: it decides once whether the GPU computes. It may
// be used from any goroutine.
type Gate struct {
	Dir     string // where the outcome is kept; "": nowhere
	Options Options

	mu     sync.Mutex
	answer *gateAnswer // nil: not decided
}

// Device is selftest.Gate.Device. A process that dies over it has left behind that it began: the
// next one finds that, does not try again, and says so.
func (g *Gate) Device(ctx context.Context) (device string, trouble error, err error) {
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

// ask has one process answer.
func (g *Gate) ask(ctx context.Context) (*gateAnswer, error) {
	p, err := start(g.Options)
	if err != nil {
		return nil, err
	}
	// it ends by itself then: one that is killed would count as failed
	defer context.AfterFunc(ctx, p.outbox.close)()
	p.outbox.send(&toWorker{Hello: newHello()})
	p.outbox.send(&toWorker{Gate: &gateQuestion{Dir: g.Dir, LogLevel: levelOf(g.Options.log())}})
	var answer *gateAnswer
	p.listen(func(message *fromWorker) error {
		if message.Gate != nil {
			answer = message.Gate
			p.outbox.close() // the wish to end
		}
		return nil
	})
	if answer == nil {
		return nil, errors.New("the process that tried it ended: " + p.how())
	}
	return answer, nil
}
