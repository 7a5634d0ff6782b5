package train

// The folder of an adapter. mlx-lm writes adapters.safetensors and adapter_config.json into it;
// launch.py the checkpoints, 0000100_adapters.safetensors; and this package the record of the
// training and the log of its process.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"headroom/app/disk"
	"headroom/app/library"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

const (
	recordName  = library.TrainingRecord
	logName     = "training.log"
	weightsName = "adapters.safetensors"
	configName  = "adapter_config.json"
	// optimizerName is the state of the optimizer of a paused training.
	optimizerName = "optimizer.safetensors"
)

// Record is what is written about a training into the adapter's folder.
type Record struct {
	Model        string `json:"model"` // folder
	Data         string `json:"data"`  // folder
	FineTuneType string `json:"fine_tune_type"`
	NumLayers    int    `json:"num_layers"`
	Rank         int    `json:"rank"`
	Iters        int    `json:"iters"`
	Finished     bool   `json:"finished"`
}

// Adapter is the folder of an adapter.
type Adapter struct{ Dir string }

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// DefaultAdapter returns the folder for an adapter of a model and its data: in "adapters" of
// Headroom's models folder. It is "" without a home folder.
func DefaultAdapter(model, data string) string {
	own := library.Own()
	if own == "" {
		return ""
	}
	name := filepath.Base(model) + "-" + strings.TrimSuffix(filepath.Base(data), ".jsonl")
	return filepath.Join(own, adaptersName, cleanName(name[:min(len(name), maxName)]))
}

// maxName is the length of the longest name that DefaultAdapter makes. Others may add a number.
const maxName = 200

// adaptersName is the folder of adapters in Headroom's models folder.
const adaptersName = "adapters"

// cleanName returns a name without what does not belong into the name of a folder.
func cleanName(name string) string {
	return strings.Trim(notInName.ReplaceAllString(name, "-"), ".-")
}

// Log returns the path of the log.
func (a Adapter) Log() string { return filepath.Join(a.Dir, logName) }

// openLog opens the log. A link, a pipe or a folder in its place is an error: a folder that
// somebody else has made must not decide which file is written.
func (a Adapter) openLog(mode int) (*os.File, error) {
	f, err := os.OpenFile(a.Log(), mode|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
		_ = f.Close()
	}
	if err == nil || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%s is not a file but a link, a pipe or a folder: move it elsewhere",
			a.Log())
	}
	return nil, err
}

