package host

// Checks of models: whether what makes a model faster changes its answers (app/parity). A check
// runs in a process of its own, one at a time, beside the loaded models, and only if there is room
// for one more model. It takes the model's own settings, with a context that is long enough for the
// built-in prompts. Results are kept in memory until the program ends.
//
// A check ends by itself when it makes no progress (app/worker), when memory gets scarce and when
// the computer is critically hot: it is never urgent.

import (
	"context"
	"fmt"
	"math"
	"slices"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/parity"
	"headroom/app/power"
	"headroom/engine"
	"headroom/engine/problem"
)

// CheckStatus is how far the check of a model is.
type CheckStatus string

// The statuses of a check.
const (
	NotChecked   CheckStatus = "none" // not since this program started
	Checking     CheckStatus = "running"
	Checked      CheckStatus = "done"
	CheckFailed  CheckStatus = "failed"
	CheckStopped CheckStatus = "stopped"
)

// ModelCheck is the document of /control/models/{id}/check: the check that runs, or else the last
// one.
type ModelCheck struct {
	Model  string      `json:"model"`
	Status CheckStatus `json:"status"`
	// Step of Steps is what runs, the first being 1; What says it in words. 0 before the first.
	Step  int    `json:"step"`
	Steps int    `json:"steps"`
	What  string `json:"what"`
	// Rows are the comparisons that are complete. The first is plain decoding itself.
	Rows []CheckRow `json:"rows"`
	// The fields down to Verdict are set when the check is done.
	Device    string `json:"device"`
	KVFormat  string `json:"kvFormat"`
	Answers   int    `json:"answers"`   // to so many prompts
	MaxTokens int    `json:"maxTokens"` // of an answer
	Equal     bool   `json:"equal"`     // all answers that must equal the plain ones do
	Verdict   string `json:"verdict"`   // one sentence
	// Error says why the check failed; null otherwise.
	Error           *Error `json:"error"`
	StartedAtUnixMs int64  `json:"startedAt"`
	EndedAtUnixMs   int64  `json:"endedAt"` // 0 while it runs
}

// CheckRow is parity.Row.
type CheckRow struct {
	Way          string `json:"way"`
	MustEqual    bool   `json:"mustEqual"`
	NotTried     string `json:"notTried"` // why; "" if it was tried
	Note         string `json:"note"`
	Answers      int    `json:"answers"`
	EqualAnswers int    `json:"equalAnswers"`
	Tokens       int    `json:"tokens"`
	EqualTokens  int    `json:"equalTokens"`
	// LargestDifference is that of the log-probabilities of equal tokens; null: not a number.
	LargestDifference      *float64       `json:"largestDifference"`
	PrefillTokensPerSecond float64        `json:"prefillTokensPerSecond"`
	DecodeTokensPerSecond  float64        `json:"decodeTokensPerSecond"`
	Partings               []CheckParting `json:"partings"`
}

// CheckParting is parity.Parting: where an answer first differs from the plain one.
type CheckParting struct {
	Prompt int        `json:"prompt"`
	Token  int        `json:"token"`
	Plain  CheckToken `json:"plain"`
	Other  CheckToken `json:"other"`
}

// CheckToken is parity.Said.
type CheckToken struct {
	Text    string   `json:"text"`
	Ended   bool     `json:"ended"`   // there is no such token: the answer has ended
	Logprob *float64 `json:"logprob"` // null: not a number
}

// CheckFunc is parity.Run with the built-in prompts, in another process. It calls started with the
// ID of that process, which has ended when it returns. The error is a Problem.
type CheckFunc func(ctx context.Context, o parity.Options, started func(pid int)) (*parity.Report,
	error)

// checks has the last check of each model, by ID. The host's mu guards it.
type checks struct {
	last    map[string]*ModelCheck
	running string                  // the ID of the model that is being checked; "": none
	cancel  context.CancelCauseFunc // ends the running check
	version int                     // counts the changes
	// leastFree is the memory that the running check has to leave free.
	leastFree int64
}

