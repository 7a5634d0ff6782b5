package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/demo"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// fakeName names what a fake Python does; the test's own program is the fake.
const fakeName = "HEADROOM_FAKE_PYTHON"

func TestMain(m *testing.M) {
	if kind := os.Getenv(fakeName); kind != "" {
		fakes[kind](argument("--adapter-path"))
		return
	}
	os.Exit(m.Run())
}

func argument(flag string) string {
	for i, arg := range os.Args[:len(os.Args)-1] {
		if arg == flag {
			return os.Args[i+1]
		}
	}
	return ""
}

// fakes are programs in place of Python with launch.py. dir is the adapter's folder.
var fakes = map[string]func(dir string){
	"finishes": func(dir string) {
		fmt.Println("Loading pretrained model")
		event(`"started", "iteration": 0, "iterations": 3`)
		fmt.Println(strings.Repeat("x", 2*maxOutput))
		for i := 1; i <= 3; i++ {
			event(`"iteration", "iteration": %d`, i)
		}
		event(`"train", "iteration": 3, "train_loss": 1.5, "learning_rate": 1e-05,
			"iterations_per_second": 2, "tokens_per_second": 30, "trained_tokens": 90,
			"peak_memory": 0.25`)
		weights(dir, weightsName)
		event(`"finished", "iteration": 3`)
	},
	"writes nothing": func(string) { event(`"finished", "iteration": 3`) },
	"pauses": func(dir string) {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, syscall.SIGINT)
		event(`"iteration", "iteration": 2`)
		<-interrupts
		weights(dir, "0000002_adapters.safetensors")
		event(`"paused", "iteration": 2`)
		os.Exit(pausedCode)
	},
	"raises": func(dir string) {
		weights(dir, "0000001_adapters.safetensors")
		fmt.Fprintln(os.Stderr, "Traceback (most recent call last):\n  File \"x.py\", line 1\n"+
			"KeyError: 'scale'")
		os.Exit(1)
	},
	"is killed":   func(string) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"crashes":     func(string) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM); select {} },
	"ends early":  func(string) { fmt.Println("Loading pretrained model") },
	"says nought": func(string) { os.Exit(3) },
	"has no memory": func(string) {
		fmt.Fprintln(os.Stderr, "RuntimeError: [metal::malloc] Attempting to allocate 9 bytes")
		os.Exit(1)
	},
	"is nice": func(dir string) {
		n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		fmt.Println(n, err)
		// Linux's system call returns 20 minus the niceness.
		if n != 20-niceness && n != niceness {
			os.Exit(1)
		}
		weights(dir, weightsName)
		event(`"finished", "iteration": 3`)
	},
}

func event(format string, values ...any) {
	text := fmt.Sprintf(`{"event": `+format+"}", values...)
	fmt.Println(eventMark + strings.Join(strings.Fields(text), " "))
}

