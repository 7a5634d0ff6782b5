package worker

// The worker's side of the conversation. One goroutine reads what the parent says and never waits
// for anything; each request has a goroutine that hands its events on.

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"headroom/app/demo"
	"headroom/app/selftest"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/problem"
)

// session is one parent's conversation.
type session struct {
	outbox  *outbox
	history *engine.History
	context context.Context // ends when the parent wants the end, or is gone
	cancel  context.CancelFunc
	working sync.WaitGroup // loading, requests, figures

	mu      sync.Mutex
	begun   bool           // a model or a gate was asked for
	engine  *engine.Engine // nil until loaded
	store   *engine.BlockStore
	streams map[streamNumber]*engine.Stream
	busy    chan struct{} // capacity 1: figures change
	level   slog.LevelVar // of the log: least important that is sent

	telling sync.Mutex
	told    engine.Finished // the last one
}

func newSession(o *outbox) *session {
	s := &session{outbox: o, history: engine.NewHistory(),
		streams: map[streamNumber]*engine.Stream{}, busy: make(chan struct{}, 1)}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.say(&fromWorker{Hello: newHello()})
	return s
}

func (s *session) say(message *fromWorker) { s.outbox.send(message) }

// listen does what the parent says until it says close, is gone, or cannot be understood.
func (s *session) listen(pipe io.Reader) {
	defer s.cancel()
	in := newInbox(pipe)
	for first := true; ; first = false {
		var message toWorker
		if err := in.receive(&message); err != nil {
			return // nobody is left to tell
		}
		if first {
			if message.Hello.check() != nil {
				return // the parent sees our version and says why
			}
			continue
		}
		if message.Close != nil {
			return
		}
		s.handle(&message)
	}
}

func (s *session) handle(message *toWorker) {
	s.mu.Lock()
	e, store := s.engine, s.store
	s.mu.Unlock()
	switch {
	case message.Known != nil && e == nil:
		s.history.Add(*message.Known)
	case message.Open != nil:
		s.begin(func() { s.open(message.Open) })
	case message.Gate != nil:
		s.begin(func() { s.gate(message.Gate) })
	case message.LogLevel != nil:
		s.level.Set(slog.Level(*message.LogLevel))
	case e == nil: // what follows is for a loaded model
	case message.Submit != nil:
		s.working.Go(func() { s.submit(e, message.Submit) })
	case message.Pulse != nil:
		pulse := e.Heartbeat()
		s.say(&fromWorker{Pulse: &pulse})
	case message.Cancel != nil:
		s.mu.Lock()
		stream := s.streams[*message.Cancel]
		s.mu.Unlock()
		if stream != nil {
			stream.Cancel()
		}
	case message.DutyCycle != nil:
		e.SetDutyCycle(*message.DutyCycle)
	case message.Limits != nil && store != nil:
		s.working.Go(func() {
			if err := store.SetLimits(*message.Limits); err != nil {
				slog.Warn("the cache's limits", "err", err)
			}
		})
	case message.Forget != nil:
		s.working.Go(func() { s.forget(e, message.Forget) })
	case message.Remembered != nil:
		s.working.Go(func() {
			s.say(
				&fromWorker{Remembered: &remembered{*message.Remembered, e.CachedPrefixes()}})
		})
	}
}

// forget frees what the engine remembers.
func (s *session) forget(e *engine.Engine, f *forgetting) {
	answer := forgotten{Call: f.Call}
	if f.All {
		answer.FreedBytes = e.ForgetAll()
	} else {
		answer.FreedBytes = e.Forget(f.Tokens)
	}
	s.say(&fromWorker{Forgotten: &answer})
}

// begin does the one thing that a worker is for, beside the goroutine that listens.
func (s *session) begin(work func()) {
	s.mu.Lock()
	again := s.begun
	s.begun = true
	s.mu.Unlock()
	if !again {
		s.working.Go(work)
	}
}

func (s *session) startLog(level int) {
	s.level.Set(slog.Level(level))
	slog.SetDefault(slog.New(
		&forwarder{level: &s.level, send: func(r *record) { s.say(&fromWorker{Log: r}) }}))
}

// open loads the model and tells how that went.
func (s *session) open(o *opening) {
	s.startLog(o.LogLevel)
	// What was known came from the parent; what is learned goes there.
	s.history.Added = func(learned cachemiss.Sequence) { s.say(&fromWorker{Learned: &learned}) }
	e, store, err := s.load(o)
	if err != nil {
		if store != nil {
			_ = store.Close()
		}
		s.say(&fromWorker{Opened: &opened{Problem: newWireProblem(err)}})
		return
	}
	s.mu.Lock()
	s.engine, s.store = e, store
	s.mu.Unlock()
	s.working.Go(func() { s.figures(e) })
	s.say(&fromWorker{Opened: &opened{Info: e.Info(), StoredAs: e.StoredModel(), Stats: e.Stats()}})
}

