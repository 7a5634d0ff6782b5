package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/keys"
	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// twoModels has the models "demo" and "other", and the alias "nick" of the latter.
type twoModels struct {
	fakeModels
	woken   []string            // by Wake
	failed  error               // the error of every Wake
	stopped error               // why there is no default model
	kept    chan *time.Duration // what every release says, if it is not nil
}

func (m *twoModels) Resolve(name string) (string, error) {
	switch name {
	case "":
		return "demo", m.stopped
	case "demo":
		return "demo", nil
	case "other", "nick":
		return "other", nil
	}
	return "", problem.New(problem.ModelNotFound, "There is no model here", "there is other", "")
}

func (m *twoModels) Acquire(name string) (server.Model, error) {
	id, err := m.Resolve(name)
	release := func(keepAlive *time.Duration) {
		if m.kept != nil {
			m.kept <- keepAlive
		}
	}
	return server.Model{ID: id, Engine: m.engine, Release: release}, err
}

func (m *twoModels) Wake(_ context.Context, name string) (server.Model, error) {
	m.woken = append(m.woken, name)
	if m.failed != nil {
		return server.Model{}, m.failed
	}
	return m.Acquire(name)
}

func (m *twoModels) Listed() bool { return true }

func (m *twoModels) List() []server.ModelInfo {
	return []server.ModelInfo{{ID: "demo", State: server.Loaded, Engine: m.engine},
		{ID: "other", State: server.Unloaded}}
}

// Texts implements server.TextModels.
func (m *twoModels) Texts(name string) (string, generate.Model, error) {
	id, err := m.Resolve(name)
	return id, m.engine, err
}

// withKeys starts a server with named keys.
func withKeys(t *testing.T, e *fakeEngine, o server.Options) (url string, store *keys.Store,
	models *twoModels) {
	t.Helper()
	store, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	models = &twoModels{fakeModels: fakeModels{engine: e}}
	o.Models, o.Guard = models, &guard.Guard{Keys: store}
	return start(t, e, o).URL, store, models
}

