package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/power"
	"headroom/app/settings"
	"headroom/app/wired"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/frontend"
)

// testTimeout is longer than any test waits on a loaded machine.
const testTimeout = 20 * time.Second

// fakeHost is a Host that records its calls.
type fakeHost struct {
	mu      sync.Mutex
	state   host.State
	started []string
	pins    []string
	limits  []engine.BlockStoreLimits
	levels  int // calls of FollowLogLevel
	changed chan struct{}
	subs    int
	models  []string // calls about models
	changes []host.ModelChange
	list    []host.Model // besides o/m
}

func (h *fakeHost) State() host.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

func (h *fakeHost) set(status host.Status) {
	h.mu.Lock()
	h.state.Engine.Status = status
	h.mu.Unlock()
	h.changed <- struct{}{}
}

func (h *fakeHost) Start(name string) error {
	if name == "gone" {
		return problem.New(problem.ModelNotFound, "There is no model \"gone\" here",
			"there is demo", "Name it.")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, name)
	h.state.Engine.Status, h.state.Engine.Model = host.Loading, name
	return nil
}

func (h *fakeHost) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Engine.Status, h.state.Engine.Model = host.Stopped, ""
}

func (h *fakeHost) StopModel(name string) error {
	if name == "gone" {
		return problem.New(problem.ModelNotFound, "There is no model \"gone\" here", "", "")
	}
	h.record("stop " + name)
	return nil
}

func (h *fakeHost) ModelChanges(after int) ([]host.ModelChange, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes[min(after, len(h.changes)):], len(h.changes)
}

func (h *fakeHost) record(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.models = append(h.models, call)
}

func (h *fakeHost) RescanModels() { h.record("rescan") }

func (h *fakeHost) PauseWatching(paused bool) error {
	h.record(fmt.Sprint("pause ", paused))
	return nil
}

func (h *fakeHost) RevealModel(id, path string) error {
	h.record("reveal " + id + " at " + path)
	return nil
}

func (h *fakeHost) RenewModel(id string) { h.record("renew " + id) }

func (h *fakeHost) CheckModel(id string, _ settings.Model, o engine.Options) error {
	if o.KVFormat == "f17" {
		return problem.New(problem.BadRequest, "This KV cache format does not exist", "", "")
	}
	return nil
}

func (h *fakeHost) WhatIf(q host.WhatIfQuery) (host.WhatIf, error) {
	return host.WhatIf{Model: q.Model, ContextTokens: q.ContextTokens, Streams: q.Streams}, nil
}

// Check returns the check that runs, of the model o/m.
func (h *fakeHost) Check(id string) (host.ModelCheck, error) {
	if id != "o/m" {
		return host.ModelCheck{}, problem.New(problem.ModelNotFound, "There is no such model", "",
			"")
	}
	c := host.ModelCheck{Model: id, Status: host.NotChecked, Rows: []host.CheckRow{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state.Checking == id:
		c.Status, c.Step, c.Steps, c.What = host.Checking, 1, 5, "plain"
	case h.state.ChecksVersion > 0:
		c.Status = host.CheckStopped
	}
	return c, nil
}

func (h *fakeHost) StartCheck(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.Checking != "" {
		return problem.New(problem.Busy, "A check is already running", "o/m is being checked",
			"Wait until it is done, or stop it.")
	}
	h.state.Checking = id
	h.state.ChecksVersion++
	return nil
}

func (h *fakeHost) StopCheck(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.Checking == id {
		h.state.Checking = ""
		h.state.ChecksVersion++
	}
}

func (h *fakeHost) RemoveModel(id, path string) error {
	h.record("remove " + id + " at " + path)
	if id != "o/m" {
		return problem.New(problem.ModelNotFound, "There is no such model", "", "")
	}
	return nil
}

// Conversations returns the conversation "abcd", and one in memory only.
func (h *fakeHost) Conversations() (cache.List, error) {
	return cache.List{Stats: cache.Stats{On: true},
		Conversations: []cache.Conversation{{Key: "abcd", MemoryTokens: 7},
			{Title: "in memory"}}}, nil
}

// checkKey returns a Problem for any key but "abcd".
func (h *fakeHost) checkKey(key string) error {
	if key != "abcd" {
		return problem.New(problem.NotFound, "No conversation has the key "+key, "", "")
	}
	return nil
}

func (h *fakeHost) Conversation(key string) (cache.Detail, error) {
	return cache.Detail{Conversation: cache.Conversation{Key: key},
		Entries: []cache.Entry{{Kind: "tail"}}}, h.checkKey(key)
}

func (h *fakeHost) RemoveConversation(key string) (cache.Removed, error) {
	return cache.Removed{Entries: 1, Bytes: 2}, h.checkKey(key)
}

func (h *fakeHost) PinConversation(key string, pinned bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pins = append(h.pins, fmt.Sprint(key, " ", pinned))
	return h.checkKey(key)
}

func (h *fakeHost) ForgetConversation(key string) (cache.Removed, error) {
	return cache.Removed{MemoryBytes: 7}, h.checkKey(key)
}

func (h *fakeHost) ForgetAll(model string) cache.Removed {
	return cache.Removed{MemoryBytes: int64(len(model))}
}

func (h *fakeHost) ClearCache(model string) (cache.Removed, error) {
	if model == "unknown" {
		return cache.Removed{}, problem.New(problem.NotFound,
			"The cache has no entries of the model unknown", "", "")
	}
	return cache.Removed{Entries: len(model)}, nil
}

func (h *fakeHost) Finished() host.FinishedList {
	return host.FinishedList{Requests: []host.Finished{{ID: "chatcmpl-9",
		CacheMiss: host.CacheMiss{Cause: "date_changed"}}}}
}

func (h *fakeHost) SetCacheLimits(l engine.BlockStoreLimits) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limits = append(h.limits, l)
	return nil
}

