package control

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/memory"
	"headroom/app/train"
	"headroom/app/train/traintest"
	"headroom/engine/problem"
)

// fakePython stands for Python with launch.py: it trains for three iterations.
const fakePython = `#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --adapter-path ] && dir=$2; shift; done
echo '@headroom {"event":"started","iteration":0,"iterations":3}'
echo '@headroom {"event":"valid","iteration":0,"val_loss":2.5}'
echo '@headroom {"event":"train","iteration":3,"train_loss":1.5,"tokens_per_second":30}'
cp "$(dirname "$0")/weights" "$dir/adapters.safetensors"
cp "$(dirname "$0")/weights" "$dir/0000003_adapters.safetensors"
echo '@headroom {"event":"saved","iteration":3,"file":"0000003_adapters.safetensors"}'
[ -e "$(dirname "$0")/fails" ] && exit 1
echo '@headroom {"event":"finished","iteration":3}'
`

// plantPython puts the fake where the environment of the Trainer is.
func plantPython(t *testing.T, trainer *train.Trainer) (dir string) {
	t.Helper()
	path := trainer.Environment.Command()[0]
	header := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	weights := string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}) + header + "\x00\x00\x00\x00"
	dir = filepath.Dir(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "weights"), []byte(weights), 0o600)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(fakePython), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// trainableModel puts a small model into the host's list, and returns a file of samples.
func trainableModel(t *testing.T, h *fakeHost) (samples string) {
	t.Helper()
	dir, home := filepath.Join(t.TempDir(), "tiny"), t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, home)
	}
	traintest.WriteModel(t, dir, 2)
	samples = filepath.Join(t.TempDir(), "samples.jsonl")
	text := strings.Repeat(`{"prompt": "Hello", "completion": "Hello to you"}`+"\n", 60)
	if err := os.WriteFile(samples, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.list = []host.Model{{ID: "o/tiny", Path: dir}, {ID: "o/bundled", Bundled: true},
		{ID: "o/gguf", Path: "/m/x.gguf"}, {ID: "o/broken", Path: "/m", Error: "It is broken."}}
	return samples
}

