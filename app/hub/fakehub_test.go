package hub

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/jobs"
)

const (
	commit  = "0123456789abcdef0123456789abcdef01234567"
	largeAt = 50 // size from which the fake hub redirects to the other server
	partLen = 16
)

// fakeHub is a hub, and the server to which it redirects requests for large files.
type fakeHub struct {
	t        *testing.T
	hub, cdn *httptest.Server
	cache    string

	mu       sync.Mutex
	files    map[string]string
	requests []string // "HUB GET /path range with token"
	slept    []time.Duration
	// change edits the list of files before it is sent; may be nil.
	change func(listing map[string]any)
	// fault may answer the n-th request for a file's bytes; it returns true if it did. May be nil.
	fault        func(w http.ResponseWriter, r *http.Request, n int) bool
	byteRequests int // requests for a file's bytes so far
}

func newFakeHub(t *testing.T, files map[string]string) *fakeHub {
	f := &fakeHub{t: t, files: files, cache: filepath.Join(t.TempDir(), "hub")}
	f.hub, f.cdn = httptest.NewServer(http.HandlerFunc(f.serveHub)),
		httptest.NewServer(http.HandlerFunc(f.serveBytes))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.cdn.Close)
	return f
}

// client returns a Client of the fake hub that does not sleep.
func (f *fakeHub) client(change ...func(*Options)) *Client {
	o := Options{Cache: f.cache, Endpoint: f.hub.URL, Token: func() string { return "hf_secret" },
		PartBytes: partLen, Connections: 3, Log: slog.New(slog.DiscardHandler),
		free: func(string) (int64, error) { return 1 << 40, nil },
		sleep: func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.slept = append(f.slept, d)
			return ctx.Err()
		}}
	for _, c := range change {
		c(&o)
	}
	c, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func sumOf(text string) string {
	if len(text) >= largeAt {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}

func (f *fakeHub) note(where string, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := where + " " + r.Method + " " + r.URL.Path
	if text := r.Header.Get("Range"); text != "" {
		line += " " + text
	}
	if r.Header.Get("Authorization") == "Bearer hf_secret" {
		line += " with token"
	}
	f.requests = append(f.requests, line)
}

func (f *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	f.note("HUB", r)
	switch _, name, ok := strings.Cut(r.URL.Path, "/resolve/"+commit+"/"); {
	case ok:
		text, known := f.files[name]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Repo-Commit", commit)
		if len(text) >= largeAt {
			w.Header().Set("X-Linked-Etag", `"`+sumOf(text)+`"`)
			w.Header().Set("X-Linked-Size", fmt.Sprint(len(text)))
			http.Redirect(w, r, f.cdn.URL+"/"+name+"?signed=yes", http.StatusFound)
			return
		}
		w.Header().Set("ETag", `"`+sumOf(text)+`"`)
		if r.Method == "GET" {
			f.serveBytes(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	case strings.HasPrefix(r.URL.Path, "/api/models/o/m/revision/"):
		_ = json.NewEncoder(w).Encode(f.listing())
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeHub) listing() map[string]any {
	var siblings []map[string]any
	for _, name := range sorted(f.files) {
		text := f.files[name]
		s := map[string]any{"rfilename": name, "size": len(text), "blobId": strings.Repeat("a", 40)}
		if len(text) >= largeAt {
			s["lfs"] = map[string]any{"sha256": sumOf(text), "size": len(text), "pointerSize": 134}
		} else {
			s["blobId"] = sumOf(text)
		}
		siblings = append(siblings, s)
	}
	listing := map[string]any{"id": "o/m", "sha": commit, "gated": false, "siblings": siblings}
	if f.change != nil {
		f.change(listing)
	}
	return listing
}

// setFault changes fault while handlers of an earlier download may still run.
func (f *fakeHub) setFault(fault func(w http.ResponseWriter, r *http.Request, n int) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fakeHub) serveBytes(w http.ResponseWriter, r *http.Request) {
	if r.Host == strings.TrimPrefix(f.cdn.URL, "http://") {
		f.note("CDN", r)
	}
	f.mu.Lock()
	f.byteRequests++
	n, fault := f.byteRequests, f.fault
	text := f.files[filepath.Base(r.URL.Path)]
	f.mu.Unlock()
	if fault != nil && fault(w, r, n) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// short answers with the first bytes of the range, then drops the connection.
func (f *fakeHub) short(w http.ResponseWriter, r *http.Request, bytesSent int) bool {
	record := httptest.NewRecorder()
	http.ServeContent(record, r, "", time.Time{},
		strings.NewReader(f.files[filepath.Base(r.URL.Path)]))
	body := record.Body.Bytes()
	for name, values := range record.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(record.Code)
	_, _ = w.Write(body[:min(bytesSent, len(body))])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func sorted(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// model returns a repository with one large file.
func model() map[string]string {
	weights := bytes.Buffer{}
	for i := range 40 {
		fmt.Fprintf(&weights, "%05d", i) // 200 bytes, different in each part
	}
	return map[string]string{"config.json": `{"model_type":"x"}`,
		"model.safetensors": weights.String(), "README.md": "read me", "pytorch_model.bin": "old"}
}

// download runs a download and returns its job.
func (f *fakeHub) download(c *Client) jobs.Job {
	f.t.Helper()
	list := jobs.NewList()
	defer list.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	job, err := list.Wait(ctx, list.Start(c.Job(Request{ID: "o/m"})).ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return job
}

// expectWhole expects the cache as Hugging Face's tools write it.
func (f *fakeHub) expectWhole(job jobs.Job) {
	f.t.Helper()
	if job.State != jobs.Done {
		f.t.Fatalf("the download is %s: %v", job.State, job.Err)
	}
	total := int64(0)
	want := []string{"refs/main = " + commit}
	for name, text := range f.files {
		if strings.HasSuffix(name, ".bin") {
			continue
		}
		total += int64(len(text))
		want = append(want, "blobs/"+sumOf(text)+" = "+text,
			"snapshots/"+commit+"/"+name+" -> ../../blobs/"+sumOf(text))
	}
	f.expectRepository(want...)
	if job.DoneBytes != total || job.TotalBytes != total {
		f.t.Errorf("%d of %d bytes are done, want %d", job.DoneBytes, job.TotalBytes, total)
	}
	if dir := filepath.Join(f.cache, "models--o--m", "snapshots", commit); job.Result != dir {
		f.t.Errorf("the snapshot is %s, want %s", job.Result, dir)
	}
}

// expectRepository expects exactly these files and links in the repository's folder.
func (f *fakeHub) expectRepository(want ...string) {
	f.t.Helper()
	root := filepath.Join(f.cache, "models--o--m")
	var got []string
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		if target, err := os.Readlink(path); err == nil {
			got = append(got, rel+" -> "+target)
		} else {
			text, _ := os.ReadFile(path)
			got = append(got, rel+" = "+string(text))
		}
		return nil
	})
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		f.t.Errorf("the cache has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