func (h *fakeHost) FollowLogLevel() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.levels++
}

func (h *fakeHost) Cancel(id string) bool { return id == "chatcmpl-1" }

func (h *fakeHost) Subscribe() (<-chan struct{}, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs++
	return h.changed, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.subs--
	}
}

func newAPI(t *testing.T) (*API, *fakeHost, string) {
	h := &fakeHost{state: host.State{Version: "v", Engine: host.EngineState{Status: host.Ready}},
		changed: make(chan struct{}, 1)}
	endpoint := http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "endpoint "+r.URL.Path)
		})
	a := New(Options{Host: h, Token: "T", Server: endpoint, Guard: &guard.Guard{},
		ServerPaths: []string{"/v1/", "/health", "/metrics", "/toy", "/api/toy"}})
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, h, s.URL
}

func do(t *testing.T, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

func TestAPI(t *testing.T) {
	cases := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		want                     string // part of the body
	}{
		{"state", "GET", "/control/state", "", []string{TokenHeader, "T"}, 200, `"status":"ready"`},
		{"token in the query", "GET", "/control/state?token=T", "", nil, 200, `"version":"v"`},
		{"no token", "GET", "/control/state", "", nil, 401, `"code":"unauthorized"`},
		{"wrong token", "GET", "/control/state", "", []string{TokenHeader, "t"}, 401,
			`"fix":"Open Headroom from the menu bar`},
		{"API key instead of the token", "GET", "/control/state", "",
			[]string{"Authorization", "Bearer T"},
			401, ""},
		{"foreign host", "GET", "/control/state?token=T", "", []string{"Host", "evil.com"}, 403,
			`"code":"forbidden"`},
		{"foreign page", "POST", "/control/engine/stop", "",
			[]string{TokenHeader, "T", "Origin", "https://evil.com"}, 403, ""},
		{"start", "POST", "/control/engine/start", `{"model":"m"}`, []string{TokenHeader, "T"}, 202,
			`"status":"loading","model":"m"`},
		{"start without a model", "POST", "/control/engine/start", ``, []string{TokenHeader, "T"}, 202,
			`"status":"loading"`},
		{"start a missing model", "POST", "/control/engine/start", `{"model":"gone"}`,
			[]string{TokenHeader, "T"}, 404,
			`{"error":{"code":"model_not_found","message":"There is no model \"gone\" here","why":"there is demo","fix":"Name it."}}`},
		{"start with an invalid body", "POST", "/control/engine/start", `{"model":7}`,
			[]string{TokenHeader, "T"},
			400, `"code":"bad_request"`},
		{"start with too long a body", "POST", "/control/engine/start",
			`{"model":"` + strings.Repeat("x", maxBodyBytes) + `"}`, []string{TokenHeader, "T"},
			413, "the limit is 65536 bytes"},
		{"stop", "POST", "/control/engine/stop", "", []string{TokenHeader, "T"}, 200,
			`"status":"stopped"`},
		{"stop one model", "POST", "/control/engine/stop", `{"model":"m"}`, []string{TokenHeader, "T"},
			200, `"engine"`},
		{"stop a missing model", "POST", "/control/engine/stop", `{"model":"gone"}`,
			[]string{TokenHeader, "T"}, 404, `"code":"model_not_found"`},
		{"cancel", "POST", "/control/requests/chatcmpl-1/cancel", "",
			[]string{TokenHeader, "T"}, 204, ""},
		{"cancel an unknown request", "POST", "/control/requests/x/cancel", "",
			[]string{TokenHeader, "T"},
			404, `"code":"not_found"`},
		{"requests", "GET", "/control/requests/recent", "", []string{TokenHeader, "T"}, 200,
			`"cause":"date_changed"`},
		{"requests without a token", "GET", "/control/requests/recent", "", nil, 401, ""},
		{"no settings file", "GET", "/control/settings/cache", "", []string{TokenHeader, "T"}, 404,
			`"code":"not_found"`},
		{"cache", "GET", "/control/cache", "", []string{TokenHeader, "T"}, 200, `"memoryTokens":7`},
		{"cache without a token", "GET", "/control/cache", "", nil, 401, ""},
		{"clear without a token", "DELETE", "/control/cache", "", nil, 401, ""},
		{"clear", "DELETE", "/control/cache", "", []string{TokenHeader, "T"}, 200,
			`{"entries":0,"bytes":0,"memoryBytes":0,"pending":false}`},
		{"clear a model", "DELETE", "/control/cache?model=xyz", "", []string{TokenHeader, "T"}, 200,
			`{"entries":3,`},
		{"clear an unknown model", "DELETE", "/control/cache?model=unknown", "",
			[]string{TokenHeader, "T"}, 404,
			`"code":"not_found"`},
		{"conversation", "GET", "/control/cache/abcd", "", []string{TokenHeader, "T"}, 200,
			`"entries":[{`},
		{"unknown conversation", "GET", "/control/cache/beef", "", []string{TokenHeader, "T"}, 404,
			"has the key beef"},
		{"remove", "DELETE", "/control/cache/abcd", "", []string{TokenHeader, "T"}, 200,
			`{"entries":1,"bytes":2,"memoryBytes":0,"pending":false}`},
		{"clear from memory", "DELETE", "/control/cache/abcd?only=memory", "",
			[]string{TokenHeader, "T"}, 200,
			`{"entries":0,"bytes":0,"memoryBytes":7,"pending":false}`},
		{"clear a model from memory", "DELETE", "/control/cache?model=xyz&only=memory", "",
			[]string{TokenHeader, "T"},
			200, `{"entries":0,"bytes":0,"memoryBytes":3,"pending":false}`},
		{"remove an unknown conversation", "DELETE", "/control/cache/beef", "",
			[]string{TokenHeader, "T"}, 404, ""},
		{"pin", "POST", "/control/cache/abcd/pin", `{"pinned":true}`, []string{TokenHeader, "T"}, 204,
			""},
		{"pin an unknown conversation", "POST", "/control/cache/beef/pin", `{"pinned":true}`,
			[]string{TokenHeader, "T"}, 404, ""},
		{"pin with an invalid body", "POST", "/control/cache/abcd/pin", `{"pinned":"yes"}`,
			[]string{TokenHeader, "T"}, 400, `{\"pinned\": true}.`},
		{"models", "GET", "/control/models?context=4096", "", []string{TokenHeader, "T"}, 200,
			`"contextTokens":4096`},
		{"models with a negative context", "GET", "/control/models?context=-1", "",
			[]string{TokenHeader, "T"},
			400, "?context=32768"},
		{"models without a token", "GET", "/control/models", "", nil, 401, ""},
		{"rescan", "POST", "/control/models/rescan", "", []string{TokenHeader, "T"}, 200, `"id":"o/m"`},
		{"watching", "POST", "/control/models/watching", `{"paused":true}`, []string{TokenHeader, "T"},
			204, ""},
		{"watching with an invalid body", "POST", "/control/models/watching", `[]`,
			[]string{TokenHeader, "T"}, 400,
			"paused"},
		{"remove a model", "POST", "/control/models/o%2Fm/remove", `{"path":"/p"}`,
			[]string{TokenHeader, "T"}, 204, ""},
		{"reveal", "POST", "/control/models/o%2Fm/reveal", `{"path":"/p"}`, []string{TokenHeader, "T"},
			204, ""},
		{"what if", "GET", "/control/memory/what-if?model=o%2Fm&context=64&streams=3", "",
			[]string{TokenHeader, "T"}, 200,
			`"o/m","contextTokens":64,"trainedTokens":0,"streams":3`},
		{"what if without parameters", "GET", "/control/memory/what-if", "",
			[]string{TokenHeader, "T"}, 200, `"streams":0`},
		{"what if with too many streams", "GET", "/control/memory/what-if?streams=1000", "",
			[]string{TokenHeader, "T"}, 400, "1 to 256"},
		{"wired limit", "GET", "/control/memory/wired?limit=8589934592", "",
			[]string{TokenHeader, "T"}, 200, `"commands"`},
		{"wired limit that is not a number", "GET", "/control/memory/wired?limit=much", "",
			[]string{TokenHeader, "T"}, 400, "number of bytes"},
		{"unknown action on the wired limit", "POST", "/control/memory/wired", `{"action":"burn"}`,
			[]string{TokenHeader, "T"}, 400, ""},
		{"what if without a token", "GET", "/control/memory/what-if", "", nil, 401, ""},
		{"remove an unknown model", "POST", "/control/models/x/remove", "",
			[]string{TokenHeader, "T"}, 404, "no such model"},
		{"unknown route", "GET", "/control/nope", "", []string{TokenHeader, "T"}, 404,
			"GET /control/nope"},
		{"no window", "POST", "/control/window/show", "", []string{TokenHeader, "T"}, 404, ""},
		{"endpoint", "GET", "/v1/models", "", nil, 200, "endpoint /v1/models"},
		{"health", "GET", "/health", "", nil, 200, "endpoint /health"},
		{"metrics", "GET", "/metrics", "", nil, 200, "endpoint /metrics"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, url := newAPI(t)
			status, _, text := do(t, c.method, url+c.path, c.body, c.headers...)
			if status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%d %s; want %d with %q", status, text, c.status, c.want)
			}
		})
	}
}