func addKey(t *testing.T, s *keys.Store, name string, l keys.Limits) (text string) {
	t.Helper()
	_, text, err := s.Add(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// says answers every request with a word of one token.
func says(s *fakeStream) {
	s.prefill(s.usage.PromptTokens, 0)
	s.token(1, "one")
	s.done(engine.FinishStop, nil)
}

const (
	messageWith = `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"model":"MODEL"}`
	chatWith    = `{"messages":[{"role":"user","content":"hi"}],"model":"MODEL"}`
)

// TestKeepAliveOfAKey: who holds a named key does not unload models, and learns nothing about those
// that it may not use.
func TestKeepAliveOfAKey(t *testing.T) {
	url, store, models := withKeys(t, newFakeEngine(nil), server.Options{})
	demo := addKey(t, store, "demo", keys.Limits{Models: []string{"demo"}})
	for _, model := range []string{"demo", "other", "none"} {
		status, _, text := post(t, url+"/api/generate", `{"model":"`+model+`","keep_alive":0}`,
			"X-Api-Key", demo)
		if status != 403 || !strings.Contains(text, "may not unload") || len(models.woken) > 0 {
			t.Errorf("%s: %d %s, woken %q", model, status, text, models.woken)
		}
	}
	models.kept = make(chan *time.Duration, 1)
	status, _, text := post(t, url+"/api/generate", `{"model":"demo","keep_alive":-1}`,
		"X-Api-Key", demo)
	if kept := <-models.kept; status != 200 || kept != nil {
		t.Errorf("%d %s, the model is kept for %v", status, text, kept)
	}
}

// TestPullOfAKey: who holds a named key cannot fill the disk with models.
func TestPullOfAKey(t *testing.T) {
	pulls := 0
	url, store, _ := withKeys(t, newFakeEngine(nil), server.Options{
		Pull: func(context.Context, string, func(server.Progress) error) error {
			pulls++
			return nil
		}})
	key := addKey(t, store, "one", keys.Limits{})
	status, _, text := post(t, url+"/api/pull", `{"model":"o/m"}`, "X-Api-Key", key)
	if status != 403 || pulls > 0 || !strings.Contains(text, "may not download models") {
		t.Errorf("got %d %s, %d downloads", status, text, pulls)
	}
}

// TestDeleteOfAKey: who holds a named key, limited to models or not, cannot delete them.
func TestDeleteOfAKey(t *testing.T) {
	deleted := 0
	url, store, _ := withKeys(t, newFakeEngine(nil), server.Options{
		Delete: func(string) error {
			deleted++
			return nil
		}})
	for name, limits := range map[string]keys.Limits{"all": {}, "one": {Models: []string{"demo"}}} {
		status, _, text := do(t, "DELETE", url+"/api/delete", `{"model":"demo"}`, "X-Api-Key",
			addKey(t, store, name, limits))
		if status != 403 || deleted > 0 || !strings.Contains(text, "may not delete models") {
			t.Errorf("%s: got %d %s, %d deleted", name, status, text, deleted)
		}
	}
}

// TestModelsOfAKey: a key with models lists and uses only these. Every other model, whether it
// exists or not, gets the same answer, and is never loaded.
func TestModelsOfAKey(t *testing.T) {
	url, store, models := withKeys(t, newFakeEngine(says), server.Options{})
	all := addKey(t, store, "all", keys.Limits{})
	demo := addKey(t, store, "demo", keys.Limits{Models: []string{"demo"}})
	other := addKey(t, store, "other", keys.Limits{Models: []string{"OTHER", "gone"}})
	for _, c := range []struct {
		key, model string
		status     int
	}{
		{all, "demo", 200}, {all, "nick", 200}, {all, "", 200}, {all, "none", 404},
		{demo, "demo", 200}, {demo, "", 200}, {demo, "other", 404}, {demo, "nick", 404},
		{demo, "none", 404},
		{other, "other", 200}, {other, "nick", 200}, {other, "demo", 404}, {other, "", 404},
		{other, "gone", 404},
	} {
		for path, body := range map[string]string{"/v1/chat/completions": chatWith,
			"/v1/messages": messageWith, "/v1/messages/count_tokens": messageWith,
			"/tokenize": `{"prompt":"hi","model":"MODEL"}`} {
			models.woken = nil
			status, _, text := post(t, url+path, strings.Replace(body, "MODEL", c.model, 1),
				"X-Api-Key", c.key)
			if status != c.status {
				t.Errorf("%s, model %q: %d %s, want %d", path, c.model, status, text, c.status)
			}
			if status == 404 && c.key != all && (len(models.woken) > 0 || strings.Contains(
				strings.ReplaceAll(text, `\"`+c.model+`\"`, ""), "there is other")) {
				t.Errorf("%s, model %q: woken %q, %s", path, c.model, models.woken, text)
			}
		}
		if c.model == "" {
			continue
		}
		status, _, text := do(t, "GET", url+"/v1/models/"+c.model, "", "X-Api-Key", c.key)
		if (status == 200) != (c.status == 200) {
			t.Errorf("GET /v1/models/%s: %d %s", c.model, status, text)
		}
	}
	for key, want := range map[string]string{all: "demo other", demo: "demo", other: "other"} {
		_, _, text := do(t, "GET", url+"/v1/models", "", "Authorization", "Bearer "+key)
		var list struct{ Data []struct{ ID string } }
		_ = json.Unmarshal([]byte(text), &list)
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("the list has %q, want %q", got, want)
		}
		_, _, text = do(t, "GET", url+"/api/tags", "", "Authorization", "Bearer "+key)
		for _, id := range []string{"demo", "other"} {
			if strings.Contains(text, `"`+id+`:latest"`) != strings.Contains(want, id) {
				t.Errorf("Ollama's list is %s, want %q", text, want)
			}
		}
	}
	// The answer about another model and about none differ in the name alone.
	var answers []string
	for _, model := range []string{"other", "none"} {
		_, _, text := post(t, url+"/v1/completions", `{"prompt":"hi","model":"`+model+`"}`,
			"X-Api-Key", demo)
		answers = append(answers, strings.Replace(text, model, "", 1))
	}
	if answers[0] != answers[1] || !strings.Contains(answers[0], "model_not_found") {
		t.Errorf("%q", answers)
	}
	models.stopped = problem.New(problem.NotRunning, "No model is loaded", "", "Load other.")
	if status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key",
		demo); status != 503 || !strings.Contains(text, "No model is loaded") ||
		strings.Contains(text, "other") {
		t.Errorf("no model is loaded: %d %s", status, text)
	}
	models.stopped = nil
	// Nor does an error of a model of its own name others.
	models.failed = problem.New(problem.DoesNotFit, "demo does not fit", "other has the memory",
		"Stop other.")
	status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key", demo)
	if status != 507 || !strings.Contains(text, "demo does not fit") ||
		strings.Contains(text, "other") {
		t.Errorf("%d %s", status, text)
	}
}

