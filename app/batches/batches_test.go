package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/engine/guard"
	"headroom/engine/openai"
	"headroom/engine/seal"
	"headroom/engine/server"
)

// fake is what answers the requests of batches in tests. The content of the answer is that of the
// last message.
type fake struct {
	mu    sync.Mutex
	asked []string             // contents, in the order in which they were asked
	hold  func(content string) // called before an answer; nil: nothing is
	reply func(content string, n int) (status int, body string)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct{ Messages []struct{ Content string } }
	data, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(data, &q)
	content := q.Messages[0].Content
	if !guard.InBackground(r.Context()) {
		panic("a request of a batch is not in the background")
	}
	f.mu.Lock()
	f.asked = append(f.asked, content)
	n, hold := count(f.asked, content), f.hold
	f.mu.Unlock()
	if hold != nil {
		hold(content)
	}
	status, body := http.StatusOK, fmt.Sprintf(`{"answer":%q}`, content)
	if f.reply != nil {
		status, body = f.reply(content, n)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// world is a server with a Store, in a folder that outlives it.
type world struct {
	*testing.T
	dir    string
	key    seal.Key
	gone   sync.Map // API keys that do not exist any more
	now    time.Time
	fake   *fake
	spare  *server.Spare
	store  *Store
	server *server.Server
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "batches"), key: seal.NewKey(), fake: &fake{},
		now: time.Now()}
	t.Cleanup(func() { w.store.Close() })
	w.begin()
	return w
}

// begin starts the server, for the first time or again.
func (w *world) begin() {
	if w.store != nil {
		w.store.Close()
	}
	w.store = New(Options{Dir: w.dir, Workers: 4, firstPause: time.Millisecond, fileBytes: 1 << 20,
		Log: slog.New(slog.DiscardHandler), now: func() time.Time { return w.now },
		Key: func() (seal.Key, error) { return w.key, nil },
		Caller: func(id string) *guard.Caller {
			if _, gone := w.gone.Load(id); gone {
				return nil
			}
			return caller(id)
		}})
	w.server = server.New(server.Options{Dialects: []server.Dialect{openai.Dialect{}, w.store},
		Models: none{}, Log: slog.New(slog.DiscardHandler)})
	w.spare = server.NewSpare()
	w.store.Start(w.fake, w.spare)
}

func caller(id string) *guard.Caller {
	return &guard.Caller{ID: id, Name: id,
		Begin: func(context.CancelCauseFunc) (func(guard.Used), error) {
			return func(guard.Used) {}, nil
		}}
}

// none are no models.
type none struct{ server.Models }

func (none) List() []server.ModelInfo { return nil }
func (none) Listed() bool             { return true }

// ask sends a request with a key, or with none if that is "", and returns status and body.
func (w *world) ask(key, method, path, kind string, body []byte) (int, string) {
	w.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	ctx := r.Context()
	if key != "" {
		ctx = guard.WithCaller(ctx, caller(key))
	}
	out := httptest.NewRecorder()
	w.server.Inside().ServeHTTP(out, r.WithContext(ctx))
	return out.Code, out.Body.String()
}

// must is ask for a request that succeeds, and decodes its answer.
func must[T any](w *world, key, method, path, body string) (v T) {
	w.Helper()
	status, text := w.ask(key, method, path, "application/json", []byte(body))
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		w.Fatalf("%s %s: %d %s, %v", method, path, status, text, err)
	}
	return v
}

// refused checks the status of a request, and a part of its error.
func (w *world) refused(key, method, path, body string, status int, part string) {
	w.Helper()
	got, text := w.ask(key, method, path, "application/json", []byte(body))
	if got != status || !strings.Contains(text, part) {
		w.Errorf("%s %s: %d %s, expected %d with %q", method, path, got, text, status, part)
	}
}

