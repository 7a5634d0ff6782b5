package notify

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/update"
	"headroom/engine/problem"
)

const gib = 1 << 30

// machine returns the models of a computer with room for 12.0 GB. The model o/small fits, o/large
// does not, and o/broken cannot be loaded.
func machine() host.ModelList {
	place := func(dir string) []host.Place { return []host.Place{{Path: dir}} }
	return host.ModelList{RoomBytes: 12 * gib, Models: []host.Model{
		{ID: "o/small", Places: place("/m/small"), NeedBytes: 3 * gib / 2, Fits: memory.Yes,
			State: library.Ready},
		{ID: "o/large", Places: place("/m/large"), NeedBytes: 20 * gib, Fits: memory.No},
		{ID: "o/broken", Places: place("/m/broken"), Error: "config.json is empty.",
			Fits: memory.No},
	}}
}

func job(kind jobs.Kind, title, dir string, state jobs.State) jobs.Job {
	return jobs.Job{ID: "j-" + title, Kind: kind, Title: title, Result: dir, State: state}
}

func finished(id string) host.ModelChange {
	return host.ModelChange{Kind: library.Finished, ID: id, State: library.Ready}
}

func failedEngine(why string) host.State {
	return host.State{Engine: host.EngineState{Status: host.Failed, Model: "o/small",
		Error: &host.Error{Message: "The model does not fit", Why: why, Fix: "Close other apps."}}}
}

// short is the state while memory is short, with the models that could be unloaded.
func short(level memory.Level, advice ...string) (s host.State) {
	s.Pressure.Level = level
	for _, model := range advice {
		s.Pressure.Advice = append(s.Pressure.Advice,
			host.UnloadAdvice{Model: model, FreesBytes: 3 * gib / 2})
	}
	return s
}

// words returns one line for each notice: its title, its body, and the label and model of a click.
func words(notices []Notice) (lines []string) {
	for _, n := range notices {
		lines = append(lines, n.Title+" | "+n.Body+" | "+n.Label+" "+n.Start)
	}
	return lines
}

