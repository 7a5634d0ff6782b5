package train

// The process that trains. Each line of its output is either an event of launch.py or text of
// mlx-lm; all of it goes to the log in the adapter's folder.

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/engine/problem"
)

//go:embed launch.py
var launcher string

const (
	niceness   = 10
	pausedCode = 75 // PAUSED of launch.py
	eventMark  = "@headroom "
	maxOutput  = 64 << 10 // bytes of a line of output; what is beyond is dropped
)

// ErrPaused means that the training was paused. Its last checkpoint is saved.
var ErrPaused = errors.New("the training was paused")

// Run is one run of a training.
type Run struct {
	Python  []string // command of the interpreter
	Temp    string   // folder for temporary files; "": the system's
	Model   string   // folder
	Data    string   // folder
	Adapter Adapter
	Options *Options
	Start   Start
	Record  Record

	// Progress is called for every event, on one goroutine.
	Progress func(Progress)

	now func() time.Time // nil: time.Now
}

// Event is an event of launch.py. Its fields are mlx-lm's.
type Event struct {
	// Kind is started, iteration, train, valid, saved, paused, test or finished.
	Kind          string   `json:"event"`
	Iteration     int      `json:"iteration"`
	Iterations    int      `json:"iterations"` // of started: all
	TrainLoss     *float64 `json:"train_loss"`
	ValidLoss     *float64 `json:"val_loss"`
	TestLoss      *float64 `json:"test_loss"`
	LearningRate  float64  `json:"learning_rate"`
	PerSecond     float64  `json:"iterations_per_second"`
	TokensSecond  float64  `json:"tokens_per_second"`
	TrainedTokens int64    `json:"trained_tokens"`
	PeakGB        float64  `json:"peak_memory"`
	File          string   `json:"file"` // of saved
}

// Progress is an event and what is known so far.
type Progress struct {
	Event
	Done, Of int
	Left     time.Duration // until the end; 0: not known yet
}

// Command returns the command of the environment's interpreter. -I: neither variables of the
// environment nor the user's packages change what it runs.  -u: its output is in order.
func (e Environment) Command() []string { return []string{python(e.current()), "-I", "-u"} }

// args returns the arguments of the process.
func (r *Run) args() []string {
	o := r.Options
	args := append(r.Python[1:len(r.Python):len(r.Python)], "-c", launcher,
		strconv.Itoa(r.Start.Done), "--train", "--model", r.Model, "--data", r.Data,
		"--adapter-path", r.Adapter.Dir, "--iters", strconv.Itoa(o.Iters-r.Start.Done),
		// A run that goes on would otherwise begin with the same batches again.
		"--seed", strconv.Itoa(*o.Seed+r.Start.Done))
	args = append(args, o.given...)
	switch {
	case r.Start.Done > 0:
		args = append(args, "--resume-adapter-file", r.Start.Checkpoint)
	case o.ResumeAdapterFile != "":
		args = append(args, "--resume-adapter-file", o.ResumeAdapterFile)
	}
	return args
}

// Train runs the training. When ctx ends, it pauses: the iteration that is running ends and a
// checkpoint is saved. The error is then ErrPaused; otherwise it is a Problem.
func (r *Run) Train(ctx context.Context) error {
	log, err := r.Adapter.openLog(os.O_CREATE | os.O_WRONLY | os.O_APPEND)
	if err != nil {
		return adapterProblem(err)
	}
	defer log.Close()
	c := exec.Command(r.Python[0], r.args()...)
	c.Dir = r.Adapter.Dir
	// A process group of its own: Ctrl-C in the terminal reaches only this program, which pauses.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1",
		"HF_DATASETS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1")
	if r.Temp != "" {
		c.Env = append(c.Env, "TMPDIR="+r.Temp)
	}
	stdin, err := c.StdinPipe() // its end tells the process that this program has ended
	if err != nil {
		return trainingProblem(err)
	}
	defer stdin.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return trainingProblem(err)
	}
	defer out.Close()
	c.Stdout, c.Stderr = in, in
	err = c.Start()
	_ = in.Close()
	if err != nil {
		return trainingProblem(err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, c.Process.Pid, niceness)
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(syscall.SIGINT) })
	defer stop()
	o := &output{run: r, log: log}
	o.read(out)
	return r.outcome(c.Wait(), o)
}

func trainingProblem(err error) error {
	return problem.Wrap(problem.LowResources, err, "The training could not be started", "")
}

