package hub

// One request of an upload. It has a body, which a second try sends again, and it follows no
// redirects: a signed address leads nowhere else, and a renamed repository is for a person to
// notice.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"headroom/engine/problem"
)

// message is a request with a body.
type message struct {
	method string
	url    *url.URL
	header http.Header
	body   func() io.Reader // called for each try; nil: none
	size   int64            // of the body
	moved  func(int)        // called for sent bytes, negative for those that were lost; nil: not
}

// jsonMessage returns a POST request with a document of JSON.
func jsonMessage(u *url.URL, document any) message {
	text, err := json.Marshal(document)
	if err != nil {
		panic("hub: a request as JSON: " + err.Error()) // cannot happen for these types
	}
	return textMessage(u, "application/json", text)
}

func textMessage(u *url.URL, kind string, text []byte) message {
	return message{method: "POST", url: u, header: http.Header{"Content-Type": {kind}},
		body: func() io.Reader { return bytes.NewReader(text) }, size: int64(len(text))}
}

// reply is the hub's answer to a message.
type reply struct {
	header http.Header
	text   []byte
}

// refusal is an answer that a retry does not change.
type refusal struct {
	status  int
	code    string // X-Error-Code; "": none
	message string // what the server says, in one line; "": nothing
	moved   string // the address of a redirect; "": none
}

func (r *refusal) Error() string {
	said := fmt.Sprintf("it answered %d %s", r.status, http.StatusText(r.status))
	if r.message != "" {
		said += ": " + r.message
	}
	return said
}

// apiURL returns the address of a path at the hub.
func (c *Client) apiURL(path string) *url.URL {
	u := *c.endpoint
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + path
	return &u
}

// deliver sends a message, with retries.
func (c *Client) deliver(ctx context.Context, m message) (answer reply, err error) {
	err = c.retry(ctx, maxFailures, func() (bool, error) {
		answer, err = c.send(ctx, m)
		return false, err
	})
	return answer, err
}

// send sends a message once. The error is a *refusal, a *temporary, a Problem, or ctx's.
func (c *Client) send(ctx context.Context, m message) (reply, error) {
	if err := c.guard.checkURL(m.url); err != nil {
		return reply{}, inside(err)
	}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(c.options.stall, cancel)
	defer watch.Stop()
	sent := &sentBody{watch: watch, stall: c.options.stall, left: m.size, moved: m.moved}
	defer sent.end()
	if m.body != nil {
		sent.Reader = m.body()
	}
	answer, err := c.exchange(alive, m, sent)
	if err == nil {
		sent.delivered()
		return answer, nil
	}
	if alive.Err() != nil && ctx.Err() == nil {
		err = &temporary{err: fmt.Errorf("no data for %s", c.options.stall)}
	}
	return reply{}, err
}

// exchange sends the message and reads the answer.
func (c *Client) exchange(ctx context.Context, m message, body *sentBody) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, m.method, m.url.String(), nil)
	if err != nil {
		return reply{}, c.invalid(err)
	}
	if m.size > 0 {
		r.Body, r.ContentLength = io.NopCloser(body), m.size
	}
	for name, values := range m.header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", c.options.UserAgent)
	c.authorize(r)
	got, err := c.sender.Do(r)
	if err != nil {
		if errors.Is(err, errInside) {
			return reply{}, inside(err)
		}
		return reply{}, broken(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswerBytes+1))
	switch {
	case got.StatusCode/100 != 2:
		return reply{}, refusalOf(got, text)
	case err != nil:
		return reply{}, broken(err)
	case len(text) > maxAnswerBytes:
		return reply{}, c.invalid(fmt.Errorf("it exceeds %d bytes", maxAnswerBytes))
	}
	return reply{got.Header, text}, nil
}

