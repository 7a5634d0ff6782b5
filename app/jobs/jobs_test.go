package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"headroom/engine/problem"
)

// work is a Spec.Work that a test controls. It sends to the channel begun when it starts, and
// returns when it receives from the channel end or is canceled.
type work struct {
	begun chan *Progress
	end   chan error
}

func newWork() *work { return &work{make(chan *Progress), make(chan error)} }

func (w *work) spec(kind Kind, key string) Spec {
	return Spec{Kind: kind, Key: key, Title: key, TotalBytes: 10,
		Work: func(ctx context.Context, p *Progress) (string, error) {
			w.begun <- p
			select {
			case err := <-w.end:
				return "/" + key, err
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
}

func wait(t *testing.T, l *List, id string) Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	j, err := l.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestLifecycle(t *testing.T) {
	l, w := NewList(), newWork()
	defer l.Close()
	id := l.Start(w.spec(Import, "m")).ID
	p := <-w.begun
	p.Found(2)
	p.Add(3)
	p.Phase("copying", "f")
	if j := l.Jobs()[0]; j.State != Running || j.DoneBytes != 5 || j.TotalBytes != 10 ||
		j.Phase != "copying" || j.File != "f" {
		t.Errorf("running: %+v", j)
	}
	if again := l.Start(w.spec(Import, "m")); again.ID != id {
		t.Errorf("started twice: %s and %s", id, again.ID)
	}
	w.end <- errors.New("oops")
	if j := wait(t, l, id); j.State != Failed || problem.From(j.Err).Why != "oops" ||
		j.Phase != "" {
		t.Errorf("failed: %+v", j)
	}
	if err := l.Resume(id); err != nil {
		t.Fatal(err)
	}
	<-w.begun
	if err := l.Stop(id); err != nil {
		t.Fatal(err)
	}
	if j := wait(t, l, id); j.State != Stopped || j.Err != nil {
		t.Errorf("stopped: %+v", j)
	}
	if again := l.Start(w.spec(Import, "m")); again.ID != id { // resumes
		t.Errorf("a new job %s for %s", again.ID, id)
	}
	<-w.begun
	w.end <- nil
	if j := wait(t, l, id); j.State != Done || j.Result != "/m" {
		t.Errorf("done: %+v", j)
	}
	if err := l.Resume(id); err != nil || l.Jobs()[0].State != Done {
		t.Errorf("resumed a done job: %v, %+v", err, l.Jobs()[0])
	}
}

func TestJobsOfOneKindRunOneByOne(t *testing.T) {
	l, a, b, c := NewList(), newWork(), newWork(), newWork()
	defer l.Close()
	first := l.Start(a.spec(Download, "a")).ID
	<-a.begun
	second := l.Start(b.spec(Download, "b")).ID
	third := l.Start(c.spec(Import, "c")).ID
	<-c.begun
	if j := l.Jobs()[1]; j.State != Waiting {
		t.Errorf("the second download is %s", j.State)
	}
	a.end <- nil
	<-b.begun
	if !l.Busy() {
		t.Error("not busy")
	}
	b.end <- nil
	c.end <- nil
	for _, id := range []string{first, second, third} {
		if j := wait(t, l, id); j.State != Done {
			t.Errorf("%+v", j)
		}
	}
	if l.Busy() {
		t.Error("busy")
	}
}

func TestRemoveDiscardsUnfinishedWork(t *testing.T) {
	l, w := NewList(), newWork()
	defer l.Close()
	discarded := 0
	s := w.spec(Import, "m")
	s.Discard = func() error { discarded++; return nil }
	id := l.Start(s).ID
	<-w.begun
	if err := l.Remove(id); err != nil || discarded != 1 || len(l.Jobs()) != 0 {
		t.Errorf("%v, discarded %d times, %d jobs", err, discarded, len(l.Jobs()))
	}
	id = l.Start(s).ID
	<-w.begun
	w.end <- nil
	wait(t, l, id)
	if err := l.Remove(id); err != nil || discarded != 1 {
		t.Errorf("%v, discarded a done job's work", err)
	}
	if err := l.Remove(id); problem.From(err).Code != problem.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestCloseStopsAll(t *testing.T) {
	l, a, b := NewList(), newWork(), newWork()
	l.Start(a.spec(Import, "a"))
	<-a.begun
	l.Start(b.spec(Import, "b"))
	l.Close()
	l.Start(b.spec(Import, "c"))
	l.working.Wait()
	for _, j := range l.Jobs() {
		if j.State != Stopped {
			t.Errorf("%s is %s", j.Title, j.State)
		}
	}
}

func TestPanicIsAFailure(t *testing.T) {
	l := NewList()
	defer l.Close()
	id := l.Start(Spec{Kind: Import,
		Work: func(context.Context, *Progress) (string, error) { panic("odd") }}).ID
	if j := wait(t, l, id); j.State != Failed || problem.From(j.Err).Why != "odd" {
		t.Errorf("%+v", j)
	}
}

// Of 1,000 bytes, 100 are found and 300 are moved in 3 s: 100 bytes per second, and 6 s left.
func TestSpeed(t *testing.T) {
	p := newProgress(1000)
	p.Found(100)
	start := time.Unix(1000, 0)
	if f := p.figures(start); f.perSecond != 0 || f.left != -1 || f.done != 100 {
		t.Errorf("at once: %+v", f)
	}
	p.Add(300)
	if f := p.figures(start.Add(3 * time.Second)); f.perSecond != 100 || f.left != 6*time.Second ||
		f.done != 400 {
		t.Errorf("after 3 s: %+v", f)
	}
	// After a stall the speed drops: only the last seconds count.
	p.figures(start.Add(11 * time.Second))
	if f := p.figures(start.Add(12 * time.Second)); f.perSecond != 0 || f.left != -1 {
		t.Errorf("stalled: %+v", f)
	}
}
