package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/hub/hubtest"
	"headroom/app/jobs"
	"headroom/engine/problem"
)

// uploadTest has a folder, a hub and a client.
type uploadTest struct {
	*testing.T
	hub     *hubtest.Hub
	dir     string
	files   map[string]string // of the folder
	options Options

	mu    sync.Mutex
	slept []time.Duration
}

// modelFiles has a file for each way: in the commit, in one request, in parts, empty.
func modelFiles() map[string]string {
	weights := strings.Builder{}
	for i := range 300 {
		fmt.Fprintf(&weights, "%05d", i) // 1,500 bytes: six parts of 256, the last shorter
	}
	return map[string]string{"config.json": `{"model_type":"x"}`, "README.md": "---\n---\n",
		"model-1.safetensors": weights.String(), "model-2.safetensors": "one request",
		"1_Pooling/config.json": "{}", "empty.txt": ""}
}

func newUploadTest(t *testing.T) *uploadTest {
	u := &uploadTest{T: t, hub: hubtest.New(t), dir: t.TempDir(), files: modelFiles()}
	u.options = Options{Cache: t.TempDir(), Endpoint: u.hub.URL, Connections: 2,
		Uploads: filepath.Join(t.TempDir(), "config", "uploads.json"),
		Token:   func() string { return hubtest.Token }, Log: slog.New(slog.DiscardHandler),
		sleep: func(ctx context.Context, d time.Duration) error {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.slept = append(u.slept, d)
			return ctx.Err()
		}}
	for name, text := range u.files {
		u.write(name, text)
	}
	u.write(".DS_Store", "Finder's")
	t.Cleanup(func() {
		for _, wrong := range u.hub.Wrong() {
			t.Error("against the protocol: " + wrong)
		}
	})
	return u
}

func (u *uploadTest) write(name, text string) {
	u.Helper()
	path := filepath.Join(u.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(text), 0o644)); err != nil {
		u.Fatal(err)
	}
}

func (u *uploadTest) client() *Client {
	u.Helper()
	c, err := New(u.options)
	if err != nil {
		u.Fatal(err)
	}
	return c
}

// run plans and uploads. The job is that of the upload.
func (u *uploadTest) run(ctx context.Context, q UploadRequest) (plan *UploadPlan, done Uploaded,
	job jobs.Job, err error) {
	u.Helper()
	q.ID, q.Dir = "org/name", u.dir
	c := u.client()
	work := func(work func(context.Context, *jobs.Progress) error) (jobs.Job, error) {
		list := jobs.NewList()
		defer list.Close()
		id := list.Start(jobs.Spec{Kind: UploadJob,
			Work: func(_ context.Context, p *jobs.Progress) (string, error) {
				return "", work(ctx, p)
			}}).ID
		job, _ := list.Wait(context.Background(), id)
		return job, job.Err
	}
	job, err = work(func(ctx context.Context, p *jobs.Progress) (err error) {
		plan, err = c.PlanUpload(ctx, q, p)
		return err
	})
	if err != nil {
		return plan, done, job, err
	}
	job, err = work(func(ctx context.Context, p *jobs.Progress) (err error) {
		done, err = c.Upload(ctx, plan, p)
		return err
	})
	return plan, done, job, err
}

// mustRun uploads, and expects the repository to have exactly the files of the folder.
func (u *uploadTest) mustRun() (*UploadPlan, Uploaded) {
	u.Helper()
	plan, done, job, err := u.run(context.Background(), UploadRequest{})
	if err != nil {
		u.Fatal(err)
	}
	if job.DoneBytes != job.TotalBytes {
		u.Errorf("the progress is %d of %d", job.DoneBytes, job.TotalBytes)
	}
	u.expectContent()
	return plan, done
}

func (u *uploadTest) expectContent() {
	u.Helper()
	got, _ := u.hub.Content("org/name")
	if fmt.Sprint(got) != fmt.Sprint(u.files) {
		u.Errorf("the repository has\n%v\nexpected\n%v", got, u.files)
	}
}