func TestNews(t *testing.T) {
	gpu := host.State{Engine: host.EngineState{Status: host.Ready,
		Notice: &host.Error{Message: "The CPU computes", Why: "the GPU failed its self-test"}}}
	cases := []struct {
		name          string
		before, after snapshot
		want          []string
	}{
		{"nothing happens", snapshot{}, snapshot{}, nil},
		{"a download ends",
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "", jobs.Running)}},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "/m/small", jobs.Done)}},
			[]string{"o/small is downloaded | It needs 1.5 GB, 12.0 GB is available. | " +
				"Start o/small"}},
		{"the download had already ended",
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "/m/small", jobs.Done)}},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "/m/small", jobs.Done)}}, nil},
		{"the model is not in the list yet", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/new", "/m/new", jobs.Done)}},
			[]string{"o/new is downloaded | It runs on this computer. | Start /m/new"}},
		{"an import ends", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Import, "small", "/m/small", jobs.Done)}},
			[]string{"small is imported | It needs 1.5 GB, 12.0 GB is available. | " +
				"Start o/small"}},
		{"a training ends", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Training, "lamps", "/m/adapters/lamps", jobs.Done)}},
			[]string{"lamps is trained | The adapter is beside your models. | Open Headroom "}},
		{"a training fails", snapshot{},
			snapshot{jobs: []jobs.Job{{ID: "1", Kind: jobs.Training, Title: "lamps",
				State: jobs.Failed, Err: problem.New(problem.Internal, "Failed", "why", "")}}},
			[]string{"lamps could not be trained | Why. | Open Headroom "}},
		{"too large to start", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/large", "/m/large", jobs.Done)}},
			[]string{"o/large is downloaded | It needs 20.0 GB, 12.0 GB is available. | " +
				"Open Headroom "}},
		{"downloaded but broken", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/broken", "/m/broken", jobs.Done)}},
			[]string{"o/broken is downloaded | It cannot be started: config.json is empty. | " +
				"Open Headroom "}},
		{"a download fails", snapshot{},
			snapshot{jobs: []jobs.Job{{ID: "1", Kind: jobs.Download, Title: "o/m",
				State: jobs.Failed,
				Err: problem.New(problem.Internal, "The disk is full", "30 GB are needed",
					"Make room.")}}},
			[]string{"o/m could not be downloaded | 30 GB are needed. Make room. | " +
				"Open Headroom "}},
		{"a failure with only a message", snapshot{},
			snapshot{jobs: []jobs.Job{{ID: "1", Kind: jobs.Import, Title: "m", State: jobs.Failed,
				Err: problem.New(problem.Internal, "The disk is full", "", "")}}},
			[]string{"m could not be imported | The disk is full | Open Headroom "}},
		{"an import fails again",
			snapshot{jobs: []jobs.Job{{ID: "1", Kind: jobs.Import, State: jobs.Failed,
				Err: errors.New("x")}}},
			snapshot{jobs: []jobs.Job{{ID: "1", Kind: jobs.Import, Title: "m", State: jobs.Failed,
				Err:       problem.New(problem.Internal, "The disk is full", "", ""),
				StartedAt: time.Unix(9, 0)}}},
			[]string{"m could not be imported | The disk is full | Open Headroom "}},
		{"the user stops a download", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "", jobs.Stopped)}}, nil},
		{"another program's download ends", snapshot{},
			snapshot{changes: []host.ModelChange{finished("o/small")}},
			[]string{"o/small is complete | It needs 1.5 GB, 12.0 GB is available. | " +
				"Start o/small"}},
		{"Headroom's download is announced once", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Download, "O/Small", "", jobs.Running)},
				changes: []host.ModelChange{finished("o/small")}}, nil},
		{"complete, then removed", snapshot{},
			snapshot{changes: []host.ModelChange{finished("o/gone")}},
			[]string{"o/gone is complete | It runs on this computer. | Open Headroom "}},
		{"other changes", snapshot{},
			snapshot{changes: []host.ModelChange{{Kind: library.Appeared, ID: "o/small"},
				{Kind: library.Vanished, ID: "o/large"}}}, nil},
		{"the engine fails",
			snapshot{state: host.State{Engine: host.EngineState{Status: host.Loading}}},
			snapshot{state: failedEngine("it needs 19.4 GB")},
			[]string{"o/small did not start | It needs 19.4 GB. Close other apps. | " +
				"Open Headroom "}},
		{"it stays failed", snapshot{state: failedEngine("it needs 19.4 GB")},
			snapshot{state: failedEngine("it needs 19.4 GB")}, nil},
		{"it fails for another reason", snapshot{state: failedEngine("a")},
			snapshot{state: failedEngine("éa")},
			[]string{"o/small did not start | Éa. Close other apps. | Open Headroom "}},
		{"the GPU is not used", snapshot{}, snapshot{state: gpu},
			[]string{"The CPU computes | The GPU failed its self-test. | Open Headroom "}},
		{"the GPU is still not used", snapshot{state: gpu}, snapshot{state: gpu}, nil},
		{"memory gets short", snapshot{}, snapshot{state: short(memory.Warning, "o/small")},
			[]string{"Memory is short | Unloading o/small would free 1.5 GB. | Open Headroom "}},
		{"memory gets shorter", snapshot{state: short(memory.Warning, "o/small")},
			snapshot{state: short(memory.Critical, "o/small")},
			[]string{"Memory is very short | Unloading o/small would free 1.5 GB. | " +
				"Open Headroom "}},
		{"memory is less short", snapshot{state: short(memory.Critical, "o/small")},
			snapshot{state: short(memory.Warning, "o/small")}, nil},
		{"memory is short, and no model is loaded", snapshot{},
			snapshot{state: short(memory.Critical)}, nil},
		{"an update", snapshot{}, snapshot{update: update.Known{Version: "1.4.0"}},
			[]string{"Headroom 1.4.0 is available | Settings has what is new in it. | " +
				"Open Headroom "}},
		{"an update is ready", snapshot{update: update.Known{Version: "1.4.0"}},
			snapshot{update: update.Known{Version: "1.4.0", Ready: true}},
			[]string{"Headroom 1.4.0 is ready | It is installed when Headroom quits. | " +
				"Open Headroom "}},
		{"an update that is not wanted",
			snapshot{update: update.Known{Version: "1.4.0", Ready: true}},
			snapshot{update: update.Known{Version: "1.4.0"}}, nil},
		{"a name from a file", snapshot{},
			snapshot{jobs: []jobs.Job{job(jobs.Import, "a\nb\x00"+strings.Repeat("x", 300),
				"/m/small", jobs.Done)}},
			[]string{"a b " + strings.Repeat("x", 195) +
				"… is imported | It needs 1.5 GB, 12.0 GB is available. | Start o/small"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.before.models, c.after.models = machine, machine
			c.before.rescan, c.after.rescan = func() {}, func() {}
			var n news
			n.first(c.before)
			if got := words(n.since(c.after)); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
			c.after.changes = nil
			if again := n.since(c.after); len(again) > 0 {
				t.Errorf("reported twice: %q", words(again))
			}
		})
	}
}

// If a job ends before the list has its model, the folders are scanned.
func TestScanAfterJob(t *testing.T) {
	list := machine()
	list.Models[0].State, list.Models[0].Error = library.Downloading, "1 file is here in part"
	l := snapshot{jobs: []jobs.Job{job(jobs.Download, "o/small", "/m/small", jobs.Done)},
		models: func() host.ModelList { return list }, rescan: func() { list = machine() }}
	var n news
	if got := n.since(l); len(got) != 1 || got[0].Start != "o/small" {
		t.Errorf("%q", words(got))
	}
}
