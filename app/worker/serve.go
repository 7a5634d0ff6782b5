package worker

// The worker's side. One goroutine reads the parent's messages and never blocks. Each request has a
// goroutine that forwards its events.

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
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
	"headroom/engine/seal"
)

// session serves one parent.
type session struct {
	outbox  *outbox
	history *engine.History
	context context.Context // ends when the parent sends Close or ends
	cancel  context.CancelFunc
	working sync.WaitGroup // loading, requests, sendStats
	pulse   checkPulse     // of a check

	mu      sync.Mutex
	begun   bool           // Open, Gate or Check has arrived
	engine  *engine.Engine // nil until loaded
	store   *engine.BlockStore
	streams map[streamNumber]*engine.Stream
	changes chan struct{} // capacity 1: wakes sendStats
	level   slog.LevelVar // lowest level of log records that are sent

	reportMu     sync.Mutex
	lastReported engine.Finished
}

func newSession(o *outbox) *session {
	s := &session{outbox: o, history: engine.NewHistory(),
		streams: map[streamNumber]*engine.Stream{}, changes: make(chan struct{}, 1)}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.send(&fromWorker{Hello: newHello()})
	return s
}

func (s *session) send(message *fromWorker) { s.outbox.send(message) }

// listen handles the parent's messages until Close, a malformed message, or the end of the pipe.
func (s *session) listen(pipe io.Reader) {
	defer s.cancel()
	in := newInbox(pipe)
	for first := true; ; first = false {
		var message toWorker
		if err := in.receive(&message); err != nil {
			return // the parent has ended, or has another protocol
		}
		if first {
			if message.Hello.check() != nil {
				return // the parent reports the difference, too
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
	case message.Check != nil:
		s.begin(func() { s.check(message.Check) })
	case message.LogLevel != nil:
		s.level.Set(slog.Level(*message.LogLevel))
	case message.Heartbeat != nil && e == nil:
		heartbeat := s.pulse.heartbeat()
		s.send(&fromWorker{Heartbeat: &heartbeat})
	case e == nil: // the messages below need a loaded model
	case message.Submit != nil:
		s.working.Go(func() { s.submit(e, message.Submit) })
	case message.Heartbeat != nil:
		heartbeat := e.Heartbeat()
		s.send(&fromWorker{Heartbeat: &heartbeat})
	case message.Cancel != nil:
		if stream := s.stream(*message.Cancel); stream != nil {
			stream.Cancel()
		}
	case message.Stop != nil:
		if stream := s.stream(*message.Stop); stream != nil {
			stream.Stop()
		}
	case message.DutyCycle != nil:
		e.SetDutyCycle(*message.DutyCycle)
	case message.DraftGain != nil:
		e.SetDraftGain(*message.DraftGain)
	case message.Growth != nil:
		e.SetGrowth(*message.Growth)
	case message.Limits != nil && store != nil:
		s.working.Go(func() {
			if err := store.SetLimits(*message.Limits); err != nil {
				slog.Warn("the limits of the cache cannot be set", "err", err)
			}
		})
	case message.Forget != nil:
		s.working.Go(func() { s.forget(e, message.Forget) })
	case message.Shrink != nil:
		s.working.Go(func() {
			freed := e.Shrink(message.Shrink.KeepBytes)
			s.send(&fromWorker{Forgotten: &forgotten{message.Shrink.Call, freed}})
		})
	case message.Held != nil:
		s.working.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), message.Held.Patience)
			defer cancel()
			found, ok := e.Held(ctx, message.Held.question())
			s.send(&fromWorker{Held: &held{message.Held.Call, found, ok}})
		})
	case message.Prefixes != nil:
		s.working.Go(func() {
			s.send(&fromWorker{Prefixes: &prefixes{*message.Prefixes, e.CachedPrefixes()}})
		})
	}
}

// stream returns the stream with that number, nil if it has ended.
func (s *session) stream(number streamNumber) *engine.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[number]
}

// forget frees cached prefixes.
func (s *session) forget(e *engine.Engine, f *forgetRequest) {
	answer := forgotten{Call: f.Call}
	if f.All {
		answer.FreedBytes = e.ForgetAll()
	} else {
		answer.FreedBytes = e.Forget(f.Tokens)
	}
	s.send(&fromWorker{Forgotten: &answer})
}

// begin runs work in a goroutine. Only the first call has an effect: a worker opens one model,
// answers one gate question, or checks one model.
func (s *session) begin(work func()) {
	s.mu.Lock()
	again := s.begun
	s.begun = true
	s.mu.Unlock()
	if !again {
		s.working.Go(work)
	}
}

// startLog makes slog's default logger send records of this level and above to the parent.
func (s *session) startLog(level int) {
	s.level.Set(slog.Level(level))
	slog.SetDefault(slog.New(
		&forwarder{level: &s.level, send: func(r *record) { s.send(&fromWorker{Log: r}) }}))
}

// open loads the model and sends the result.
func (s *session) open(o *opening) {
	s.startLog(o.LogLevel)
	// The parent has sent the known prompts. New ones are sent back to it.
	s.history.Added = func(learned cachemiss.Sequence) { s.send(&fromWorker{Learned: &learned}) }
	e, store, err := s.load(o)
	if err != nil {
		if store != nil {
			_ = store.Close()
		}
		s.send(&fromWorker{Opened: &opened{Problem: newWireProblem(err)}})
		return
	}
	s.mu.Lock()
	s.engine, s.store = e, store
	s.mu.Unlock()
	s.working.Go(func() { s.sendStats(e) })
	s.send(&fromWorker{Opened: &opened{Info: e.Info(), StoredAs: e.StoredModel(),
		Stats: e.Stats()}})
}

