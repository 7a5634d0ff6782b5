package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// embedder is a fake engine whose vector of a text is its number of tokens and the first token.
func embedder(task modelfile.Task) *fakeEngine {
	e := newFakeEngine(nil)
	e.streams, e.requests = make(chan *fakeStream, 4096), make(chan engine.Request, 4096)
	e.info.Task, e.info.Dimensions, e.info.ContextTokens = task, 2, 64
	e.script = func(s *fakeStream) {
		q := <-e.requests
		v := []float32{float32(len(q.Prompt)), float32(q.Prompt[0])}
		usage := engine.Usage{PromptTokens: len(q.Prompt), PromptDoneTokens: len(q.Prompt)}
		s.put(engine.Event{Type: engine.Embedded, Vector: v, Usage: usage})
		s.put(engine.Event{Type: engine.Done, Finish: engine.FinishStop, Usage: usage})
	}
	return e
}

func TestEmbeddings(t *testing.T) {
	s := start(t, embedder(modelfile.Embed), server.Options{})
	for _, c := range []struct {
		path, body string
		status     int
		says       []string
	}{
		{"/v1/embeddings", `{"input": [[7, 8], [9]]}`, 200, []string{
			`{"object":"embedding","index":0,"embedding":[2,7]}`,
			`{"object":"embedding","index":1,"embedding":[1,9]}`,
			`"usage":{"prompt_tokens":3,"total_tokens":3}`}},
		{"/embeddings", `{"input": [7], "encoding_format": "base64"}`, 200,
			[]string{`"embedding":"AACAPwAA4EA="`}},
		{"/v1/embeddings", `{"input": [7, 8], "dimensions": 1}`, 200, []string{`[2]`}},
		{"/v1/embeddings", `{"input": [7, 8], "dimensions": 3}`, 400, []string{"have 2, got 3"}},
		{"/v1/embeddings", `{"input": "a", "truncate_prompt_tokens": 1}`, 200, []string{`[1,`}},
		{"/v1/embeddings", `{"input": [` + strings.Repeat("1,", 64) + `1]}`, 400,
			[]string{"context_length_exceeded"}},
		{"/v1/embeddings", `{"input": ["a", "` + strings.Repeat("b ", 900) + `"]}`, 400,
			[]string{"context_length_exceeded", "input[1] has more"}},
		{"/v1/embeddings", `{"input": [` + strings.Repeat("1,", 64) + `1],
			"truncate_prompt_tokens": -1}`, 200, []string{`[64,1]`}},
		{"/api/embed", `{"input": ["a b", "c"]}`, 200, []string{`"embeddings":[[`,
			`"prompt_eval_count":`}},
		{"/api/embeddings", `{"prompt": "a"}`, 200, []string{`{"embedding":[`}},
		{"/v1/embeddings", `{"content": ""}`, 400, []string{"content: has no tokens"}},
		{"/api/embeddings", `{"prompt": ""}`, 400, []string{"prompt: has no tokens"}},
		{"/v1/rerank", `{"query": "a", "documents": ["b"]}`, 400,
			[]string{"is an embedding model", "/v1/embeddings", `"param":"model"`}},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "a"}]}`, 400,
			[]string{"is an embedding model", "needs a model that generates text",
				`"param":"model"`}},
		{"/api/generate", `{"prompt": "a"}`, 400, []string{"is an embedding model"}},
	} {
		status, _, body := post(t, s.URL+c.path, c.body)
		for _, text := range c.says {
			if status != c.status || !strings.Contains(body, text) {
				t.Errorf("%s %.60s: %d %s, expected %d with %q", c.path, c.body, status, body,
					c.status, text)
			}
		}
	}
}

// TestEmbeddingsOfAChatModel checks the sentences about a model that generates text.
func TestEmbeddingsOfAChatModel(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{})
	for path, body := range map[string]string{"/v1/embeddings": `{"input": "a"}`,
		"/v1/rerank": `{"query": "a", "documents": ["b"]}`, "/api/embed": `{"input": "a"}`} {
		if status, _, answer := post(t, s.URL+path, body); status != 400 ||
			!strings.Contains(answer, "generates text: this address needs a model that") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// sleeping are Models that know what "vectors" and "words" are for, and have not loaded them.
type sleeping struct {
	*fakeModels
	woken int
}

func (m *sleeping) Task(name string) (string, modelfile.Task, bool) {
	return name, map[string]modelfile.Task{"vectors": modelfile.Embed}[name], name != "unknown"
}

func (m *sleeping) Wake(ctx context.Context, name string) (server.Model, error) {
	m.woken++
	return m.Acquire("")
}

// TestTaskBeforeLoading: a model that is for something else is refused before it is loaded. If it
// is not known what it is for, it is loaded first. Ollama's clients may load any model.
func TestTaskBeforeLoading(t *testing.T) {
	e := newFakeEngine(says)
	models := &sleeping{fakeModels: &fakeModels{engine: e}}
	s := start(t, e, server.Options{Models: models})
	const refused = "this address needs a model that"
	for _, c := range []struct {
		path, body string
		woken      int
		says       string
	}{
		{"/v1/embeddings", `{"model":"words","input":"a"}`, 0, refused},
		{"/api/embed", `{"model":"words","input":"a"}`, 0, refused},
		{"/api/embeddings", `{"model":"words","prompt":"a"}`, 0, refused},
		{"/v1/rerank", `{"model":"words","query":"a","documents":["b"]}`, 0, refused},
		{"/v1/rerank", `{"model":"vectors","query":"a","documents":["b"]}`, 0, refused},
		{"/v1/completions", `{"model":"vectors","prompt":"a"}`, 0, refused},
		{"/v1/messages", strings.Replace(messageWith, "MODEL", "vectors", 1), 0, refused},
		{"/v1/embeddings", `{"model":"unknown","input":"a"}`, 1, refused},
		{"/v1/completions", `{"model":"words","prompt":"a"}`, 1, "one"},
		{"/api/generate", `{"model":"vectors"}`, 1, `"done":true`},
	} {
		models.woken = 0
		status, _, body := post(t, s.URL+c.path, c.body)
		if models.woken != c.woken || !strings.Contains(body, c.says) ||
			(status == 400) != (c.says == refused) {
			t.Errorf("%s %s: %d %s, woken %d times, want %d and %q", c.path, c.body, status, body,
				models.woken, c.woken, c.says)
		}
	}
}

// TestManyEmbeddings sends more texts than the engine has places for. The engine refuses every
// third, and all of them get their vectors in the end, in order.
func TestManyEmbeddings(t *testing.T) {
	e := embedder(modelfile.Embed)
	var calls atomic.Int64
	e.place = func() error {
		if calls.Add(1)%3 == 0 {
			return problem.New(problem.Busy, "The queue is full", "", "")
		}
		return nil
	}
	s := start(t, e, server.Options{})
	var inputs []string
	for i := range 1000 {
		inputs = append(inputs, fmt.Sprintf("[%d]", i+1))
	}
	status, _, body := post(t, s.URL+"/v1/embeddings",
		`{"input": [`+strings.Join(inputs, ",")+`]}`)
	var answer struct {
		Data []struct{ Embedding []float32 }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 ||
		len(answer.Data) != 1000 {
		t.Fatalf("%d, %v, %d vectors", status, err, len(answer.Data))
	}
	for i, d := range answer.Data {
		if d.Embedding[1] != float32(i+1) {
			t.Fatalf("vector %d is %v", i, d.Embedding)
		}
	}
}

// TestEmbeddingsWait sends a request while those of others have all places. It waits, until its
// client goes away.
func TestEmbeddingsWait(t *testing.T) {
	e := embedder(modelfile.Embed)
	var calls atomic.Int64
	e.place = func() error {
		if calls.Add(1) < 5 {
			return problem.New(problem.Busy, "The queue is full", "", "")
		}
		return nil
	}
	s := start(t, e, server.Options{})
	if status, _, body := post(t, s.URL+"/v1/embeddings", `{"input": [[1], [2]]}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.place = func() error {
		if calls.Add(-1) < 0 {
			cancel()
		}
		return problem.New(problem.Busy, "The queue is full", "", "")
	}
	q, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/embeddings",
		strings.NewReader(`{"input": [[1]]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(q); err == nil {
		t.Error("a request without a place is answered")
	}
}

// TestManyVectorRequests sends one request more than may wait for vectors. It alone is
// answered, with 429; the others wait.
func TestManyVectorRequests(t *testing.T) {
	const limit = 256
	e := embedder(modelfile.Embed)
	e.place = func() error { return problem.New(problem.Busy, "The queue is full", "", "") }
	s := start(t, e, server.Options{})
	ctx, leave := context.WithTimeout(t.Context(), 30*time.Second)
	defer leave()
	statuses := make(chan int, limit+1)
	send := func() {
		q, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/embeddings",
			strings.NewReader(`{"input": [[1]]}`))
		if err != nil {
			t.Error(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			statuses <- 0
			return
		}
		answer.Body.Close()
		statuses <- answer.StatusCode
	}
	for range limit + 1 {
		go send()
	}
	if got := <-statuses; got != http.StatusTooManyRequests {
		t.Errorf("status %d of the request beyond the limit", got)
	}
	leave()
	for range limit {
		if got := <-statuses; got != 0 {
			t.Errorf("status %d of a request that waits", got)
		}
	}
}

// TestEmbeddingsCancelled checks that a client that goes away ends all of its texts.
func TestEmbeddingsCancelled(t *testing.T) {
	e := embedder(modelfile.Embed)
	e.script = nil
	s := start(t, e, server.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/embeddings",
		strings.NewReader(`{"input": [[1], [2], [3]]}`))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		r, err := http.DefaultClient.Do(q)
		if err == nil {
			r.Body.Close()
		}
		ended <- err
	}()
	var streams []*fakeStream
	for range 3 {
		streams = append(streams, <-e.streams)
	}
	cancel()
	for _, stream := range streams {
		<-stream.cancelled
	}
	if err := <-ended; err == nil {
		t.Error("an answer after the client has left")
	}
}

// TestTooManyVectors checks the limit of the memory of the vectors.
func TestTooManyVectors(t *testing.T) {
	e := embedder(modelfile.Embed)
	e.info.Dimensions = 1 << 20
	s := start(t, e, server.Options{})
	status, _, body := post(t, s.URL+"/v1/embeddings",
		`{"input": [`+strings.Repeat("[1],", 20)+`[1]]}`)
	if status != 413 || !strings.Contains(body, "21 texts with 1048576 dimensions") {
		t.Errorf("%d %s", status, body)
	}
}