// Check returns the check of a model that runs or ran last. The error is a Problem.
func (h *Host) Check(id string) (ModelCheck, error) {
	m, _, err := h.modelByID(id)
	if err != nil && m.ID == "" {
		return ModelCheck{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.checks.last[m.ID]; c != nil {
		copied := *c
		copied.Rows = slices.Clone(c.Rows)
		return copied, nil
	}
	return ModelCheck{Model: m.ID, Status: NotChecked, Rows: []CheckRow{}}, nil
}

// StartCheck begins to check a model in the background. The error is a Problem: there is no such
// model, another check runs, or there is no room for the model beside those that are loaded.
func (h *Host) StartCheck(id string) error {
	m, _, err := h.modelByID(id)
	if err != nil {
		return err
	}
	o, leastFree, err := h.checkOptions(m)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.checkRefusal(m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &ModelCheck{Model: m.ID, Status: Checking, Rows: []CheckRow{},
		StartedAtUnixMs: unixMs(h.options.now())}
	if h.checks.last == nil {
		h.checks.last = map[string]*ModelCheck{}
	}
	h.checks.last[m.ID], h.checks.running, h.checks.cancel = c, m.ID, cancel
	h.checks.leastFree = leastFree
	h.checkChanged()
	h.background.processes.Go(func() {
		defer cancel(nil)
		h.runCheck(ctx, c, o)
	})
	return nil
}

// StopCheck ends the check of a model. It does nothing if none runs.
func (h *Host) StopCheck(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks.running == id && id != "" {
		h.checks.cancel(nil)
	}
}

// boundCheck ends the running check if it may no longer run.
func (h *Host) boundCheck() {
	h.mu.Lock()
	running := h.checks.running
	h.mu.Unlock()
	if running == "" {
		return
	}
	reading, err := h.options.Meter.Fresh()
	used := h.usedBytes()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks.running != running {
		return
	}
	why := h.tooHot("The check of " + running + " was ended")
	if free := reading.FreeBytes(used); err == nil && free < h.checks.leastFree {
		why = problem.New(problem.LowResources, "The check of "+running+" was ended",
			fmt.Sprintf("only %s of memory is free, and a check has to leave %s", memory.Text(free),
				memory.Text(h.checks.leastFree)),
			"Unload a model or close other apps, then check again.")
	}
	if why != nil {
		h.checks.cancel(why)
	}
}

// tooHot returns a Problem with this message if no check may run in this heat, nil if it may. The
// caller holds mu.
func (h *Host) tooHot(message string) error {
	if h.power.state.ThermalState != power.Critical || h.power.measures.DutyCycle == 0 {
		return nil
	}
	return problem.New(problem.LowResources, message, "the computer is critically hot",
		"Let it cool down, then check again.")
}

// checkRefusal returns why the model cannot be checked now, nil if it can. The caller holds mu.
func (h *Host) checkRefusal(m library.Model) error {
	switch running := h.checks.running; {
	case h.closed:
		return errShutDown()
	case h.options.Check == nil:
		return problem.New(problem.BadRequest, "Models cannot be checked here",
			"this server runs its model in its own process", "Run headroom parity "+m.ID+".")
	case running != "":
		return problem.New(problem.Busy, "A check is already running", running+" is being checked",
			"Wait until it is done, or stop it.")
	}
	if err := h.tooHot("The model " + m.ID + " cannot be checked yet"); err != nil {
		return err
	}
	for _, t := range h.queue() {
		return problem.New(problem.Loading, "The model "+m.ID+" cannot be checked yet",
			t.model.ID+" is being loaded", "Wait until it is loaded, then check again.")
	}
	return nil
}

// checkOptions returns the options of a check, and the memory that it has to leave free: half of
// what it leaves by plan. The error is a Problem if the model is of the wrong kind or does not fit
// beside those that are loaded.
func (h *Host) checkOptions(m library.Model) (o parity.Options, leastFree int64, err error) {
	if m.Description.Task != "" {
		return o, 0, problem.New(problem.BadRequest, "The model "+m.ID+" cannot be checked",
			"it generates no text", "Choose a language model.")
	}
	reading, err := h.options.Meter.Fresh()
	if err != nil {
		return o, 0, problem.Wrap(problem.Internal, err, "The memory cannot be read", "Try again.")
	}
	used := h.usedBytes()
	room := reading.HeadroomBytes(used, memory.EngineBytes{})
	e := h.engineOptions(m.ID)
	if e.ContextTokens == 0 || e.ContextTokens > parity.ContextTokens {
		e.ContextTokens = parity.ContextTokens
	}
	d, err := h.options.Library.DescribeWith(m, e)
	if err != nil {
		return o, 0, err
	}
	if need := needOf(d, nil, room, 0).TotalBytes(); need > room {
		return o, 0, problem.New(problem.DoesNotFit, "The check of "+m.ID+" does not fit",
			fmt.Sprintf("it loads the model once more and needs %s, %s is available for a model",
				memory.Text(need), memory.Text(room)),
			"Unload a model or close other apps, then check again.")
	}
	// The check opens the model several times. Each time it asks the system anew what is free.
	e.AvailableBytes, e.ModelName = 0, m.ID
	return parity.Options{Source: m.Source, Engine: e, Tokens: parity.DefaultTokens},
		reading.WithheldBytes(used) / 2, nil
}

// runCheck runs a check and records its progress and result.
func (h *Host) runCheck(ctx context.Context, c *ModelCheck, o parity.Options) {
	change := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
		h.checkChanged()
	}
	o.Say = func(step, steps int, what string) {
		change(func() { c.Step, c.Steps, c.What = step, steps, what })
	}
	o.Row = func(r parity.Row) { change(func() { c.Rows = append(c.Rows, checkRow(r)) }) }
	h.log.Info("checking a model", "model", c.Model)
	r, err := h.runParity(ctx, o)
	change(func() {
		h.checks.running, h.checks.cancel = "", nil
		c.EndedAtUnixMs = unixMs(h.options.now())
		switch {
		case ctx.Err() != nil && context.Cause(ctx) != context.Canceled:
			c.Status, c.Error = CheckFailed, NewError(context.Cause(ctx))
		case ctx.Err() != nil:
			c.Status = CheckStopped
		case err != nil:
			c.Status, c.Error = CheckFailed, NewError(err)
		default:
			c.Status, c.Equal, c.Verdict = Checked, r.Equal, r.Verdict
			c.Device, c.KVFormat, c.Answers, c.MaxTokens = r.Device, r.KVFormat, r.Prompts,
				r.MaxTokens
		}
	})
	h.log.Info("check ended", "model", c.Model, "status", c.Status, "verdict", c.Verdict)
}

// runParity chooses the devices and runs the check. The memory of its process counts as Headroom's.
func (h *Host) runParity(ctx context.Context, o parity.Options) (*parity.Report, error) {
	gpu, trouble := engine.DeviceCPU, error(nil)
	if h.options.Device != nil {
		var err error
		if gpu, trouble, err = h.options.Device(ctx); err != nil {
			return nil, err
		}
	}
	o.Compare(gpu, trouble)
	counted := 0
	defer func() {
		if counted != 0 {
			h.options.Meter.Forget(counted)
		}
	}()
	return h.options.Check(ctx, o, func(pid int) {
		counted = pid
		h.options.Meter.Count(pid)
	})
}

// checkChanged tells the subscribers that a check has changed. The caller holds mu.
func (h *Host) checkChanged() {
	h.checks.version++
	h.subscribers.notify()
}

func checkRow(r parity.Row) CheckRow {
	row := CheckRow{Way: r.Way, MustEqual: r.MustEqual, NotTried: r.NotTried, Note: r.Note,
		Answers: r.Answers, EqualAnswers: r.EqualAnswers, Tokens: r.Tokens,
		EqualTokens: r.EqualTokens, LargestDifference: number(r.LargestDifference),
		PrefillTokensPerSecond: r.ReadTokensPerSecond,
		DecodeTokensPerSecond:  r.DecodeTokensPerSecond, Partings: []CheckParting{}}
	for _, p := range r.Partings {
		row.Partings = append(row.Partings,
			CheckParting{p.Prompt, p.Token, checkToken(p.Plain), checkToken(p.Other)})
	}
	return row
}

func checkToken(s parity.Said) CheckToken {
	return CheckToken{Text: s.Text, Ended: s.ID < 0, Logprob: number(float64(s.Logprob))}
}

// number returns nil for what JSON cannot say.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