// TestPin: the body says whether to pin or unpin; an empty one pins.
func TestPin(t *testing.T) {
	_, h, url := newAPI(t)
	for _, body := range []string{`{"pinned":true}`, `{"pinned":false}`, ``} {
		do(t, "POST", url+"/control/cache/abcd/pin", body, TokenHeader, "T")
	}
	if got := strings.Join(h.pins, ", "); got != "abcd true, abcd false, abcd true" {
		t.Errorf("pinned %s", got)
	}
}

// TestModels checks the calls of the host that the routes of models make.
func TestModels(t *testing.T) {
	_, h, url := newAPI(t)
	do(t, "POST", url+"/control/models/rescan", "", TokenHeader, "T")
	do(t, "POST", url+"/control/models/watching", `{"paused":true}`, TokenHeader, "T")
	do(t, "POST", url+"/control/models/watching", `{"paused":false}`, TokenHeader, "T")
	do(t, "POST", url+"/control/models/o%2Fm/remove", `{"path":"/p"}`, TokenHeader, "T")
	got := strings.Join(h.models, ", ")
	if got != "rescan, pause true, pause false, remove o/m at /p" {
		t.Errorf("calls: %s", got)
	}
}

// TestModelEvents: a change before the stream started is not sent, a later one is sent once.
func TestModelEvents(t *testing.T) {
	_, h, url := newAPI(t)
	h.changes = []host.ModelChange{{Kind: "appeared", ID: "old", State: "ready"}}
	lines := events(t, url)
	waitFor(t, lines, "event: state")
	h.mu.Lock()
	h.changes = append(h.changes, host.ModelChange{Kind: "finished", ID: "new", State: "ready"})
	h.mu.Unlock()
	h.set(host.Ready)
	waitFor(t, lines, "event: models")
	const want = `data: {"changes":[{"kind":"finished","id":"new","state":"ready"}]}`
	if lines.Scan(); lines.Text() != want {
		t.Errorf("%s", lines.Text())
	}
	for _, status := range []host.Status{host.Stopped, host.Ready} {
		// Wait for two more state events: a second models event would come between them.
		h.set(status)
		for lines.Scan() && !strings.Contains(lines.Text(), fmt.Sprintf(`"status":%q`, status)) {
			if strings.Contains(lines.Text(), "event: models") {
				t.Fatal("the change was sent twice")
			}
		}
	}
}

