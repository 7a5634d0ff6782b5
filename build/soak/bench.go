package main

// The course of a run: the answers alone, then cycles of load and faults, each followed by a pause
// with a sample, and the table of results.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	cacheBytes = 24 << 20 // limit of the cache: less than the conversations need, so it evicts
	diskSize   = "64m"
	demoName   = "headroom-demo"
	copyName   = "demo-copy" // the same weights with another config.json
)

// bench is a run.
type bench struct {
	o       options
	dir     string
	disk    string // folder of the cache
	ownDisk bool   // disk is a file system of its own, so that it can be filled
	server  *server
	load    *load
	random  *rand.Rand
	loaded  string // name of the loaded model
	samples []sample
	done    map[string]*outcome // by the name of the fault
}

// outcome counts what became of a kind of fault.
type outcome struct {
	times   int
	slowest time.Duration // until the next equal answer
	skipped bool
}

// run runs the cycles and writes the table. It returns the number of broken invariants.
func run(ctx context.Context, o options) (broken int, err error) {
	b := &bench{o: o, random: rand.New(rand.NewPCG(o.seed, 2)), loaded: demoName,
		done: map[string]*outcome{}}
	if o.program, err = filepath.Abs(o.program); err != nil {
		return 0, err
	}
	if b.dir, err = os.MkdirTemp("", "headroom-soak-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	talks, err := b.alone(ctx, o)
	if err != nil {
		return 0, err
	}
	if err := b.prepare(o.program); err != nil {
		return 0, err
	}
	defer b.unmount()
	b.load = &load{server: b.server, talks: talks}
	if err := b.server.start(ctx); err != nil {
		return 0, fmt.Errorf("%w; the log ends with: %s", err, b.server.tail())
	}
	defer func() { err = errors.Join(err, b.server.stop(false)) }()
	begin := time.Now()
	err = b.cycles(ctx)
	for _, g := range growth(b.samples) {
		b.load.breach("%s", g)
	}
	return len(b.load.breaches()), errors.Join(err, b.report(time.Since(begin)))
}

// alone returns the conversations with the answers of a server without caches.
func (b *bench) alone(ctx context.Context, o options) ([]talk, error) {
	alone, err := newServer(o.program, filepath.Join(b.dir, "alone"), "--no-prefix-cache",
		"--no-ssd-cache")
	if err != nil {
		return nil, err
	}
	if err := alone.start(ctx); err != nil {
		return nil, fmt.Errorf("%w; the log ends with: %s", err, alone.tail())
	}
	talks, err := newTalks(ctx, alone, o.seed)
	return talks, errors.Join(err, alone.stop(false))
}

// prepare makes the home folder of the server: settings, a second model, and a disk for the cache.
func (b *bench) prepare(program string) (err error) {
	home := filepath.Join(b.dir, "home")
	if b.server, err = newServer(program, home); err != nil {
		return err
	}
	if err := copyDemo(filepath.Join(home, "models", copyName)); err != nil {
		return err
	}
	b.disk = filepath.Join(b.dir, "disk")
	if err := os.Mkdir(b.disk, 0o700); err != nil {
		return err
	}
	// A file system of its own needs the rights of an administrator, and Linux.
	b.ownDisk = exec.Command("mount", "-t", "tmpfs", "-o", "size="+diskSize, "tmpfs",
		b.disk).Run() == nil
	settings, err := json.Marshal(map[string]any{"cache": map[string]any{"dir": b.cacheDir(),
		"maxSize": fmt.Sprint(cacheBytes), "minFree": "none", "dailyWrites": "none"}})
	if err != nil {
		return err
	}
	folder := filepath.Join(home, "config", "headroom")
	return errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "settings.json"), settings, 0o600))
}

func (b *bench) cacheDir() string { return filepath.Join(b.disk, "blocks") }

func (b *bench) unmount() {
	if b.ownDisk {
		if err := exec.Command("umount", b.disk).Run(); err != nil {
			fmt.Fprintf(os.Stderr, "soak: unmounting %s: %v\n", b.disk, err)
		}
	}
}

