package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"headroom/engine/problem"
)

// How patient a download is: failures in a row, without a byte between them, until it gives up
// (some two minutes), and the longest that a server may ask to wait. Somebody who looks at a page
// waits for fewer.
const (
	mostFailures = 8
	fewFailures  = 3
	firstWait    = 500 * time.Millisecond
	longestWait  = 30 * time.Second
	mostWait     = 10 * time.Minute
)

// retry does something until it works, waiting longer after each failure in a row, as long as the
// failures are passing ones and fewer than most. try tells whether it came further, in which case
// patience begins anew. The error is a Problem, or ctx's.
func (c *Client) retry(ctx context.Context, most int, try func() (further bool, err error)) error {
	failures := 0
	for {
		further, err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var p *passing
		if !errors.As(err, &p) {
			return err
		}
		if further {
			failures = 0
		}
		failures++
		switch {
		case p.after > mostWait:
			return problem.Wrap(problem.Upstream, p.err, "The hub is busy",
				fmt.Sprintf("It asks to wait %s: go on with the download then.",
					p.after.Round(time.Minute)))
		case failures >= most:
			return problem.Wrap(problem.Upstream, p.err, "The hub cannot be reached",
				"Check the connection to "+c.Endpoint()+", then go on: what has come is kept.")
		}
		wait := min(firstWait<<(failures-1), longestWait)
		// so that many clients do not come back at once
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
		c.log.Debug("the hub: trying again", "err", p.err, "failures", failures)
		if err := c.options.sleep(ctx, max(wait, p.after)); err != nil {
			return err
		}
	}
}