func (u *uploadTest) count(prefix string) (n int) {
	for _, r := range u.hub.Requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// TestUpload: a new repository is private and has all files. The second run sends nothing, and one
// after a change only what has changed.
func TestUpload(t *testing.T) {
	u := newUploadTest(t)
	plan, done := u.mustRun()
	if !plan.Create || !plan.Private || !slices.Equal(plan.Hidden, []string{".DS_Store"}) ||
		!u.hub.Repositories["org/name"].Private {
		t.Errorf("the plan is %+v", plan)
	}
	if n, bytes := plan.Count(FileNew); n != 6 || done.Sent != bytes ||
		!strings.HasPrefix(done.Address, u.hub.URL+"/org/name/commit/") {
		t.Errorf("%d files, %+v, expected %d bytes", n, done, bytes)
	}
	if got := u.hub.Received(); got != 1511 {
		t.Errorf("%d bytes arrived at the storage", got)
	}
	if text, err := os.ReadFile(u.options.Uploads); err != nil || string(text) != "[]" {
		t.Errorf("noted: %s, %v", text, err)
	}
	plan, done = u.mustRun()
	if n, _ := plan.Count(FileSame); n != 6 || done.Sent != 0 || done.Address != "" ||
		u.hub.Repositories["org/name"].Commits != 1 {
		t.Errorf("the second run: %+v, %+v", plan, done)
	}
	u.files["config.json"] = `{"model_type":"y"}`
	u.write("config.json", u.files["config.json"])
	plan, _ = u.mustRun()
	if n, _ := plan.Count(FileReplaced); n != 1 || u.hub.Received() != 0 {
		t.Errorf("the third run: %+v", plan)
	}
}

// TestUploadPlan: the plan says what is new, replaced, the same and left.
func TestUploadPlan(t *testing.T) {
	u := newUploadTest(t)
	u.hub.Add("org/name", false, map[string]hubtest.File{
		"model-1.safetensors": {Content: u.files["model-1.safetensors"], Large: true},
		"model-2.safetensors": {Content: "another one", Large: true},
		"model-3.safetensors": {Content: "of an older model", Large: true},
		"config.json":         {Content: u.files["config.json"]}, "notes.md": {Content: "old"}})
	plan, _, _, err := u.run(context.Background(), UploadRequest{Public: true})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, f := range plan.Files {
		got += fmt.Sprintf("%s %s, ", f.State, f.Path)
	}
	const want = "new 1_Pooling/config.json, new README.md, same config.json, new empty.txt, " +
		"same model-1.safetensors, replaced model-2.safetensors, "
	if got != want || plan.Create || plan.Private ||
		!slices.Equal(plan.Left, []string{"model-3.safetensors", "notes.md"}) ||
		!slices.Equal(plan.LeftWeights(), []string{"model-3.safetensors"}) {
		t.Errorf("%s, %+v", got, plan)
	}
	u.files["model-3.safetensors"], u.files["notes.md"] = "of an older model", "old"
	u.expectContent()
	if u.hub.Received() != int64(len("one request")) {
		t.Error("a file that the hub has was sent")
	}
}

// TestUploadIgnored: files that the repository's .gitignore excludes are named and not sent.
func TestUploadIgnored(t *testing.T) {
	u := newUploadTest(t)
	u.write("train.log", "loss")
	if _, done := u.mustRun(); !slices.Equal(done.Ignored, []string{"train.log"}) {
		t.Errorf("%+v", done)
	}
}

// drop answers like a connection that breaks after some bytes of the body.
func drop(r *http.Request) bool {
	_, _ = r.Body.Read(make([]byte, 10))
	panic(http.ErrAbortHandler)
}

// TestUploadFaults: whatever the hub does in between, every file arrives whole, and nothing is
// committed twice.
func TestUploadFaults(t *testing.T) {
	type fault func(u *uploadTest, w http.ResponseWriter, r *http.Request) bool
	status := func(code int) fault {
		return func(_ *uploadTest, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			return true
		}
	}
	dropped := func(_ *uploadTest, _ http.ResponseWriter, r *http.Request) bool { return drop(r) }
	expired := func(u *uploadTest, _ http.ResponseWriter, _ *http.Request) bool {
		u.hub.Expire()
		return false
	}
	conflict := func(_ *uploadTest, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"error":"Cannot create repo: ` + conflicting + `"}`))
		return true
	}
	made := func(u *uploadTest, _ http.ResponseWriter, _ *http.Request) bool {
		u.hub.Add("org/name", true, nil)
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		path  string // whose requests fail
		times int
		fault fault
	}{
		"dropped part":          {"/part/", 3, dropped},
		"dropped file":          {"/object/", 2, dropped},
		"500 of storage":        {"/part/", 4, status(500)},
		"503 of hub":            {"/", 2, status(503)},
		"429 of preupload":      {"/api/models/org/name/preupload", 2, status(429)},
		"429 of commit":         {"/api/models/org/name/commit", 2, status(429)},
		"504 of complete":       {"/api/complete_multipart", 2, status(504)},
		"conflict":              {"/api/repos/create", 2, conflict},
		"expired parts":         {"/part/", 1, expired},
		"expired file":          {"/object/", 1, expired},
		"lost answer of create": {"/api/repos/create", 1, made},
	} {
		t.Run(name, func(t *testing.T) {
			u, n := newUploadTest(t), 0
			var mu sync.Mutex
			u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				mu.Lock()
				hit := strings.HasPrefix(r.URL.Path, c.path) && n < c.times
				if hit {
					n++
				}
				mu.Unlock()
				return hit && c.fault(u, w, r)
			}
			u.mustRun()
			if n != c.times || u.hub.Repositories["org/name"].Commits != 1 {
				t.Errorf("%d faults, %d commits", n, u.hub.Repositories["org/name"].Commits)
			}
			if strings.HasPrefix(name, "429") && !slices.Contains(u.slept, 7*time.Second) {
				t.Errorf("slept %v, expected the Retry-After", u.slept)
			}
		})
	}
}

// TestUploadCommitLost: the hub commits, and its answer is lost, or it is empty. Nothing is
// committed twice.
func TestUploadCommitLost(t *testing.T) {
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprintf("empty %t", empty), func(t *testing.T) { uploadWithLostCommit(t, empty) })
	}
}

func uploadWithLostCommit(t *testing.T, empty bool) {
	u, lost := newUploadTest(t), false
	u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if strings.Contains(r.URL.Path, "/commit/") && !lost {
			lost = true
			again, _ := http.NewRequest("POST", u.hub.URL+r.URL.Path, r.Body)
			again.Header = r.Header
			if a, err := http.DefaultClient.Do(again); err != nil || a.StatusCode != 200 {
				t.Error("the commit failed", err)
			}
			if empty {
				return true
			}
			panic(http.ErrAbortHandler)
		}
		return false
	}
	_, done := u.mustRun()
	if !lost || u.hub.Repositories["org/name"].Commits != 1 ||
		done.Address != u.hub.URL+"/org/name" {
		t.Errorf("%d commits, %+v", u.hub.Repositories["org/name"].Commits, done)
	}
}

// TestUploadResumes: an upload that is stopped in the middle of a file goes on with the missing
// parts, also in a new process. Whole files are not sent again. If the parts have been forgotten,
// or their addresses have expired, the file is sent anew.
func TestUploadResumes(t *testing.T) {
	for name, c := range map[string]struct {
		between func(u *uploadTest)
		most    int // parts that the second run may send
	}{
		"at once":          {func(*uploadTest) {}, 3},
		"expired":          {func(u *uploadTest) { u.hub.Expire() }, 8},
		"expired, renewed": {func(u *uploadTest) { u.hub.Expire(); u.hub.SameUpload = true }, 3},
		"forgotten":        {func(u *uploadTest) { u.hub.ForgetParts() }, 9},
		"damaged record": {func(u *uploadTest) {
			if err := os.WriteFile(u.options.Uploads, []byte("mine"), 0o600); err != nil {
				u.Fatal(err)
			}
		}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUploadTest(t)
			u.options.Connections = 1
			ctx, stop := context.WithCancel(context.Background())
			u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if strings.HasPrefix(r.URL.Path, "/part/") && strings.HasSuffix(r.URL.Path, "/4") &&
					ctx.Err() == nil {
					stop()
					panic(http.ErrAbortHandler)
				}
				return false
			}
			if _, _, _, err := u.run(ctx, UploadRequest{}); !errors.Is(err, context.Canceled) {
				t.Fatal("not stopped: ", err)
			}
			if info, err := os.Stat(u.options.Uploads); err != nil ||
				info.Mode().Perm() != 0o600 {
				t.Fatalf("the record: %v, %v", info, err)
			}
			c.between(u)
			before, file := u.count("PUT /part/"), u.count("PUT /object/")
			u.mustRun()
			if n := u.count("PUT /part/") - before; n > c.most || n < 3 {
				t.Errorf("%d parts were sent, expected at most %d", n, c.most)
			}
			if u.count("PUT /object/") != file {
				t.Error("a file that the hub has was sent again")
			}
			if text, _ := os.ReadFile(u.options.Uploads); name == "damaged record" &&
				string(text) != "mine" {
				t.Errorf("a foreign file was replaced: %s", text)
			}
		})
	}
}

// TestUploadChangedMeanwhile: a commit of somebody else between plan and commit is not overwritten.
func TestUploadChangedMeanwhile(t *testing.T) {
	u := newUploadTest(t)
	u.hub.Add("org/name", true, map[string]hubtest.File{"config.json": {Content: "old"}})
	u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if strings.Contains(r.URL.Path, "/preupload/") {
			u.hub.Repositories["org/name"].Head = strings.Repeat("1", 40)
		}
		return false
	}
	_, _, _, err := u.run(context.Background(), UploadRequest{})
	if problem.From(err).Code != problem.Changed {
		t.Errorf("the error is %v", err)
	}
	if got, _ := u.hub.Content("org/name"); got["config.json"] != "old" {
		t.Error("it was overwritten")
	}
}

// TestUploadErrors: each error is a Problem in words that a person can act on, and the repository
// stays as it was.
func TestUploadErrors(t *testing.T) {
	refuse := func(path string, status int) func(*uploadTest) {
		return func(u *uploadTest) {
			u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if !strings.Contains(r.URL.Path, path) {
					return false
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"because\nof this"}`))
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		before func(u *uploadTest)
		code   problem.Code
		want   string
	}{
		"no token": {func(u *uploadTest) { u.options.Token = nil }, problem.Unauthorized,
			"An upload needs a token"},
		"wrong token": {func(u *uploadTest) { u.options.Token = func() string { return "hf_no" } },
			problem.Unauthorized, "The hub does not accept the token: it answered 401 " +
				"Unauthorized: Invalid username or password."},
		"token that reads": {func(u *uploadTest) { u.hub.Role = "read" }, problem.Forbidden,
			"The token may only read"},
		"plain HTTP": {func(u *uploadTest) { u.options.Endpoint = "http://hub.example" },
			problem.BadRequest, "The token is not sent to http://hub.example"},
		"401 of commit": {refuse("/commit/", 401), problem.Unauthorized, "does not accept"},
		"402":           {refuse("/batch", 402), problem.Upstream, "The account has no room for"},
		"403 of commit": {refuse("/commit/", 403), problem.Forbidden,
			"The token may not write to org/name: it answered 403 Forbidden: because of this"},
		"403 of create": {refuse("/create", 403), problem.Forbidden,
			"The token may not make a repository of org"},
		"404 of batch": {refuse("/batch", 404), problem.NotFound, "no repository org/name"},
		"409 of create": {refuse("/create", 409), problem.Exists,
			"org/name exists and cannot be seen"},
		"409 of commit": {refuse("/commit/", 409), problem.Changed, "was changed"},
		"413 of part":   {refuse("/part/", 413), problem.TooLarge, "size of model-1.safetensors"},
		"413 of commit": {refuse("/commit/", 413), problem.TooLarge, "size of the commit"},
		"422 of commit": {refuse("/commit/", 422), problem.Upstream, "because of this"},
		"403 of part":   {refuse("/part/", 403), problem.Upstream, "storage refuses"},
		"400 of complete": {refuse("/complete_multipart", 400), problem.Upstream,
			"The hub refuses model-1.safetensors"},
		"always 429": {refuse("/preupload/", 429), problem.Upstream,
			"The hub limits how many requests it takes: it answered 429"},
		"always 500": {refuse("/part/", 500), problem.Upstream, "run the same command again"},
		"200 of commit": {refuse("/commit/", 200), problem.Upstream,
			"It is not known whether the files were committed"},
		"no model, no token": {func(u *uploadTest) {
			u.options.Token = nil
			_ = os.Remove(filepath.Join(u.dir, "config.json"))
		}, problem.BadRequest, "There is no model in"},
		"renamed": {refuse("/create", 307), problem.Upstream, "refuses the new repository"},
		"public":  {func(u *uploadTest) { u.hub.Publish() }, problem.Upstream, "is public"},
		"offline": {func(u *uploadTest) { u.options.Endpoint = "http://127.0.0.1:1" },
			problem.Upstream, "cannot be reached: nothing answers at its address. Check your " +
				"internet connection, then run the same command again"},
		"no model": {func(u *uploadTest) { _ = os.Remove(filepath.Join(u.dir, "config.json")) },
			problem.BadRequest, "There is no model in"},
		"no folder": {func(u *uploadTest) { u.dir += "/no" }, problem.NotFound, "no folder"},
		"link outside": {func(u *uploadTest) {
			_ = os.Symlink("/etc/hostname", filepath.Join(u.dir, "a.txt"))
		}, problem.BadRequest, "a.txt is a link to a file outside the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUploadTest(t)
			c.before(u)
			_, _, _, err := u.run(context.Background(), UploadRequest{})
			if p := problem.From(err); err == nil || p.Code != c.code ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, expected %s: %s", err, c.code, c.want)
			}
			if files, _ := u.hub.Content("org/name"); len(files) > 0 {
				t.Errorf("the repository has %v", files)
			}
		})
	}
}

