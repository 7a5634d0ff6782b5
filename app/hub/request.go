package hub

// One request. This package follows redirects itself, because it decides for each address whether
// to send the token.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"headroom/engine/problem"
)

const maxRedirects = 6

// answer is the final response to a request, and the headers of the hub's own responses before it.
type answer struct {
	*http.Response
	hub http.Header // headers of the hub's own answers; later ones override earlier ones
	at  *url.URL    // the address of the response
}

// request sends a request and follows redirects. For HEAD it follows only those within the hub,
// because the hub's own answer describes the file. It accepts the statuses 200 and 206, and for
// HEAD a redirect out of the hub. Any other status is an error: a Problem, or a *temporary. The
// caller closes the body.
func (c *Client) request(ctx context.Context, method string, u *url.URL,
	header http.Header) (answer, error) {
	a := answer{hub: http.Header{}, at: u}
	for range maxRedirects {
		if err := c.guard.checkURL(a.at); err != nil {
			return answer{}, inside(err)
		}
		r, err := http.NewRequestWithContext(ctx, method, a.at.String(), nil)
		if err != nil {
			return answer{}, c.invalid(err)
		}
		for name, values := range header {
			r.Header[name] = values
		}
		r.Header.Set("User-Agent", c.options.UserAgent)
		// The hub's sizes and etags are of the uncompressed file.
		r.Header.Set("Accept-Encoding", "identity")
		c.authorize(r)
		if a.Response, err = c.http.Do(r); err != nil {
			if errors.Is(err, errInside) {
				return answer{}, inside(err)
			}
			return answer{}, broken(err)
		}
		if strings.EqualFold(a.at.Host, c.endpoint.Host) {
			for name, values := range a.Header {
				a.hub[name] = values
			}
		}
		switch {
		case a.StatusCode == http.StatusOK || a.StatusCode == http.StatusPartialContent:
			return a, nil
		case a.StatusCode/100 != 3 || a.Header.Get("Location") == "":
			defer a.Body.Close()
			return answer{}, c.refused(a.Response)
		}
		a.Body.Close()
		next, err := a.at.Parse(a.Header.Get("Location"))
		switch {
		case err != nil:
			return answer{}, c.invalid(err)
		case next.Scheme != "https" && next.Scheme != a.at.Scheme:
			return answer{}, c.invalid(
				fmt.Errorf("it redirects from %s to %q", a.at.Scheme, next.Scheme))
		case method == "HEAD" && !strings.EqualFold(next.Host, c.endpoint.Host):
			return a, nil
		}
		a.at = next
	}
	return answer{}, c.invalid(fmt.Errorf("it redirects more than %d times", maxRedirects))
}

// temporary is an error that a retry may overcome.
type temporary struct {
	err   error
	after time.Duration // Retry-After; 0: none
}

func (t *temporary) Error() string { return t.err.Error() }
func (t *temporary) Unwrap() error { return t.err }

// broken marks an error of the connection as temporary. It returns nil and a cancellation
// unchanged.
func broken(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &temporary{err: err}
}

// refused returns the error for an unsuccessful status.
func (c *Client) refused(r *http.Response) error {
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10) // so that the connection can be reused
	said := fmt.Errorf("it answered %s", r.Status)
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &temporary{err: said, after: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	case http.StatusUnauthorized, http.StatusForbidden:
		if r.Header.Get("X-Error-Code") == "GatedRepo" {
			return problem.New(problem.Forbidden, "The model's terms have to be accepted first",
				"its authors require that",
				"Accept them on its page at the hub, then give Headroom a token of that account: "+
					"headroom models token.")
		}
		return problem.New(problem.Unauthorized, "The hub denies access",
			fmt.Sprintf("%v: the repository does not exist or is private", said),
			"Check the name. For a private repository, give Headroom a token: headroom models "+
				"token.")
	case http.StatusNotFound:
		return problem.New(problem.NotFound, "The hub has no such repository or file", said.Error(),
			"Check the name and the revision.")
	}
	return problem.New(problem.Upstream, "The hub did not answer the request", said.Error(),
		"Check the hub's address: "+c.Endpoint())
}

// about adds the subject of a Problem to its message. It returns other errors unchanged, and those
// about the hub itself.
func about(err error, subject string) error {
	var p *problem.Problem
	if errors.As(err, &p) && !strings.HasSuffix(p.Message, cannotBeReached) {
		named := *p
		named.Message += " (" + subject + ")"
		return &named
	}
	return err
}

// maxRetryAfter bounds Retry-After, so that the arithmetic cannot overflow. maxWait bounds how long
// a retry waits.
const maxRetryAfter = 30 * 24 * time.Hour

// retryAfter parses the header Retry-After: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
