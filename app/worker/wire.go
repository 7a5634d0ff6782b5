package worker

// The messages between parent and worker. A message sets one field of toWorker or of fromWorker.
// The engine's types are sent as they are, so that a new field needs no change here. Fields that
// cannot be sent, such as functions, are replaced; wire_test.go lists them.

import (
	"context"
	"time"

	"headroom/app/parity"
	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/problem"
)

// protocol is incremented when a message changes its meaning.
const protocol = 8

// toWorker is a message of the parent. Hello comes first, then Known any number of times, then
// Open, Gate or Check. The others follow after the worker's Opened.
type toWorker struct {
	Hello *hello `cbor:"1,keyasint,omitempty"`
	// Known is a prompt of an earlier engine; the oldest is sent first.
	Known *cachemiss.Sequence `cbor:"2,keyasint,omitempty"`
	Open  *opening            `cbor:"3,keyasint,omitempty"`
	Gate  *gateRequest        `cbor:"4,keyasint,omitempty"`

	Submit *submission   `cbor:"5,keyasint,omitempty"`
	Cancel *streamNumber `cbor:"6,keyasint,omitempty"`
	// Limits are the new limits of the block store.
	Limits    *engine.BlockStoreLimits `cbor:"7,keyasint,omitempty"`
	Prefixes  *callNumber              `cbor:"8,keyasint,omitempty"`
	Close     *closeRequest            `cbor:"9,keyasint,omitempty"`
	Heartbeat *heartbeatRequest        `cbor:"10,keyasint,omitempty"`
	// LogLevel is the new level; see opening.LogLevel.
	LogLevel *int           `cbor:"11,keyasint,omitempty"`
	Forget   *forgetRequest `cbor:"12,keyasint,omitempty"`
	// DutyCycle is for engine.Engine.SetDutyCycle.
	DutyCycle *float64 `cbor:"13,keyasint,omitempty"`
	// Stop is for Stream.Stop, as Cancel is for Stream.Cancel.
	Stop *streamNumber `cbor:"14,keyasint,omitempty"`

	Check *checkRequest `cbor:"15,keyasint,omitempty"`
	// DraftGain is for engine.Engine.SetDraftGain.
	DraftGain *float64 `cbor:"16,keyasint,omitempty"`
	// Growth is for engine.Engine.SetGrowth.
	Growth *engine.Growth `cbor:"17,keyasint,omitempty"`
	// Shrink is for engine.Engine.Shrink. Forgotten answers it.
	Shrink *shrinkRequest `cbor:"18,keyasint,omitempty"`
	Held   *heldRequest   `cbor:"19,keyasint,omitempty"`
}

// fromWorker is a message of the worker.
type fromWorker struct {
	Hello    *hello      `cbor:"1,keyasint,omitempty"`
	Progress *progress   `cbor:"2,keyasint,omitempty"` // of loading, 0 to 1
	Opened   *opened     `cbor:"3,keyasint,omitempty"`
	Gate     *gateAnswer `cbor:"4,keyasint,omitempty"`

	Accepted *accepted           `cbor:"5,keyasint,omitempty"` // answers Submit
	Event    *event              `cbor:"6,keyasint,omitempty"`
	Learned  *cachemiss.Sequence `cbor:"7,keyasint,omitempty"`
	// Finished is sent before the Done event of its request.
	Finished *engine.Finished `cbor:"8,keyasint,omitempty"`
	// Stats are sent while they change, and before each Done event.
	Stats     *engine.Stats     `cbor:"9,keyasint,omitempty"`
	Prefixes  *prefixes         `cbor:"10,keyasint,omitempty"`
	Log       *record           `cbor:"11,keyasint,omitempty"`
	Closed    *closed           `cbor:"12,keyasint,omitempty"`
	Heartbeat *engine.Heartbeat `cbor:"13,keyasint,omitempty"` // answers Heartbeat at once
	Forgotten *forgotten        `cbor:"14,keyasint,omitempty"`

	Step    *step       `cbor:"15,keyasint,omitempty"` // of a check
	Row     *parity.Row `cbor:"16,keyasint,omitempty"` // of a check's report, once it is known
	Checked *checked    `cbor:"17,keyasint,omitempty"` // answers Check
	Held    *held       `cbor:"18,keyasint,omitempty"` // answers Held
}

type hello struct {
	Protocol int
	Version  string // of Headroom
}

// opening asks the worker to load a model.
type opening struct {
	Dir      string // "": the bundled demo model
	Options  options
	Store    *store // nil: none
	LogLevel int    // a slog.Level: the lowest level to send
	// DraftModel is engine.Options.DraftModel; nil: none.
	DraftModel *draftModel
}

// draftModel is engine.DraftModel with a folder that can be sent. Dir is as in opening.
type draftModel struct {
	engine.DraftModel
	Source *nothing `cbor:",omitempty"` // sent as Dir
	Dir    string
}

// options is engine.Options without the fields that cannot be sent. Each field here hides the
// embedded field of the same name.
type options struct {
	engine.Options
	OpenMetal  *nothing `cbor:",omitempty"` // refused by Open
	Times      *nothing `cbor:",omitempty"` // refused by Open
	Draft      *nothing `cbor:",omitempty"` // refused by Open
	DraftModel *nothing `cbor:",omitempty"` // sent as opening.DraftModel
	Progress   *nothing `cbor:",omitempty"` // sent as fromWorker.Progress
	History    *nothing `cbor:",omitempty"` // sent as Known and Learned
	BlockStore *nothing `cbor:",omitempty"` // sent as opening.Store
}