// TestLimitsOfAKey: a limit is answered with 429 and the time to wait, in the form of the dialect.
// Lists do not count.
func TestLimitsOfAKey(t *testing.T) {
	url, store, _ := withKeys(t, newFakeEngine(says), server.Options{})
	key := addKey(t, store, "k", keys.Limits{RequestsPerMinute: 2})
	for range 5 {
		if status, _, text := do(t, "GET", url+"/v1/models", "", "X-Api-Key", key); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	for range 2 {
		if status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key",
			key); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	for path, want := range map[string]string{
		"/v1/completions":           `"type":"rate_limit_error"`,
		"/v1/chat/completions":      `"type":"rate_limit_error"`,
		"/v1/messages":              `{"type":"error","error":{"type":"rate_limit_error"`,
		"/v1/messages/count_tokens": `{"type":"error","error":{"type":"rate_limit_error"`,
	} {
		status, header, text := post(t, url+path, "{", "X-Api-Key", key)
		wait := header.Get("Retry-After")
		if status != 429 || !strings.Contains(text, want) || wait != "60" && wait != "59" ||
			!strings.Contains(text, "2 requests per minute") || strings.Contains(text, key) {
			t.Errorf("%s: %d, Retry-After %q, %s", path, status, wait, text)
		}
	}
	if status, _, _ := do(t, "GET", url+"/v1/models", "", "X-Api-Key", key); status != 200 {
		t.Errorf("the list: %d", status)
	}
}

// TestRoutesThatCount: a key without requests left is refused where a model is used, if only its
// tokenizer, and nowhere else. Every route of every dialect is here.
func TestRoutesThatCount(t *testing.T) {
	url, store, _ := withKeys(t, newFakeEngine(says), server.Options{})
	key := addKey(t, store, "k", keys.Limits{RequestsPerMinute: 1})
	if status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key",
		key); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	counts := map[string]bool{
		"POST /v1/chat/completions":          true,
		"POST /v1/completions":               true,
		"POST /v1/embeddings":                true,
		"POST /v1/rerank":                    true,
		"POST /v1/reranking":                 true,
		"POST /v2/rerank":                    true,
		"POST /v1/responses":                 true,
		"POST /v1/responses/compact":         true,
		"POST /v1/responses/input_tokens":    true,
		"POST /v1/messages":                  true,
		"POST /v1/messages/count_tokens":     true,
		"POST /v1/decisions":                 true,
		"POST /v1/systemone":                 true,
		"POST /tokenize":                     true,
		"POST /detokenize":                   true,
		"POST /apply-template":               true,
		"POST /api/chat":                     true,
		"POST /api/generate":                 true,
		"POST /api/embed":                    true,
		"POST /api/embeddings":               true,
		"GET /v1/models":                     false,
		"GET /v1/models/{id...}":             false,
		"GET /v1/responses/{id}":             false,
		"DELETE /v1/responses/{id}":          false,
		"POST /v1/responses/{id}/cancel":     false,
		"GET /v1/responses/{id}/input_items": false,
		"GET /api/tags":                      false,
		"GET /api/ps":                        false,
		"GET /api/version":                   false,
		"POST /api/show":                     false,
		"POST /api/pull":                     false,
		"DELETE /api/delete":                 false,
		"POST /api/push":                     false,
		"POST /api/create":                   false,
		"POST /api/copy":                     false,
	}
	for _, d := range dialects {
		for _, route := range d.Routes() {
			want, known := counts[route.Pattern]
			if !known {
				t.Errorf("%s is missing in the table", route.Pattern)
			}
			for _, pattern := range []string{route.Pattern, route.Alias} {
				method, path, _ := strings.Cut(pattern, " ")
				path = strings.NewReplacer("{id...}", "demo", "{id}", "resp_1").Replace(path)
				if method == "" {
					continue
				}
				status, _, text := do(t, method, url+path, `{"model":"demo"}`, "X-Api-Key", key)
				if (status == 429) != want {
					t.Errorf("%s: %d %s, counts: %t", pattern, status, text, want)
				}
			}
		}
	}
	if n := store.List()[0].Usage.Requests; n != 1 {
		t.Errorf("%d requests were counted, want 1", n)
	}
}