// copyDemo copies the bundled model. A longer config.json makes it another model for the library.
func copyDemo(to string) error {
	const from = "app/demo/model"
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("%w; run make soak in the repository", err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if f.Name() == "config.json" {
			data = append(data, "\n\n"...)
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cycles runs load and faults until all cycles are done or ctx ends.
func (b *bench) cycles(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { b.load.run(loading, b.o.seed); close(ended) }()
	defer func() { stop(); <-ended }()
	var order []int
	for cycle := range b.o.cycles() {
		if len(order) == 0 {
			order = b.random.Perm(len(faults))
		}
		begin := time.Now()
		pause(ctx, b.o.cycle/4)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.inject(ctx, faults[order[0]]); err != nil {
			return err
		}
		order = order[1:]
		pause(ctx, max(b.o.cycle/4, b.o.cycle-time.Since(begin)))
		if err := b.rest(ctx, cycle); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "soak: cycle %d of %d, %d equal answers, %d broken invariants\n",
			cycle+1, b.o.cycles(), b.load.equal.Load(), len(b.load.breaches()))
	}
	return nil
}

// inject does one fault, and then waits for an answer that equals the one alone.
func (b *bench) inject(ctx context.Context, f fault) error {
	o := b.done[f.name]
	if o == nil {
		o = &outcome{}
		b.done[f.name] = o
	}
	b.load.faulty.Store(true)
	defer b.load.faulty.Store(false)
	err := f.do(ctx, b, holdOf(b.o.cycle))
	if errors.Is(err, errSkipped) {
		o.skipped = true
		return nil
	}
	o.times++
	if err != nil {
		b.load.breach("%s: %v", f.name, err)
	}
	begin, t := time.Now(), b.load.talks[b.random.IntN(len(b.load.talks))].turns[0]
	err = b.server.await(ctx, "an answer after: "+f.name, func() error {
		a, err := b.server.ask(ctx, t.body)
		if err == nil && a.digest != t.digest {
			b.load.breach("after %s: the answer differs from the one alone: %q", f.name, a.text)
		}
		return err
	})
	o.slowest = max(o.slowest, time.Since(begin))
	return err
}

// rest pauses the load and takes a sample.
func (b *bench) rest(ctx context.Context, cycle int) error {
	b.load.gate.Lock()
	defer b.load.gate.Unlock()
	s, err := b.take(ctx, cycle)
	if err != nil {
		return err
	}
	if s.cacheMB > cacheBytes>>20 {
		b.load.breach("the cache takes %d MiB, its limit is %d", s.cacheMB, cacheBytes>>20)
	}
	b.samples = append(b.samples, s)
	return nil
}

// report writes the table.
func (b *bench) report(took time.Duration) error {
	out := io.Writer(os.Stdout)
	if b.o.out != "" {
		file, err := os.Create(b.o.out)
		if err != nil {
			return err
		}
		defer file.Close()
		out = io.MultiWriter(os.Stdout, file)
	}
	l := b.load
	fmt.Fprintf(out, "%d cycles of %s in %s, seed %d: %d answers equal, %d refused,\n%d failed "+
		"while a fault was at work, %d clients left.\n\n", b.o.cycles(), b.o.cycle,
		took.Round(time.Second), b.o.seed, l.equal.Load(), l.refused.Load(), l.failed.Load(),
		l.left.Load())
	fmt.Fprintf(out, "| fault | times | slowest time to the next answer |\n|---|---|---|\n")
	for _, f := range faults {
		o := b.done[f.name]
		switch {
		case o == nil:
			fmt.Fprintf(out, "| %s | 0 | |\n", f.name)
		case o.skipped:
			fmt.Fprintf(out, "| %s | not possible here | |\n", f.name)
		default:
			fmt.Fprintf(out, "| %s | %d | %.1f s |\n", f.name, o.times, o.slowest.Seconds())
		}
	}
	fmt.Fprintf(out, "\n| cycle | goroutines | descriptors | server MiB | worker MiB "+
		"| cache files | cache MiB | other files |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range b.shown() {
		if s.restart {
			fmt.Fprintln(out, "| started again | | | | | | | |")
			continue
		}
		fmt.Fprintf(out, "| %d | %d | %d | %d | %d | %d | %d | %d |\n", s.cycle+1, s.goroutines,
			s.descriptors, s.serverMB, s.workerMB, s.cacheFiles, s.cacheMB, s.otherFiles)
	}
	broken := l.breaches()
	fmt.Fprintf(out, "\nBroken invariants: %d\n", len(broken))
	for _, line := range broken {
		fmt.Fprintln(out, "- "+line)
	}
	return nil
}

// maxShown is the number of samples in the table.
const maxShown = 60

// shown returns every n-th sample, so that a long run has a short table, and all restarts if the
// table has all samples.
func (b *bench) shown() []sample {
	if len(b.samples) <= maxShown {
		return b.samples
	}
	every := (len(b.samples) + maxShown - 1) / maxShown
	var list []sample
	for _, s := range b.samples {
		if !s.restart && s.cycle%every == 0 {
			list = append(list, s)
		}
	}
	return list
}

// tail returns the end of the server's log.
func (s *server) tail() string {
	data, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(len(lines)-5, 0):], "\n")
}
