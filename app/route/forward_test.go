package route

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/machines"
	"headroom/engine/guard"
)

// TestForward: a request arrives as it was sent, without the client's key and with the machine's.
func TestForward(t *testing.T) {
	var got *http.Request
	var body string
	f := newFake(t, "desk (1)", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got, body = r, string(data)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":12,"completion_tokens":3}}`)
	})
	f.key = "sk-machine"
	g := newRig(t, nowhere{}, f)
	status, text, h := g.post(t, hello, "Authorization", "Bearer sk-client", "X-Api-Key",
		"sk-client", "Cookie", "c=d", "Content-Type", "application/json",
		"X-Claude-Code-Session-Id", "s", "Origin", "http://page")
	if status != 200 || text != `{"usage":{"prompt_tokens":12,"completion_tokens":3}}` ||
		h.Get("Via") != "1.1 headroom (desk _1_)" || h.Get("Headroom-Machine") != "desk _1_" ||
		h.Get("Set-Cookie") != "" || h.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s %v", status, text, h)
	}
	if body != hello || got.URL.Path != chatPath ||
		got.Header.Get("Authorization") != "Bearer sk-machine" ||
		got.Header.Get("X-Claude-Code-Session-Id") != "s" ||
		got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the machine got %s %v", body, got)
	}
	for name, values := range got.Header {
		if strings.Contains(fmt.Sprint(values), "sk-client") || name == "Cookie" ||
			name == "Origin" {
			t.Errorf("the machine got the header %s: %v", name, values)
		}
	}
	eventually(t, func() bool { return len(g.router.Running()) == 0 })
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.used) != 1 || g.used[0] != (guard.Used{PromptTokens: 12, GeneratedTokens: 3}) {
		t.Errorf("used %+v", g.used)
	}
	if g.by[0] != "desk (1)" {
		t.Errorf("answered by %v", g.by)
	}
}

// TestStreams: bytes arrive as they were sent, each event as soon as it was sent.
func TestStreams(t *testing.T) {
	next := make(chan string)
	f := newFake(t, "desk", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for text := range next {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	})
	g := newRig(t, nowhere{}, f)
	type result struct {
		response *http.Response
		err      error
	}
	begun := make(chan result)
	go func() {
		response, err := http.Post(g.URL+chatPath, "", strings.NewReader(hello))
		begun <- result{response, err}
	}()
	next <- "data: {\"a\":1}\n\n"
	r := <-begun
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.response.Body.Close()
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r.response.Body, got); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	read("data: {\"a\":1}\n\n")
	if list := g.router.Running(); len(list) != 1 || !list[0].Answers || list[0].Machine != "desk" {
		t.Errorf("running: %+v", list)
	}
	next <- ": alive\n\ndata: \"é"
	read(": alive\n\n") // the half line waits for its end
	next <- "\"\n\ndata: [DONE]"
	read("data: \"é\"\n\n")
	close(next)
	read("data: [DONE]")
	if _, err := r.response.Body.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// TestCancel: a client that goes ends the request on the machine, before and after the first byte.
func TestCancel(t *testing.T) {
	for _, begins := range []bool{false, true} {
		arrived, ended := make(chan struct{}), make(chan struct{})
		f := newFake(t, "desk", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if begins {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: 1\n\n")
				w.(http.Flusher).Flush()
			}
			close(arrived)
			<-r.Context().Done()
			close(ended)
		})
		g := newRig(t, nowhere{}, f)
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+chatPath,
			strings.NewReader(hello))
		go func() {
			response, err := http.DefaultClient.Do(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}()
		<-arrived
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatalf("begins %t: the machine goes on", begins)
		}
		eventually(t, func() bool { return len(g.router.Running()) == 0 })
		if g.router.machines()[0].state.Load().Err != nil {
			t.Errorf("begins %t: the machine counts as failed", begins)
		}
	}
}