// TestOwnersOfKeys: each named key is an owner of its requests, whatever it is sent as, and every
// request without one has the same owner. A key with the name of a removed one is another owner.
func TestOwnersOfKeys(t *testing.T) {
	e := newFakeEngine(says)
	store, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	url := start(t, e, server.Options{Guard: &guard.Guard{Keys: store, APIKey: "unnamed"}}).URL
	owner := func(key, path, body string) string {
		t.Helper()
		status, _, text := post(t, url+path, body, "X-Api-Key", key)
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		<-e.streams
		return (<-e.requests).Owner
	}
	seen := map[string]string{}
	first := addKey(t, store, "alice", keys.Limits{})
	for _, key := range []struct{ name, text string }{{"alice", first},
		{"bob", addKey(t, store, "bob", keys.Limits{})}, {"none", "unnamed"}} {
		one := owner(key.text, "/v1/completions", `{"prompt":"hi"}`)
		for path, body := range map[string]string{"/v1/messages": messageWith,
			"/v1/chat/completions": chatWith} {
			body = strings.Replace(body, "MODEL", "demo", 1)
			if other := owner(key.text, path, body); other != one {
				t.Errorf("%s: the owner is %q in %s and %q elsewhere", key.name, other, path, one)
			}
		}
		if (one == "") != (key.name == "none") || seen[one] != "" {
			t.Errorf("%s: the owner is %q, as of %q", key.name, one, seen[one])
		}
		seen[one] = key.name
	}
	if _, _, err := store.Remove("alice"); err != nil {
		t.Fatal(err)
	}
	if one := owner(addKey(t, store, "alice", keys.Limits{}), "/v1/completions",
		`{"prompt":"hi"}`); seen[one] != "" {
		t.Errorf("a new key: the owner is that of %q", seen[one])
	}
}

// TestConcurrentRequestsOfAKey: while a request runs, the key's next one is refused, and that of
// another key is not.
func TestConcurrentRequestsOfAKey(t *testing.T) {
	e := newFakeEngine(nil)
	url, store, _ := withKeys(t, e, server.Options{})
	key := addKey(t, store, "k", keys.Limits{ConcurrentRequests: 1})
	done := make(chan int)
	go func() {
		status, _, _ := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key", key)
		done <- status
	}()
	running := <-e.streams
	status, header, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key", key)
	if status != 429 || header.Get("Retry-After") != "1" || !strings.Contains(text, "at once") {
		t.Errorf("%d, Retry-After %q, %s", status, header.Get("Retry-After"), text)
	}
	says(running)
	if status := <-done; status != 200 {
		t.Errorf("the first: %d", status)
	}
	go func() { says(<-e.streams) }()
	// The server counts the end of a request after the client has the answer.
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		status, _, text = post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key", key)
		if status == 200 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after the first: %d %s", status, text)
		}
	}
}