// load opens the block store and the model. A panic becomes a Problem, as in app/host.
func (s *session) load(o *opening) (e *engine.Engine, store *engine.BlockStore, err error) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("loading a model panicked", "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
			err = problem.New(problem.Internal, "The model could not be loaded", fmt.Sprint(r),
				"Please report it with the log.")
		}
	}()
	src, err := sourceIn(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	options := o.Options.Options
	if options.DraftModel, err = o.DraftModel.model(); err != nil {
		return nil, nil, err
	}
	options.History = s.history
	options.Progress = s.progress()
	options.OpenMetal = openMetal
	if o.Store != nil {
		l := o.Store.Limits
		store, err = o.Store.open()
		if err != nil { // continue without a block store
			slog.Warn("the cache on disk is off: it cannot be opened", "dir", o.Store.Dir,
				"err", err)
		} else if err := store.SetLimits(l); err != nil { // also those that are no option of Open
			slog.Warn("the limits of the cache cannot be set", "err", err)
		}
		options.BlockStore = store
	}
	e, err = engine.Open(s.context, src, options)
	return e, store, err
}

// model returns the draft model that was sent; nil for none.
func (d *draftModel) model() (m *engine.DraftModel, err error) {
	if d == nil {
		return nil, nil
	}
	m = &d.DraftModel
	m.Source, err = sourceIn(d.Dir)
	return m, err
}

// sourceIn returns the model in a folder; "": the bundled demo model.
func sourceIn(dir string) (src engine.Source, err error) {
	src.Dir = dir
	if dir == "" {
		src.FS, err = fs.Sub(demo.Files, "model")
	}
	return src, err
}

// open opens the block store with the parent's key.
func (s *store) open() (*engine.BlockStore, error) {
	o := engine.BlockStoreOptions{MaxBytes: s.Limits.MaxBytes,
		MinFreeBytes: s.Limits.MinFreeBytes, DailyWriteBytes: s.Limits.DailyWriteBytes}
	if len(s.Key) > 0 {
		key, err := seal.KeyOf(s.Key)
		if err != nil {
			return nil, err
		}
		o.Key = &key
	}
	return engine.OpenBlockStore(s.Dir, o)
}

// progress returns a function that sends the progress of loading in steps of half a percent.
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
			s.send(&fromWorker{Progress: &p})
		}
	}
}

// submit submits a request and forwards its events, up to Done.
func (s *session) submit(e *engine.Engine, q *submission) {
	stream, err := e.Submit(q.Request)
	if err != nil {
		s.send(&fromWorker{Accepted: &accepted{q.Stream, newWireProblem(err)}})
		return
	}
	s.mu.Lock()
	s.streams[q.Stream] = stream
	s.mu.Unlock()
	s.send(&fromWorker{Accepted: &accepted{Stream: q.Stream}})
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
		s.send(&fromWorker{Event: &event{q.Stream, newWireEvent(got)}})
		if got.Err != nil && problem.From(got.Err).Code == problem.GPUTimeout {
			s.outbox.close()
			<-s.outbox.done
			os.Exit(exitTimeout) // the parent starts a new process
		}
	}
}

// report sends the requests that have finished since the last call, then the stats without them. It
// is called before the Done event is sent, so that the parent has both when it gets the event.
func (s *session) report(e *engine.Engine) {
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	recent := e.Recent()
	unreported := 0
	for _, f := range recent {
		if f.ID == s.lastReported.ID && f.At.Equal(s.lastReported.At) {
			break
		}
		unreported++
	}
	for i := unreported - 1; i >= 0; i-- {
		s.lastReported = recent[i]
		s.send(&fromWorker{Finished: &recent[i]})
	}
	stats := e.Stats()
	s.send(&fromWorker{Stats: &stats})
	s.changed()
}

// changed makes sendStats send the stats again.
func (s *session) changed() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// statsInterval is the time between two Stats messages while requests run.
const statsInterval = 200 * time.Millisecond

// sendStats sends the engine's stats while they change. It sleeps while the engine is idle.
func (s *session) sendStats(e *engine.Engine) {
	var last engine.Stats
	tick := time.NewTicker(statsInterval)
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
			s.send(&fromWorker{Stats: &stats})
			continue
		}
		if stats.Running+stats.Waiting > 0 {
			continue
		}
		tick.Stop()
		select {
		case <-s.context.Done():
			return
		case <-s.changes:
		}
		tick.Reset(statsInterval)
	}
}

// gate runs the GPU's self-test and sends the result.
func (s *session) gate(q *gateRequest) {
	s.startLog(q.LogLevel)
	g := selftest.Gate{Open: openGPU, Version: version.Version, Dir: q.Dir}
	device, warning, err := g.Device(s.context)
	if err == nil {
		s.send(&fromWorker{Gate: &gateAnswer{Device: device, Trouble: newWireProblem(warning)}})
	}
}

// end ends every request, frees the model, closes the block store, which writes pending blocks
// first, and sends Closed.
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
	if e == nil && late != nil { // loading succeeded after cancel
		err = late.Close()
		s.working.Wait()
	}
	if store != nil {
		if closing := store.Close(); err == nil {
			err = closing
		}
	}
	s.send(&fromWorker{Closed: &closed{newWireProblem(err)}})
}
