package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"headroom/app/jobs"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// testPuller returns a puller whose downloads report 3 of 7 bytes. They end with an error that the
// test sends, or with their context.
func testPuller(t *testing.T) (p *puller, end chan error, listed *int) {
	t.Helper()
	end, listed = make(chan error), new(int)
	p = &puller{jobs: jobs.NewList(), list: func() { *listed++ },
		known: func(name string) bool { return name == "here" },
		spec: func(id string) (jobs.Spec, error) {
			if id == "" {
				return jobs.Spec{}, problem.New(problem.BadRequest, "no name", "", "")
			}
			return jobs.Spec{Kind: jobs.Download, Key: id, Title: id, TotalBytes: 7,
				Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
					p.Phase("downloading", "a file")
					p.Add(3)
					select {
					case err := <-end:
						return "folder", err
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}}, nil
		}}
	t.Cleanup(p.jobs.Close)
	return p, end, listed
}

func (p *puller) states() (states []jobs.State) {
	for _, j := range p.jobs.Jobs() {
		states = append(states, j.State)
	}
	return states
}

// TestPull: a download is followed until it has ended.
func TestPull(t *testing.T) {
	refused := problem.New(problem.Upstream, "no such repository", "", "")
	for _, result := range []error{nil, refused} {
		p, end, listed := testPuller(t)
		reports := 0
		err := p.pull(t.Context(), "hf.co/o/m:latest", func(now server.Progress) error {
			if reports == 0 {
				if now != (server.Progress{}) {
					t.Errorf("the first progress: %+v", now)
				}
			} else if now != (server.Progress{File: "a file", DoneBytes: 3, TotalBytes: 7}) {
				t.Errorf("progress: %+v", now)
			}
			if reports++; reports == 3 {
				go func() { end <- result }()
			}
			return nil
		})
		if !errors.Is(err, result) || reports < 3 || (*listed == 1) != (result == nil) {
			t.Errorf("%v: got %v after %d reports, listed %d times", result, err, reports, *listed)
		}
		if list := p.jobs.Jobs(); len(list) != 1 || list[0].Title != "o/m" {
			t.Errorf("%v: the jobs are %+v", result, list)
		}
	}
}

// TestPullNothing: a model that is here is not downloaded, and a name can be invalid.
func TestPullNothing(t *testing.T) {
	p, _, _ := testPuller(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	fail := func(server.Progress) error { t.Error("progress"); return nil }
	if err := p.pull(ctx, "here", fail); err != nil || len(p.jobs.Jobs()) != 0 {
		t.Errorf("%v, %+v", err, p.jobs.Jobs())
	}
	if err := p.pull(ctx, ":latest", fail); problem.From(err).Code != problem.BadRequest {
		t.Errorf("got %v", err)
	}
}

// TestPullEnds: when its client goes, a download stops, unless a person has started it.
func TestPullEnds(t *testing.T) {
	p, end, _ := testPuller(t)
	gone := errors.New("gone")
	leave := func(server.Progress) error { return gone }
	if err := p.pull(t.Context(), "o/m", leave); !errors.Is(err, gone) ||
		p.states()[0] != jobs.Stopped {
		t.Errorf("%v, %v", err, p.states())
	}
	spec, _ := p.spec("o/m")
	p.jobs.Start(spec)
	if err := p.pull(t.Context(), "o/m", leave); !errors.Is(err, gone) || p.states()[0].Ended() {
		t.Errorf("of another: %v, %v", err, p.states())
	}
	err := p.pull(t.Context(), "o/m", func(server.Progress) error {
		return p.jobs.Stop(p.jobs.Jobs()[0].ID)
	})
	if problem.From(err).Code != problem.Cancelled {
		t.Errorf("a download that somebody stops: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = p.pull(ctx, "o/m", func(server.Progress) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || p.states()[0] != jobs.Stopped {
		t.Errorf("a client that disconnects: %v, %v", err, p.states())
	}
	err = p.pull(t.Context(), "o/m", func(server.Progress) error {
		return p.jobs.Remove(p.jobs.Jobs()[0].ID)
	})
	if problem.From(err).Code != problem.NotFound {
		t.Errorf("a download that somebody removes: %v", err)
	}
	close(end)
}

// TestPullOfSeveral: a download goes on while any client waits for it, in whatever order they go.
func TestPullOfSeveral(t *testing.T) {
	p, end, _ := testPuller(t)
	pull := func() (follows chan bool, leave context.CancelFunc, ended chan error) {
		ctx, leave := context.WithCancel(t.Context())
		follows, ended = make(chan bool, 1), make(chan error, 1)
		go func() {
			ended <- p.pull(ctx, "o/m", func(server.Progress) error {
				select {
				case follows <- true:
				default:
				}
				return nil
			})
		}()
		<-follows
		return follows, leave, ended
	}
	_, leaveFirst, first := pull()
	_, leaveSecond, second := pull()
	leaveFirst()
	if err := <-first; !errors.Is(err, context.Canceled) || p.states()[0].Ended() {
		t.Fatalf("the first has gone: %v, %v", err, p.states())
	}
	third, leaveThird, last := pull()
	leaveSecond()
	if err := <-second; !errors.Is(err, context.Canceled) || p.states()[0].Ended() {
		t.Fatalf("the second has gone: %v, %v", err, p.states())
	}
	<-third // it is still told of the progress
	leaveThird()
	if err := <-last; !errors.Is(err, context.Canceled) || p.states()[0] != jobs.Stopped {
		t.Fatalf("all have gone: %v, %v", err, p.states())
	}
	_, leaveFirst, first = pull()
	_, _, second = pull()
	leaveFirst()
	<-first
	end <- nil
	if err := <-second; err != nil {
		t.Errorf("a download that others have begun: %v", err)
	}
	if len(p.waiting) != 0 {
		t.Errorf("after all, clients wait: %v", p.waiting)
	}
}