// TestContract checks the field names of whole documents, on which the web UI depends.
func TestContract(t *testing.T) {
	state := State{Speed: host.Speed{History: []host.Sample{{}}}, Requests: []host.Request{{}},
		Engines: []host.EngineState{{}}}
	state.Engine.Error, state.Power.Measures = &Error{}, []power.Measure{{}}
	contract(t, state, map[string]string{
		"": "version engine engines endpoint memory cache reuse speed power pressure " +
			"requests lastFinished modelsVersion checking checksVersion roomBytes",
		"engine": "status model progress device contextTokens cacheFormat stateFormat drafter " +
			"lookups draftModel draftModelUnused error retryAt notice requested pinned requests " +
			"memoryBytes reservedBytes generatedTokens draftTokens acceptedTokens gained " +
			"savedSeconds noDrafts lastUsedAt decodeTokensPerSecond",
		"reuse":        "memoryTokens diskTokens computedTokens recomputedTokens",
		"engine.error": "code message why fix",
		"endpoint":     "url uiUrl",
		"memory":       "totalBytes availableBytes headroomBytes wiredLimitBytes segments",
		"cache": "on dir bytes maxBytes entries diskBytes freeBytes minFreeBytes todayBytes " +
			"dailyWriteBytes writtenBytes writtenSince hits misses secondsSaved dropped skipped " +
			"damaged otherVersions evicted saveErrors error memoryBytes",
		"speed":          "decodeTokensPerSecond prefillTokensPerSecond history",
		"speed.history":  "at decode prefill memoryBytes",
		"power":          "source thermalState measures",
		"power.measures": "kind title text",
		"requests": "id title client key model phase lacksBytes promptTokens promptDoneTokens " +
			"cachedTokens generatedTokens tokensPerSecond startedAt",
	})
	contract(t, host.ModelList{Models: []host.Model{{Download: &host.Download{},
		Places: []host.Place{{}}}}}, map[string]string{
		"": "models contextTokens roomBytes largestParameters folders watch",
		"models": "id name path architecture task parameters quantization drafts blockUnused " +
			"convertible sizeBytes needBytes need fits loaded bundled error state " +
			"contextTokens updatedAt download places adapters",
		"models.need":     "contextTokens weightsBytes kvBytes stateBytes scratchBytes",
		"models.download": "doneBytes totalBytes missing parts",
		"models.places":   "id path origin",
		"watch":           "on paused watchedFolders polledFolders pollReason",
	})
	contract(t, host.WhatIf{Formats: []host.WhatIfFormat{{}}}, map[string]string{
		"": "model contextTokens trainedTokens streams roomBytes formats",
		"formats": "name kvFormat kvBits kvBytesPerToken needBytes need fullBytes fits " +
			"largestContextTokens memory",
	})
	contract(t, wired.Status{}, map[string]string{
		"": "unavailableReason limitBytes persistedBytes recommendedBytes safeBytes minBytes " +
			"maxBytes earlierBytes requestedBytes commands",
		"commands": "set persist reset",
	})
	contract(t, ModelSettings{}, map[string]string{"": "settings readOnly"})
}