// load opens block store and model. A panic in it is a Problem, as in the parent's own process.
func (s *session) load(o *opening) (e *engine.Engine, store *engine.BlockStore, err error) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("loading a model panicked", "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
			err = problem.New(problem.Internal, "The model could not be loaded", fmt.Sprint(r),
				"Please report it with the log.")
		}
	}()
	src := engine.Source{Dir: o.Dir}
	if o.Dir == "" {
		if src.FS, err = fs.Sub(demo.Files, "model"); err != nil {
			return nil, nil, err
		}
	}
	options := o.Options.Options
	options.History = s.history
	options.Progress = s.progress()
	if o.Store != nil {
		l := o.Store.Limits
		store, err = engine.OpenBlockStore(o.Store.Dir,
			engine.BlockStoreOptions{MaxBytes: l.MaxBytes, MinFreeBytes: l.MinFreeBytes,
				DailyWriteBytes: l.DailyWriteBytes})
		if err != nil { // a reason to be slower, not to stop
			slog.Warn("nothing is kept on disk: the cache cannot be opened", "dir", o.Store.Dir,
				"err", err)
		} else if err := store.SetLimits(l); err != nil { // with what is no option
			slog.Warn("the cache's limits", "err", err)
		}
		options.BlockStore = store
	}
	e, err = engine.Open(s.context, src, options)
	return e, store, err
}

// progress tells of loading, in steps that can be seen.
func (s *session) progress() func(float64) {
	const step = 0.005
	var mu sync.Mutex
	last := -step
	return func(done float64) {
		mu.Lock()
		defer mu.Unlock()
		if done >= last+step || done >= 1 && last < 1 {
			last = done
			p := progress(done)
			s.say(&fromWorker{Progress: &p})
		}
	}
}

// submit takes a request and hands on its events, to its Done.
func (s *session) submit(e *engine.Engine, q *submission) {
	stream, err := e.Submit(q.Request)
	if err != nil {
		s.say(&fromWorker{Taken: &taken{q.Stream, newWireProblem(err)}})
		return
	}
	s.mu.Lock()
	s.streams[q.Stream] = stream
	s.mu.Unlock()
	s.say(&fromWorker{Taken: &taken{Stream: q.Stream}})
	s.changed()
	for {
		got, err := stream.Next(context.Background())
		if err != nil {
			return
		}
		if got.Type == engine.Done {
			s.mu.Lock()
			delete(s.streams, q.Stream)
			s.mu.Unlock()
			s.report(e)
		}
		s.say(&fromWorker{Event: &event{q.Stream, newWireEvent(got)}})
	}
}

// report tells of the requests that have ended since, and of the figures without them, so that both
// are known before a Done is.
func (s *session) report(e *engine.Engine) {
	s.telling.Lock()
	defer s.telling.Unlock()
	recent := e.Recent()
	fresh := 0
	for fresh < len(recent) &&
		(recent[fresh].ID != s.told.ID || !recent[fresh].At.Equal(s.told.At)) {
		fresh++
	}
	for i := fresh - 1; i >= 0; i-- {
		s.told = recent[i]
		s.say(&fromWorker{Finished: &recent[i]})
	}
	stats := e.Stats()
	s.say(&fromWorker{Stats: &stats})
	s.changed()
}

// changed has the figures told again.
func (s *session) changed() {
	select {
	case s.busy <- struct{}{}:
	default:
	}
}

// figuresTime is how old figures get while something happens.
const figuresTime = 200 * time.Millisecond

// figures tells the engine's figures while they change, and sleeps when they do not.
func (s *session) figures(e *engine.Engine) {
	var last engine.Stats
	tick := time.NewTicker(figuresTime)
	defer tick.Stop()
	for {
		select {
		case <-s.context.Done():
			return
		case <-tick.C:
		}
		stats := e.Stats()
		if !reflect.DeepEqual(stats, last) {
			last = stats
			s.say(&fromWorker{Stats: &stats})
			continue
		}
		if stats.Running+stats.Waiting > 0 {
			continue
		}
		tick.Stop()
		select {
		case <-s.context.Done():
			return
		case <-s.busy:
		}
		tick.Reset(figuresTime)
	}
}

// gate answers whether the GPU computes.
func (s *session) gate(q *gateQuestion) {
	s.startLog(q.LogLevel)
	g := selftest.Gate{Open: openGPU, Version: version.Version, Dir: q.Dir}
	device, trouble, err := g.Device(s.context)
	if err == nil {
		s.say(&fromWorker{Gate: &gateAnswer{Device: device, Trouble: newWireProblem(trouble)}})
	}
}

// end ends every request, frees the model, has its block store write what it lacks, and says so.
func (s *session) end() {
	s.cancel()
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	var err error
	if e != nil {
		err = e.Close()
	}
	s.working.Wait()
	s.mu.Lock()
	late, store := s.engine, s.store
	s.mu.Unlock()
	if e == nil && late != nil { // loading ended well all the same
		err = late.Close()
		s.working.Wait()
	}
	if store != nil {
		if closing := store.Close(); err == nil {
			err = closing
		}
	}
	s.say(&fromWorker{Closed: &closed{newWireProblem(err)}})
}
