package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestShardsAreTheExtraSteps checks that make test-all and CI have the same steps: each extra step
// of build/test but fuzz, which has its own rule, is a shard.
func TestShardsAreTheExtraSteps(t *testing.T) {
	script := "../test"
	if _, err := os.ReadFile(script); err != nil {
		t.Fatal(err) // reading the script makes it an input of go test's cache
	}
	text, err := exec.Command(script, "extra_steps").Output()
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Fields(string(text))
	var names []string
	for _, s := range shards {
		names = append(names, s.name)
	}
	names = append(names, "fuzz")
	slices.Sort(steps)
	slices.Sort(names)
	if !slices.Equal(steps, names) {
		t.Errorf("build/test has the extra steps %v, CI has the shards %v", steps, names)
	}
}

// TestEveryShardHasATurn checks that turns consecutive commits run every shard and every fuzz
// target, whatever the first one is.
func TestEveryShardHasATurn(t *testing.T) {
	targets, err := fuzzTargets(os.DirFS("../.."))
	if err != nil || len(targets) < 30 {
		t.Fatalf("%d fuzz targets, %v", len(targets), err)
	}
	for first := 700; first < 700+turns; first++ {
		ran := map[any]int{}
		for n := first; n < first+turns; n++ {
			c := commit{number: n}
			for i, reason := range c.due() {
				if reason != "" {
					ran[shards[i].name]++
				}
			}
			for _, f := range dueTargets(targets, c) {
				ran[f]++
			}
		}
		for _, s := range shards {
			if ran[s.name] != 1 {
				t.Errorf("from commit %d, %s ran %d times, expected 1", first, s.name, ran[s.name])
			}
		}
		for _, f := range targets {
			if ran[f] != 1 {
				t.Errorf("from commit %d, %v ran %d times, expected 1", first, f, ran[f])
			}
		}
	}
}

// TestCIFitsItsTime checks that neither a turn nor a commit that changes everything takes more than
// maxTime, and that a shard's limit leaves room for a slower machine.
func TestCIFitsItsTime(t *testing.T) {
	for number := range turns {
		for _, all := range []bool{false, true} {
			c := commit{number: 100 + number, all: all}
			var takes time.Duration
			for i, reason := range c.due() {
				if strings.HasPrefix(reason, "due") {
					takes += shards[i].takes
				}
			}
			if takes > maxTime || !all && takes > maxTime/2 {
				t.Errorf("the shards of %+v take %v, expected at most %v, and half for a turn", c,
					takes, maxTime)
			}
		}
	}
	for _, s := range shards {
		if s.limit < 2*s.takes {
			t.Errorf("%s takes %v and fails after %v, expected at least twice the time", s.name,
				s.takes, s.limit)
		}
	}
}

func TestChangesMakeShardsDue(t *testing.T) {
	names := func(c commit) (due []string) {
		var out, log bytes.Buffer
		printDue(&out, &log, c)
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(line, " ")
			due = append(due, name)
		}
		if n := strings.Count(log.String(), "\n"); n != len(shards) {
			t.Errorf("%d lines of log, expected one for each of %d shards", n, len(shards))
		}
		return due
	}
	turn := names(commit{number: 3,
		changed: []string{"kernels/PERF.md", "kernels_x/a.c"}})
	changed := names(commit{number: 3, changed: []string{"kernels/attention/a.c"}})
	for _, name := range []string{"arm64_attention", "arm64_kernels", "race_attention",
		"long_kernels"} {
		if !slices.Contains(changed, name) {
			t.Errorf("kernels/attention makes %v due, expected %s too", changed, name)
		}
	}
	if len(turn) == 0 || len(turn) >= len(changed) || slices.Contains(changed, "arm64_recurrent") {
		t.Errorf("the turn's shards are %v, with a change of attention %v", turn, changed)
	}
}

func TestFuzzTargets(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	all, err := fuzzTargets(fstest.MapFS{
		"a/a_test.go":                file("func FuzzA(f *F) {}\nfunc FuzzB(f *F) {}"),
		"a/a.go":                     file("func FuzzNot(f *testing.F) {}"),
		"a/testdata/x_test.go":       file("func FuzzNot(f *testing.F) {}"),
		"node_modules/m/m_test.go":   file("func FuzzNot(f *testing.F) {}"),
		"engine/b/long_name_test.go": file("package b\n\nfunc FuzzC(f *testing.F) {}\n"),
	})
	want := []target{{"a", "FuzzA"}, {"a", "FuzzB"}, {"engine/b", "FuzzC"}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("got %v, %v; want %v", all, err, want)
	}
	due := dueTargets(all, commit{number: turns, changed: []string{"engine/b/x.go"}})
	if want := []target{{"a", "FuzzA"}, {"engine/b", "FuzzC"}}; !reflect.DeepEqual(due, want) {
		t.Errorf("due %v, want the one of the turn and the one whose package has changed", due)
	}
	var many []target
	for i := range 40 {
		many = append(many, target{"a", fmt.Sprint("Fuzz", i)})
	}
	due = dueTargets(many, commit{number: 3, changed: []string{"a/a.go"}})
	if len(due) != maxTargets || due[0].name != "Fuzz3" {
		t.Errorf("due %v, expected %d with those of the turn first", due, maxTargets)
	}
}

// TestReadCommit reads commits of a small repository.
func TestReadCommit(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run := func(day int, args ...string) {
		t.Helper()
		c := exec.Command("git", args...)
		date := fmt.Sprintf("2026-01-%02dT00:00:00Z", day)
		c.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@b")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
	run(1, "init", "-q")
	for day := 1; day <= turns+1; day++ {
		if err := os.WriteFile(fmt.Sprint("file", day), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		run(day, "add", ".")
		run(day, "commit", "-q", "-m", "x")
	}
	c, err := readCommit("")
	if err != nil || c.all || c.number != turns+1 ||
		!slices.Equal(c.changed, []string{"file10", "file2", "file3", "file4", "file5", "file6",
			"file7", "file8", "file9"}) {
		t.Errorf("got %+v, %v; expected commit 10 and the files of the last 9", c, err)
	}
	c, err = readCommit("HEAD~2")
	if err != nil || !slices.Equal(c.changed, []string{"file10", "file9"}) {
		t.Errorf("got %+v, %v; expected the files of the last 2", c, err)
	}
	for i := range turns { // a busy day
		if err := os.WriteFile(fmt.Sprint("more", i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		run(turns+2, "add", ".")
		run(turns+2, "commit", "-q", "-m", "x")
	}
	if c, err = readCommit(""); err != nil || len(c.changed) != turns {
		t.Errorf("got %+v, %v; expected the files of the day", c, err)
	}
	if _, err := readCommit("nonsense"); err == nil {
		t.Error("an unknown base gave no error")
	}
}
