// Package hub downloads models from the Hugging Face hub, or a compatible mirror, into the cache of
// Hugging Face's own tools, so that each model is on this machine only once. It also uploads
// folders to repositories.
//
//	Search, Repository  models and their files          api.go
//	Choose              the files that a model needs    choose.go
//	Download            all of them, in order, verified download.go
//	  one file          its size, checksum and address  file.go
//	  its bytes         parts over several connections  parts.go, request.go, retry.go
//	  its place         blobs, snapshots, refs, locks   layout.go
//	  its connections   which addresses are allowed     address.go
//	PlanUpload, Upload  a folder to a repository        upload.go
//	  its files         which, their sums               uploadfiles.go
//	  repository, commit                                commit.go
//	  large files       basic and multipart             lfs.go, uploadrecord.go
//	  one request       with a body                     send.go
//	Tokens              the access token                token.go
//
// The layout of the cache is that of huggingface.co/docs/hub/local-cache. An unfinished file is
// blobs/<etag>.incomplete and is always a prefix of the whole file: parts may arrive in any order
// but are written in file order. So this package and other tools can resume each other's downloads
// after any interruption.
//
// Nothing from a server is trusted. Sizes are compared with the list of files and the free disk
// space, names must stay inside the cache, and checksums are those of the hub's etags (SHA-256 for
// large files, git's SHA-1 for small ones). The token is sent only to the hub's own address, never
// to a redirect's target, and never over plain HTTP to another machine. A redirect to an address
// inside this machine or network is refused, unless the hub itself is there.
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

// DefaultEndpoint is the Hugging Face hub.
const DefaultEndpoint = "https://huggingface.co"

// Options configure a Client. Cache is required.
type Options struct {
	Cache    string        // the hub cache's folder, which need not exist
	Endpoint string        // "": DefaultEndpoint
	Token    func() string // called for each request; nil or "": no token
	// Architectures are the values of model_type in config.json that the engine can run; nil: all.
	Architectures []string
	UserAgent     string            // "": headroom
	Uploads       string            // file that notes unfinished uploads; "": none
	Connections   int               // concurrent; 0: 4
	PartBytes     int64             // size of one range request; 0: 8 MiB
	Transport     http.RoundTripper // nil: one that refuses addresses that are not public
	Log           *slog.Logger      // nil: slog.Default()

	sleep func(ctx context.Context, d time.Duration) error // nil: sleep
	write func(f *os.File, b []byte) (int, error)          // nil: f.Write
	free  func(dir string) (int64, error)                  // nil: disk.FreeBytes
	stall time.Duration                                    // idle time of a connection; 0: 30 s
}

// Client talks to one hub. Its methods are safe for concurrent use.
type Client struct {
	options  Options
	endpoint *url.URL
	guard    *guard // of the connections that the default Transport opens
	http     *http.Client
	sender   *http.Client // of uploads, whose answers may take minutes
	log      *slog.Logger
}

// New returns a Client. The error is a Problem: the endpoint is not a valid address.
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
	g := newGuard(endpoint)
	patient := o.Transport
	setDefaults(&o, g)
	if patient == nil {
		t := g.transport()
		t.MaxIdleConnsPerHost = o.Connections
		patient = t
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{options: o, endpoint: endpoint, guard: g, log: o.Log,
		http:   &http.Client{Transport: o.Transport, CheckRedirect: noRedirects},
		sender: &http.Client{Transport: patient, CheckRedirect: noRedirects}}, nil
}

func setDefaults(o *Options, g *guard) {
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
		t := g.transport()
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

// ParseEndpoint parses the address of a hub. The error is a Problem.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(text), "/"))
	if err == nil && (u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" ||
		u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		err = errors.New("it is not an address such as " + DefaultEndpoint)
	}
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "The hub's address is not valid",
			"Enter one that begins with https:// and has no user name or question mark.")
	}
	return u, nil
}

// Endpoint returns the hub's address.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Cache returns the folder of the cache.
func (c *Client) Cache() string { return c.options.Cache }

// Runs reports whether the engine can run models of this model_type. For "", a type that the hub
// does not know, it returns true.
func (c *Client) Runs(modelType string) bool {
	known := c.options.Architectures
	return known == nil || modelType == "" || slices.Contains(known, modelType)
}

// mayHaveToken reports whether the token may be sent to an address: the hub's own, over HTTPS or on
// this machine.
func (c *Client) mayHaveToken(u *url.URL) bool {
	if u.Scheme != c.endpoint.Scheme || !strings.EqualFold(u.Host, c.endpoint.Host) {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
