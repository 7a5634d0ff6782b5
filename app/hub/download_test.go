package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

func TestDownload(t *testing.T) {
	f := newFakeHub(t, model())
	f.expectWhole(f.download(f.client()))
	parts := 0
	for _, line := range f.requests {
		toHub, withToken := strings.HasPrefix(line, "HUB "), strings.HasSuffix(line, " with token")
		if toHub != withToken {
			t.Errorf("the token went to the wrong server: %s", line)
		}
		if strings.HasPrefix(line, "CDN GET /model.safetensors bytes=") {
			parts++
		}
	}
	if parts != 13 { // 200 bytes by 16
		t.Errorf("%d parts, want 13: %q", parts, f.requests)
	}
	// A second download makes only HEAD and API requests.
	f.requests, f.byteRequests = nil, 0
	f.expectWhole(f.download(f.client()))
	if f.byteRequests != 0 {
		t.Errorf("%d requests for files that are complete", f.byteRequests)
	}
}

// large is the size of the model's weights.
const large = 200

func (f *fakeHub) incomplete() string {
	return filepath.Join(f.cache, "models--o--m", "blobs",
		sumOf(f.files["model.safetensors"])+incompleteSuffix)
}

// A download that another tool has started is resumed.
func TestResume(t *testing.T) {
	f := newFakeHub(t, model())
	if err := os.MkdirAll(filepath.Dir(f.incomplete()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.incomplete(), []byte(f.files["model.safetensors"][:150]),
		0o644); err != nil {
		t.Fatal(err)
	}
	f.expectWhole(f.download(f.client()))
	for _, line := range f.requests {
		if strings.Contains(line, "GET /model.safetensors bytes=") &&
			!strings.Contains(line, "bytes=1") {
			t.Errorf("fetched again: %s", line)
		}
	}
}

// The checksum detects an incomplete file that is not the beginning of the real one.
func TestResumeOfWrongContent(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 150), strings.Repeat("x", 300)} {
		f := newFakeHub(t, model())
		_ = os.MkdirAll(filepath.Dir(f.incomplete()), 0o755)
		if err := os.WriteFile(f.incomplete(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f.expectWhole(f.download(f.client()))
	}
}

func TestDroppedConnections(t *testing.T) {
	f := newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return n%3 != 0 && f.short(w, r, n%7)
	}
	f.expectWhole(f.download(f.client()))
	// If the hub stays unreachable, the download fails and keeps the received bytes. Each received
	// byte resets the count of failures.
	f = newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return n > 6 && f.short(w, r, max(0, 12-n))
	}
	job := f.download(f.client(func(o *Options) { o.Connections = 1 }))
	if problem.From(job.Err).Code != problem.Upstream || len(f.slept) != 4+maxFailures-1 {
		t.Errorf("%v after %d waits", job.Err, len(f.slept))
	}
	if text, err := os.ReadFile(f.incomplete()); err != nil || len(text) != 3*partLen+5+4+3+2+1 ||
		job.DoneBytes != int64(25+len(text)) {
		t.Errorf("%d bytes are kept, %d counted, %v", len(text), job.DoneBytes, err)
	}
	f.setFault(nil)
	f.expectWhole(f.download(f.client()))
}

// The incomplete file is always a prefix, whatever the order of the parts.
func TestStoppedMidway(t *testing.T) {
	f := newFakeHub(t, model())
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan struct{})
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch {
		case strings.HasPrefix(r.Header.Get("Range"), "bytes=32-"):
			// the third part waits while later parts arrive
			<-first
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(r.Header.Get("Range"), "bytes=64-"):
			cancel()
			close(first)
		}
		return false
	}
	_, err := f.client().Download(ctx, Request{ID: "o/m"}, new(jobs.Progress))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(f.incomplete())
	if err != nil || string(text) != f.files["model.safetensors"][:32] {
		t.Errorf("the file holds %q, %v", text, err)
	}
	f.setFault(nil)
	f.expectWhole(f.download(f.client()))
}

