// Package hub downloads models from the Hugging Face hub, or a mirror that speaks like it, into the
// cache that Hugging Face's own tools use, so that a model is on this machine once, whoever fetched
// it.
//
//	Search, Repository   what there is                                api.go
//	Choose               which files of it a model needs              choose.go
//	Download             all of them, in order, verified              download.go
//	  one file: where it is and what it must hold                     file.go
//	  its bytes: parts over several connections, retried              parts.go, request.go, retry.go
//	  its place: blobs, snapshots, refs, locks                        layout.go
//	token.go             who asks: the keychain, the environment, or a file
//
// The cache's layout is that of huggingface.co/docs/hub/local-cache. A file that is on its way is
// blobs/<etag>.incomplete, and at every moment the beginning of the whole: parts may come in any
// order, but are written in theirs. So another tool can go on with what this one began, and this
// one with theirs, after an end of any kind.
//
// Nothing that a server says is trusted: sizes are held against what was promised and what the disk
// has, names may not lead out of the cache, checksums are those that the hub's etag names (SHA-256
// of large files, git's SHA-1 of small ones). The token goes to the hub's own address alone, never
// to where that redirects, and never over plain HTTP to another machine.
package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// DefaultEndpoint is the hub itself.
const DefaultEndpoint = "https://huggingface.co"

// Options configure a Client. Cache is required.
type Options struct {
	// the hub cache's folder, with models--org--name folders in it; it need not exist
	Cache    string
	Endpoint string        // "": DefaultEndpoint
	Token    func() string // asked for each time; nil, or "": none
	// of models, by config.json's model_type, that are of use here; nil: all
	Kinds       []string
	UserAgent   string // "": headroom
	Connections int    // at once for one large file, or for small ones together; 0: 4
	PartBytes   int64  // that one connection fetches in one go; 0: 8 MiB
	Transport   http.RoundTripper
	Log         *slog.Logger // nil: slog.Default()

	sleep func(ctx context.Context, d time.Duration) error // nil: really
	write func(f *os.File, b []byte) (int, error)          // nil: f.Write
	free  func(dir string) (int64, error)                  // nil: disk.FreeBytes
	// without a byte until a connection is given up; 0: 30 s
	stall time.Duration
}

// Client speaks with one hub. Its methods may be called from several goroutines.
type Client struct {
	options  Options
	endpoint *url.URL
	http     *http.Client
	log      *slog.Logger
}

// New makes a Client. The error is a Problem: the endpoint is no address.
func New(o Options) (*Client, error) {
	if o.Cache == "" {
		panic("hub: New without a Cache: set it in Options, for example to library.HubCache()")
	}
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	endpoint, err := ParseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	setDefaults(&o)
	c := &Client{options: o, endpoint: endpoint, log: o.Log}
	c.http = &http.Client{Transport: o.Transport,
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	return c, nil
}

func setDefaults(o *Options) {
	if o.UserAgent == "" {
		o.UserAgent = "headroom"
	}
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.PartBytes <= 0 {
		o.PartBytes = 8 << 20
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 30 * time.Second
		t.MaxIdleConnsPerHost = o.Connections
		o.Transport = t
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.sleep == nil {
		o.sleep = sleep
	}
	if o.write == nil {
		o.write = (*os.File).Write
	}
	if o.free == nil {
		o.free = disk.FreeBytes
	}
	if o.stall <= 0 {
		o.stall = 30 * time.Second
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ParseEndpoint reads the address of a hub. The error is a Problem.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(text), "/"))
	if err == nil && (u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" ||
		u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		err = errors.New("it is not an address such as " + DefaultEndpoint)
	}
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "The hub's address cannot be used",
			"Give one that begins with https:// and has no user name or question mark in it.")
	}
	return u, nil
}

// Endpoint is the hub's address.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Cache is the folder that models come to.
func (c *Client) Cache() string { return c.options.Cache }

// Runs tells whether models of that kind are of use here; of one that the hub does not know, nobody
// can tell before it is here.
func (c *Client) Runs(modelType string) bool {
	return c.options.Kinds == nil || modelType == "" || slices.Contains(c.options.Kinds, modelType)
}

// mayHaveToken tells whether the token may go to an address: the hub's own, encrypted or on this
// machine.
func (c *Client) mayHaveToken(u *url.URL) bool {
	if u.Scheme != c.endpoint.Scheme || !strings.EqualFold(u.Host, c.endpoint.Host) {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