func trainingBody(t *testing.T, q TrainingStart) string {
	t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestTrainingOverHTTP checks a training, is refused without the environment, trains with a fake
// Python, reads the curves, and refuses a second training of that name.
func TestTrainingOverHTTP(t *testing.T) {
	w := newGeneral(t)
	samples := trainableModel(t, w.host)
	t.Setenv("PATH", "/usr/bin:/bin") // for the fake's cp
	trainer := w.api.transfers.Trainer
	trainer.Room = func() int64 { return 1 << 40 }
	q := TrainingStart{Request: train.Request{Model: "o/tiny", Data: samples, Iterations: 3}}
	planBody := func(q train.Request) string {
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, plan := ask[TrainingPlan](t, "POST", w.url+"/control/trainings/plan", planBody(q.Request))
	if plan.Name != "tiny-samples" || len(plan.Sets) != 2 || plan.Sets[0].Samples != 54 ||
		plan.Sets[1].Part != "valid" || len(plan.Sets[0].Shown) != 2 || plan.DataError != nil ||
		plan.Memory.Fits != memory.Yes || plan.Memory.NeedBytes == 0 || plan.Python.Ready ||
		plan.Python.Folder == "" || plan.Layers != 2 || plan.ModelLayers != 2 || !plan.Quantized {
		t.Errorf("plan: %+v", plan)
	}
	status, refused := ask[ErrorBody](t, "POST", w.url+"/control/trainings", trainingBody(t, q))
	if status != http.StatusBadRequest ||
		!strings.Contains(refused.Error.Why, "environment is not installed") {
		t.Errorf("without the environment: %d %+v", status, refused)
	}
	folder := plantPython(t, trainer)
	if _, plan := ask[TrainingPlan](t, "POST", w.url+"/control/trainings/plan",
		planBody(q.Request)); !plan.Python.Ready || !plan.Ready {
		t.Errorf("with the environment: %+v", plan)
	}
	status, job := ask[Job](t, "POST", w.url+"/control/trainings", trainingBody(t, q))
	if status != http.StatusAccepted || job.Kind != jobs.Training || job.Training == nil ||
		job.Training.Iterations != 3 || job.Training.Name != "tiny-samples" {
		t.Fatalf("started: %d %+v", status, job)
	}
	ended, err := w.api.transfers.Jobs.Wait(t.Context(), job.ID)
	if err != nil || ended.State != jobs.Done || ended.Result != plan.Adapter {
		t.Fatalf("ended: %+v, %v, %v", ended, ended.Err, err)
	}
	_, list := ask[JobList](t, "GET", w.url+"/control/jobs", "")
	now := list.Jobs[0].Training
	if now == nil || now.Iteration != 3 || now.Losses != 2 || *now.TrainLoss != 1.5 ||
		*now.ValidLoss != 2.5 || now.SavedIteration != 3 {
		t.Errorf("progress: %+v", now)
	}
	_, losses := ask[train.Losses](t, "GET", w.url+"/control/trainings/"+job.ID+"/losses", "")
	if len(losses.Train) != 1 || losses.Train[0] != (train.Loss{Iteration: 3, Loss: 1.5}) ||
		len(losses.Valid) != 1 {
		t.Errorf("curves: %+v", losses)
	}
	q.Name = "tiny-samples"
	if status, _ := ask[ErrorBody](t, "POST", w.url+"/control/trainings",
		trainingBody(t, q)); status != http.StatusConflict {
		t.Errorf("the same name again: %d", status)
	}

	// A training that fails keeps its checkpoint, and can be ended there.
	if err := os.WriteFile(filepath.Join(folder, "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	q.Name = "other"
	_, job = ask[Job](t, "POST", w.url+"/control/trainings", trainingBody(t, q))
	ended, err = w.api.transfers.Jobs.Wait(t.Context(), job.ID)
	if err != nil || ended.State != jobs.Failed ||
		!strings.Contains(problem.From(ended.Err).Fix, "Resume goes on after iteration 3.") {
		t.Errorf("failed: %+v, %v", ended, ended.Err)
	}
	if status, _ := ask[struct{}](t, "POST", w.url+"/control/trainings/"+job.ID+"/end",
		""); status != http.StatusNoContent {
		t.Errorf("ending it: %d", status)
	}
	if _, err := os.Stat(filepath.Join(job.Training.Adapter, "adapters.safetensors")); err != nil {
		t.Error(err)
	}
	if status, _ := ask[ErrorBody](t, "POST", w.url+"/control/trainings/"+job.ID+"/end",
		""); status != http.StatusNotFound {
		t.Errorf("ending it again: %d", status)
	}
}

// TestOneTrainingAtATime: a second training is refused while one runs.
func TestOneTrainingAtATime(t *testing.T) {
	w := newGeneral(t)
	samples := trainableModel(t, w.host)
	end := make(chan struct{})
	j := w.api.transfers.Jobs.Start(jobs.Spec{Kind: jobs.Training, Key: "/a", Title: "first",
		Work: func(context.Context, *jobs.Progress) (string, error) { <-end; return "", nil }})
	q := TrainingStart{Request: train.Request{Model: "o/tiny", Data: samples}, Install: true}
	status, refused := ask[ErrorBody](t, "POST", w.url+"/control/trainings", trainingBody(t, q))
	if status != http.StatusTooManyRequests || !strings.Contains(refused.Error.Why, "first") {
		t.Errorf("a second training: %d %+v", status, refused.Error)
	}
	if status, _ := ask[ErrorBody](t, "POST", w.url+"/control/trainings/"+j.ID+"/end",
		""); status != http.StatusTooManyRequests {
		t.Errorf("ending a running training: %d", status)
	}
	close(end)
}

// TestTrainingsAtOnce: of several requests at the same time, one starts a training.
func TestTrainingsAtOnce(t *testing.T) {
	w := newGeneral(t)
	samples := trainableModel(t, w.host)
	trainer := w.api.transfers.Trainer
	trainer.Room = func() int64 { return 1 << 40 }
	python := filepath.Join(plantPython(t, trainer), "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\nread end\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var started, busy atomic.Int32
	for i := range 6 {
		wait.Go(func() {
			q := TrainingStart{Request: train.Request{Model: "o/tiny", Data: samples,
				Iterations: 3 + i}}
			switch status, _ := ask[ErrorBody](t, "POST", w.url+"/control/trainings",
				trainingBody(t, q)); status {
			case http.StatusTooManyRequests:
				busy.Add(1)
			default:
				started.Add(1)
			}
		})
	}
	wait.Wait()
	if started.Load() != 1 || busy.Load() != 5 {
		t.Errorf("%d were started, %d refused, expected 1 and 5", started.Load(), busy.Load())
	}
	for _, j := range w.api.transfers.Jobs.Jobs() {
		if err := w.api.transfers.Jobs.Stop(j.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestModelsThatCannotBeTrained(t *testing.T) {
	w := newGeneral(t)
	trainableModel(t, w.host)
	for model, want := range map[string]string{"o/gguf": "GGUF", "o/broken": "It is broken",
		"o/none": "no model"} {
		_, refused := ask[ErrorBody](t, "POST", w.url+"/control/trainings/plan",
			`{"model": "`+model+`"}`)
		if refused.Error == nil || !strings.Contains(refused.Error.Why, want) {
			t.Errorf("%s: %+v", model, refused.Error)
		}
	}
	if status, _ := ask[ErrorBody](t, "POST", w.url+"/control/trainings/plan",
		`{"model": "o/tiny", "optimiser": "x"}`); status != http.StatusBadRequest {
		t.Errorf("an unknown field: %d", status)
	}
}
