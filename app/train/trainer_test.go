package train

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/train/traintest"
	"headroom/engine/problem"
)

// trainableModel writes a random model with the demo model's tokenizer.
func trainableModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny")
	traintest.WriteModel(t, dir, 4)
	return dir
}

// fakeEnvironment returns an environment whose Python is the fake of that kind.
func fakeEnvironment(t *testing.T, kind string) Environment {
	t.Helper()
	t.Setenv(fakeName, kind)
	e := EnvironmentIn(t.TempDir())
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(python(e.current())), 0o700)
	}
	if err == nil {
		err = os.Symlink(self, python(e.current()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// home gives the test a home folder of its own, for adapters.
func home(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, dir)
	}
}

func writeLines(t *testing.T, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func repeat(line string, n int) (lines []string) {
	for range n {
		lines = append(lines, line)
	}
	return lines
}

// TestPlanOfARequest: what is wrong is said where it is wrong, and in the words of the window.
func TestPlanOfARequest(t *testing.T) {
	home(t)
	model := trainableModel(t)
	samples := writeLines(t, "my samples.jsonl", repeat(completion, 60)...)
	trainer := &Trainer{Environment: EnvironmentIn(t.TempDir()),
		Room: func() int64 { return 1 << 40 }}
	plan := func(q Request) *Plan {
		t.Helper()
		p, err := trainer.Plan(t.Context(), q, model)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := plan(Request{}); p.Err() == nil || p.MemoryErr != nil || p.Need.Total() == 0 ||
		*p.Options.NumLayers != 4 {
		t.Errorf("without data: %+v", p)
	}
	p := plan(Request{Data: samples, Iterations: 100})
	if p.Err() != nil || p.Sets.Train.Samples != 54 || p.Sets.Valid.Samples != 6 ||
		filepath.Base(p.Adapter.Dir) != "tiny-my-samples" || p.Options.Report != 2 ||
		p.Options.Eval != 10 || p.Options.SaveEvery != 10 {
		t.Errorf("a file: %+v, %+v", p, p.Options)
	}
	if p := plan(Request{Data: samples, BatchSize: 8}); p.Err() != nil || p.Sets.Valid != nil ||
		p.Sets.Train.Samples != 60 {
		t.Errorf("too few samples for a validation: %+v", p.Sets)
	}
	faulty := writeLines(t, "faulty.jsonl", completion, "", plain, completion, "x")
	p = plan(Request{Data: faulty, BatchSize: 1})
	var lines []int
	for _, f := range p.Sets.Faults() {
		lines = append(lines, f.Line)
	}
	if p.DataErr == nil || len(lines) != 3 || lines[0] != 2 || lines[1] != 3 || lines[2] != 5 {
		t.Errorf("faults in lines %d, %v", lines, p.DataErr)
	}
	if p := plan(Request{Data: filepath.Join(t.TempDir(), "none")}); p.DataErr == nil ||
		strings.Contains(problem.From(p.DataErr).Fix, "--") {
		t.Errorf("no such data: %v", p.DataErr)
	}
	trainer.Room = func() int64 { return 1000 }
	if p := plan(Request{Data: samples}); code(p.MemoryErr) != problem.DoesNotFit ||
		strings.Contains(problem.From(p.MemoryErr).Fix, "--") {
		t.Errorf("no memory: %v", p.MemoryErr)
	}
	for want, q := range map[string]Request{
		"is not absolute":               {Data: "samples.jsonl"},
		"cannot be the name":            {Data: samples, Name: "../x"},
		"the number of layers is 9":     {Data: samples, Layers: 9},
		"the method is ptuning":         {Data: samples, FineTuneType: "ptuning"},
		"Full fine-tuning does not":     {Data: samples, FineTuneType: "full"},
		"the number of iterations is -": {Data: samples, Iterations: -1},
	} {
		_, err := trainer.Plan(t.Context(), q, model)
		if err == nil || !strings.Contains(problem.From(err).Why, want) {
			t.Errorf("%+v: got %v, expected %q", q, err, want)
		}
	}
}

func TestTypesThatMLXLacks(t *testing.T) {
	home(t)
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "qwen3_8"}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(Trainer).Plan(t.Context(), Request{}, dir); err == nil ||
		!strings.Contains(problem.From(err).Why, "no models of the type qwen3_8") {
		t.Errorf("got %v", err)
	}
}

// TestTrainingAsAJob pauses a training, restarts the program, finishes the training, and refuses
// its name to another one.
func TestTrainingAsAJob(t *testing.T) {
	home(t)
	model := trainableModel(t)
	q := Request{Model: "tiny", Data: writeLines(t, "d.jsonl", repeat(completion, 60)...),
		Iterations: 3}
	environment := fakeEnvironment(t, "pauses")
	start := func() (*Trainer, *jobs.List) {
		l := jobs.NewList()
		t.Cleanup(l.Close)
		return &Trainer{Environment: environment, Room: func() int64 { return 1 << 40 }}, l
	}
	trainer, list := start()
	plan, err := trainer.Plan(t.Context(), q, model)
	if err != nil || plan.Err() != nil {
		t.Fatal(err, plan.Err())
	}
	key := plan.Adapter.Dir
	running := func() bool { s, _ := trainer.Status(key); return s.Iteration == 2 }
	j := list.Start(trainer.Job(q, plan))
	for !running() {
		if now := list.Jobs()[0]; now.State.Ended() {
			t.Fatalf("%s: %v", now.State, now.Err)
		}
	}
	if unlock, err := environment.Lock(); code(err) != problem.Busy {
		t.Errorf("another training could start: %v", err)
		unlock()
	}
	list.Close() // as when the program ends
	if now := list.Jobs()[0]; now.State != jobs.Stopped {
		t.Fatalf("after the end of the program: %s, %v", now.State, now.Err)
	}
	kept := list.Unfinished()
	if len(kept) != 1 || kept[0].Title != "tiny-d" {
		t.Fatalf("kept: %+v", kept)
	}

	trainer, list = start()
	spec, err := trainer.Recreate(kept[0].Memo)
	if err != nil {
		t.Fatal(err)
	}
	list.Recall(spec, 0)
	if s, ok := trainer.Status(key); !ok || s.Iteration != 2 || s.SavedIteration != 2 ||
		s.Iterations != 3 || s.Model != "tiny" {
		t.Errorf("after a restart: %+v", s)
	}
	t.Setenv(fakeName, "finishes")
	j = list.Jobs()[0]
	if err := list.Resume(j.ID); err != nil {
		t.Fatal(err)
	}
	j, err = list.Wait(t.Context(), j.ID)
	if err != nil || j.State != jobs.Done || j.Result != key {
		t.Fatalf("%+v, %v", j, err)
	}
	s, _ := trainer.Status(key)
	losses, _ := trainer.Losses(key)
	if s.Iteration != 3 || s.TrainLoss == nil || *s.TrainLoss != 1.5 || s.PeakBytes != 25e7 ||
		len(losses.Train) != 1 || losses.Train[0] != (Loss{3, 1.5}) || s.Losses != 1 {
		t.Errorf("finished: %+v, %+v", s, losses)
	}
	temp, _ := environment.Temp()
	if left, _ := filepath.Glob(filepath.Join(temp, folderOfRun+"*")); len(left) > 0 {
		t.Errorf("copies of the data are left: %q", left)
	}
	if err := list.Remove(j.ID); err != nil {
		t.Fatal(err)
	}
	q.Name = "tiny-d"
	if _, err := trainer.Plan(t.Context(), q, model); code(err) != problem.Exists {
		t.Errorf("another training of that name: %v", err)
	}
	q.Name = ""
	if plan, err = trainer.Plan(t.Context(), q, model); err != nil ||
		filepath.Base(plan.Adapter.Dir) != "tiny-d-2" {
		t.Errorf("without a name: %+v, %v", plan, err)
	}
}

// TestForeignFilesInAdapter: a training does not begin in a folder with files of somebody else that
// it would replace, nor through a link.
func TestForeignFilesInAdapter(t *testing.T) {
	for _, name := range []string{logName, optimizerName, weightsName, configName} {
		a := Adapter{t.TempDir()}
		if err := os.WriteFile(filepath.Join(a.Dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Check(Record{}, false, false); code(err) != problem.Exists {
			t.Errorf("%s: %v", name, err)
		}
	}
	home(t)
	own := filepath.Join(library.Own(), adaptersName)
	err := os.MkdirAll(own, 0o700)
	if err == nil {
		err = os.Symlink(t.TempDir(), filepath.Join(own, "link"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adapterNamed(&Request{Name: "link"}, "m"); code(err) != problem.Exists {
		t.Errorf("a link: %v", err)
	}
	if a := DefaultAdapter("m", strings.Repeat("n", 300)); len(filepath.Base(a)) > maxName {
		t.Errorf("a name of %d bytes", len(filepath.Base(a)))
	}
}

// TestFolderTakenMeanwhile: a training does not begin in a folder in which another one has ended
// since the Plan was made.
func TestFolderTakenMeanwhile(t *testing.T) {
	home(t)
	e := fakeEnvironment(t, "")
	a := Adapter{filepath.Join(t.TempDir(), "a")}
	data := writeLines(t, "x.jsonl", repeat(`{"prompt": "a", "completion": "b"}`, 60)...)
	p, err := Prepare(t.Context(), trainableModel(t), data, a, &Options{Iters: 3}, Check{})
	if err == nil {
		err = p.Err()
	}
	if err == nil {
		err = os.Mkdir(a.Dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	weights(a.Dir, weightsName)
	err = p.Train(t.Context(), e, func() { t.Error("it began") }, func(Progress) {})
	if code(err) != problem.Exists {
		t.Error(err)
	}
}

// TestDiscardOfRefused: a job that never began, because another process trains, discards nothing of
// the other's, and one that began waits for the other to end.
func TestDiscardOfRefused(t *testing.T) {
	home(t)
	a := Adapter{filepath.Join(t.TempDir(), "a")}
	if err := a.Begin(Record{Data: "/d"}, Start{}); err != nil {
		t.Fatal(err)
	}
	trainer := &Trainer{Environment: Environment{t.TempDir()}}
	unlock, err := trainer.Environment.Lock()
	if err != nil {
		t.Fatal(err)
	}
	m := memo{Request: Request{Data: "/d"}, ModelDir: "/m", Adapter: a.Dir}
	if err := trainer.job(m, false).Discard(); err != nil {
		t.Error(err)
	}
	if err := trainer.job(m, true).Discard(); code(err) != problem.Busy {
		t.Errorf("while another trains: %v", err)
	}
	if _, recorded, _ := a.read(); !recorded {
		t.Error("the training of another process was discarded")
	}
	unlock()
	if err := trainer.job(m, true).Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(a.Dir); err == nil {
		t.Error("the training is left")
	}
}

// TestDiscardedTraining: a discarded training leaves nothing, and nothing else is deleted.
func TestDiscardedTraining(t *testing.T) {
	home(t)
	a := Adapter{filepath.Join(t.TempDir(), "a")}
	begin := func(r Record) {
		t.Helper()
		if err := a.Begin(r, Start{}); err != nil {
			t.Fatal(err)
		}
		weights(a.Dir, weightsName)
		weights(a.Dir, "0000100_adapters.safetensors")
	}
	begin(Record{Data: "/d"})
	if err := a.Discard("/other"); err != nil {
		t.Fatal(err)
	}
	if _, done := a.Latest(); done != 100 {
		t.Error("the training of other data was discarded")
	}
	foreign := filepath.Join(a.Dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Discard("/d"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(a.Dir); len(left) != 1 {
		t.Errorf("left: %v, expected the file of somebody else", left)
	}
	_ = os.Remove(foreign)
	begin(Record{Data: "/d"})
	if err := a.End(); err != nil {
		t.Fatal(err)
	}
	if err := a.Discard("/d"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(a.Dir, weightsName)); err != nil {
		t.Error("a finished training was discarded")
	}
	if err := (Adapter{t.TempDir()}).End(); code(err) != problem.NotFound {
		t.Errorf("the end of nothing: %v", err)
	}
}

// TestForeignDataFolders: the data of a run are removed, and not the file that they come from.
func TestForeignDataFolders(t *testing.T) {
	o := resolved(t, Options{BatchSize: 1})
	path := writeLines(t, "x.jsonl", repeat(plain, 11)...)
	temp := t.TempDir()
	for _, name := range []string{folderOfRun + "1", "mlx"} { // of a killed run, and of mlx
		if err := os.Mkdir(filepath.Join(temp, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, done, err := dataFolder(path, temp, o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ReadData(t.Context(), dir, demoProcessor(t), o)
	if err != nil || d.Train.Samples != 10 || d.Valid.Samples != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	done()
	if left, _ := os.ReadDir(temp); len(left) != 1 || left[0].Name() != "mlx" {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	folder := t.TempDir()
	dir, done, err = dataFolder(folder, temp, o)
	if err != nil || dir != folder {
		t.Errorf("a folder: %s, %v", dir, err)
	}
	done()
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

func TestForeignMemo(t *testing.T) {
	for _, text := range []string{`{`, `{}`, `{"adapter": "a", "modelDir": "/m", "data": "/d"}`} {
		if _, err := new(Trainer).Recreate(json.RawMessage(text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// TestCheckedOnce: data are read again only after they or the options have changed.
func TestCheckedOnce(t *testing.T) {
	model := trainableModel(t)
	var c checkedData
	path := writeLines(t, "x.jsonl", completion, completion)
	o := resolved(t, Options{BatchSize: 1})
	first, err := c.read(t.Context(), model, path, o)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.read(t.Context(), model, path, o); again.Train != first.Train {
		t.Error("read again without a change")
	}
	o.MaxSeqLength = 3
	if cut, _ := c.read(t.Context(), model, path, o); cut.Train == nil || cut.Train.Cut != 2 {
		t.Errorf("a shorter length: %+v", cut.Train)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	o.MaxSeqLength = 4
	if _, err := c.read(gone, model, path, o); err == nil {
		t.Error("a cancelled check has succeeded")
	}
	if _, err := c.read(t.Context(), model, path, o); err != nil {
		t.Errorf("after a cancelled check: %v", err)
	}
}

func TestThin(t *testing.T) {
	var all []Loss
	for i := range 2500 {
		all = append(all, Loss{i, 1})
	}
	if points := thin(all); len(points) > maxLosses || points[len(points)-1].Iteration != 2499 {
		t.Errorf("%d points, the last is %+v", len(points), points[len(points)-1])
	}
	if points := thin(nil); points == nil || len(points) != 0 {
		t.Errorf("none: %v", points)
	}
}
