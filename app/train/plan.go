package train

// What a training would do: all checks that come before a process starts, and its start. The
// command makes a Plan. The window's page shows one while a person chooses, and the work of a job
// makes it again.

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/textproc"
)

// Request is a training that a page asks for. Zero values are mlx-lm's defaults.
type Request struct {
	Model          string  `json:"model"`        // ID in the list of models
	Data           string  `json:"data"`         // folder with train.jsonl, or one file
	Name           string  `json:"name"`         // of the adapter; "": a free one is chosen
	FineTuneType   string  `json:"fineTuneType"` // lora, dora or full
	Iterations     int     `json:"iterations"`
	BatchSize      int     `json:"batchSize"`
	LearningRate   float64 `json:"learningRate"`
	Layers         int     `json:"layers"`       // the last ones; -1: all
	MaxSeqLength   int     `json:"maxSeqLength"` // tokens of a sample
	MaskPrompt     bool    `json:"maskPrompt"`
	GradCheckpoint bool    `json:"gradCheckpoint"`
}

// options returns the options of the request. A short training reports, validates and saves more
// often than mlx-lm would.
func (q *Request) options() *Options {
	o := &Options{FineTuneType: q.FineTuneType, BatchSize: q.BatchSize, Iters: q.Iterations,
		LearningRate: q.LearningRate, MaxSeqLength: q.MaxSeqLength, MaskPrompt: q.MaskPrompt,
		GradCheckpoint: q.GradCheckpoint}
	if q.Layers != 0 {
		o.NumLayers = &q.Layers
	}
	if n := q.Iterations; n > 0 {
		o.Report = min(max(n/50, 1), 10)
		o.Eval = min(max(n/10, 1), 200)
		o.SaveEvery = min(max(n/10, 1), 100)
	}
	return o
}

// Plan is what is known of a training before it starts.
type Plan struct {
	Model   string // folder
	Data    string // folder or file
	Adapter Adapter
	Options *Options
	Shape   Shape
	Record  Record
	Start   Start
	Sets    Data
	Need    Need
	Room    int64 // available memory

	DataErr   error // a Problem: the data cannot be used
	MemoryErr error // a Problem: it does not fit

	check Check
}

// Err returns the first reason why the training cannot start.
func (p *Plan) Err() error {
	if p.DataErr != nil {
		return p.DataErr
	}
	return p.MemoryErr
}

// room returns the memory that a training can use on this machine, beside what is running.
func room() int64 {
	reading, err := new(memory.Meter).Read()
	if err != nil {
		return math.MaxInt64
	}
	return reading.HeadroomBytes(memory.EngineBytes{}, memory.EngineBytes{})
}

// dataReader reads and checks data for the model in a folder. The error is a Problem, or ctx's.
type dataReader func(ctx context.Context, model, data string, o *Options) (Data, error)

// readFor is ReadData with the model's tokenizer and chat template.
func readFor(ctx context.Context, model, data string, o *Options) (Data, error) {
	text, err := textproc.Read(checkpoint.Source{Dir: model})
	if err != nil {
		return Data{}, err
	}
	return ReadData(ctx, data, text, o)
}

// Check is how a training treats what the adapter's folder has.
type Check struct {
	Resume bool // go on from the latest checkpoint
	Force  bool // write over an adapter
}

// Prepare checks everything but the environment, for the model in a folder and this machine's
// memory. If only data or memory are at fault, the Plan says so. Otherwise the error is a Problem,
// or ctx's.
func Prepare(ctx context.Context, model, data string, a Adapter, o *Options, c Check) (*Plan,
	error) {
	return prepare(ctx, model, data, a, o, c, room(), readFor)
}

