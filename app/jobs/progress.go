package jobs

// The progress of a job. Work reports bytes from several goroutines. The speed is the mean over the
// last seconds. Samples are taken only when a job's state is read.

import (
	"sync"
	"time"
)

// Progress receives the reports of a job's work. Its methods are safe for concurrent use.
type Progress struct {
	mu          sync.Mutex
	done, total int64
	moved       int64 // the part of done that this run moved; the speed counts only that
	phase, file string
	samples     []sample
}

type sample struct {
	at    time.Time
	moved int64
}

// The speed is the mean over the last speedTime. It is known after leastTime. Samples are at least
// sampleStep apart.
const (
	speedTime  = 8 * time.Second
	leastTime  = 500 * time.Millisecond
	sampleStep = 250 * time.Millisecond
)

func newProgress(total int64) *Progress { return &Progress{total: total} }

// Total sets the total amount.
func (p *Progress) Total(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = bytes
}

// Add counts bytes that were moved. A negative number subtracts bytes that were lost again.
func (p *Progress) Add(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += bytes
	p.moved += bytes
}

// Found counts bytes that are in place from an earlier run. A negative number subtracts bytes that
// turned out to be useless.
func (p *Progress) Found(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += bytes
}

// Phase sets the current step, in a word or two, and the current file. Both may be "".
func (p *Progress) Phase(phase, file string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.file = phase, file
}

// figures is a snapshot of a Progress.
type figures struct {
	done, total int64
	perSecond   float64
	left        time.Duration
	phase, file string
}

func (p *Progress) figures(now time.Time) figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := figures{done: max(p.done, 0), total: p.total, left: -1, phase: p.phase, file: p.file}
	if n := len(p.samples); n == 0 || now.Sub(p.samples[n-1].at) >= sampleStep {
		p.samples = append(p.samples, sample{now, p.moved})
	}
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= speedTime {
		p.samples = p.samples[1:]
	}
	first := p.samples[0]
	if passed := now.Sub(first.at); passed >= leastTime {
		f.perSecond = max(float64(p.moved-first.moved)/passed.Seconds(), 0)
	}
	if f.perSecond > 0 && f.total > 0 {
		f.left = time.Duration(float64(max(f.total-f.done, 0)) / f.perSecond * float64(time.Second))
	}
	return f
}
