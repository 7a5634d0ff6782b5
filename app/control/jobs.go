package control

// Jobs over HTTP: imports, downloads, moves of the cache and trainings, and the plan of an import.
// Job changes are also sent as events (events.go).

import (
	"net/http"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/train"
	"headroom/engine/problem"
)

// Transfers runs imports, downloads, moves of the cache and trainings.
type Transfers struct {
	Jobs *jobs.List
	// Importer and Hub are called for each request, because they depend on the settings. Their
	// errors are Problems.
	Importer func() (*importer.Importer, error)
	Hub      func() (*hub.Client, error)
	Tokens   *hub.Tokens
	// Mover returns the Mover of the cache on disk. If it is nil, the cache cannot be moved. Its
	// error is a Problem.
	Mover func() (*cache.Mover, error)
	// Trainer trains models. If it is nil, there are no such routes.
	Trainer *train.Trainer
}

// subscribe returns a channel that signals changes of the jobs. Without jobs it is nil.
func (t *Transfers) subscribe() (changed <-chan struct{}, done func()) {
	if t == nil {
		return nil, func() {}
	}
	return t.Jobs.Subscribe()
}

// Job is one import, download, move of the cache, or training.
type Job struct {
	ID             string     `json:"id"`
	Kind           jobs.Kind  `json:"kind"`  // "import", "download", "cache" or "training"
	Title          string     `json:"title"` // the name of model or adapter, or the cache's folder
	State          jobs.State `json:"state"` // "waiting", "running", "done", "failed" or "stopped"
	Phase          string     `json:"phase"` // current step, in a word or two
	File           string     `json:"file"`  // file of the current step
	DoneBytes      int64      `json:"doneBytes"`
	TotalBytes     int64      `json:"totalBytes"` // 0: unknown
	BytesPerSecond float64    `json:"bytesPerSecond"`
	SecondsLeft    float64    `json:"secondsLeft"` // negative: unknown
	// Path is the folder of the model, the cache or the adapter, once the job is done.
	Path  string `json:"path"`
	Error *Error `json:"error"` // of a failed job; null otherwise
	// Training is the progress of a training, which counts no bytes; null for other jobs.
	Training        *train.Status `json:"training"`
	StartedAtUnixMs int64         `json:"startedAt"`
}

// JobList is the response of /control/jobs and the data of a "jobs" event: all jobs, oldest
// first.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

func (a *API) jobView(j jobs.Job) Job {
	v := Job{ID: j.ID, Kind: j.Kind, Title: j.Title, State: j.State, Phase: j.Phase, File: j.File,
		DoneBytes: j.DoneBytes, TotalBytes: j.TotalBytes,
		BytesPerSecond: j.BytesPerSecond, SecondsLeft: -1, Path: j.Result,
		StartedAtUnixMs: j.StartedAt.UnixMilli()}
	if v.Training = a.trainingStatus(j); v.Training != nil {
		v.SecondsLeft = v.Training.SecondsLeft
	}
	if j.Left >= 0 {
		v.SecondsLeft = j.Left.Seconds()
	}
	if j.Err != nil {
		v.Error = newError(j.Err)
	}
	return v
}

func newError(err error) *Error { return host.NewError(problem.From(err)) }

// jobList returns all jobs. It is empty in a program without transfers.
func (a *API) jobList() JobList {
	l := JobList{Jobs: []Job{}}
	if a.transfers != nil {
		for _, j := range a.transfers.Jobs.Jobs() {
			l.Jobs = append(l.Jobs, a.jobView(j))
		}
	}
	return l
}

func (a *API) jobRoutes() []Route {
	list := a.transfers.Jobs
	byID := func(do func(id string) error) func(r *http.Request, _ nothing) (nothing, error) {
		return func(r *http.Request, _ nothing) (nothing, error) {
			return nothing{}, do(r.PathValue("id"))
		}
	}
	return []Route{
		route("GET /control/jobs",
			"Lists imports, downloads, moves of the cache and trainings, with their progress and "+
				"result.",
			"",
			func(*http.Request, nothing) (JobList, error) { return a.jobList(), nil }),
		route("POST /control/jobs/{id}/stop", "Stops a job and keeps its partial result.", "",
			byID(list.Stop)),
		route("POST /control/jobs/{id}/resume", "Resumes a stopped or failed job.", "",
			byID(list.Resume)),
		route("DELETE /control/jobs/{id}",
			"Removes a job from the list, and the partial result of a job that is not done.", "",
			byID(list.Remove)),
	}
}