func prepare(ctx context.Context, model, data string, a Adapter, o *Options, c Check,
	room int64, read dataReader) (*Plan, error) {
	p := &Plan{Model: model, Data: data, Adapter: a, Options: o, Room: room, check: c}
	if err := checkType(model); err != nil {
		return nil, err
	}
	var err error
	if p.Shape, err = ReadShape(model); err != nil {
		return nil, err
	}
	if err := o.Resolve(&p.Shape); err != nil {
		return nil, err
	}
	p.Record = Record{Model: model, Data: data, FineTuneType: o.FineTuneType,
		NumLayers: *o.NumLayers, Rank: o.Rank, Iters: o.Iters}
	if p.Start, err = a.Check(p.Record, c.Resume, c.Force); err != nil {
		return nil, err
	}
	tokens := o.MaxSeqLength // as if the data had such samples, before it is known
	if data == "" {
		p.DataErr = notStarted(problem.BadRequest, "Choose a folder or a file.", "there is no data")
	} else {
		p.Sets, p.DataErr = read(ctx, model, data, o)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if p.DataErr == nil {
		tokens = p.Sets.Padded(o.MaxSeqLength)
	}
	p.Need = p.Shape.Need(o, tokens)
	_, p.MemoryErr = p.Shape.CheckMemory(o, tokens, room)
	return p, nil
}

// Train trains as a Plan without an error says. The caller holds the lock of the environment, which
// is ready. begun is called when the adapter's folder is that of this training, and progress for
// each event. The error is ErrPaused or a Problem.
func (p *Plan) Train(ctx context.Context, e Environment, begun func(),
	progress func(Progress)) error {
	temp, err := e.Temp()
	if err != nil {
		return err
	}
	data, remove, err := dataFolder(p.Data, temp, p.Options)
	if err != nil {
		return err
	}
	defer remove()
	// Another training may have used the folder before this one had the lock.
	if p.Start, err = p.Adapter.Check(p.Record, p.check.Resume, p.check.Force); err != nil {
		return err
	}
	if err := p.Adapter.Begin(p.Record, p.Start); err != nil {
		return err
	}
	begun()
	run := Run{Python: e.Command(), Temp: temp, Model: p.Model, Data: data, Adapter: p.Adapter,
		Options: p.Options, Start: p.Start, Record: p.Record, Progress: progress}
	return run.Train(ctx)
}

// notInMLX are the model types that Headroom runs and that mlx-lm 0.32.2 does not have.
var notInMLX = []string{"bert", "modernbert", "muse_glimmer_text", "qwen3_5_moe_text",
	"qwen3_5_text", "qwen3_8", "qwen3_8_moe", "qwen3_8_text", "qwen3_vl_moe_text", "qwen3_vl_text",
	"xlm-roberta"}

// checkType refuses a model that mlx-lm does not have. Others that it lacks, Headroom lacks too.
// The error is a Problem.
func checkType(model string) error {
	var config struct {
		Type string `json:"model_type"`
	}
	text, err := modelfile.Read(filepath.Join(model, "config.json"))
	if err != nil || json.Unmarshal(text, &config) != nil {
		return nil // ReadShape says what is wrong
	}
	if slices.Contains(notInMLX, config.Type) {
		return notStarted(problem.UnknownArchitecture, "Choose another model.",
			"mlx-lm has no models of the type %s", config.Type)
	}
	return nil
}

// adapterNamed returns the adapter of a request: that of its name, or the first free one that is
// named after model and data. The error is a Problem.
func adapterNamed(q *Request, model string) (Adapter, error) {
	if q.Model != "" {
		model = q.Model // a folder of Hugging Face's cache has the name of a commit
	}
	dir := DefaultAdapter(model, q.Data)
	if dir == "" {
		return Adapter{}, notStarted(problem.BadRequest, "Set HOME.",
			"there is no home folder for the adapter")
	}
	if q.Name != "" {
		if clean := cleanName(q.Name); clean != q.Name {
			return Adapter{}, notStarted(problem.BadRequest, "Use letters, digits, - and _.",
				"%q cannot be the name of an adapter", q.Name)
		}
		dir := filepath.Join(library.Own(), adaptersName, q.Name)
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return Adapter{}, notStarted(problem.Exists, "Choose another name.",
				"%s is a link or a file", dir)
		}
		return Adapter{dir}, nil
	}
	for n := 2; ; n++ {
		_, err := os.Lstat(dir)
		if err != nil || n > 1000 {
			return Adapter{dir}, nil
		}
		dir = fmt.Sprintf("%s-%d", strings.TrimSuffix(dir, fmt.Sprintf("-%d", n-1)), n)
	}
}