// contract checks that each object of the document, named by its path, has exactly these keys.
func contract(t *testing.T, document any, objects map[string]string) {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	for path, keys := range objects {
		var node any = tree
		for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
			node = node.(map[string]any)[name]
			if list, ok := node.([]any); ok {
				node = list[0]
			}
		}
		got := node.(map[string]any)
		for _, key := range strings.Fields(keys) {
			if _, ok := got[key]; !ok {
				t.Errorf("%T: %q has no %q", document, path, key)
			}
		}
		if len(got) != len(strings.Fields(keys)) {
			t.Errorf("%T: %q has %d keys, the contract %d", document, path, len(got),
				len(strings.Fields(keys)))
		}
	}
}

// events opens the event stream and returns a scanner of its lines.
func events(t *testing.T, url string) *bufio.Scanner {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+"/control/events?token=T", nil)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); response.Body.Close() })
	if response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("content type %q", response.Header.Get("Content-Type"))
	}
	return bufio.NewScanner(response.Body)
}

func waitFor(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the stream ended before %q: %v", text, lines.Err())
}

func TestEvents(t *testing.T) {
	a, h, url := newAPI(t)
	a.intervals = eventIntervals{busy: time.Millisecond, idle: testTimeout, heartbeat: testTimeout}
	lines := events(t, url)
	waitFor(t, lines, "event: state")
	waitFor(t, lines, `"status":"ready"`)
	h.set(host.Busy) // announced by the host, so it does not wait for the idle interval
	waitFor(t, lines, `"status":"busy"`)
	a.Close()
	if lines.Scan(); lines.Scan() {
		t.Errorf("after Close: %q", lines.Text())
	}
	a.Close() // a second call does nothing
}