// formOf returns a form with a file and fields.
func formOf(content string, fields ...string) (kind string, body []byte) {
	var b bytes.Buffer
	f := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = f.WriteField(fields[i], fields[i+1])
	}
	part, _ := f.CreateFormFile("file", "questions.jsonl")
	_, _ = io.WriteString(part, content)
	_ = f.Close()
	return f.FormDataContentType(), b.Bytes()
}

// upload uploads a file.
func (w *world) upload(key, content string) File {
	w.Helper()
	kind, body := formOf(content, "purpose", "batch")
	status, text := w.ask(key, http.MethodPost, "/v1/files", kind, body)
	var f File
	if err := json.Unmarshal([]byte(text), &f); err != nil || status != http.StatusOK {
		w.Fatalf("upload: %d %s", status, text)
	}
	return f
}

func (w *world) create(key, file string) Batch {
	w.Helper()
	return must[Batch](w, key, http.MethodPost, "/v1/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h",`+
			`"metadata":{"of":"test"}}`, file))
}

// question returns a line that asks for a content, which is its custom_id, too.
func question(content string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions",`+
		`"body":{"model":"m","messages":[{"role":"user","content":%q}]}}`+"\n", content, content)
}

func questions(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(question(fmt.Sprintf("%s%d", prefix, i)))
	}
	return b.String()
}

// await waits until a batch is as it should be.
func (w *world) await(key, id string, is func(Batch) bool) Batch {
	w.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		b := must[Batch](w, key, http.MethodGet, "/v1/batches/"+id, "")
		if is(b) {
			return b
		}
		if time.Now().After(end) {
			w.Fatalf("the batch stays %+v", b)
		}
		time.Sleep(time.Millisecond)
	}
}

func has(s Status) func(Batch) bool { return func(b Batch) bool { return b.Status == s } }

