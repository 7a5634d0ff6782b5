package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// Limits of retries. A download gives up after maxFailures failures in a row with no byte received
// in between, which takes about two minutes. A request of the UI gives up after fewFailures.
// maxWait is the longest Retry-After that is obeyed.
const (
	maxFailures = 8
	fewFailures = 3
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
	maxWait     = 10 * time.Minute
)

// retry calls try until it succeeds, and waits longer after each failure in a row. It gives up
// after maxTries failures in a row, and at once after an error that is not temporary. A try that
// progressed resets the count of failures. The error is a Problem, or ctx's.
func (c *Client) retry(ctx context.Context, maxTries int,
	try func() (progressed bool, err error)) error {
	failures := 0
	for {
		progressed, err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var p *temporary
		if !errors.As(err, &p) {
			return err
		}
		if progressed {
			failures = 0
		}
		failures++
		switch {
		case p.after > maxWait:
			return problem.Wrap(problem.Upstream, p.err, "The hub is busy",
				fmt.Sprintf("Run it again after %s.", p.after.Round(time.Minute)))
		case failures >= maxTries:
			return c.unreachable(p.err, maxTries == maxFailures)
		}
		wait := min(firstWait<<(failures-1), longestWait)
		// Jitter, so that many clients do not retry at the same time.
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
		wait = max(wait, p.after)
		level := slog.LevelInfo
		if failures == 1 { // one line says it; the error at the end says the rest
			level = slog.LevelWarn
		}
		c.log.Log(ctx, level, "the hub does not answer; trying again", "hub", c.Endpoint(),
			"err", withoutAddress(p.err), "in", wait.Round(100*time.Millisecond),
			"tries", fmt.Sprintf("%d of %d", failures, maxTries))
		if err := c.options.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

const cannotBeReached = " cannot be reached"

// unreachable returns the Problem of a hub that does not answer. A download says that it can be
// resumed. What the system said is in Err.
func (c *Client) unreachable(err error, download bool) error {
	name := c.endpoint.Host
	if c.Endpoint() == DefaultEndpoint {
		name = "Hugging Face"
	}
	fix := "Check your internet connection, then try again."
	if download {
		fix = "Check your internet connection, then resume: what was downloaded is kept."
	}
	p := problem.New(problem.Upstream, name+cannotBeReached, reason(err), fix)
	p.Err = withoutAddress(err)
	return p
}

// reason says why a connection failed, for a person who does not know the system's words.
func reason(err error) string {
	var lookup *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &lookup), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETDOWN):
		return "this computer seems to be offline"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing answers at its address"
	case errors.As(err, &slow) && slow.Timeout():
		return "it did not answer in time"
	}
	return withoutAddress(err).Error()
}

// withoutAddress removes the address of the request from an error of package http: it may have the
// signature of a signed address.
func withoutAddress(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