func TestEventsHeartbeat(t *testing.T) {
	a, _, url := newAPI(t)
	a.intervals = eventIntervals{busy: time.Millisecond, idle: 2 * time.Millisecond,
		heartbeat: 3 * time.Millisecond}
	lines := events(t, url)
	waitFor(t, lines, "data: ")
	waitFor(t, lines, ": heartbeat") // equal states are not sent
	waitFor(t, lines, ": heartbeat")
}

// TestPages: the API serves the web UI, or the page that says how to build it. Folders are not
// listed.
func TestPages(t *testing.T) {
	_, _, url := newAPI(t)
	status, header, text := do(t, "GET", url+"/", "")
	if !frontend.Built() {
		if status != 404 || !strings.Contains(text, "make build") {
			t.Errorf("not built: %d %s", status, text)
		}
		return
	}
	if status != 200 || !strings.Contains(text, "<title>Headroom") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'self'") {
		t.Errorf("/: %d %v %s", status, header, text)
	}
	if header.Get("Cache-Control") != "no-cache" {
		t.Errorf("/ is cached: %v", header)
	}
	assets, _ := fs.Glob(frontend.FS(), "assets/*.js")
	if len(assets) == 0 {
		t.Fatal("the build has no scripts")
	}
	if status, header, _ := do(t, "GET", url+"/"+assets[0], ""); status != 200 ||
		!strings.Contains(header.Get("Content-Type"), "javascript") ||
		!strings.Contains(header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d %v", assets[0], status, header)
	}
	for _, path := range []string{"/nope", "/assets/", "/../go.mod", "/assets/nope.js"} {
		if status, _, text := do(t, "GET", url+path, "", "Accept", "text/html,*/*"); status != 404 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, _ := do(t, "POST", url+"/", ""); status != 405 {
		t.Errorf("POST /: %d", status)
	}
}

func TestToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	first, err := LoadToken(dir)
	if err != nil || len(first) != 64 {
		t.Fatalf("token %q, %v", first, err)
	}
	path := filepath.Join(dir, "token")
	mode := func() fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if mode() != 0o600 {
		t.Errorf("mode %o, want 600", mode())
	}
	_ = os.Chmod(path, 0o644)
	if again, err := LoadToken(dir); err != nil || again != first || mode() != 0o600 {
		t.Errorf("again: %q, %v, mode %o; want the same token and mode 600", again, err, mode())
	}
	_ = os.WriteFile(path, []byte("short"), 0o600)
	if other, err := LoadToken(dir); err != nil || len(other) != 64 || other == first {
		t.Errorf("after damage: %q, %v", other, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 { // the token and a copy of "short"
		t.Errorf("the folder holds %v", left)
	}
}

// TestServerPaths: the server gets every request for its paths, and those for no page of the web
// UI.
func TestServerPaths(t *testing.T) {
	_, _, url := newAPI(t)
	for _, c := range []struct {
		method, path string
		want         bool
	}{
		{"POST", "/v1/chat/completions", true},
		{"GET", "/v1/nothing", true},
		{"GET", "/health", true},
		{"POST", "/toy", true},
		{"OPTIONS", "/toy", true},
		{"POST", "/api/toy", true},
		{"POST", "/api/toy/more", true},
		{"GET", "/control/state", false},
		{"POST", "/other", true},
		{"GET", "/other", true},
		{"PUT", "/other/", true},
		{"POST", "//v1/chat/completions", true},
		{"POST", "/toy/", true},
		{"POST", "/", false},
		{"GET", "/", false},
	} {
		_, _, text := do(t, c.method, url+c.path, "")
		path := "/" + strings.Trim(c.path, "/")
		if got := text == "endpoint "+path; got != c.want {
			t.Errorf("%s %s: got %q, want the server's answer: %v", c.method, c.path, text, c.want)
		}
	}
}
