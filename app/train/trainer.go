package train

// Trainings as jobs of a program with a window. A job installs the environment if need be, checks
// everything again, and trains. Stopping the job pauses the training, so does the end of the
// program; resuming goes on from the latest checkpoint. The lock of the environment makes sure that
// one training runs at a time, whichever program started it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

// Trainer makes jobs of trainings and knows their progress. Its methods are safe for concurrent
// use. The zero value uses no environment.
type Trainer struct {
	Environment Environment
	Room        func() int64        // available memory; nil: this machine's
	Awake       func() (end func()) // keeps the machine awake during a training; may be nil

	mu       sync.Mutex
	statuses map[string]*training // by the folder of the adapter
	data     checkedData
}

// Status is the progress of a training.
type Status struct {
	Model        string `json:"model"` // ID
	Data         string `json:"data"`
	FineTuneType string `json:"fineTuneType"`
	Name         string `json:"name"`    // of the adapter
	Adapter      string `json:"adapter"` // its folder
	Iteration    int    `json:"iteration"`
	Iterations   int    `json:"iterations"`
	// SavedIteration is that of the latest checkpoint; 0: there is none.
	SavedIteration      int      `json:"savedIteration"`
	TrainLoss           *float64 `json:"trainLoss"` // the latest one; null: none yet
	ValidLoss           *float64 `json:"validLoss"` // likewise
	LearningRate        float64  `json:"learningRate"`
	IterationsPerSecond float64  `json:"iterationsPerSecond"`
	TokensPerSecond     float64  `json:"tokensPerSecond"`
	TrainedTokens       int64    `json:"trainedTokens"`
	PeakBytes           int64    `json:"peakBytes"`
	SecondsLeft         float64  `json:"secondsLeft"` // negative: unknown
	// Losses is how many losses there are. If it has changed, the curves have.
	Losses int `json:"losses"`
}

// Loss is a point of a curve.
type Loss struct {
	Iteration int     `json:"iteration"`
	Loss      float64 `json:"loss"`
}

// Losses are the curves of a training.
type Losses struct {
	Train []Loss `json:"train"`
	Valid []Loss `json:"valid"`
}

type training struct {
	Status
	losses Losses
}

// memo is from what a job is made again after a restart.
type memo struct {
	Request
	ModelDir string `json:"modelDir"`
	Adapter  string `json:"adapter"`
}

// room returns the available memory.
func (t *Trainer) room() int64 {
	if t.Room != nil {
		return t.Room()
	}
	return room()
}

// Plan checks a training of the model in a folder. If only data or memory are at fault, the Plan
// says so; otherwise the error is a Problem, or ctx's.
func (t *Trainer) Plan(ctx context.Context, q Request, modelDir string) (*Plan, error) {
	if q.Data != "" && !filepath.IsAbs(q.Data) {
		return nil, notStarted(problem.BadRequest, "Send the whole path.",
			"the path of the data, %s, is not absolute", q.Data)
	}
	a, err := adapterNamed(&q, modelDir)
	if err != nil {
		return nil, inWindow(err)
	}
	p, err := prepare(ctx, modelDir, q.Data, a, q.options(), Check{}, t.room(), t.data.read)
	if err != nil {
		return nil, inWindow(err)
	}
	p.DataErr, p.MemoryErr = inWindow(p.DataErr), inWindow(p.MemoryErr)
	return p, nil
}

// Job returns the job of a training that Plan has checked.
func (t *Trainer) Job(q Request, p *Plan) jobs.Spec {
	q.FineTuneType, q.Name = p.Options.FineTuneType, filepath.Base(p.Adapter.Dir)
	q.Iterations = p.Options.Iters
	return t.job(memo{q, p.Model, p.Adapter.Dir}, false)
}

// Recreate returns the job of a Memo.
func (t *Trainer) Recreate(text json.RawMessage) (jobs.Spec, error) {
	var m memo
	if err := json.Unmarshal(text, &m); err != nil {
		return jobs.Spec{}, err
	}
	if !filepath.IsAbs(m.Adapter) || !filepath.IsAbs(m.ModelDir) || !filepath.IsAbs(m.Data) {
		return jobs.Spec{}, errors.New("the paths of a training are not absolute")
	}
	return t.job(m, true), nil
}

// job returns the job of a training. earlier says that a run of it has written into the folder.
func (t *Trainer) job(m memo, earlier bool) jobs.Spec {
	text, err := json.Marshal(m)
	if err != nil {
		panic("train: encoding a memo: " + err.Error()) // a bug: the types are ours
	}
	a := Adapter{m.Adapter}
	t.begin(m)
	var began atomic.Bool // this job has written into the folder
	began.Store(earlier)
	return jobs.Spec{Kind: jobs.Training, Key: m.Adapter, Title: m.Name, Memo: text,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			err := t.work(ctx, m, p, &began)
			if errors.Is(err, ErrPaused) && ctx.Err() != nil {
				return "", ctx.Err()
			}
			return m.Adapter, inWindow(err)
		},
		Discard: func() error {
			if !began.Load() {
				return nil // what is there belongs to another training
			}
			unlock, err := t.Environment.Lock() // another process may go on with it
			if err != nil {
				return inWindow(err)
			}
			defer unlock()
			return a.Discard(m.Data)
		}}
}

