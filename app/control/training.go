package control

// Fine-tuning over HTTP, as app/train does it. A training is a job: it is paused, resumed and
// discarded like an import (jobs.go). Only the control API can start one.

import (
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"headroom/app/jobs"
	"headroom/app/memory"
	"headroom/app/train"
	"headroom/engine/problem"
)

// TrainingPlan is what a training would do, and why it cannot start.
type TrainingPlan struct {
	Name         string `json:"name"`    // of the adapter
	Adapter      string `json:"adapter"` // its folder
	FineTuneType string `json:"fineTuneType"`
	// The settings, with the defaults of those that were not sent.
	Iterations   int     `json:"iterations"`
	BatchSize    int     `json:"batchSize"`
	LearningRate float64 `json:"learningRate"`
	Layers       int     `json:"layers"`
	MaxSeqLength int     `json:"maxSeqLength"`

	ModelLayers int           `json:"modelLayers"`
	Quantized   bool          `json:"quantized"`
	Sets        []TrainingSet `json:"sets"`
	// DataError says why the data cannot be used; null: they can, or none are chosen.
	DataError *Error          `json:"dataError"`
	Faults    []TrainingFault `json:"faults"`
	Memory    TrainingMemory  `json:"memory"`
	Python    TrainingPython  `json:"python"`
	Ready     bool            `json:"ready"` // it can start
}

// TrainingSet describes one file of the data.
type TrainingSet struct {
	Part    string   `json:"part"` // "train", "valid" or "test"
	File    string   `json:"file"`
	Form    string   `json:"form"`
	Samples int      `json:"samples"`
	Tokens  int64    `json:"tokens"`
	Median  int      `json:"median"`  // tokens of a sample
	Longest int      `json:"longest"` // likewise
	Cut     int      `json:"cut"`     // samples that are longer than maxSeqLength
	Masked  int      `json:"masked"`  // samples of which nothing is trained
	Shown   []string `json:"shown"`   // the first samples as the model reads them, shortened
}

// TrainingFault is a line that is no sample.
type TrainingFault struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// TrainingMemory is the estimated memory of a training.
type TrainingMemory struct {
	NeedBytes        int64      `json:"needBytes"`
	WeightsBytes     int64      `json:"weightsBytes"`
	ParametersBytes  int64      `json:"parametersBytes"`
	ActivationsBytes int64      `json:"activationsBytes"`
	LogitsBytes      int64      `json:"logitsBytes"`
	RoomBytes        int64      `json:"roomBytes"` // available beside the loaded models
	Fits             memory.Fit `json:"fits"`
	Error            *Error     `json:"error"` // what would make it fit; null: it fits
}

// TrainingPython describes the Python environment that trains.
type TrainingPython struct {
	Ready     bool   `json:"ready"`
	Folder    string `json:"folder"`
	DiskBytes int64  `json:"diskBytes"` // about what it takes on disk
	Packages  string `json:"packages"`
	Source    string `json:"source"`
	Error     *Error `json:"error"` // why it cannot be made; null: it can
}

// TrainingStart is the body of POST /control/trainings.
type TrainingStart struct {
	train.Request
	// Install agrees to make the Python environment, if it is not there.
	Install bool `json:"install"`
}

const trainingExample = `{"model": "Qwen3-0.6B-4bit", "data": "/folder", "iterations": 600}`

func (a *API) trainingRoutes() []Route {
	return []Route{
		route("POST /control/trainings/plan",
			"Checks a training: the data, the memory, and the Python environment. It changes "+
				"nothing.", trainingExample,
			func(r *http.Request, q train.Request) (TrainingPlan, error) {
				plan, err := a.planTraining(r, q)
				if err != nil {
					return TrainingPlan{}, err
				}
				return a.trainingView(r, plan, q), nil
			}).withKnownFields(),
		route("POST /control/trainings",
			"Starts a training as a job. Stopping the job pauses the training.", trainingExample,
			a.startTraining).withStatus(http.StatusAccepted).withKnownFields(),
		route("GET /control/trainings/{id}/losses",
			"Returns the curves of a training. They change when losses of its job does.", "",
			func(r *http.Request, _ nothing) (train.Losses, error) {
				j, err := a.trainingJob(r.PathValue("id"))
				if err != nil {
					return train.Losses{}, err
				}
				losses, _ := a.transfers.Trainer.Losses(j.Key)
				return losses, nil
			}),
		route("POST /control/trainings/{id}/end",
			"Ends a paused training: its adapter stays as its latest checkpoint is.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				return nothing{}, a.endTraining(r.PathValue("id"))
			}),
	}
}

// trainingJob returns the job of a training. The error is a Problem.
func (a *API) trainingJob(id string) (jobs.Job, error) {
	for _, j := range a.transfers.Jobs.Jobs() {
		if j.ID == id && j.Kind == jobs.Training {
			return j, nil
		}
	}
	return jobs.Job{}, problem.New(problem.NotFound, "There is no training "+id,
		"it may have been removed", "Take one from the list of jobs.")
}

func (a *API) endTraining(id string) error {
	j, err := a.trainingJob(id)
	if err != nil {
		return err
	}
	if !j.State.Ended() {
		return problem.New(problem.Busy, "The training is running", "", "Pause it first.")
	}
	if j.State != jobs.Done {
		if err := (train.Adapter{Dir: j.Key}).End(); err != nil {
			return err
		}
	}
	return a.transfers.Jobs.Remove(id)
}

// planTraining returns the plan of a request. The error is a Problem.
func (a *API) planTraining(r *http.Request, q train.Request) (*train.Plan, error) {
	dir, err := a.trainable(q.Model)
	if err != nil {
		return nil, err
	}
	return a.transfers.Trainer.Plan(r.Context(), q, dir)
}