func TestDamage(t *testing.T) {
	damaged := func(times int) func(w http.ResponseWriter, r *http.Request, n int) bool {
		return func(w http.ResponseWriter, r *http.Request, n int) bool {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=16-") && times > 0 {
				times--
				w.Header().Set("Content-Range", "bytes 16-31/200")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write([]byte("sixteen bytes!!!"))
				return true
			}
			return false
		}
	}
	f := newFakeHub(t, model())
	f.fault = damaged(1)
	f.expectWhole(f.download(f.client()))
	f = newFakeHub(t, model())
	f.fault = damaged(2)
	if job := f.download(f.client()); !strings.Contains(job.Err.Error(), "wrong checksum") {
		t.Errorf("error %v", job.Err)
	}
	for _, name := range []string{f.incomplete(),
		strings.TrimSuffix(f.incomplete(), incompleteSuffix)} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// The checksum of a small file is git's.
func TestDamagedSmallFile(t *testing.T) {
	f := newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if strings.HasSuffix(r.URL.Path, "README.md") {
			_, _ = w.Write([]byte("read it"))
			return true
		}
		return false
	}
	job := f.download(f.client())
	if !strings.Contains(job.Err.Error(), "README.md had a wrong checksum twice") {
		t.Errorf("error %v", job.Err)
	}
}

func TestBusyHub(t *testing.T) {
	cases := []struct {
		name   string
		status int
		header string
		times  int
		want   string // part of the error; "": success
		least  time.Duration
	}{
		{"429 with seconds", 429, "7", 2, "", 7 * time.Second},
		{"503 without Retry-After", 503, "", 3, "", 500 * time.Millisecond},
		{"a date that has passed", 502, "Mon, 02 Jan 2006 15:04:05 GMT", 1, "",
			500 * time.Millisecond},
		{"an hour", 429, "3600", 1, "after 1h0m0s", 0},
		{"forever", 500, "", 99, "cannot be reached", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeHub(t, model())
			left := c.times
			f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				if left == 0 {
					return false
				}
				left--
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				return true
			}
			var log bytes.Buffer
			job := f.download(f.client(func(o *Options) {
				o.Connections, o.Log = 1, slog.New(slog.NewTextHandler(&log, nil))
			}))
			lines := strings.Count(log.String(), "the hub does not answer; trying again")
			warnings := strings.Count(log.String(), "level=WARN")
			if lines != len(f.slept) || lines > 0 && warnings != 1 {
				t.Errorf("%d waits, the log is %s", len(f.slept), log.String())
			}
			if c.want != "" {
				if job.Err == nil || !strings.Contains(job.Err.Error(), c.want) {
					t.Errorf("error %v", job.Err)
				}
				return
			}
			f.expectWhole(job)
			if len(f.slept) != c.times || slices.Min(f.slept) < c.least {
				t.Errorf("waited %v", f.slept)
			}
		})
	}
}

// TestFirstAnswer: a download that somebody waits for gives up soon, with the reason, when the hub
// is silent or cannot be reached.
func TestFirstAnswer(t *testing.T) {
	silent := make(chan struct{})
	f := newFakeHub(t, model())
	client := f.client()
	f.hub.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	})
	defer close(silent)
	run := func(c *Client, within time.Duration) error {
		l := jobs.NewList()
		defer l.Close()
		job, err := l.Wait(t.Context(), l.Start(c.JobWithin(Request{ID: "o/m"}, within)).ID)
		if err != nil {
			t.Fatal(err)
		}
		return job.Err
	}
	err := run(client, 20*time.Millisecond)
	if problem.From(err).Code != problem.Upstream ||
		!strings.Contains(fmt.Sprint(err), "nothing within 20ms") {
		t.Errorf("a silent hub: %v", err)
	}
	f.hub.CloseClientConnections()
	f.hub.Listener.Close()
	err = run(client, time.Minute)
	if !strings.Contains(fmt.Sprint(err), "cannot be reached") || len(f.slept) != fewFailures-1 {
		t.Errorf("no hub: %v after %d waits", err, len(f.slept))
	}
}