type nothing struct{}

// store is the folder of the block store and its limits.
type store struct {
	Dir    string
	Limits engine.BlockStoreLimits
	// Key is the installation's key, which only this pipe carries: arguments and environments of
	// processes can be read by others. Empty: the folder is not encrypted.
	Key []byte
}

// streamNumber and callNumber identify requests and calls. The parent counts them from 1.
type (
	streamNumber uint64
	callNumber   uint64
)

type submission struct {
	Stream  streamNumber
	Request engine.Request
}

// accepted answers a submission. Problem says why the engine refused it; nil if it accepted.
type accepted struct {
	Stream  streamNumber
	Problem *wireProblem
}

type event struct {
	Stream streamNumber
	Event  wireEvent
}

// wireEvent is engine.Event with an error that can be sent.
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

// opened answers opening. Problem is nil if the model is loaded.
type opened struct {
	Info     engine.Info
	StoredAs engine.StoredModel
	Stats    engine.Stats
	Problem  *wireProblem
}

// gateRequest asks which device to use; see selftest.Gate.
type gateRequest struct {
	Dir      string // the folder that stores the result; "": none
	LogLevel int
}

type gateAnswer struct {
	Device  string
	Trouble *wireProblem
}

// checkRequest asks to check a model; see check.go.
type checkRequest struct {
	Dir            string // "": the bundled demo model
	Options        options
	DraftModel     *draftModel
	Tokens         int    // maximum length of an answer
	Store          string // an empty folder for the prefix cache on disk; the worker removes it
	Other, NoOther string // see parity.Options
	LogLevel       int
}

// step is the comparison that a check makes next.
type step struct {
	Number, Of int // counted from 1
	What       string
}

// checked is the last message of a check. Either Report or Problem is set.
type checked struct {
	Report  *parity.Report
	Problem *wireProblem
}

// heartbeatRequest asks a loaded model for its heartbeat; see watchdog.go.
type heartbeatRequest struct{}

type prefixes struct {
	Call callNumber
	List []engine.CachedPrefix
}

// forgetRequest asks to free the cached prefix of a conversation, or of all, in memory.
type forgetRequest struct {
	Call   callNumber
	All    bool
	Tokens []int32 // of the conversation; unused with All
}

// shrinkRequest asks to return memory of the caches to the system.
type shrinkRequest struct {
	Call      callNumber
	KeepBytes int64
}

type forgotten struct {
	Call       callNumber
	FreedBytes int64
}

type closeRequest struct{}

// closed is the last message: the error of freeing the model or closing its block store.
type closed struct{ Problem *wireProblem }

// record is a log record of the worker. Values are strings, numbers and booleans. Groups are part
// of the keys: "group.key".
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

// wireProblem is a Problem as it is sent. Its cause is not sent; problem restores context.Canceled,
// which callers test for.
type wireProblem struct {
	Code              problem.Code
	Message, Why, Fix string
	RetryAfter        time.Duration
	Overflow          *problem.Overflow
}

// newWireProblem returns err as a wireProblem; nil for nil.
func newWireProblem(err error) *wireProblem {
	if err == nil {
		return nil
	}
	p := problem.From(err)
	w := &wireProblem{p.Code, p.Message, p.Why, p.Fix, p.RetryAfter, p.Overflow}
	if w.RetryAfter == 0 && passes(err) {
		w.RetryAfter = lackTime // the error itself is not sent
	}
	return w
}

func (w *wireProblem) problem() *problem.Problem {
	p := &problem.Problem{Code: w.Code, Message: w.Message, Why: w.Why, Fix: w.Fix,
		RetryAfter: w.RetryAfter, Overflow: w.Overflow}
	if w.Code == problem.Cancelled {
		p.Err = context.Canceled
	}
	return p
}

// err returns the Problem as an error; nil for nil.
func (w *wireProblem) err() error {
	if w == nil {
		return nil
	}
	return w.problem()
}

// heldRequest asks how much of a prompt is cached; see engine.Engine.Held.
type heldRequest struct {
	Call        callNumber
	BlockTokens int
	Hashes      []byte // the chain's and then those of the ends, one after the other
	Ends        []int  // positions
	Patience    time.Duration
}

type held struct {
	Call callNumber
	Held engine.Held
	OK   bool
}

// newHeldRequest returns the message of a question, with the hashes as the pipe carries them best.
func newHeldRequest(call callNumber, q engine.HeldQuestion, patience time.Duration) *heldRequest {
	r := &heldRequest{Call: call, BlockTokens: q.BlockTokens, Patience: patience}
	for i := range q.Chain {
		r.Hashes = append(r.Hashes, q.Chain[i][:]...)
	}
	for i := range q.Ends {
		r.Hashes = append(r.Hashes, q.Ends[i].Hash[:]...)
		r.Ends = append(r.Ends, q.Ends[i].Tokens)
	}
	return r
}

// question is the inverse of newHeldRequest.
func (r *heldRequest) question() engine.HeldQuestion {
	const size = len(engine.PrefixHash{})
	all := make([]engine.PrefixHash, len(r.Hashes)/size)
	for i := range all {
		copy(all[i][:], r.Hashes[i*size:])
	}
	blocks := max(0, len(all)-len(r.Ends))
	q := engine.HeldQuestion{BlockTokens: r.BlockTokens, Chain: all[:blocks]}
	for i, hash := range all[blocks:] {
		q.Ends = append(q.Ends, engine.PrefixEnd{Tokens: max(0, r.Ends[i]), Hash: hash})
	}
	return q
}