// trainable returns the folder of a model that can be trained. The error is a Problem.
func (a *API) trainable(id string) (dir string, err error) {
	refuse := func(code problem.Code, why, fix string) (string, error) {
		return "", problem.New(code, "This model cannot be trained", why, fix)
	}
	for _, m := range a.host.Models(0).Models {
		if !strings.EqualFold(m.ID, id) {
			continue
		}
		switch {
		case m.Error != "":
			return refuse(problem.ModelBroken, m.Error, "Choose another model.")
		case m.Bundled:
			return a.transfers.Trainer.Environment.Bundled()
		case m.Path == "":
			return refuse(problem.BadRequest, "mlx-lm needs a folder",
				"Choose a model in a folder.")
		case filepath.Ext(m.Path) == ".gguf":
			return refuse(problem.BadRequest, "mlx-lm does not train GGUF files",
				"Import it as an MLX model first.")
		}
		return m.Path, nil
	}
	return refuse(problem.ModelNotFound, "there is no model with the ID \""+id+"\"",
		"Choose a model of the list.")
}

func (a *API) startTraining(r *http.Request, q TrainingStart) (Job, error) {
	if err := a.otherTraining(); err != nil {
		return Job{}, err
	}
	plan, err := a.planTraining(r, q.Request)
	if err == nil {
		err = plan.Err()
	}
	if err != nil {
		return Job{}, err
	}
	if !q.Install && !a.transfers.Trainer.Environment.Ready() {
		return Job{}, problem.New(problem.BadRequest, "The training was not started",
			"the Python environment is not installed", "Agree to its installation.")
	}
	a.trainingStart.Lock() // another request may have started one while this one was planned
	defer a.trainingStart.Unlock()
	if err := a.otherTraining(); err != nil {
		return Job{}, err
	}
	return a.jobView(a.transfers.Jobs.Start(a.transfers.Trainer.Job(q.Request, plan))), nil
}

// otherTraining is an error while a training runs.
func (a *API) otherTraining() error {
	for _, j := range a.transfers.Jobs.Jobs() {
		if j.Kind == jobs.Training && !j.State.Ended() {
			return problem.New(problem.Busy, "The training was not started",
				"another training is running: "+j.Title, "Wait until it has ended, or pause it.")
		}
	}
	return nil
}

// trainingView describes a plan.
func (a *API) trainingView(r *http.Request, p *train.Plan, q train.Request) TrainingPlan {
	o := p.Options
	v := TrainingPlan{Name: filepath.Base(p.Adapter.Dir), Adapter: p.Adapter.Dir,
		FineTuneType: o.FineTuneType, Iterations: o.Iters, BatchSize: o.BatchSize,
		LearningRate: o.LearningRate, Layers: *o.NumLayers, MaxSeqLength: o.MaxSeqLength,
		ModelLayers: p.Shape.Layers, Quantized: p.Shape.Quantized, Sets: []TrainingSet{},
		Faults: []TrainingFault{}}
	for _, s := range []struct {
		part string
		set  *train.Set
	}{{"train", p.Sets.Train}, {"valid", p.Sets.Valid}, {"test", p.Sets.Test}} {
		if s.set != nil && s.set.Samples > 0 {
			v.Sets = append(v.Sets, trainingSet(s.part, s.set))
		}
	}
	for _, f := range p.Sets.Faults() {
		v.Faults = append(v.Faults, TrainingFault{filepath.Base(f.File), f.Line, f.Why.Error()})
	}
	if p.DataErr != nil && q.Data != "" {
		v.DataError = newError(p.DataErr)
	}
	v.Memory = TrainingMemory{NeedBytes: p.Need.Total(), WeightsBytes: p.Need.Weights,
		ParametersBytes: p.Need.Parameters, ActivationsBytes: p.Need.Activations,
		LogitsBytes: p.Need.Logits, RoomBytes: p.Room,
		Fits: memory.Fits(p.Need.Total(), p.Room)}
	if p.MemoryErr != nil {
		v.Memory.Error = newError(p.MemoryErr)
	}
	e := a.transfers.Trainer.Environment
	v.Python = TrainingPython{Ready: e.Ready(), Folder: e.Dir(), DiskBytes: train.DiskBytes,
		Packages: train.Packages, Source: train.Source}
	if !v.Python.Ready {
		if _, err := e.Tools(r.Context()); err != nil {
			v.Python.Error = newError(err)
		}
	}
	v.Ready = p.Err() == nil && v.Python.Error == nil
	return v
}

// maxShown is how many characters of a sample a page gets.
const maxShown = 600

func trainingSet(part string, s *train.Set) TrainingSet {
	v := TrainingSet{Part: part, File: s.Name, Form: string(s.Form), Samples: s.Samples,
		Tokens: s.Tokens, Median: s.Median, Longest: s.Longest, Cut: s.Cut, Masked: s.Masked,
		Shown: []string{}}
	for _, text := range s.Shown {
		if utf8.RuneCountInString(text) > maxShown {
			text = string([]rune(text)[:maxShown]) + "…"
		}
		v.Shown = append(v.Shown, text)
	}
	return v
}

// trainingStatus returns the progress of a job's training; nil if it is not one.
func (a *API) trainingStatus(j jobs.Job) *train.Status {
	if a.transfers == nil || a.transfers.Trainer == nil || j.Kind != jobs.Training {
		return nil
	}
	s, ok := a.transfers.Trainer.Status(j.Key)
	if !ok {
		return nil
	}
	return &s
}