// From a server that ignores ranges, the client reads the file as one stream, and starts again
// after a dropped connection.
func TestRangesIgnored(t *testing.T) {
	f := newFakeHub(t, model())
	drops := 3
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		r.Header.Del("Range")
		f.mu.Lock()
		drop := drops > 0 && strings.HasSuffix(r.URL.Path, "safetensors")
		if drop {
			drops--
		}
		f.mu.Unlock()
		return drop && f.short(w, r, 90)
	}
	_ = os.MkdirAll(filepath.Dir(f.incomplete()), 0o755)
	if err := os.WriteFile(f.incomplete(), []byte(f.files["model.safetensors"][:30]),
		0o644); err != nil {
		t.Fatal(err)
	}
	f.expectWhole(f.download(f.client()))
}

// Without a size, the file ends with the connection.
func TestUnknownSizes(t *testing.T) {
	f := newFakeHub(t, map[string]string{"config.json": "{}", "model.safetensors": "small weights"})
	f.change = func(listing map[string]any) {
		for _, s := range listing["siblings"].([]map[string]any) {
			delete(s, "size")
			delete(s, "blobId")
		}
	}
	plain := f.hub.Config.Handler
	f.hub.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, name, ok := strings.Cut(r.URL.Path, "/resolve/"+commit+"/"); ok {
			w.Header().Set("ETag", `W/"`+sumOf(f.files[name])+`"`)
			w.Header().Set("Transfer-Encoding", "chunked")
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write([]byte(f.files[name]))
			return
		}
		plain.ServeHTTP(w, r)
	})
	job := f.download(f.client())
	if job.State != jobs.Done {
		t.Fatal(job.Err)
	}
	for name, text := range f.files {
		if got, err := os.ReadFile(filepath.Join(job.Result, name)); err != nil ||
			string(got) != text {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
}

// When a redirect expires, the client asks the hub again.
func TestExpiredAddress(t *testing.T) {
	f := newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 6 {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}
	f.expectWhole(f.download(f.client(func(o *Options) { o.Connections = 1 })))
	requests := 0
	for _, line := range f.requests {
		if strings.HasPrefix(line, "HUB GET /o/m/resolve/"+commit+"/model.safetensors") {
			requests++
		}
	}
	if requests != 2 {
		t.Errorf("%d requests to the hub, want 2", requests)
	}
}

func TestStalledConnection(t *testing.T) {
	f := newFakeHub(t, model())
	stalled := 0
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if stalled++; stalled == 5 {
			<-r.Context().Done()
			return true
		}
		return false
	}
	f.expectWhole(f.download(
		f.client(func(o *Options) { o.Connections, o.stall = 1, 50*time.Millisecond })))
}

func TestFullDisk(t *testing.T) {
	f := newFakeHub(t, model())
	written := 0
	full := func(o *Options) {
		o.write = func(file *os.File, b []byte) (int, error) {
			if written += len(b); written > 100 {
				return 0, &os.PathError{Op: "write", Path: file.Name(), Err: syscall.ENOSPC}
			}
			return file.Write(b)
		}
	}
	job := f.download(f.client(full))
	if problem.From(job.Err).Code != problem.DiskFull {
		t.Errorf("error %v", job.Err)
	}
	text, err := os.ReadFile(f.incomplete())
	if err != nil || len(text) == 0 ||
		!strings.HasPrefix(f.files["model.safetensors"], string(text)) ||
		job.DoneBytes != int64(25+len(text)) {
		t.Errorf("%q is kept, %d bytes counted, %v", text, job.DoneBytes, err)
	}
	f.expectWhole(f.download(f.client()))
	// A download that does not fit on the disk does not start.
	f = newFakeHub(t, model())
	job = f.download(f.client(func(o *Options) {
		o.free = func(string) (int64, error) { return minFreeBytes + 100, nil }
	}))
	if problem.From(job.Err).Code != problem.DiskFull || f.byteRequests != 0 {
		t.Errorf("error %v after %d requests", job.Err, f.byteRequests)
	}
}

