package control

// Imports, downloads and moves of the cache over HTTP: what they would do, what they are doing, and
// the hub that downloads come from. The jobs are events too.

import (
	"net/http"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/engine/problem"
)

// Transfers are what brings models here, and what moves the cache.
type Transfers struct {
	Jobs *jobs.List
	// Importer and Hub are asked for each time: settings may change what they work with. Their
	// errors are Problems.
	Importer func() (*importer.Importer, error)
	Hub      func() (*hub.Client, error)
	Tokens   *hub.Tokens
	// Mover moves the cache on disk; nil: it cannot be moved. Its error is a Problem.
	Mover func() (*cache.Mover, error)
}

// subscribe is that of the jobs; without any, nothing ever comes.
func (t *Transfers) subscribe() (changed <-chan struct{}, done func()) {
	if t == nil {
		return nil, func() {}
	}
	return t.Jobs.Subscribe()
}

// Job is one import, download or move of the cache.
type Job struct {
	ID             string     `json:"id"`
	Kind           jobs.Kind  `json:"kind"`  // "import", "download" or "cache"
	Title          string     `json:"title"` // the model's name, or the cache's new folder
	State          jobs.State `json:"state"` // "waiting", "running", "done", "failed" or "stopped"
	Phase          string     `json:"phase"` // what it does now, in a word or two
	File           string     `json:"file"`  // with which file
	DoneBytes      int64      `json:"doneBytes"`
	TotalBytes     int64      `json:"totalBytes"` // 0: not known
	BytesPerSecond float64    `json:"bytesPerSecond"`
	SecondsLeft    float64    `json:"secondsLeft"` // below 0: not known
	// of one that is done: the model's folder, or the cache's
	Path            string `json:"path"`
	Error           *Error `json:"error"` // of one that failed
	StartedAtUnixMs int64  `json:"startedAt"`
}

// JobList is the document of /api/jobs and the data of a "jobs" event: all of them, oldest first.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

func jobView(j jobs.Job) Job {
	v := Job{ID: j.ID, Kind: j.Kind, Title: j.Title, State: j.State, Phase: j.Phase, File: j.File,
		DoneBytes: j.DoneBytes, TotalBytes: j.TotalBytes,
		BytesPerSecond: j.BytesPerSecond, SecondsLeft: -1, Path: j.Result,
		StartedAtUnixMs: j.StartedAt.UnixMilli()}
	if j.Left >= 0 {
		v.SecondsLeft = j.Left.Seconds()
	}
	if j.Err != nil {
		v.Error = newError(j.Err)
	}
	return v
}

func newError(err error) *Error { return host.NewError(problem.From(err)) }

// jobList is empty where nothing can be imported or downloaded.
func (a *API) jobList() JobList {
	l := JobList{Jobs: []Job{}}
	if a.transfers != nil {
		for _, j := range a.transfers.Jobs.Jobs() {
			l.Jobs = append(l.Jobs, jobView(j))
		}
	}
	return l
}

func (a *API) jobRoutes() []Route {
	list := a.transfers.Jobs
	on := func(do func(id string) error) func(r *http.Request, _ nothing) (nothing, error) {
		return func(r *http.Request, _ nothing) (nothing, error) {
			return nothing{},
				do(r.PathValue("id"))
		}
	}
	return []Route{
		route("GET /api/jobs",
			"Imports, downloads and moves of the cache, how far they are, and what became of them.",
			"",
			func(*http.Request, nothing) (JobList, error) { return a.jobList(), nil }),
		route("POST /api/jobs/{id}/stop", "Stops one; what it has done so far is kept.", "",
			on(list.Stop)),
		route("POST /api/jobs/{id}/resume", "Goes on with one that has stopped or failed.", "",
			on(list.Resume)),
		route("DELETE /api/jobs/{id}",
			"Takes one off the list; if it is not done, what it has left behind is removed.", "",
			on(list.Remove)),
	}
}

// ImportRequest is the body of /api/imports and /api/imports/plan.
type ImportRequest struct {
	Paths []string      `json:"paths"` // of folders or files on this machine
	Mode  importer.Mode `json:"mode"`  // "copy", "move" or "link"
	Name  string        `json:"name"`  // for one model alone; "": its own
}

// ImportPlan says what an import does.
type ImportPlan struct {
	Mode         importer.Mode `json:"mode"`
	Folder       string        `json:"folder"` // that models are imported into
	Items        []ImportItem  `json:"items"`
	WrittenBytes int64         `json:"writtenBytes"` // that the disk must take at most
	FreeBytes    int64         `json:"freeBytes"`    // below 0: not known
}

// ImportItem is one model, or something that is none.
type ImportItem struct {
	Name         string `json:"name"`
	Source       string `json:"source"`
	Path         string `json:"path"` // of the folder that it becomes
	Bytes        int64  `json:"bytes"`
	WrittenBytes int64  `json:"writtenBytes"` // 0: nothing is copied
	Clones       bool   `json:"clones"`       // the disk can share the original's blocks
	Error        *Error `json:"error"`        // why it cannot be imported; null: it can
	Job          string `json:"job"`          // the ID of its import; "" in a plan
}

const importExample = `{"paths": ["/folder"], "mode": "copy"}`

func (a *API) importRoutes() []Route {
	return []Route{
		route("POST /api/imports/plan", "What importing would do; changes nothing.", importExample,
			func(_ *http.Request, q ImportRequest) (ImportPlan,
				error) {
				return a.imports(q, false)
			}),
		route("POST /api/imports", "Imports what can be imported, as jobs.", importExample,
			func(_ *http.Request, q ImportRequest) (ImportPlan,
				error) {
				return a.imports(q, true)
			}).answering(http.StatusAccepted),
	}
}

func (a *API) imports(q ImportRequest, begin bool) (ImportPlan, error) {
	switch q.Mode {
	case importer.Copy, importer.Move, importer.Link:
	default:
		return ImportPlan{}, problem.New(problem.BadRequest,
			"There is no way \""+string(q.Mode)+"\" to import", "",
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
	plan := im.Plan(q.Paths, q.Mode, q.Name)
	v := ImportPlan{Mode: plan.Mode, Folder: plan.Root, Items: []ImportItem{},
		WrittenBytes: plan.WrittenBytes, FreeBytes: plan.FreeBytes}
	for _, item := range plan.Items {
		one := ImportItem{Name: item.Name, Source: item.Source, Path: item.Target, Bytes: item.Bytes,
			WrittenBytes: item.WrittenBytes, Clones: item.Clones}
		if item.Refused != nil {
			one.Error = newError(item.Refused)
		} else if begin {
			one.Job = a.transfers.Jobs.Start(im.Job(item)).ID
		}
		v.Items = append(v.Items, one)
	}
	return v, nil
}