// TestRemovedKey: the requests of a key that is removed end at once, before an answer and in the
// middle of a stream, and the engine's request is cancelled.
func TestRemovedKey(t *testing.T) {
	e := newFakeEngine(nil)
	url, store, _ := withKeys(t, e, server.Options{})
	// A second key, so that the first one is not accepted for lack of any.
	addKey(t, store, "another", keys.Limits{})
	for _, c := range []struct {
		path, body string
		begun      bool // the stream
		want       string
	}{
		{"/v1/completions", `{"prompt":"hi"}`, false, `"type":"authentication_error"`},
		{"/v1/chat/completions", hiStreamed, true, `"type":"authentication_error"`},
		{"/v1/messages", strings.Replace(messageWith, "{", `{"stream":true,`, 1), true,
			`{"type":"error","error":{"type":"authentication_error"`},
	} {
		key := addKey(t, store, "k", keys.Limits{})
		body := strings.Replace(c.body, "MODEL", "demo", 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stream := <-e.streams
			if c.begun {
				stream.prefill(stream.usage.PromptTokens, 0)
				stream.say("</think>one two three")
			} else if _, _, err := store.Remove("k"); err != nil {
				t.Error(err)
			}
			<-stream.cancelled
			stream.done(engine.FinishCancelled, nil)
		}()
		ctx, stop := context.WithTimeout(t.Context(), patience)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+c.path,
			strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(answer.Body)
		if c.begun {
			waitFor(t, lines, "two")
			if _, _, err := store.Remove("k"); err != nil {
				t.Fatal(err)
			}
		}
		if (answer.StatusCode == 200) != c.begun || !c.begun && answer.StatusCode != 401 {
			t.Errorf("%s: status %d", c.path, answer.StatusCode)
		}
		for lines.Scan() && !strings.Contains(lines.Text(), "The API key was removed") {
		}
		if !strings.Contains(lines.Text(), c.want) {
			t.Errorf("%s: the last line is %s", c.path, lines.Text())
		}
		answer.Body.Close()
		stop()
		waitClosed(t, ended, "the end of the engine's request")
		if status, _, _ := post(t, url+c.path, body, "X-Api-Key", key); status != 401 {
			t.Errorf("%s afterwards: %d", c.path, status)
		}
	}
}

// TestUsageOfAKey: a request counts the prompt once for all of its answers, and every generated
// token. A refused request generates nothing. The requests have the priority of the key.
func TestUsageOfAKey(t *testing.T) {
	e := newFakeEngine(says)
	url, store, _ := withKeys(t, e, server.Options{})
	key := addKey(t, store, "k", keys.Limits{Priority: keys.Batch})
	if status, _, text := post(t, url+"/v1/completions",
		`{"prompt":[[5,6,7],[8,9]],"n":2,"temperature":1}`, "X-Api-Key", key); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for range 4 {
		if q := <-e.requests; q.Priority >= -generate.MaxPriority {
			t.Errorf("priority %d of a batch request", q.Priority)
		}
	}
	if status, _, _ := post(t, url+"/v1/completions", `{"prompt":7}`, "X-Api-Key",
		key); status != 400 {
		t.Errorf("status %d", status)
	}
	var got keys.Usage
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = store.List()[0].Usage
		if got.GeneratedTokens > 0 && got.Requests == 2 {
			break
		}
	}
	if got.Requests != 2 || got.PromptTokens != 5 || got.GeneratedTokens != 4 ||
		time.Since(got.LastUse) > time.Minute {
		t.Errorf("%+v, want 2 requests, 5 and 4 tokens", got)
	}
	// Without a named key, requests have the priority that they ask for.
	if _, _, err := store.Remove("k"); err != nil {
		t.Fatal(err)
	}
	if status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if q := <-e.requests; q.Priority != 0 {
		t.Errorf("priority %d", q.Priority)
	}
}

// TestPriorities: vLLM's priority orders requests, the smallest first. With a named key a request
// only goes behind others, and never leaves the class of the key.
func TestPriorities(t *testing.T) {
	const most = generate.MaxPriority
	e := newFakeEngine(says)
	url, store, _ := withKeys(t, e, server.Options{})
	ask := func(key, priority string) (status, got int) {
		t.Helper()
		status, _, _ = post(t, url+"/v1/chat/completions",
			strings.Replace(hiStreamed, "{", `{`+priority, 1), "X-Api-Key", key)
		if status == 200 {
			got = (<-e.requests).Priority
		}
		return status, got
	}
	for _, c := range []struct {
		field        string
		status, want int
	}{
		{"", 200, 0}, {`"priority":null,`, 200, 0}, {`"priority":5,`, 200, -5},
		{`"priority":-5,`, 200, 5}, {`"priority":1073741824,`, 200, -most},
		{`"priority":-1073741824,`, 200, most}, {`"priority":1073741825,`, 400, 0},
		{`"priority":-1073741825,`, 400, 0}, {`"priority":"high",`, 400, 0},
	} {
		if status, got := ask("", c.field); status != c.status || got != c.want {
			t.Errorf("%s: %d, priority %d, want %d, %d", c.field, status, got, c.status, c.want)
		}
	}
	interactive := addKey(t, store, "interactive", keys.Limits{})
	batch := addKey(t, store, "batch", keys.Limits{Priority: keys.Batch})
	order := []int{} // from first to last
	for _, c := range []struct{ key, field string }{{interactive, `"priority":-9,`},
		{interactive, `"priority":1,`}, {interactive, `"priority":1073741824,`},
		{batch, `"priority":-1073741824,`}, {batch, `"priority":1073741824,`}} {
		_, got := ask(c.key, c.field)
		order = append(order, got)
	}
	if order[0] != 0 || order[1] != -1 || !slices.IsSortedFunc(order, func(a, b int) int {
		return cmp.Compare(b, a)
	}) {
		t.Errorf("priorities %d", order)
	}
}