func TestDiscard(t *testing.T) {
	f := newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return n > 6 && f.short(w, r, 0)
	}
	c := f.client()
	spec := c.Job(Request{ID: "o/m"})
	if _, err := spec.Work(context.Background(), new(jobs.Progress)); err == nil {
		t.Fatal("no error")
	}
	if err := spec.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.cache, "models--o--m")); err == nil {
		f.expectRepository()
		t.Error("a folder is left")
	}
	// A complete model and the blobs that it shares stay.
	f.setFault(nil)
	f.expectWhole(f.download(c))
	if err := c.layout("o/m").discard(commit); err != nil {
		t.Error(err)
	}
	f.expectWhole(f.download(c))
}

// TestForeignFilesInCache: discarding a download keeps what other tools and people have put into
// the repository's folder.
func TestForeignFilesInCache(t *testing.T) {
	f := newFakeHub(t, model())
	repository := filepath.Join(f.cache, "models--o--m")
	elsewhere := filepath.Join(t.TempDir(), "diary")
	snapshot := filepath.Join("snapshots", commit)
	foreign := map[string]string{
		"blobs/0123" + incompleteSuffix: "another tool's beginning",
		"blobs/4567":                    "another tool's blob, not linked yet",
		snapshot + "/notes.txt":         "mine",
		snapshot + "/config.json":       "edited by hand",
		"snapshots/other/a":             "another snapshot",
	}
	for name, text := range foreign {
		path := filepath.Join(repository, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(elsewhere, []byte("dear diary"), 0o600),
		os.Symlink(elsewhere, f.incomplete())); err != nil {
		t.Fatal(err)
	}
	c := f.client()
	for _, forget := range []bool{true, false} { // the commit is unknown after a restart
		spec := c.Job(Request{ID: "o/m"})
		if _, err := spec.Work(context.Background(), new(jobs.Progress)); err == nil {
			t.Fatal("the download went through a link")
		}
		if forget {
			spec = c.Job(Request{ID: "o/m"})
		}
		if err := spec.Discard(); err != nil {
			t.Error(err)
		}
	}
	var got []string
	_ = filepath.WalkDir(repository, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(repository, path)
		text, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || path == f.incomplete() {
			return err
		}
		if aside, _, ok := strings.Cut(name, ".set-aside-"); ok {
			name = aside
		}
		if got = append(got, name); foreign[name] != string(text) {
			t.Errorf("%s has %q, want %q", name, text, foreign[name])
		}
		return nil
	})
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(maps.Keys(foreign))) {
		t.Errorf("the cache has %q", got)
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "dear diary" {
		t.Errorf("the target of a link has %q, %v", text, err)
	}
	// A snapshot that another tool completed without a ref stays, with its links and blobs.
	f = newFakeHub(t, model())
	f.expectWhole(f.download(f.client()))
	if err := os.Remove(filepath.Join(f.cache, "models--o--m", "refs", "main")); err != nil {
		t.Fatal(err)
	}
	if err := f.client().layout("o/m").discard(commit); err != nil {
		t.Error(err)
	}
	f.expectWhole(f.download(f.client()))
	records := filepath.Join(f.cache, ".locks", "*", "*"+recordSuffix)
	if left, _ := filepath.Glob(records); left != nil {
		t.Errorf("records are left: %q", left)
	}
}

func TestChosenFiles(t *testing.T) {
	f := newFakeHub(t, model())
	if _, err := f.client().Download(context.Background(),
		Request{ID: "o/m", Revision: commit, Files: []string{"pytorch_model.bin"}},
		new(jobs.Progress)); err != nil {
		t.Fatal(err)
	}
	f.expectRepository("blobs/"+sumOf("old")+" = old",
		"snapshots/"+commit+"/pytorch_model.bin -> ../../blobs/"+sumOf("old"))
	_, err := f.client().Download(context.Background(), Request{ID: "o/m", Files: []string{"gone"}},
		new(jobs.Progress))
	if problem.From(err).Code != problem.NotFound {
		t.Errorf("error %v", err)
	}
}

// TestWithoutAddress: the log has no signed address.
func TestWithoutAddress(t *testing.T) {
	cause := errors.New("no route")
	err := error(&url.Error{Op: "Get", URL: "https://cdn/x?Signature=secret", Err: cause})
	for _, one := range []error{err, fmt.Errorf("part 1: %w", err), cause} {
		if got := withoutAddress(one); got != cause {
			t.Errorf("got %v", got)
		}
	}
}