// TestFailover: before the first byte, another machine answers instead.
func TestFailover(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"dies": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"dies after its headers": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"is busy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"fails":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"has unloaded the model": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
		},
		"wants another key": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"sends elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"changes the protocol": rawStatus(101),
		"has no real status":   rawStatus(99),
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := newFake(t, "bad", broken), newFake(t, "good", says("fine"))
			g := newRig(t, nowhere{}, bad, good)
			// The conversation is the bad machine's, so that it comes first.
			g.router.memory.sessions.note(sessionOf(nil, mustRead(t, hello), "m"),
				g.router.machines()[0].stored.ID, 9, time.Now())
			status, text, h := g.post(t, hello)
			if status != 200 || text != "fine" || h.Get("Headroom-Machine") != "good" {
				t.Errorf("%d %s %v", status, text, h)
			}
			got := bad.requests.Load() // two, if the first one used an earlier connection
			if got < 1 || got > 2 {
				t.Errorf("the bad machine got %d requests", got)
			}
			if status, text, _ := g.post(t, hello); status != 200 || text != "fine" ||
				bad.requests.Load() != got {
				t.Errorf("the next turn: %d %s, %d requests to the bad machine", status, text,
					bad.requests.Load())
			}
		})
	}
}

// rawStatus answers with any status, also one that net/http refuses to write.
func rawStatus(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer connection.Close()
		_, _ = fmt.Fprintf(connection,
			"HTTP/1.1 %03d x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", status)
	}
}

// TestNoStatus: a status that ends no request is a failure of the machine and does not reach the
// client, though there is no other machine.
func TestNoStatus(t *testing.T) {
	for _, status := range []int{0, 99, 101, 600, 999} {
		g := newRig(t, nowhere{}, newFake(t, "desk", rawStatus(status)))
		if got, text, _ := g.post(t, hello); got != http.StatusBadGateway ||
			!strings.Contains(text, `The machine "desk" does not answer`) {
			t.Errorf("%d: %d %s", status, got, text)
		}
	}
}

// TestEndlessRefusal: another machine answers, though the body of a refusal does not end. Without
// another one, the client gets what has arrived.
func TestEndlessRefusal(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "busy")
		w.(http.Flusher).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	for _, others := range []int{1, 0} {
		fakes := []*fake{newFake(t, "bad", endless), newFake(t, "good", says("fine"))}
		g := newRig(t, nowhere{}, fakes[:1+others]...)
		g.router.o.RefusalWait = time.Second / 10
		g.router.memory.sessions.note(sessionOf(nil, mustRead(t, hello), "m"),
			g.router.machines()[0].stored.ID, 9, time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+chatPath,
			strings.NewReader(hello))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("the request hangs: %v", err)
		}
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		text, want := fmt.Sprintf("%d %s", response.StatusCode, data), "200 fine"
		if others == 0 {
			want = "429 busy"
		}
		if text != want || fakes[0].requests.Load() != 1 {
			t.Errorf("%d others: %s, want %s, %d requests", others, text, want,
				fakes[0].requests.Load())
		}
	}
}

// TestSpeedsOfListed: of models that a machine does not list any more, no speed is kept.
func TestSpeedsOfListed(t *testing.T) {
	m := newMachine(machines.Machine{}, func() (string, error) { return "", nil }, nil)
	for i := range 1000 {
		m.setInfo(Info{Models: []Model{{ID: "stays", PrefillTokensPerSecond: 7},
			{ID: fmt.Sprint(i), PrefillTokensPerSecond: 5}}}, nil, time.Now())
	}
	kept := 0
	m.speeds.byModel.Range(func(any, any) bool { kept++; return true })
	if kept != 2 || m.speeds.of("stays") != 7 || m.speeds.of("999") != 5 {
		t.Errorf("%d speeds are kept; %v of a listed model", kept, m.speeds.of("stays"))
	}
}

func mustRead(t *testing.T, text string) *body {
	t.Helper()
	b, ok := readBody([]byte(text))
	if !ok {
		t.Fatal(text)
	}
	return &b
}