// begin notes a training, with what earlier runs have left.
func (t *Trainer) begin(m memo) {
	now := &training{Status: Status{Model: m.Model, Data: m.Data, FineTuneType: m.FineTuneType,
		Name: m.Name, Adapter: m.Adapter, Iterations: m.Iterations, SecondsLeft: -1},
		losses: Losses{Train: []Loss{}, Valid: []Loss{}}}
	a := Adapter{m.Adapter}
	if r, ok, err := a.read(); err == nil && ok && !r.Finished {
		checkpoint, done := a.Latest()
		now.Iteration, now.SavedIteration = done, done
		for _, e := range a.Losses(Start{done, checkpoint}) {
			now.take(Progress{Event: e, Done: e.Iteration, Of: m.Iterations})
		}
		now.SecondsLeft = -1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.statuses == nil {
		t.statuses = map[string]*training{}
	}
	t.statuses[m.Adapter] = now
}

// Status returns the progress of a training by the key of its job.
func (t *Trainer) Status(key string) (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, ok := t.statuses[key]
	if !ok {
		return Status{}, false
	}
	return now.Status, true
}

// maxLosses is the longest curve that Losses returns. It has more points than a screen shows.
const maxLosses = 1000

// Losses returns the curves of a training by the key of its job.
func (t *Trainer) Losses(key string) (Losses, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, ok := t.statuses[key]
	if !ok {
		return Losses{}, false
	}
	return Losses{Train: thin(now.losses.Train), Valid: thin(now.losses.Valid)}, true
}

// thin returns a copy of a curve with at most maxLosses points. The last one stays.
func thin(all []Loss) []Loss {
	every := (len(all) + maxLosses - 1) / maxLosses
	points := []Loss{}
	for i, p := range all {
		if (len(all)-1-i)%max(every, 1) == 0 {
			points = append(points, p)
		}
	}
	return points
}

// take notes an event.
func (now *training) take(p Progress) {
	now.Iteration = max(now.Iteration, p.Done)
	now.SecondsLeft = -1
	if p.Left > 0 {
		now.SecondsLeft = p.Left.Seconds()
	}
	switch {
	case p.Kind == "train" && p.TrainLoss != nil:
		now.TrainLoss, now.LearningRate = p.TrainLoss, p.LearningRate
		now.IterationsPerSecond, now.TokensPerSecond = p.PerSecond, p.TokensSecond
		now.TrainedTokens, now.PeakBytes = p.TrainedTokens, int64(p.PeakGB*1e9)
		now.losses.Train = append(now.losses.Train, Loss{p.Done, *p.TrainLoss})
	case p.Kind == "valid" && p.ValidLoss != nil:
		now.ValidLoss = p.ValidLoss
		now.losses.Valid = append(now.losses.Valid, Loss{p.Done, *p.ValidLoss})
	case p.Kind == "saved":
		now.SavedIteration = p.Done
	}
	now.Losses = len(now.losses.Train) + len(now.losses.Valid)
}

// work is the work of a job.
func (t *Trainer) work(ctx context.Context, m memo, progress *jobs.Progress,
	began *atomic.Bool) error {
	unlock, err := t.Environment.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !t.Environment.Ready() {
		progress.Phase("Installing Python packages", "")
		if err := t.Environment.Install(ctx, io.Discard); err != nil {
			return err
		}
	}
	if t.Awake != nil {
		defer t.Awake()()
	}
	progress.Phase("Checking data and memory", "")
	a := Adapter{m.Adapter}
	_, done := a.Latest()
	r, recorded, _ := a.read()
	p, err := prepare(ctx, m.ModelDir, m.Data, a, m.options(),
		Check{Resume: recorded && !r.Finished && done > 0}, t.room(), readFor)
	if err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return err
	}
	begun := func() {
		began.Store(true)
		t.begin(m) // a checkpoint may be gone
		progress.Phase("Loading the model", "")
	}
	return p.Train(ctx, t.Environment, begun, func(p Progress) {
		if p.Kind == "started" {
			progress.Phase("Training", "")
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if now := t.statuses[m.Adapter]; now != nil {
			now.take(p)
		}
	})
}

// checkedData remembers the data that was checked last: a page asks for a Plan after every change
// of a setting, and the data of a training can have many millions of tokens.
type checkedData struct {
	mu   sync.Mutex
	key  string
	data Data
	err  error
}

// read is readFor, unless model, files and options are those of the last call.
func (c *checkedData) read(ctx context.Context, model, dir string, o *Options) (Data, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := dataKey(model, dir, o)
	if key == c.key {
		return c.data, c.err
	}
	data, err := readFor(ctx, model, dir, o)
	if ctx.Err() == nil {
		c.key, c.data, c.err = key, data, err
	}
	return data, err
}

// dataKey names the files of the data and what of the options their check depends on.
func dataKey(model, dir string, o *Options) string {
	key := []string{model, dir,
		fmt.Sprintf("%d %d %t", o.BatchSize, o.MaxSeqLength, o.MaskPrompt)}
	for _, name := range []string{"", "train.jsonl", "valid.jsonl", "test.jsonl"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			key = append(key, fmt.Sprintf("%s %d %s", name, info.Size(),
				info.ModTime().Format(time.RFC3339Nano)))
		}
	}
	return strings.Join(key, "\n")
}