func weights(dir, name string) {
	f, err := os.Create(filepath.Join(dir, name))
	if err == nil {
		err = safetensors.Write(f, []safetensors.Tensor{{Name: "a", DType: "F32",
			Shape: []int{1}, Data: make([]byte, 4)}}, nil)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
}

// fakeRun returns a run of a fake in a new folder.
func fakeRun(t *testing.T, kind string) *Run {
	t.Helper()
	t.Setenv(fakeName, kind)
	o := &Options{Iters: 3}
	if err := o.Resolve(&Shape{Layers: 4}); err != nil {
		t.Fatal(err)
	}
	r := &Run{Python: []string{os.Args[0]}, Model: "/models/m", Data: "/data",
		Adapter: Adapter{filepath.Join(t.TempDir(), "a")}, Options: o,
		Record: Record{Model: "/models/m", FineTuneType: "lora", NumLayers: 4, Rank: 8, Iters: 3}}
	if err := r.Adapter.Begin(r.Record, r.Start); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProgress(t *testing.T) {
	r := fakeRun(t, "finishes")
	second := time.Unix(0, 0)
	r.now = func() time.Time { second = second.Add(time.Second); return second }
	var got []string
	var left []time.Duration
	r.Progress = func(p Progress) {
		got = append(got, fmt.Sprintf("%s %d/%d", p.Kind, p.Done, p.Of))
		left = append(left, p.Left)
		if p.Kind == "train" && (*p.TrainLoss != 1.5 || p.LearningRate != 1e-5 ||
			p.TrainedTokens != 90 || p.PeakGB != 0.25) {
			t.Errorf("%+v", p)
		}
	}
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "[started 0/3 iteration 1/3 iteration 2/3 iteration 3/3 train 3/3 finished 3/3]"
	if text := fmt.Sprint(got); text != want {
		t.Errorf("got %s, expected %s", text, want)
	}
	if left[1] != 0 || left[2] <= 0 || left[5] != 0 {
		t.Errorf("time left: %v, expected none, then some, then none", left)
	}
	if _, err := r.Adapter.Check(r.Record, false, false); code(err) != problem.Exists {
		t.Errorf("a finished adapter: %v", err)
	}
	if log, err := os.ReadFile(r.Adapter.Log()); err != nil ||
		!strings.HasPrefix(string(log), "Loading pretrained model\n"+eventMark) {
		t.Errorf("log: %v, %.80q", err, log)
	}
}

func code(err error) problem.Code {
	if err == nil {
		return ""
	}
	return problem.From(err).Code
}

func TestPriority(t *testing.T) {
	// The priority is set after the start, so the fake may read it too early.
	for range 50 {
		if fakeRun(t, "is nice").Train(t.Context()) == nil {
			return
		}
	}
	t.Error("the process never had the low priority")
}

func TestFailures(t *testing.T) {
	for kind, want := range map[string]string{
		"raises":        "mlx-lm ended with: KeyError: 'scale'|--resume goes on after iteration 1.",
		"is killed":     "its process was killed, as the system does when memory runs out",
		"crashes":       "its process crashed: terminated",
		"ends early":    "its process ended before the training did",
		"says nought":   "its process ended: exit status 3",
		"has no memory": "memory has run out: RuntimeError: [metal::malloc]|--grad-checkpoint",
	} {
		t.Run(kind, func(t *testing.T) {
			r := fakeRun(t, kind)
			p := problem.From(r.Train(t.Context()))
			text := p.Why + " " + p.Fix
			for part := range strings.SplitSeq(want+"|"+r.Adapter.Log(), "|") {
				if !strings.Contains(text, part) {
					t.Errorf("got %q, expected %q", text, part)
				}
			}
			if rec, ok, err := r.Adapter.read(); !ok || err != nil || rec.Finished {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		})
	}
	if err := fakeRun(t, "writes nothing").Train(t.Context()); err == nil {
		t.Error("a training without an adapter has succeeded")
	}
	r := fakeRun(t, "finishes")
	r.Python = []string{filepath.Join(t.TempDir(), "none")}
	if p := problem.From(r.Train(t.Context())); p.Message != "The training could not be started" {
		t.Errorf("no Python: %+v", p)
	}
}

func TestPauseAndResume(t *testing.T) {
	r := fakeRun(t, "pauses")
	ctx, pause := context.WithCancel(t.Context())
	r.Progress = func(p Progress) { pause() }
	if err := r.Train(ctx); !errors.Is(err, ErrPaused) {
		t.Fatalf("got %v, expected ErrPaused", err)
	}
	if _, err := r.Adapter.Check(r.Record, false, false); code(err) != problem.Exists {
		t.Errorf("beginning anew without --force: %v", err)
	}
	start, err := r.Adapter.Check(r.Record, true, false)
	if err != nil || start.Done != 2 {
		t.Fatalf("resume: %+v, %v", start, err)
	}
	r.Start = start
	args := strings.Join(r.args()[2:], " ")
	for _, want := range []string{"--iters 1 ", "--seed 2 ",
		"--resume-adapter-file " + start.Checkpoint} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments %s, expected %s", args, want)
		}
	}
	other := r.Record
	other.NumLayers = 2
	if _, err := r.Adapter.Check(other, true, false); err == nil ||
		!strings.Contains(problem.From(err).Why, "--num-layers is 2") {
		t.Errorf("other layers: %v", err)
	}
	other = r.Record
	other.Iters = 2
	if _, err := r.Adapter.Check(other, true, false); err == nil {
		t.Error("resume without iterations that are left")
	}
}

// TestForeignFilesInEnvironment: only folders that Install makes are removed, and no link followed.
func TestForeignFilesInEnvironment(t *testing.T) {
	e, elsewhere := Environment{t.TempDir()}, t.TempDir()
	own := []string{filepath.Base(e.current()), "mlx-lm-0123456789ab", ".installing"}
	foreign := []string{"venv", "mlx-lm-mine", "mlx-lm-0123456789abc"}
	for _, name := range append(own, foreign...) {
		if err := os.MkdirAll(filepath.Join(e.dir, name, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(e.dir, "mlx-lm-aaaaaaaaaaaa")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	weights(elsewhere, weightsName)
	bundled, err := e.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	own = append(own, filepath.Base(bundled))
	if err := e.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if _, err := os.Lstat(filepath.Join(e.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range append(foreign, filepath.Base(link)) {
		if _, err := os.Lstat(filepath.Join(e.dir, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, weightsName)); err != nil {
		t.Error(err)
	}
	if (Environment{filepath.Join(t.TempDir(), "none")}).Remove() != nil {
		t.Error("no environment was an error")
	}
}

// TestBundled: the folder is a model whose adapters belong to the bundled one, and what has changed
// in it is written anew.
func TestBundled(t *testing.T) {
	e := Environment{t.TempDir()}
	dir, err := e.Bundled()
	if err != nil || filepath.Base(dir) != demo.ID {
		t.Fatalf("%s, %v", dir, err)
	}
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Bundled(); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadShape(dir); err != nil || s.Layers != 12 {
		t.Errorf("%d layers, %v", s.Layers, err)
	}
	if _, err := (Environment{}).Bundled(); err == nil {
		t.Error("without a home folder: no error")
	}
}

// TestForeignCheckpoints: what another program has trained is not removed without --force.
func TestForeignCheckpoints(t *testing.T) {
	for _, name := range []string{"0000100_adapters.safetensors", weightsName, configName} {
		a := Adapter{t.TempDir()}
		weights(a.Dir, name)
		if _, err := a.Check(Record{}, false, false); code(err) != problem.Exists {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLatest: a checkpoint that was cut while it was written is not used.
func TestLatest(t *testing.T) {
	a := Adapter{t.TempDir()}
	if path, done := a.Latest(); path != "" || done != 0 {
		t.Errorf("an empty folder: %s, %d", path, done)
	}
	for _, name := range []string{"0000900_adapters.safetensors", "12000000_adapters.safetensors",
		"x_adapters.safetensors"} {
		weights(a.Dir, name)
	}
	if _, done := a.Latest(); done != 12000000 {
		t.Errorf("got %d", done)
	}
	if err := os.Truncate(filepath.Join(a.Dir, "12000000_adapters.safetensors"), 20); err != nil {
		t.Fatal(err)
	}
	if _, done := a.Latest(); done != 900 {
		t.Errorf("got %d, expected the one that is whole", done)
	}
	foreign := filepath.Join(a.Dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Begin(Record{}, Start{}); err != nil {
		t.Fatal(err)
	}
	if _, done := a.Latest(); done != 0 {
		t.Error("a checkpoint is left")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file of somebody else was removed")
	}
}