// TestUploadOfUnknownTransfer: a hub that takes files only in a way that Headroom does not have.
func TestUploadOfUnknownTransfer(t *testing.T) {
	u := newUploadTest(t)
	u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if !strings.HasSuffix(r.URL.Path, "/batch") {
			return false
		}
		_, _ = w.Write([]byte(`{"transfer":"xet","objects":[]}`))
		return true
	}
	_, _, _, err := u.run(context.Background(), UploadRequest{})
	if err == nil || !strings.Contains(err.Error(), `it asks for the transfer "xet"`) {
		t.Error(err)
	}
}

// TestUploadOfChangedFile: a file that is written during the upload is not committed.
func TestUploadOfChangedFile(t *testing.T) {
	u := newUploadTest(t)
	u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if strings.HasPrefix(r.URL.Path, "/part/") {
			u.write("model-2.safetensors", "another one")
		}
		return false
	}
	_, _, _, err := u.run(context.Background(), UploadRequest{})
	if problem.From(err).Code != problem.Changed || u.hub.Repositories["org/name"].Commits != 0 {
		t.Error(err)
	}
}

// TestUploadSnapshot: the links of a snapshot in the hub's cache lead to blobs, which are sent.
func TestUploadSnapshot(t *testing.T) {
	u := newUploadTest(t)
	root := t.TempDir()
	snapshot := filepath.Join(root, "snapshots", commit)
	blobs := filepath.Join(root, "blobs")
	if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.Mkdir(blobs, 0o755),
		os.WriteFile(filepath.Join(blobs, "abc"), []byte("{}"), 0o644),
		os.Symlink("../../blobs/abc", filepath.Join(snapshot, "config.json"))); err != nil {
		t.Fatal(err)
	}
	u.dir, u.files = snapshot, map[string]string{"config.json": "{}"}
	u.mustRun()
}

