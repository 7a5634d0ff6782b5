package server

import (
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stuckClient is a response whose writes block until their deadline.
type stuckClient struct {
	http.ResponseWriter
	deadlines chan time.Time
}

func (c *stuckClient) SetWriteDeadline(at time.Time) error {
	c.deadlines <- at
	return nil
}

func (c *stuckClient) Write([]byte) (int, error) {
	for at := <-c.deadlines; ; {
		select {
		case at = <-c.deadlines:
		case <-time.After(time.Until(at)):
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// TestStuckReader: a write to a client that does not read fails after 30 s, and after 3 s while
// other requests wait for the model.
func TestStuckReader(t *testing.T) {
	for _, c := range []struct {
		name       string
		othersFrom time.Duration
		want       time.Duration
	}{
		{"alone", time.Hour, writeTimeout},
		{"others wait", 0, stallPatience},
		{"others come", 10 * time.Second, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				contended := func() bool { return time.Since(begin) >= c.othersFrom }
				client := &stuckClient{deadlines: make(chan time.Time, 1)}
				e := newEventWriter(client, ServerSentEvents, writeTimeout, contended)
				err := e.comment("x")
				took := time.Since(begin)
				if !isWriteError(err) || took < c.want || took > c.want+stallCheck {
					t.Errorf("%v after %v, expected an error after %v", err, took, c.want)
				}
			})
		})
	}
}

// TestPatientReader: a client that reads is never interrupted, however many others wait.
func TestPatientReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		client := &countingClient{}
		e := newEventWriter(client, ServerSentEvents, writeTimeout, func() bool {
			ended.Add(1)
			return true
		})
		for range 20 {
			if err := e.comment("x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(stallPatience - time.Millisecond)
		}
		time.Sleep(time.Hour)
		if n := ended.Load(); n > 0 {
			t.Errorf("checked %d times, expected none between writes", n)
		}
	})
}

type countingClient struct{ http.ResponseWriter }

func (*countingClient) SetWriteDeadline(time.Time) error { return nil }
func (*countingClient) Write(b []byte) (int, error)      { return len(b), nil }
