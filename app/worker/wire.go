package worker

// What parent and worker tell each other: one message is one field of toWorker or of fromWorker.
// The engine's own types go as they are, so that a field they gain is carried without a line here;
// what cannot be carried (functions, what belongs to a process) is replaced by something that can,
// and a test names it.

import (
	"context"
	"time"

	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/problem"
)

// protocol is raised when a message changes its meaning.
const protocol = 2

// toWorker is what the parent says: hello, what is known, then open or gate; after opened, the
// rest.
type toWorker struct {
	Hello *hello              `cbor:"1,keyasint,omitempty"`
	Known *cachemiss.Sequence `cbor:"2,keyasint,omitempty"` // of earlier engines, oldest first
	Open  *opening            `cbor:"3,keyasint,omitempty"`
	Gate  *gateQuestion       `cbor:"4,keyasint,omitempty"`

	Submit *submission   `cbor:"5,keyasint,omitempty"`
	Cancel *streamNumber `cbor:"6,keyasint,omitempty"`
	// of the block store, from now on
	Limits     *engine.BlockStoreLimits `cbor:"7,keyasint,omitempty"`
	Remembered *callNumber              `cbor:"8,keyasint,omitempty"`
	Close      *ending                  `cbor:"9,keyasint,omitempty"`
	Pulse      *pulseQuestion           `cbor:"10,keyasint,omitempty"`
	LogLevel   *int                     `cbor:"11,keyasint,omitempty"` // as opening's, from now on
	Forget     *forgetting              `cbor:"12,keyasint,omitempty"`
	// see engine.Engine.SetDutyCycle
	DutyCycle *float64 `cbor:"13,keyasint,omitempty"`
}

// fromWorker is what the worker says.
type fromWorker struct {
	Hello    *hello      `cbor:"1,keyasint,omitempty"`
	Progress *progress   `cbor:"2,keyasint,omitempty"` // of loading
	Opened   *opened     `cbor:"3,keyasint,omitempty"`
	Gate     *gateAnswer `cbor:"4,keyasint,omitempty"`

	Taken    *taken              `cbor:"5,keyasint,omitempty"` // or not
	Event    *event              `cbor:"6,keyasint,omitempty"`
	Learned  *cachemiss.Sequence `cbor:"7,keyasint,omitempty"`
	Finished *engine.Finished    `cbor:"8,keyasint,omitempty"` // before its Done
	// while they change, and before each Done
	Stats      *engine.Stats     `cbor:"9,keyasint,omitempty"`
	Remembered *remembered       `cbor:"10,keyasint,omitempty"`
	Log        *record           `cbor:"11,keyasint,omitempty"`
	Closed     *closed           `cbor:"12,keyasint,omitempty"`
	Pulse      *engine.Heartbeat `cbor:"13,keyasint,omitempty"` // at once
	Forgotten  *forgotten        `cbor:"14,keyasint,omitempty"`
}

type hello struct {
	Protocol int
	Version  string // Headroom's
}

// opening is a model to load. Dir is "" for the bundled one.
type opening struct {
	Dir      string
	Options  options
	Store    *store // nil: none
	LogLevel int    // slog's: least important that is worth a message
}

// options are engine.Options without what cannot leave a process. (A field hides one of the same
// name in what is embedded.)
type options struct {
	engine.Options
	OpenMetal  *nothing `cbor:",omitempty"` // refused by Open
	Times      *nothing `cbor:",omitempty"` // the same
	Progress   *nothing `cbor:",omitempty"` // messages instead
	History    *nothing `cbor:",omitempty"` // Known and Learned instead
	BlockStore *nothing `cbor:",omitempty"` // opening.Store instead
}

type nothing struct{}

// store is where the block store is, and what it may take.
type store struct {
	Dir    string
	Limits engine.BlockStoreLimits
}

// streamNumber and callNumber are chosen by the parent, from 1 on.
type (
	streamNumber uint64
	callNumber   uint64
)

type submission struct {
	Stream  streamNumber
	Request engine.Request
}

// taken answers a submission: Problem is nil if it was accepted.
type taken struct {
	Stream  streamNumber
	Problem *wireProblem
}

type event struct {
	Stream streamNumber
	Event  wireEvent
}

// wireEvent is engine.Event with an error that can be carried.
type wireEvent struct {
	engine.Event
	Err *wireProblem
}

func newWireEvent(e engine.Event) wireEvent {
	w := wireEvent{Event: e, Err: newWireProblem(e.Err)}
	w.Event.Err = nil
	return w
}

func (w wireEvent) event() engine.Event {
	e := w.Event
	if w.Err != nil {
		e.Err = w.Err.problem()
	}
	return e
}

type progress float64

// opened answers opening: Problem is nil if the model is loaded.
type opened struct {
	Info     engine.Info
	StoredAs engine.StoredModel
	Stats    engine.Stats
	Problem  *wireProblem
}

// gateQuestion asks whether the GPU computes; see app/selftest.Gate.
type gateQuestion struct {
	Dir      string // where the outcome is kept; "": nowhere
	LogLevel int
}

type gateAnswer struct {
	Device  string
	Trouble *wireProblem
}

// pulseQuestion asks a loaded model how it gets on; see heart.go.
type pulseQuestion struct{}

type remembered struct {
	Call callNumber
	List []engine.CachedPrefix
}

// forgetting is a conversation, or all of them, to be freed in memory.
type forgetting struct {
	Call   callNumber
	All    bool
	Tokens []int32 // unless All
}

type forgotten struct {
	Call       callNumber
	FreedBytes int64
}

type ending struct{}

// closed is the last message: what freeing the model or closing its block store had to say.
type closed struct{ Problem *wireProblem }

// record is a line of the worker's log. Values are strings, numbers and booleans; groups are in the
// keys, as "group.key".
type record struct {
	At      time.Time
	Level   int
	Message string
	Attrs   []attr
}

type attr struct {
	Key   string
	Value any
}

// wireProblem is a Problem. The cause is carried as far as somebody asks for it: that something was
// cancelled.
type wireProblem struct {
	Code              problem.Code
	Message, Why, Fix string
	RetryAfter        time.Duration
}

// newWireProblem is nil of nil; what is no Problem becomes one as it would where it is shown.
func newWireProblem(err error) *wireProblem {
	if err == nil {
		return nil
	}
	p := problem.From(err)
	return &wireProblem{p.Code, p.Message, p.Why, p.Fix, p.RetryAfter}
}

func (w *wireProblem) problem() *problem.Problem {
	p := &problem.Problem{Code: w.Code, Message: w.Message, Why: w.Why, Fix: w.Fix,
		RetryAfter: w.RetryAfter}
	if w.Code == problem.Cancelled {
		p.Err = context.Canceled
	}
	return p
}

// errOf is nil of nil.
func (w *wireProblem) err() error {
	if w == nil {
		return nil
	}
	return w.problem()
}
