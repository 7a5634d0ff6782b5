package jobs

// How far a job is. Work reports bytes from several goroutines; speed is what came in over the last
// seconds, looked at whenever somebody asks, so that it costs nothing while nobody does.

import (
	"sync"
	"time"
)

// Progress is what a job's work reports to. Its methods may be called from any goroutine.
type Progress struct {
	mu          sync.Mutex
	done, total int64
	moved       int64 // of done, what this run has moved; only it counts for the speed
	phase, file string
	samples     []sample
}

type sample struct {
	at    time.Time
	moved int64
}

// The speed is the mean over speedTime, or what there is of it after leastTime.
const (
	speedTime  = 8 * time.Second
	leastTime  = 500 * time.Millisecond
	sampleStep = 250 * time.Millisecond
)

func newProgress(total int64) *Progress { return &Progress{total: total} }

// Total says how much there is to do in all.
func (p *Progress) Total(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = bytes
}

// Add counts bytes that have been moved; below 0, that were moved for nothing.
func (p *Progress) Add(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += bytes
	p.moved += bytes
}

// Found counts bytes that need not be moved, since they are here from an earlier run; below 0, that
// are of no use after all.
func (p *Progress) Found(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += bytes
}

// Phase says what is being done now, in a word or two, and with which file; both may be "".
func (p *Progress) Phase(phase, file string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.file = phase, file
}

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