// lines returns the lines of an output file by custom_id.
func (w *world) lines(key string, file *string) map[string]string {
	w.Helper()
	lines := map[string]string{}
	if file == nil {
		return lines
	}
	status, text := w.ask(key, http.MethodGet, "/v1/files/"+*file+"/content", "", nil)
	if status != http.StatusOK {
		w.Fatalf("content: %d %s", status, text)
	}
	for line := range strings.Lines(text) {
		var one struct {
			CustomID string `json:"custom_id"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || lines[one.CustomID] != "" {
			w.Fatalf("line %q: %v, or it is there twice", line, err)
		}
		lines[one.CustomID] = line
	}
	return lines
}

// TestBatch: a batch is answered, an error goes to the error file, and a busy model is asked again.
func TestBatch(t *testing.T) {
	w := newWorld(t)
	w.fake.reply = func(content string, n int) (int, string) {
		switch {
		case content == "q3" && n < 4:
			return http.StatusTooManyRequests, `{"error":"busy"}`
		case content == "q5":
			return http.StatusBadRequest, `{"error":"bad"}`
		case content == "q6":
			return http.StatusInternalServerError, `{"error":"bug"}`
		}
		return http.StatusOK, fmt.Sprintf(`{"answer":%q}`, content)
	}
	text := questions("q", 10)
	f := w.upload("", text)
	if f.Bytes != int64(len(text)) || f.Purpose != "batch" || f.Filename != "questions.jsonl" ||
		f.Object != "file" || f.ExpiresAt <= f.CreatedAt {
		t.Errorf("%+v", f)
	}
	if _, got := w.ask("", http.MethodGet, "/v1/files/"+f.ID+"/content", "", nil); got != text {
		t.Errorf("the content is %q", got)
	}
	b := w.await("", w.create("", f.ID).ID, has(completed))
	if b.RequestCounts != (Counts{10, 8, 2}) || b.OutputFileID == nil || b.ErrorFileID == nil ||
		b.InProgressAt == nil || b.CompletedAt == nil || b.Metadata["of"] != "test" {
		t.Errorf("%+v", b)
	}
	out, faults := w.lines("", b.OutputFileID), w.lines("", b.ErrorFileID)
	if len(out) != 8 || len(faults) != 2 || !strings.Contains(out["q3"], `{"answer":"q3"}`) ||
		!strings.Contains(faults["q5"], `"status_code":400`) || faults["q6"] == "" {
		t.Errorf("answers %q, errors %q", out, faults)
	}
	if n := count(w.fake.asked, "q6"); n != 5 {
		t.Errorf("q6 was asked %d times, expected 5", n)
	}
	all := must[List](w, "", http.MethodGet, "/v1/files?limit=2", "")
	if len(all.Data) != 2 || !all.HasMore || *all.LastID == f.ID {
		t.Errorf("the first page is %+v", all)
	}
	rest := must[List](w, "", http.MethodGet, "/v1/files?limit=2&after="+*all.LastID, "")
	if len(rest.Data) != 1 || rest.HasMore || *rest.FirstID != f.ID {
		t.Errorf("the second page is %+v", rest)
	}
	if l := must[List](w, "", http.MethodGet, "/v1/files?purpose=batch", ""); len(l.Data) != 1 {
		t.Errorf("with the purpose: %+v", l)
	}
	must[Deleted](w, "", http.MethodDelete, "/v1/files/"+f.ID, "")
	w.refused("", http.MethodGet, "/v1/files/"+f.ID, "", 404, "There is no file")
	if _, err := os.Lstat(w.store.path(f.ID)); !os.IsNotExist(err) {
		t.Error("the content of the deleted file:", err)
	}
}

// TestRestart: a server that ends in the middle of a batch goes on with it, and asks nothing again
// that was answered; also if the end of the output was cut off.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	const n = 40
	enough := make(chan struct{})
	answered := 0
	w.fake.hold = func(string) {
		w.fake.mu.Lock()
		answered++
		full := answered > 12
		w.fake.mu.Unlock()
		if full {
			<-enough
		}
	}
	b := w.create("ann", w.upload("ann", questions("q", n)).ID)
	at := w.await("ann", b.ID, func(b Batch) bool { return b.RequestCounts.Completed >= 12 })
	if at.Status != inProgress || at.OutputFileID != nil {
		t.Errorf("in the middle: %+v", at)
	}
	if l := must[List](w, "ann", http.MethodGet, "/v1/files", ""); len(l.Data) != 1 {
		t.Errorf("outputs are visible before the end: %+v", l)
	}
	w.refused("ann", http.MethodDelete, "/v1/files/"+b.InputFileID, "", 409, "in use")
	time.AfterFunc(10*time.Millisecond, func() { close(enough) }) // after Close has cancelled
	w.store.Close()
	w.fake.mu.Lock()
	before := len(w.fake.asked)
	w.fake.hold, w.fake.asked = nil, nil
	w.fake.mu.Unlock()
	output := w.store.index.Batches[0].Output
	info, err := os.Stat(w.store.path(output))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.store.path(output), info.Size()-3); err != nil {
		t.Fatal(err)
	}
	w.begin()
	done := w.await("ann", b.ID, has(completed))
	if done.RequestCounts != (Counts{n, n, 0}) || len(w.lines("ann", done.OutputFileID)) != n {
		t.Errorf("%+v", done)
	}
	if again := len(w.fake.asked); again > n-11 || before+again < n {
		t.Errorf("%d were asked before and %d after, expected the one that was cut off and those "+
			"that ran", before, again)
	}
}

// TestCancel: a batch that is cancelled keeps its answers, and says of the others what has become
// of them. So does one whose time is over.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		end  Status
		code string
	}{{cancelled, "batch_cancelled"}, {expired, "batch_expired"}} {
		w := newWorld(t)
		release := make(chan struct{})
		w.fake.hold = func(content string) {
			if content != "q0" {
				<-release
			}
		}
		if c.end == expired {
			w.fake.hold = nil
			w.fake.reply = func(content string, n int) (int, string) {
				if content == "q0" {
					return 200, "{}"
				}
				return http.StatusServiceUnavailable, "{}"
			}
		}
		b := w.create("", w.upload("", questions("q", 9)).ID)
		w.await("", b.ID, func(b Batch) bool { return b.RequestCounts.Completed == 1 })
		if c.end == cancelled {
			got := must[Batch](w, "", http.MethodPost, "/v1/batches/"+b.ID+"/cancel", "")
			if got.Status != cancelling || got.CancellingAt == nil {
				t.Errorf("%+v", got)
			}
			close(release)
		} else {
			w.store.Close()
			w.now = w.now.Add(25 * time.Hour)
			w.begin()
		}
		b = w.await("", b.ID, has(c.end))
		out, faults := w.lines("", b.OutputFileID), w.lines("", b.ErrorFileID)
		if len(out) != 1 || len(faults) != 8 || !strings.Contains(faults["q8"], c.code) {
			t.Errorf("%s: answers %q, errors %q", c.end, out, faults)
		}
		w.store.Close()
	}
}

// TestKeys: nobody sees files and batches of another key, and a batch whose key was removed ends.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.fake.hold = func(string) { <-hold }
	f := w.upload("ann", questions("q", 20))
	b := w.create("ann", f.ID)
	for _, key := range []string{"bob", ""} {
		w.refused(key, http.MethodGet, "/v1/files/"+f.ID, "", 404, "no file")
		w.refused(key, http.MethodGet, "/v1/files/"+f.ID+"/content", "", 404, "no file")
		w.refused(key, http.MethodDelete, "/v1/files/"+f.ID, "", 404, "no file")
		w.refused(key, http.MethodGet, "/v1/batches/"+b.ID, "", 404, "no batch")
		w.refused(key, http.MethodPost, "/v1/batches/"+b.ID+"/cancel", "", 404, "no batch")
		w.refused(key, http.MethodPost, "/v1/batches", `{"input_file_id":"`+f.ID+`","endpoint":`+
			`"/v1/chat/completions","completion_window":"24h"}`, 400, "no file")
		for _, path := range []string{"/v1/files", "/v1/batches"} {
			if l := must[List](w, key, http.MethodGet, path, ""); len(l.Data) > 0 {
				t.Errorf("%q sees %+v", key, l)
			}
		}
	}
	w.gone.Store("ann", true)
	close(hold)
	b = w.await("ann", b.ID, has(failed))
	if b.Errors == nil || b.Errors.Data[0].Code != "invalid_api_key" {
		t.Errorf("%+v", b)
	}
}

// TestInvalidLines: a file with faults fails as a whole, with the lines and reasons.
func TestInvalidLines(t *testing.T) {
	w := newWorld(t)
	text := question("a") + "no JSON\n" + question("a") +
		strings.Replace(question("b"), "chat/completions", "completions", 1) +
		`{"custom_id":"c","method":"GET","url":"/v1/chat/completions","body":{}}` + "\n" +
		"\n" + `{"method":"POST","url":"/v1/chat/completions","body":{}}`
	b := w.await("", w.create("", w.upload("", text).ID).ID, has(failed))
	got := []string{}
	for _, e := range b.Errors.Data {
		got = append(got, fmt.Sprint(*e.Line, " ", e.Code))
	}
	if want := []string{"2 invalid_json_line", "3 duplicate_custom_id", "4 mismatched_url",
		"5 invalid_request", "7 invalid_request"}; !slices.Equal(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
	if len(w.fake.asked) > 0 || b.OutputFileID != nil {
		t.Errorf("%d requests were sent of a file with faults: %+v", len(w.fake.asked), b)
	}
	if l := must[List](w, "", http.MethodGet, "/v1/files", ""); len(l.Data) != 1 {
		t.Errorf("the files are %+v, expected the input", l)
	}
}

// TestRefused: uploads and batches that are not valid, with what becomes of their files: nothing is
// left.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, content string
		fields        []string
		status        int
		part          string
	}{
		{"no purpose", "x", nil, 400, "purpose"},
		{"another purpose", "x", []string{"purpose", "fine-tune"}, 400, "purpose"},
		{"an empty file", "", []string{"purpose", "batch"}, 400, "file"},
		{"an unknown field", "x", []string{"purpose", "batch", "colour", "red"}, 400, "colour"},
		{"a long field", "x", []string{"purpose", strings.Repeat("x", 300)}, 400, "purpose"},
		{"a short time", "x", []string{"purpose", "batch", "expires_after[seconds]", "5"}, 400,
			"expires_after"},
		{"a large file", strings.Repeat("x", 1<<20+1), []string{"purpose", "batch"}, 413,
			"too large"},
	} {
		kind, body := formOf(c.content, c.fields...)
		status, text := w.ask("", http.MethodPost, "/v1/files", kind, body)
		if status != c.status || !strings.Contains(text, c.part) {
			t.Errorf("%s: %d %s, expected %d with %q", c.name, status, text, c.status, c.part)
		}
	}
	kind, body := formOf("x", "purpose", "batch")
	form := string(body)
	for _, c := range []struct{ name, kind, body, part string }{
		{"half a form", kind, form[:len(form)-20], "The form ends too early"},
		{"nothing", kind, "", "The form ends too early"},
		{"no boundary", "multipart/form-data", form, "expected multipart/form-data with a"},
		{"a broken header", kind, strings.Replace(form, "Content-D", "\x00:: ", 1),
			"The form cannot be read"},
		{"no file name", kind, strings.Replace(form, "; filename=\"questions.jsonl\"", "", 1),
			"has no file name"},
		{"an empty file name", kind, strings.Replace(form, "questions.jsonl", "", 1),
			"has no file name"},
		{"a folder above", kind, strings.Replace(form, "questions.jsonl", "..", 1),
			"has the file name \\\"..\\\""},
		{"a path to it", kind, strings.Replace(form, "questions.jsonl", `a\\..`, 1),
			"Send it with another name"},
	} {
		status, text := w.ask("", http.MethodPost, "/v1/files", c.kind, []byte(c.body))
		if status != 400 || !strings.Contains(text, c.part) ||
			strings.Contains(text, "multipart:") || strings.Contains(text, "EOF") {
			t.Errorf("%s: %d %s, expected %q", c.name, status, text, c.part)
		}
	}
	w.refused("", http.MethodPost, "/v1/files", "{}", 400, "form")
	f := w.upload("", question("a"))
	for member, part := range map[string]string{
		`"endpoint":"/v1/images"`:     "endpoint",
		`"completion_window":"7d"`:    "completion_window",
		`"metadata":{"a":1}`:          "metadata",
		`"input_file_id":"file-none"`: "input_file_id",
		`"output_expires_after":{}`:   "output_expires_after",
	} {
		fields := map[string]string{"input_file_id": `"` + f.ID + `"`,
			"endpoint": `"/v1/chat/completions"`, "completion_window": `"24h"`}
		name, value, _ := strings.Cut(strings.TrimPrefix(member, `"`), `":`)
		fields[name] = value
		var list []string
		for name, value := range fields {
			list = append(list, fmt.Sprintf("%q:%s", name, value))
		}
		w.refused("", http.MethodPost, "/v1/batches", "{"+strings.Join(list, ",")+"}", 400, part)
	}
	w.refused("", http.MethodGet, "/v1/batches?limit=101", "", 400, "limit")
	if got := w.contents(); !slices.Equal(got, []string{f.ID + suffix}) {
		t.Errorf("the folder has %q, expected the valid file alone", got)
	}
}

// contents returns the names of the content files.
func (w *world) contents() (names []string) {
	entries, _ := os.ReadDir(w.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "file-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestExpiry: files and batches go after their time, and what a crash has left goes at the start.
func TestExpiry(t *testing.T) {
	w := newWorld(t)
	b := w.await("", w.create("", w.upload("", question("a")).ID).ID, has(completed))
	w.upload("", question("b"))
	w.store.Close()
	stray := filepath.Join(w.dir, "file-"+strings.Repeat("a", 24)+suffix)
	if err := os.WriteFile(stray, []byte(magic[:5]), 0o600); err != nil {
		t.Fatal(err)
	}
	w.begin()
	if got := w.contents(); len(got) != 3 {
		t.Errorf("the folder has %q, expected 3 files", got)
	}
	w.now = w.now.Add(keepTime + time.Hour)
	w.refused("", http.MethodGet, "/v1/files/"+*b.OutputFileID, "", 404, "no file")
	if got := w.contents(); len(got) != 0 {
		t.Errorf("after their time the folder has %q", got)
	}
	w.now = w.now.Add(window)
	w.refused("", http.MethodGet, "/v1/batches/"+b.ID, "", 404, "no batch")
}

// TestEncrypted: no text of a batch is on the disk, only the user can read the files, and nothing
// is left after Forget with Erase.
func TestEncrypted(t *testing.T) {
	w := newWorld(t)
	w.await("", w.create("", w.upload("", question("zebra")).ID).ID, has(completed))
	entries, _ := os.ReadDir(w.dir)
	for _, e := range entries {
		path := filepath.Join(w.dir, e.Name())
		data, err := os.ReadFile(path)
		info, _ := e.Info()
		if err != nil || bytes.Contains(data, []byte("zebra")) || !IsOurs(path) ||
			info.Mode().Perm() != 0o600 || bytes.Contains(data, []byte("questions")) {
			t.Errorf("%s: %v, mode %v, %q", e.Name(), err, info.Mode(), data)
		}
	}
	if err := w.store.Forget(func() error { return Erase(w.dir) }); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(w.dir); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
	w.key = seal.NewKey()
	w.await("", w.create("", w.upload("", question("b")).ID).ID, has(completed))
	if l := must[List](w, "", http.MethodGet, "/v1/batches", ""); len(l.Data) != 1 {
		t.Errorf("after that: %+v", l)
	}
}

// TestTwoPrograms: only one program has the folder open.
func TestTwoPrograms(t *testing.T) {
	w := newWorld(t)
	w.upload("", question("a"))
	first := w.store
	w.store = nil
	w.begin()
	w.refused("", http.MethodGet, "/v1/files", "", 503,
		"Another Headroom server on this computer")
	first.Close()
	if l := must[List](w, "", http.MethodGet, "/v1/files", ""); len(l.Data) != 1 {
		t.Errorf("after the other has ended: %+v", l)
	}
}

// TestTurns: the batches of two keys take turns.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.fake.hold = func(string) { <-hold }
	long := w.create("ann", w.upload("ann", questions("long", 400)).ID)
	short := w.create("bob", w.upload("bob", questions("short", 4)).ID)
	w.await("ann", long.ID, has(inProgress))
	w.await("bob", short.ID, has(inProgress))
	close(hold)
	w.await("bob", short.ID, has(completed))
	w.await("ann", long.ID, has(completed))
	last := slices.IndexFunc(w.fake.asked, func(s string) bool { return s == "short3" })
	if last > 300 {
		t.Errorf("the short batch ended after %d requests", last)
	}
}

// validated is validate without pauses.
func validated(input io.Reader, endpoint string) (total int, errs []LineError) {
	total, errs, _ = validate(input, endpoint, func() error { return nil })
	return total, errs
}

// TestFieldsInAPI: API.md has a row for each field of a batch.
func TestFieldsInAPI(t *testing.T) {
	text, err := os.ReadFile("../../engine/server/API.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if row := fmt.Sprintf("| `%s` | %s |", f.Name, f.Support); !strings.Contains(string(text),
			row) {
			t.Errorf("API.md lacks the row %q", row)
		}
	}
}