// TestKeysInTheLog: the log has the name of a key, unless the request is private, and never its
// text.
func TestKeysInTheLog(t *testing.T) {
	var log bytes.Buffer
	e := newFakeEngine(says)
	url, store, _ := withKeys(t, e, server.Options{Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	key := addKey(t, store, "my laptop", keys.Limits{})
	for body, named := range map[string]int{`{"prompt":"hi"}`: 1,
		`{"prompt":"hi","store":false}`: 0, `{`: 1} {
		log.Reset()
		post(t, url+"/v1/completions", body, "Authorization", "Bearer "+key)
		if n := strings.Count(log.String(), `key="my laptop"`); n != named ||
			strings.Contains(log.String(), key) {
			t.Errorf("%s: %s", body, log.String())
		}
	}
	log.Reset()
	status, _, text := post(t, url+"/v1/completions?key="+key, `{"prompt":"hi"}`, "X-Api-Key",
		key+"x")
	if status != http.StatusUnauthorized || strings.Contains(log.String()+text, key) {
		t.Errorf("%d %s %s", status, text, log.String())
	}
}

// TestKeysWhereTheyDoNotBelong: a key in an address, as a model or as the ID of a request is not
// logged, neither a named one nor the other, and the rest of the line is.
func TestKeysWhereTheyDoNotBelong(t *testing.T) {
	var log bytes.Buffer
	e := newFakeEngine(says)
	const unnamed = "key-of-the-settings"
	store, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, e, server.Options{Guard: &guard.Guard{Keys: store, APIKey: unnamed},
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	named := addKey(t, store, "laptop", keys.Limits{})
	for _, key := range []string{named, unnamed} {
		for _, path := range []string{"/v1/models/" + key, "/" + key} {
			log.Reset()
			do(t, http.MethodGet, s.URL+path, "", "X-Api-Key", key)
			if got := log.String(); strings.Contains(got, key) ||
				!strings.Contains(got, "[API key]") {
				t.Errorf("GET %s: %s", path, got)
			}
		}
		log.Reset()
		post(t, s.URL+"/v1/completions", `{"prompt":"hi","model":"`+key+`"}`, "X-Api-Key", key,
			"X-Client-Request-Id", key)
		if got := log.String(); strings.Contains(got, key) ||
			strings.Count(got, "[API key]") != 2 || !strings.Contains(got, "client_request=") {
			t.Errorf("the model and the ID: %s", got)
		}
	}
}

// changing is Models for which a name means another model when the request is woken.
type changing struct{ *twoModels }

func (changing) Resolve(string) (string, error) { return "demo", nil }

func (m changing) Wake(ctx context.Context, _ string) (server.Model, error) {
	model, err := m.twoModels.Wake(ctx, "other")
	model.Release = func(*time.Duration) { m.err = errors.New("released") }
	return model, err
}

// TestModelChangesMeanwhile: a name that means another model by now gives no access to it.
func TestModelChangesMeanwhile(t *testing.T) {
	e := newFakeEngine(says)
	store, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	models := changing{&twoModels{fakeModels: fakeModels{engine: e}}}
	url := start(t, e, server.Options{Models: models, Guard: &guard.Guard{Keys: store}}).URL
	key := addKey(t, store, "k", keys.Limits{Models: []string{"demo"}})
	status, _, text := post(t, url+"/v1/completions", `{"prompt":"hi"}`, "X-Api-Key", key)
	if status != 404 || models.err == nil {
		t.Errorf("%d %s, released %v", status, text, models.err)
	}
}