// ImportRequest is the body of /control/imports and /control/imports/plan.
type ImportRequest struct {
	Paths []string      `json:"paths"` // folders or files on this machine
	Mode  importer.Mode `json:"mode"`  // "copy", "move" or "link"
	Name  string        `json:"name"`  // new name of a single model; "": its own name
	// Packing converts the only path, the folder of a model or the name of the bundled one, into
	// this packing. null: it is imported.
	Packing *importer.Packing `json:"packing"`
}

// ImportPlan describes what an import does.
type ImportPlan struct {
	Mode         importer.Mode `json:"mode"`
	Folder       string        `json:"folder"` // destination folder
	Items        []ImportItem  `json:"items"`
	WrittenBytes int64         `json:"writtenBytes"` // upper bound of the bytes written to disk
	FreeBytes    int64         `json:"freeBytes"`    // negative: unknown
}

// ImportItem is one model to import, or a source that is not a model.
type ImportItem struct {
	Name         string `json:"name"`
	Source       string `json:"source"`
	Path         string `json:"path"` // its new folder
	Bytes        int64  `json:"bytes"`
	WrittenBytes int64  `json:"writtenBytes"` // 0: nothing is copied
	Converts     bool   `json:"converts"`     // it is converted and stays, whatever the mode is
	Clones       bool   `json:"clones"`       // the copy shares the original's blocks on disk
	Error        *Error `json:"error"`        // why it cannot be imported; null: it can
	Listed       string `json:"listed"`       // the model's ID if it is in the list; "": it is not
	Job          string `json:"job"`          // ID of its job; "" in a plan
}

const importExample = `{"paths": ["/folder"], "mode": "copy"}`

func (a *API) importRoutes() []Route {
	return []Route{
		route("POST /control/imports/plan",
			"Returns what an import would do, without changing anything.", importExample,
			func(_ *http.Request, q ImportRequest) (ImportPlan, error) {
				return a.imports(q, false)
			}),
		route("POST /control/imports",
			"Imports every model of the plan that can be imported, each as a job.", importExample,
			func(_ *http.Request, q ImportRequest) (ImportPlan, error) {
				return a.imports(q, true)
			}).withStatus(http.StatusAccepted),
	}
}

func (a *API) imports(q ImportRequest, start bool) (ImportPlan, error) {
	switch q.Mode {
	case importer.Copy, importer.Move, importer.Link:
	default:
		return ImportPlan{}, problem.New(problem.BadRequest,
			"There is no import mode \""+string(q.Mode)+"\"", "",
			"Send copy, move or link as mode.")
	}
	if len(q.Paths) == 0 {
		return ImportPlan{}, problem.New(problem.BadRequest, "There is nothing to import",
			"no paths were given", "Send "+importExample+".")
	}
	im, err := a.transfers.Importer()
	if err != nil {
		return ImportPlan{}, err
	}
	plan := im.Plan(nil, q.Mode, "")
	switch {
	case q.Packing == nil:
		plan = im.Plan(q.Paths, q.Mode, q.Name)
	case len(q.Paths) != 1:
		return ImportPlan{}, problem.New(problem.BadRequest, "Only one model can be converted",
			"several paths were given", "Send one path.")
	default:
		plan = im.PlanConversion(q.Paths[0], q.Name, *q.Packing)
	}
	v := ImportPlan{Mode: plan.Mode, Folder: plan.Root, Items: []ImportItem{},
		WrittenBytes: plan.WrittenBytes, FreeBytes: plan.FreeBytes}
	for _, item := range plan.Items {
		one := ImportItem{Name: item.Name, Source: item.Source, Path: item.Target,
			Bytes: item.Bytes, WrittenBytes: item.WrittenBytes, Clones: item.Clones,
			Converts: item.Converts, Listed: item.Listed}
		if item.Refused != nil {
			one.Error = newError(item.Refused)
		} else if start {
			one.Job = a.transfers.Jobs.Start(im.Job(item)).ID
		}
		v.Items = append(v.Items, one)
	}
	return v, nil
}