// authorize adds the token to a request, if its address may have it.
func (c *Client) authorize(r *http.Request) {
	if c.options.Token == nil || !c.mayHaveToken(r.URL) {
		return
	}
	if token := c.options.Token(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// conflicting is what the hub says of two changes at once, which it accepts one after the other.
const conflicting = "another conflicting operation is in progress"

// refusalOf returns the error for an unsuccessful answer.
func refusalOf(r *http.Response, text []byte) error {
	refused := &refusal{status: r.StatusCode, code: r.Header.Get("X-Error-Code"),
		message: oneLine(said(r.Header, text))}
	if r.StatusCode/100 == 3 {
		refused.moved = r.Header.Get("Location")
	}
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &temporary{err: refused, after: waitOf(r.Header)}
	case http.StatusConflict:
		if strings.Contains(refused.message, conflicting) {
			return &temporary{err: refused}
		}
	}
	return refused
}

// rateLimit matches the time until a limit ends, in "api";r=0;t=55. See
// ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-09.html.
var rateLimit = regexp.MustCompile(`;\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})`)

// waitOf returns how long the server wants to be left alone; 0: it does not say.
func waitOf(h http.Header) time.Duration {
	if wait := retryAfter(h.Get("Retry-After"), time.Now()); wait > 0 {
		return wait
	}
	if m := rateLimit.FindStringSubmatch(h.Get("RateLimit")); m != nil {
		seconds, _ := strconv.ParseInt(m[1], 10, 64) // at most nine digits
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return 0
}

// said returns what the hub says of an error: {"error": "…"}, LFS's {"message": "…"}, or a header.
func said(h http.Header, text []byte) string {
	var document struct {
		Error   any    `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &document) == nil {
		if e, ok := document.Error.(string); ok && e != "" {
			return e
		}
		if document.Message != "" {
			return document.Message
		}
	}
	return h.Get("X-Error-Message")
}

// oneLine returns a text of a server as one line of bounded length.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// answerWait is the time that a server has for its answer after it has the whole body: it may put
// parts of 50 GB together, or write a commit.
const answerWait = 5 * time.Minute

// sentBody is the body of a request. It restarts the stall timer with each read, since the
// connection reads on only when it can send on, and counts the bytes.
type sentBody struct {
	io.Reader
	watch *time.Timer
	stall time.Duration
	moved func(int)

	mu    sync.Mutex
	left  int64 // bytes to read
	count int   // bytes that moved has counted
	ended bool
}

// errEnded means that the transport reads a body after its request has ended.
var errEnded = errors.New("the request has ended")

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errEnded
	}
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); n > 0 {
		wait := b.stall
		if b.left <= 0 {
			wait = max(answerWait, b.stall)
		}
		b.watch.Reset(wait)
		if b.count += n; b.moved != nil {
			b.moved(n)
		}
	}
	return n, err
}

// delivered keeps the count: the server has the body.
func (b *sentBody) delivered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count = 0
}

// end takes back the count of a body that was not delivered.
func (b *sentBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.count > 0 && b.moved != nil {
		b.moved(-b.count)
	}
}

const tokenFix = "Make a token that may write, at the hub's settings under Access Tokens, and " +
	"give it to Headroom: headroom models token."

// uploadProblem returns the Problem of a failed request of an upload to the repository id. what is
// what was refused, such as the name of a file.
func (c *Client) uploadProblem(err error, id, what string) error {
	var r *refusal
	if !errors.As(err, &r) || errors.As(err, new(*problem.Problem)) {
		return resumable(err)
	}
	said := r.Error()
	switch {
	case r.moved != "":
		return problem.New(problem.NotFound, "The repository "+id+" has moved",
			"the hub redirects to "+oneLine(r.moved), "Use its new name.")
	case r.status == http.StatusUnauthorized:
		return problem.New(problem.Unauthorized, "The hub does not accept the token", said,
			tokenFix)
	case r.status == http.StatusForbidden:
		return problem.New(problem.Forbidden, "The token may not write to "+id, said, tokenFix)
	case r.status == http.StatusNotFound:
		return problem.New(problem.NotFound, "The hub has no repository "+id, said,
			"Check the name, and that the token's account may see it.")
	case r.status == http.StatusConflict, r.status == http.StatusPreconditionFailed:
		return problem.New(problem.Changed, id+" was changed during the upload", said,
			"Run the same command again: it says what it would change now, and sends no file "+
				"twice.")
	case r.status == http.StatusRequestEntityTooLarge:
		return problem.New(problem.TooLarge, "The hub refuses the size of "+what, said,
			"Convert the model again, into files of at most 5 GB.")
	case r.status == http.StatusPaymentRequired, r.status == http.StatusInsufficientStorage:
		return problem.New(problem.Upstream, "The account has no room for "+what, said,
			"Free some space at the hub, then run the same command again.")
	}
	return problem.New(problem.Upstream, "The hub refuses "+what, said,
		"Run the same command again later. What was uploaded is kept.")
}

// resumable returns err. If it says that the hub cannot be reached, it says how to go on.
func resumable(err error) error {
	var p *problem.Problem
	if errors.As(err, &p) && strings.HasSuffix(p.Message, cannotBeReached) {
		named := *p
		named.Fix = "Check your internet connection, then run the same command again: what was " +
			"uploaded is kept."
		if r := (*refusal)(nil); errors.As(p.Err, &r) && r.status == http.StatusTooManyRequests {
			named.Message = "The hub limits how many requests it takes"
			named.Fix = "Wait some minutes, then run the same command again: what was uploaded " +
				"is kept."
		}
		return &named
	}
	return err
}
