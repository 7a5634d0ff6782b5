package hub

// One request, its redirects followed by hand: who may have the token is decided anew at each
// address.

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

const mostRedirects = 6

// answer is a response, and what the hub itself said on the way to it.
type answer struct {
	*http.Response
	hub http.Header // headers of the hub's own answers, the later ones over the earlier
	at  *url.URL    // where the response comes from
}

// request sends a request and follows redirects, for HEAD only those within the hub: what the hub
// says about a file is in its own answer. A status other than 200 and 206 (for HEAD, a redirect out
// of the hub) is an error: a Problem, or a passing one. The caller closes the body.
func (c *Client) request(ctx context.Context, method string, u *url.URL,
	header http.Header) (answer, error) {
	a := answer{hub: http.Header{}, at: u}
	for range mostRedirects {
		r, err := http.NewRequestWithContext(ctx, method, a.at.String(), nil)
		if err != nil {
			return answer{}, c.strange(err)
		}
		for name, values := range header {
			r.Header[name] = values
		}
		r.Header.Set("User-Agent", c.options.UserAgent)
		r.Header.Set("Accept-Encoding", "identity") // sizes and etags are those of the file itself
		own := c.mayHaveToken(a.at)
		if own && c.options.Token != nil {
			if token := c.options.Token(); token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
		}
		if a.Response, err = c.http.Do(r); err != nil {
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
			return answer{}, c.strange(err)
		case next.Scheme != "https" && next.Scheme != a.at.Scheme:
			return answer{}, c.strange(
				fmt.Errorf("it redirects from %s to %q", a.at.Scheme, next.Scheme))
		case method == "HEAD" && !strings.EqualFold(next.Host, c.endpoint.Host):
			return a, nil
		}
		a.at = next
	}
	return answer{}, c.strange(fmt.Errorf("it redirects more than %d times", mostRedirects))
}

// passing is an error that may be gone with the next try.
type passing struct {
	err   error
	after time.Duration // that the server asks to wait; 0: it does not say
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// broken is an error of the connection; nil and the end of a context stay what they are.
func broken(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &passing{err: err}
}

// refused words a status that is no success.
func (c *Client) refused(r *http.Response) error {
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10) // so that the connection can be used again
	said := fmt.Errorf("it answers %s", r.Status)
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &passing{err: said, after: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	case http.StatusUnauthorized, http.StatusForbidden:
		if r.Header.Get("X-Error-Code") == "GatedRepo" {
			return problem.New(problem.Forbidden, "The model's terms have to be accepted first",
				"its makers ask for that",
				"Accept them on its page at the hub, and give Headroom a token of that account: "+
					"headroom models token.")
		}
		return problem.New(problem.Unauthorized, "The hub does not give this out",
			fmt.Sprintf("%v: there is no such repository, or it is private", said),
			"Check the name; for a private one, give Headroom a token: headroom models token.")
	case http.StatusNotFound:
		return problem.New(problem.NotFound, "The hub has no such thing", said.Error(),
			"Check the name and the revision.")
	}
	return problem.New(problem.Upstream, "The hub did not give what was asked for", said.Error(),
		"Check the hub's address: "+c.Endpoint())
}

// about names what a Problem is about.
func about(err error, what string) error {
	var p *problem.Problem
	if errors.As(err, &p) {
		named := *p
		named.Message += " (" + what + ")"
		return &named
	}
	return err
}

// mostRetryAfter bounds what a server may ask to wait, so that the arithmetic holds; mostWait
// (retry.go) bounds what is done.
const mostRetryAfter = 30 * 24 * time.Hour

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(mostRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), mostRetryAfter)
	}
	return 0
}