// TestNoFailover: a model that crashes is not tried on all machines, and what a machine says of a
// request that is not valid is the answer.
func TestNoFailover(t *testing.T) {
	for status, text := range map[int]string{400: `{"error":"bad"}`,
		503: `{"error":{"code":"model_crashed"}}`} {
		answer := func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
		a, b := newFake(t, "a", answer), newFake(t, "b", answer)
		g := newRig(t, nowhere{}, a, b)
		if got, said, _ := g.post(t, hello); got != status || said != text {
			t.Errorf("%d: %d %s", status, got, said)
		}
		if n := a.requests.Load() + b.requests.Load(); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

// TestBreaks: after the first byte, a failure ends the stream with an error, and a document without
// its end.
func TestBreaks(t *testing.T) {
	f := newFake(t, "desk", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: x\ndata: 1\n\nevent: y\ndata: {\"hal")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	other := newFake(t, "other", says("not again"))
	other.down.Store(true)
	g := newRig(t, nowhere{}, f, other)
	status, text, _ := g.post(t, hello)
	before, after, _ := strings.Cut(text, "data: ERROR ")
	g.mu.Lock()
	failed := len(g.failed)
	g.mu.Unlock()
	if status != 200 || before != "event: x\ndata: 1\n\nevent: y\n\n" ||
		!strings.HasPrefix(after, `The machine "desk" did not finish its answer`) ||
		failed != 1 {
		t.Errorf("%d %q, %d failures", status, text, failed)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	eventually(t, func() bool { return g.router.machines()[0].state.Load().Err == nil })
	response, err := http.Post(g.URL+chatPath, "", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if data, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the client got %q without an error", data)
	}
	if other.requests.Load() != 0 {
		t.Error("another machine was asked after the first byte")
	}
}

// TestLoops: what was forwarded is answered here.
func TestLoops(t *testing.T) {
	f := newFake(t, "desk", says("there"))
	g := newRig(t, nowhere{}, f)
	for _, header := range []string{"Headroom-Forwarded", "Via"} {
		if _, text, _ := g.post(t, hello, header, via); text != "here" {
			t.Errorf("%s: %s", header, text)
		}
	}
	// Two routers that have only each other.
	f.answer = func(w http.ResponseWriter, r *http.Request) { g.serve(w, r) }
	if _, text, _ := g.post(t, hello); text != "here" || f.requests.Load() != 1 {
		t.Errorf("%s after %d requests", text, f.requests.Load())
	}
}

// TestGone: a machine that goes is noticed, and so is one that comes back.
func TestGone(t *testing.T) {
	f := newFake(t, "desk", says("there"))
	g := newRig(t, nowhere{}, f)
	f.down.Store(true)
	eventually(t, func() bool { return g.router.machines()[0].state.Load().Err != nil })
	if status, text, _ := g.post(t, hello); status != http.StatusBadGateway ||
		!strings.Contains(text, `The machine "desk" does not answer`) || f.requests.Load() != 0 {
		t.Errorf("%d %s", status, text)
	}
	f.down.Store(false)
	eventually(t, func() bool { return g.router.machines()[0].state.Load().Err == nil })
	if _, text, _ := g.post(t, hello); text != "there" {
		t.Error(text)
	}
}

// TestHangs: a request to a machine that stops answering goes to another one.
func TestHangs(t *testing.T) {
	hangs := make(chan struct{})
	bad := newFake(t, "bad", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(hangs)
		<-r.Context().Done()
	})
	good := newFake(t, "good", says("fine"))
	g := newRig(t, nowhere{}, bad, good)
	first := g.router.machines()[0]
	g.router.memory.sessions.note(sessionOf(nil, mustRead(t, hello), "m"), first.stored.ID, 9,
		time.Now())
	done := make(chan string)
	go func() {
		_, text, _ := g.post(t, hello)
		done <- text
	}()
	<-hangs
	first.mu.Lock()
	first.heard = time.Now().Add(-time.Hour)
	first.mu.Unlock()
	bad.down.Store(true)
	select {
	case text := <-done:
		if text != "fine" {
			t.Error(text)
		}
	case <-time.After(patience):
		t.Fatal("the request hangs")
	}
}

// TestCached: the machine that has most of the prompt answers, and the next turn stays there.
func TestCached(t *testing.T) {
	a, b, c := newFake(t, "a", says("a")), newFake(t, "b", says("b")), newFake(t, "c", says("c"))
	g := newRig(t, nowhere{}, a, b, c)
	g.prompt = make([]int32, 4096)
	b.held.Store(2048)
	if _, text, _ := g.post(t, hello); text != "b" {
		t.Errorf("%s answers", text)
	}
	b.held.Store(0) // as after an eviction
	c.held.Store(4096)
	if _, text, _ := g.post(t, hello); text != "c" {
		t.Errorf("%s answers", text)
	}
	g.prompt = nil // now only the conversation tells
	if _, text, _ := g.post(t, hello); text != "c" {
		t.Errorf("%s answers", text)
	}
}

// TestNamed: MODEL@MACHINE means that machine, which gets the name of the model alone.
func TestNamed(t *testing.T) {
	var body string
	keep := func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		_, _ = io.WriteString(w, "b")
	}
	g := newRig(t, nowhere{}, newFake(t, "a", says("a")), newFake(t, "B", keep))
	for range 3 {
		named := strings.Replace(hello, `"m"`, `"m@b"`, 1)
		if _, text, _ := g.post(t, named); text != "b" || body != hello {
			t.Errorf("%s, the machine got %s", text, body)
		}
	}
	if status, text, _ := g.post(t, `{"model":"x@b"}`); status != http.StatusBadGateway ||
		!strings.Contains(text, `The machine "B" has no model "x"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestTogether: requests of the same moment do not all go to one machine.
func TestTogether(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(8)
	wait := func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		_, _ = io.WriteString(w, "x")
	}
	a, b := newFake(t, "a", wait), newFake(t, "b", wait)
	g := newRig(t, nowhere{}, a, b)
	var all sync.WaitGroup
	for range 8 { // of one conversation, so that nothing else speaks against its machine
		all.Go(func() { g.post(t, hello) })
	}
	all.Wait()
	if a.requests.Load() < 3 || b.requests.Load() < 3 {
		t.Errorf("a has got %d requests, b %d", a.requests.Load(), b.requests.Load())
	}
}

// TestInactive: without machines, and after the last one was removed, the router does nothing.
func TestInactive(t *testing.T) {
	f := newFake(t, "a", says("a"))
	g := newRig(t, nowhere{}, f)
	if !g.router.Active() {
		t.Error("not active with a machine")
	}
	if _, err := g.store.Remove("a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !g.router.Active() })
	if _, text, _ := g.post(t, hello); text != "here" {
		t.Error(text)
	}
	if n := testing.AllocsPerRun(100, func() { g.router.Active() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOtherKind: a server with OpenAI's API is reached at its address, which stands for /v1, and
// gets nothing that only a Headroom understands.
func TestOtherKind(t *testing.T) {
	var path string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if strings.HasSuffix(path, "/models") {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"},{"id":"n"}]}`)
			return
		}
		_, _ = io.WriteString(w, "cloud")
	}))
	defer other.Close()
	g := newRig(t, nowhere{})
	if _, err := g.store.Add(machines.Machine{Name: "cloud", Kind: machines.OpenAI,
		URL: other.URL + "/api/v1", Models: []string{"m"}}, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		list := g.router.machines()
		return len(list) == 1 && list[0].state.Load().Err == nil
	})
	if _, text, _ := g.post(t, hello); text != "cloud" || path != "/api/v1/chat/completions" {
		t.Errorf("%s from %s", text, path)
	}
	for _, body := range []string{strings.Replace(hello, "{", `{"cache":"private",`, 1),
		strings.Replace(hello, `"m"`, `"n"`, 1)} {
		if _, text, _ := g.post(t, body); text != "here" {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// TestPrefixQuestion: the hashes that one machine sends are those that another one computes.
func TestPrefixQuestion(t *testing.T) {
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(i * i)
	}
	want := newHeldQuestion(tokens, []int{7, 32, 290})
	got := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got <- data
		_, _ = io.WriteString(w, `{"memory_tokens":128}`)
	}))
	defer s.Close()
	m := newMachine(machines.Machine{Kind: machines.Headroom, URL: s.URL},
		func() (string, error) { return "", nil }, nil)
	defer m.client.CloseIdleConnections()
	a, ok := m.askPrefix(t.Context(), "m", want)
	model, q, err := parsePrefix(<-got)
	if err != nil || !ok || a.MemoryTokens != 128 || model != "m" || len(q.Chain) != 9 ||
		len(q.Ends) != 2 || !reflect.DeepEqual(q, want) {
		t.Errorf("%+v %t, %s %+v %v", a, ok, model, q, err)
	}
	for n, block := range map[int]int{0: 32, 31: 32, 16_384: 32, 16_416: 64, 100_000: 256,
		1_000_000: 256} {
		if got := newHeldQuestion(make([]int32, n), nil); got.BlockTokens != block ||
			len(got.Chain) != n/block {
			t.Errorf("%d tokens: blocks of %d, %d hashes", n, got.BlockTokens, len(got.Chain))
		}
	}
	for text, why := range map[string]string{
		`{"model":"m","block_tokens":0,"hashes":["a"]}`:    "block_tokens",
		`{"model":"m","block_tokens":100,"hashes":["a"]}`:  "expected 32, 64, 128 or 256",
		`{"model":"m","block_tokens":128,"hashes":[]}`:     "expected 1",
		`{"model":"m","block_tokens":128,"hashes":["zz"]}`: "hashes[0]",
		`{"model":"m","block_tokens":32,"hashes":["` + strings.Repeat("0", 32) +
			`"],"ends":[{"tokens":65,"hash":"` + strings.Repeat("0", 32) + `"}]}`: "ends[0].tokens",
		`[]`: "not", `{`: "JSON",
	} {
		if _, _, err := parsePrefix([]byte(text)); err == nil || !strings.Contains(err.Error(),
			why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPreviousResponse: a request that follows a stored response goes where that is.
func TestPreviousResponse(t *testing.T) {
	stores := func(name string) http.HandlerFunc {
		return says(`{"id":"resp_` + name + `","object":"response"}`)
	}
	a, b := newFake(t, "a", stores("a")), newFake(t, "b", stores("b"))
	g := newRig(t, nowhere{}, a, b)
	send := func(body string) string {
		response, err := http.Post(g.URL+"/v1/responses", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	first := send(`{"model":"m","input":"x"}`)
	id := text([]byte(first[strings.Index(first, `"resp`):strings.Index(first, `,`)]))
	eventually(t, func() bool { // it is noted after the last byte
		_, ok := g.router.memory.responses.last(responseSession(id))
		return ok
	})
	for i := range 6 {
		if got := send(fmt.Sprintf(`{"model":"m","input":"%d","previous_response_id":"%s"}`, i,
			id)); got != first {
			t.Errorf("%s, want %s", got, first)
		}
	}
	if got := send(`{"model":"m","input":"x","previous_response_id":"resp_x"}`); got != "here" {
		t.Error(got)
	}
}

// TestCancelHere: Cancel ends a request before and after its first byte, and no other machine gets
// it.
func TestCancelHere(t *testing.T) {
	for _, begins := range []bool{false, true} {
		arrived := make(chan struct{})
		f := newFake(t, "a", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if begins {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: 1\n\n")
				w.(http.Flusher).Flush()
			}
			close(arrived)
			<-r.Context().Done()
		})
		other := newFake(t, "b", says("b"))
		g := newRig(t, nowhere{}, f, other)
		g.router.memory.sessions.note(sessionOf(nil, mustRead(t, hello), "m"),
			g.router.machines()[0].stored.ID, 9, time.Now())
		done := make(chan string)
		go func() {
			_, text, _ := g.post(t, hello)
			done <- text
		}()
		<-arrived
		if g.router.Cancel("another") || !g.router.Cancel("req") {
			t.Error("Cancel does not know the request")
		}
		if text := <-done; !strings.Contains(text, "The request was cancelled") ||
			other.requests.Load() != 0 {
			t.Errorf("begins %t: %q, %d requests to the other machine", begins, text,
				other.requests.Load())
		}
		if s := g.router.States(); len(s) != 2 || s[0].Err != nil || len(s[0].Models) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// TestClosedConnection: a machine that has closed an idle connection has not failed.
func TestClosedConnection(t *testing.T) {
	f := newFake(t, "a", says("a"))
	g := newRig(t, nowhere{}, f)
	for range 20 {
		f.Server.CloseClientConnections()
		if _, text, _ := g.post(t, hello); text != "a" {
			t.Fatal(text)
		}
	}
}

// TestFirstAnswer: a request that comes before a machine was asked waits for that.
func TestFirstAnswer(t *testing.T) {
	f := newFake(t, "a", says("a"))
	g := newRig(t, nowhere{})
	_, err := g.store.Add(machines.Machine{Kind: machines.Headroom, URL: f.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	g.router.Reload()
	if _, text, _ := g.post(t, hello); text != "a" {
		t.Error(text)
	}
}