// TestUploadStalls: a connection over which nothing moves is given up, and the part is sent again.
func TestUploadStalls(t *testing.T) {
	u, over := newUploadTest(t), make(chan struct{})
	var stalled atomic.Bool
	defer close(over)
	u.options.stall = 100 * time.Millisecond
	u.options.Connections = 1
	u.write("model-1.safetensors", strings.Repeat("0123456789abcdef", 1<<20))
	u.files["model-1.safetensors"] = strings.Repeat("0123456789abcdef", 1<<20)
	u.hub.PartBytes = 16 << 20
	u.hub.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		large := "/object/" + hubtest.SHA256(u.files["model-1.safetensors"])
		if r.URL.Path == large && stalled.CompareAndSwap(false, true) {
			<-over // without reading the body
			return true
		}
		return false
	}
	if u.mustRun(); !stalled.Load() {
		t.Error("nothing stalled")
	}
}

// FuzzUploadAnswers: no answer of a hub makes an upload panic, or read outside the folder.
func FuzzUploadAnswers(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"config.json","uploadMode":"lfs"}]}`),
		[]byte(`{"objects":[{"oid":"x","size":1,"actions":{"upload":{"href":"/",`+
			`"header":{"chunk_size":"1","1":"/"}}}}]}`))
	f.Add([]byte(`{}`), []byte(`{"objects":[{"size":-1,"error":{"code":1}}]}`))
	f.Fuzz(func(t *testing.T, preupload, batch []byte) {
		file := &localFile{path: "config.json", size: 10, sha256: "x"}
		u := &upload{client: &Client{}, plan: &UploadPlan{ID: "org/name"}}
		_ = u.place([]*localFile{file}, preupload)
		var answer struct{ Objects []lfsObject }
		if json.Unmarshal(batch, &answer) != nil {
			return
		}
		for _, o := range answer.Objects {
			if a := o.Actions.Upload; a.inParts() {
				p, err := partsOf(file, a)
				if err == nil && (!p.valid() || p.have() != 0) {
					t.Errorf("%s: %+v", batch, p)
				}
			}
		}
	})
}