// output reads what the process prints.
type output struct {
	run      *Run
	log      io.Writer
	last     []string // the latest lines that are no events
	progress Progress
	finished bool

	first     time.Time // end of the first iteration of this run, which also compiles
	firstDone int
}

const keepLines = 200

func (o *output) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, maxOutput)
	for {
		line, err := lines.ReadSlice('\n')
		text := string(line)
		for errors.Is(err, bufio.ErrBufferFull) { // drop the rest of the line
			_, err = lines.ReadSlice('\n')
		}
		if text != "" {
			_, _ = io.WriteString(o.log, text)
			o.line(strings.TrimRight(text, "\r\n"))
		}
		if err != nil {
			return
		}
	}
}

func (o *output) line(line string) {
	if e, ok := parseEvent(line); ok {
		o.event(e)
		return
	}
	if line = strings.TrimSpace(line); line != "" {
		if len(o.last) == keepLines {
			o.last = o.last[1:]
		}
		o.last = append(o.last, line)
	}
}

// parseEvent returns the event of a line; ok is false if it has none.
func parseEvent(line string) (e Event, ok bool) {
	text, ok := strings.CutPrefix(line, eventMark)
	return e, ok && json.Unmarshal([]byte(text), &e) == nil
}

func (o *output) event(e Event) {
	now := time.Now
	if o.run.now != nil {
		now = o.run.now
	}
	p := &o.progress
	p.Event, p.Done = e, e.Iteration
	switch e.Kind {
	case "started":
		p.Of = e.Iterations
	case "finished":
		o.finished = true
	case "iteration":
		if o.first.IsZero() {
			o.first, o.firstDone = now(), e.Iteration
		}
	}
	if passed := e.Iteration - o.firstDone; !o.first.IsZero() && passed > 0 {
		each := now().Sub(o.first) / time.Duration(passed)
		p.Left = each * time.Duration(max(p.Of-p.Done, 0))
	}
	if o.run.Progress != nil {
		o.run.Progress(*p)
	}
}

// outOfMemory are parts of the messages of mlx, Metal and C++ when memory ends.
var outOfMemory = []string{"Insufficient Memory", "[metal::malloc]", "bad_alloc", "MemoryError",
	"Unable to allocate", "maximum allowed buffer size", "out of memory"}

// exception is the line of a Python exception that ends a traceback.
var exception = regexp.MustCompile(`^[\w.]*(Error|Exception|Exit): `)

// outcome returns the error of a process that has ended.
func (r *Run) outcome(err error, o *output) error {
	last := lastLine(strings.Join(o.last, "\n"))
	for _, line := range o.last { // its message may have many lines
		if exception.MatchString(line) {
			last = lastLine(line)
		}
	}
	var exit *exec.ExitError
	switch {
	case err == nil && o.finished:
		if err := r.Adapter.finish(r.Record); err != nil {
			return adapterProblem(err)
		}
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == pausedCode:
		return ErrPaused
	case err == nil:
		return r.failed(problem.Internal, "", "its process ended before the training did")
	}
	var status syscall.WaitStatus
	if exit != nil {
		status, _ = exit.Sys().(syscall.WaitStatus)
	}
	all := strings.Join(o.last, "\n")
	for _, text := range outOfMemory {
		if strings.Contains(all, text) {
			return r.failed(problem.LowResources, lessMemory, "memory has run out: %s", last)
		}
	}
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return r.failed(problem.LowResources, lessMemory,
			"its process was killed, as the system does when memory runs out")
	case status.Signaled():
		return r.failed(problem.Internal, "", "its process crashed: %v", status.Signal())
	case last == "":
		return r.failed(problem.Internal, "", "its process ended: %v", err)
	}
	return r.failed(problem.Internal, "", "mlx-lm ended with: %s", last)
}

const lessMemory = "Use --grad-checkpoint, or a smaller --batch-size, --max-seq-length or " +
	"--num-layers."

// failed returns the Problem of a training that has failed. It names the log, and the checkpoint if
// there is one.
func (r *Run) failed(code problem.Code, fix, why string, values ...any) error {
	if _, done := r.Adapter.Latest(); done > 0 {
		fix = strings.TrimSpace(fmt.Sprintf("%s --resume goes on after iteration %d.", fix, done))
	}
	fix = strings.TrimSpace(fix + " All output is in " + filepath.Clean(r.Adapter.Log()) + ".")
	return problem.New(code, "The training has failed", fmt.Sprintf(why, values...), fix)
}

// lastLine returns the last line that is not empty, at most 300 bytes of it.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(line[:min(len(line), 300)], "")
}