// Losses returns the reports of losses that the log has of the iterations up to the start.
func (a Adapter) Losses(s Start) (events []Event) {
	if s.Done == 0 {
		return nil
	}
	f, err := a.openLog(os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	lines := bufio.NewScanner(f) // it ends at a line that is too long, which is no event
	for lines.Scan() {
		e, ok := parseEvent(lines.Text())
		if ok && e.Iteration <= s.Done && (e.TrainLoss != nil || e.ValidLoss != nil) {
			events = append(events, e)
		}
	}
	return events
}

var checkpointName = regexp.MustCompile(`^(\d{7,9})_adapters\.safetensors$`)

// Latest returns the checkpoint with the most iterations that can be read, and the number of its
// iterations; "" and 0 if there is none.
func (a Adapter) Latest() (path string, done int) {
	for _, name := range slices.Backward(a.checkpoints()) {
		path := filepath.Join(a.Dir, name)
		f, err := safetensors.Open(path) // it checks the header and the size
		if err != nil {
			continue
		}
		_ = f.Close()
		done, _ := strconv.Atoi(checkpointName.FindStringSubmatch(name)[1])
		return path, done
	}
	return "", 0
}

// checkpoints returns the names of the checkpoints by their numbers of iterations.
func (a Adapter) checkpoints() (names []string) {
	entries, _ := os.ReadDir(a.Dir)
	for _, e := range entries {
		if checkpointName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return len(a) - len(b) + strings.Compare(a, b)*btoi(len(a) == len(b))
	})
	return names
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read returns the record; ok is false if there is none.
func (a Adapter) read() (r Record, ok bool, err error) {
	data, err := modelfile.Read(filepath.Join(a.Dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err == nil, err
}

func (a Adapter) write(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(a.Dir, recordName), append(data, '\n'), 0o644)
}

// Start is where a training starts: at 0 or after the iterations of earlier runs.
type Start struct {
	Done       int
	Checkpoint string // "" if Done is 0
}

// Check reports where the training starts. It refuses to write over an adapter without force, and
// to resume a training of something else. It changes nothing. The error is a Problem.
func (a Adapter) Check(want Record, resume, force bool) (Start, error) {
	was, recorded, err := a.read()
	if err != nil && !force {
		return Start{}, notStarted(problem.BadRequest, "Choose another --adapter-path, or begin "+
			"anew by --force.", "%s cannot be read: %v", filepath.Join(a.Dir, recordName), err)
	}
	has := len(a.checkpoints()) > 0
	for _, name := range []string{weightsName, configName} {
		has = has || a.has(name)
	}
	other := "" // a file of somebody else, with a name that a training writes
	for _, name := range []string{logName, optimizerName} {
		if !recorded && a.has(name) {
			other = name
		}
	}
	checkpoint, done := a.Latest()
	switch {
	case resume && force:
		return Start{}, notStarted(problem.BadRequest, "Leave one of them out.",
			"--resume goes on and --force begins anew")
	case resume:
		return a.resume(was, recorded, want, Start{done, checkpoint})
	case force:
		return Start{}, nil
	case recorded && !was.Finished && done > 0:
		return Start{}, notStarted(problem.Exists, "Go on by --resume, begin anew by --force, or "+
			"choose another --adapter-path.", "%s has a training that was stopped after %d of %d "+
			"iterations", a.Dir, done, was.Iters)
	case has && !(recorded && !was.Finished): // a training that has saved nothing is begun again
		return Start{}, notStarted(problem.Exists, "Choose another --adapter-path, or write over "+
			"it by --force.", "%s has an adapter already", a.Dir)
	case other != "":
		return Start{}, notStarted(problem.Exists, "Choose another --adapter-path, or write over "+
			"it by --force.", "%s has a file %s that no training of Headroom has written", a.Dir,
			other)
	}
	return Start{}, nil
}

// has reports whether the folder has an entry of that name.
func (a Adapter) has(name string) bool {
	_, err := os.Lstat(filepath.Join(a.Dir, name))
	return err == nil
}

func (a Adapter) resume(was Record, recorded bool, want Record, s Start) (Start, error) {
	refuse := func(fix, why string, values ...any) (Start, error) {
		return Start{}, notStarted(problem.BadRequest, fix, why, values...)
	}
	switch {
	case s.Done == 0:
		return refuse("Leave --resume out.", "%s has no checkpoint to go on from", a.Dir)
	case s.Done >= want.Iters:
		return refuse("Use a larger --iters to train further.", "--iters is %d, and %s has a "+
			"checkpoint of %d iterations", want.Iters, a.Dir, s.Done)
	case !recorded:
		return s, nil
	}
	for _, v := range []struct {
		flag      string
		was, want any
	}{{"the model", was.Model, want.Model}, {"--fine-tune-type", was.FineTuneType,
		want.FineTuneType}, {"--num-layers", was.NumLayers, want.NumLayers},
		{"rank", was.Rank, want.Rank}} {
		if v.was != v.want {
			return refuse("Use the same, or begin anew by --force.",
				"%s is %v, and the training in %s began with %v", v.flag, v.want, a.Dir, v.was)
		}
	}
	return s, nil
}

// Begin makes the folder ready for a training that Check has allowed. Without a checkpoint to go on
// from, it removes what an earlier training has written, and nothing else.
func (a Adapter) Begin(want Record, s Start) error {
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return adapterProblem(err)
	}
	if s.Done == 0 {
		if err := a.clear(); err != nil {
			return adapterProblem(err)
		}
	}
	// mlx-lm writes its config anew, and would write through a link.
	config := filepath.Join(a.Dir, configName)
	if info, err := os.Lstat(config); err == nil && !info.Mode().IsRegular() {
		if err := os.Remove(config); err != nil {
			return adapterProblem(err)
		}
	}
	want.Finished = false
	if err := a.write(want); err != nil {
		return adapterProblem(err)
	}
	return nil
}

// clear removes what a training has written, and nothing else.
func (a Adapter) clear() error {
	for _, name := range append(a.checkpoints(), weightsName, configName, recordName, logName,
		optimizerName) {
		err := os.Remove(filepath.Join(a.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Discard removes an unfinished training of these data. Anything else in the folder stays.
func (a Adapter) Discard(data string) error {
	r, ok, err := a.read()
	if err != nil || !ok || r.Finished || r.Data != data {
		return err
	}
	if err := a.clear(); err != nil {
		return adapterProblem(err)
	}
	_ = os.Remove(a.Dir) // it stays if others have put something there
	return nil
}

// End makes the adapter of a paused training a finished one: it stays as its latest checkpoint is.
// The error is a Problem.
func (a Adapter) End() error {
	r, ok, err := a.read()
	if err == nil && !ok {
		err = fmt.Errorf("%s has no training", a.Dir)
	}
	if err == nil {
		err = a.finish(r)
	}
	if err != nil {
		return problem.Wrap(problem.NotFound, err, "The training has no adapter yet",
			"Resume it until a checkpoint is saved, or discard it.")
	}
	return nil
}

func adapterProblem(err error) error {
	return problem.Wrap(problem.Internal, err, "The adapter's folder cannot be written", "")
}

// finish records that a training has ended. The checkpoints stay: an earlier one may be better.
func (a Adapter) finish(r Record) error {
	f, err := safetensors.Open(filepath.Join(a.Dir, weightsName))
	if err != nil {
		return fmt.Errorf("the adapter was not written: %w", err)
	}
	_ = f.Close()
	if err := os.Remove(filepath.Join(a.Dir, optimizerName)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Finished = true
	return a.write(r)
}
