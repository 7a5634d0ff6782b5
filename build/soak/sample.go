package main

// What a server uses while no request runs, and the comparison of samples over a run.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is taken at the end of a cycle, while the load pauses. restart marks the place between
// two samples where the server was started again; its other fields are zero.
type sample struct {
	restart     bool
	cycle       int
	goroutines  int
	descriptors int // of server and worker
	serverMB    int // resident memory
	workerMB    int
	cacheFiles  int
	cacheMB     int
	otherFiles  int // other files in the home folder
}

// take waits until no request is active, and takes a sample.
func (b *bench) take(ctx context.Context, cycle int) (sample, error) {
	s := sample{cycle: cycle}
	err := b.server.await(ctx, "an idle server", func() error {
		m, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		active := m["headroom_num_requests_running"] + m["headroom_num_requests_waiting"]
		if active > 0 || m["headroom_engine_memory_bytes{kind=\"weights\"}"] == 0 {
			return fmt.Errorf("%v requests are active, or no model is loaded", active)
		}
		s.goroutines = int(m["go_goroutines"])
		return nil
	})
	if err != nil {
		return s, err
	}
	worker, err := b.server.worker(ctx)
	if err != nil {
		return s, err
	}
	for _, p := range []struct {
		pid int
		mb  *int
	}{{b.server.pid(), &s.serverMB}, {worker, &s.workerMB}} {
		if *p.mb, err = residentMB(p.pid); err != nil {
			return s, err
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		if err != nil {
			return s, err
		}
		s.descriptors += len(open)
	}
	return s, b.server.await(ctx, "an index that lists the files of the cache", func() error {
		var state struct {
			Cache struct{ Entries int }
		}
		err := b.server.control(ctx, "GET", "/control/state", nil, &state)
		if err == nil {
			err = b.countFiles(&s)
		}
		if err == nil && state.Cache.Entries != s.cacheFiles {
			err = fmt.Errorf("the index lists %d files, the folder has %d", state.Cache.Entries,
				s.cacheFiles)
		}
		return err
	})
}

// countFiles counts the files of the cache and of the home folder.
func (b *bench) countFiles(s *sample) error {
	s.otherFiles = 0
	files, err := cacheFiles(b.cacheDir())
	if err != nil {
		return err
	}
	var bytes int64
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	s.cacheFiles, s.cacheMB = len(files), int(bytes>>20)
	return filepath.WalkDir(b.server.home, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			s.otherFiles++
		}
		return nil
	})
}

// metrics reads /metrics: from a metric's name with its labels to its value.
func (b *bench) metrics(ctx context.Context) (map[string]float64, error) {
	data, err := b.server.send(ctx, "GET", "/metrics", nil)
	if err != nil {
		return nil, err
	}
	m := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[name] = v
		}
	}
	return m, lines.Err()
}

// residentMB returns the resident memory of a process in MiB.
func residentMB(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, data)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize() >> 20, err
}

// children returns the process IDs of a process's children.
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "PID (NAME) STATE PARENT"; the name may contain spaces and parentheses.
		_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		if parent, _ := strconv.Atoi(fields[1]); parent == pid {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, id)
		}
	}
	return found, nil
}

// resource is a column of the samples that must not grow. slack is the growth that is no leak: a
// heap's size between collections, or connections that close later.
type resource struct {
	name  string
	of    func(sample) int
	slack func(before int) int
}

func constant(n int) func(int) int { return func(int) int { return n } }

var resources = []resource{
	{"goroutines", func(s sample) int { return s.goroutines }, constant(8)},
	{"descriptors", func(s sample) int { return s.descriptors }, constant(8)},
	{"server's memory, MiB", func(s sample) int { return s.serverMB },
		func(before int) int { return 20 + before/5 }},
	{"worker's memory, MiB", func(s sample) int { return s.workerMB },
		func(before int) int { return 20 + before/5 }},
	{"files besides the cache", func(s sample) int { return s.otherFiles }, constant(6)},
}

// minimumSamples is the length of a life of the server from which growth is judged.
const minimumSamples = 6

// growth compares the beginning and the end of each life of the server: the smallest value of a
// third of its samples, since a smallest value has no temporary peaks. The first sample is left
// out, because memory is still being filled.
func growth(samples []sample) []string {
	var found []string
	for _, life := range lives(samples) {
		if len(life) < minimumSamples+1 {
			continue
		}
		life = life[1:]
		third := len(life) / 3
		for _, r := range resources {
			before := slices.Min(values(life[:third], r.of))
			after := slices.Min(values(life[len(life)-third:], r.of))
			if after > before+r.slack(before) {
				found = append(found,
					fmt.Sprintf("%s grew from %d to %d between cycles %d and %d", r.name, before,
						after, life[0].cycle+1, life[len(life)-1].cycle+1))
			}
		}
	}
	return found
}

func values(samples []sample, of func(sample) int) []int {
	list := make([]int, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	return list
}

// lives splits samples at restarts.
func lives(samples []sample) [][]sample {
	var list [][]sample
	begin := 0
	for i := 0; i <= len(samples); i++ {
		if i == len(samples) || samples[i].restart {
			if i > begin {
				list = append(list, samples[begin:i])
			}
			begin = i + 1
		}
	}
	return list
}

// holdOf returns how long a fault lasts in cycles of this duration.
func holdOf(cycle time.Duration) time.Duration { return min(cycle/6, 20*time.Second) }
