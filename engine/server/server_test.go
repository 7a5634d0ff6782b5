package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// TestRequestReachesTheEngine checks that the engine gets the prompt and the parameters of a
// request.
func TestRequestReachesTheEngine(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{})
	post(t, s.URL+"/v1/chat/completions", `{"messages":[{"role":"system","content":[{"type":"text","text":"S"}]},{"role":"user","content":"U"}],
		"max_completion_tokens":9,"max_tokens":5,"stop":["a","b"],"temperature":0.5,"chat_template_kwargs":{"enable_thinking":false}}`)
	q := <-e.requests
	const want = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n" +
		"<|im_start|>assistant\n<think>\n\n</think>\n\n"
	if got := e.tokenizer.Decode(q.Prompt, false); got != want {
		t.Errorf("prompt %q, expected %q", got, want)
	}
	if q.MaxTokens != 9 || q.Stop != nil || q.Sampling.Temperature != 0.5 ||
		!strings.HasPrefix(q.ID, "chatcmpl-") {
		t.Errorf("chat: request %+v, expected the parameters of the body and an ID chatcmpl-..., "+
			"and no stop texts, which the server looks for", q)
	}
	post(t, s.URL+"/v1/completions", `{"prompt":[5,6,7],"stop":["a","b"]}`)
	if q := <-e.requests; !reflect.DeepEqual(q.Prompt, []int32{5, 6, 7}) || q.MaxTokens != 0 ||
		!reflect.DeepEqual(q.Stop, []string{"a", "b"}) {
		t.Errorf("completion: request %+v, expected the tokens 5, 6, 7, no limit and the stop "+
			"texts",
			q)
	}
}

// TestSpeculation: a request can turn drafts off, and gets their number.
func TestSpeculation(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.put(engine.Event{Type: engine.Done, Finish: engine.FinishStop,
			Usage: engine.Usage{CompletionTokens: 9, DraftTokens: 7, AcceptedTokens: 5,
				DraftModelTokens: 4, DraftModelAccepted: 3, BlockTokens: 2, BlockAccepted: 1,
				PredictionTokens: 1, PredictionAccepted: 1},
			Timing: engine.Timing{Decode: 4 * time.Second, Saved: 2 * time.Second,
				DecodeSteps: 8},
			NoDrafts: engine.NoDrafts{Cause: draft.Costly}})
	})
	s := start(t, e, server.Options{})
	for _, route := range []struct{ path, input string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"U"}]`},
		{"/v1/completions", `"prompt":"U"`},
	} {
		for _, c := range []struct {
			body   string
			status int
			way    string
			answer string
		}{
			{``, 200, "", `"accepted_prediction_tokens":5,"rejected_prediction_tokens":2}`},
			{``, 200, "", `"decode_tokens_per_second":2,"gained":1.5,"drafts":{` +
				`"prediction":{"proposed":1,"accepted":1},"block":{"proposed":2,"accepted":1},` +
				`"draft_model":{"proposed":4,"accepted":3}}}`},
			{`,"speculation":"auto"`, 200, "auto", ""}, {`,"speculation":null`, 200, "", ""},
			{`,"speculation":"off"`, 200, "off", ""}, {`,"speculation":"mtp"`, 200, "mtp", ""},
			{`,"speculation":"on"`, 400, "", `\"draft\" or \"dflash\", got \"on\"`},
			{`,"speculation":""`, 400, "", `\"dflash\", got \"\"`},
			{`,"speculation":true`, 400, "", `speculation: expected a string, got a boolean`},
		} {
			status, _, answer := post(t, s.URL+route.path, "{"+route.input+c.body+"}")
			if status != c.status || !strings.Contains(answer, c.answer) {
				t.Errorf("%s %s: %d %s, expected %d and %s", route.path, c.body, status, answer,
					c.status, c.answer)
			}
			if status == 200 {
				<-e.streams
				if got := <-e.requests; got.Speculate != c.way {
					t.Errorf("%s %s: decoded ahead by %q", route.path, c.body, got.Speculate)
				}
			}
		}
	}
	_, _, text := do(t, http.MethodGet, s.URL+"/metrics", "")
	for _, line := range []string{"headroom_spec_decode_num_draft_tokens_total 84",
		"headroom_spec_decode_num_accepted_tokens_total 60",
		"headroom_spec_decode_draft_model_num_draft_tokens_total 48",
		"headroom_spec_decode_draft_model_num_accepted_tokens_total 36",
		"headroom_spec_decode_block_num_draft_tokens_total 24",
		"headroom_spec_decode_block_num_accepted_tokens_total 12",
		"headroom_spec_decode_prediction_num_draft_tokens_total 12",
		"headroom_spec_decode_prediction_num_accepted_tokens_total 12",
		"headroom_decode_seconds_total 48", "headroom_decode_without_drafts_seconds_total 72",
		`headroom_spec_decode_no_drafts_total{cause="costly"} 12`} { // 12 answers
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics has no line %q", line)
		}
	}
}

// TestDraftsOfAStream: a chat that asks for it is told which pieces of its text were accepted
// drafts, and no other request is.
func TestDraftsOfAStream(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		for i, piece := range []string{"a", "b", "c", "d"} {
			accepted := []int{0, 1, 2, 2}[i]
			s.put(engine.Event{Type: engine.Token, Token: 5, Text: piece, Usage: engine.Usage{
				CompletionTokens: i + 1, DraftTokens: 3, AcceptedTokens: accepted}})
		}
		s.put(engine.Event{Type: engine.Done, Finish: engine.FinishStop,
			Usage: engine.Usage{CompletionTokens: 4, DraftTokens: 3, AcceptedTokens: 2}})
	})
	s := start(t, e, server.Options{})
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"U"}],"stream":true,` +
			`"stream_options":{"include_drafts":true}`, "bc"}, // as reasoning
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"U"}],"stream":true`, ""},
		{"/v1/completions", `"prompt":"U","stream":true,` +
			`"stream_options":{"include_drafts":true}`, ""},
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"U"}],` +
			`"stream_options":{"include_drafts":true}`, ""},
	} {
		status, _, text := post(t, s.URL+c.path, "{"+c.body+"}")
		marked := ""
		for line := range strings.Lines(text) {
			_, content, ok := strings.Cut(line, `content":"`)
			if ok && strings.Contains(line, `"accepted_prediction":true`) {
				marked += content[:1]
			}
		}
		if status != 200 || marked != c.want {
			t.Errorf("%s %s: %d, accepted %q, expected %q: %s", c.path, c.body, status, marked,
				c.want, text)
		}
	}
}

// TestAcceptedPrediction: the usage of a chat with a prediction has the tokens that come from it,
// and that of another one all drafts.
func TestAcceptedPrediction(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.put(engine.Event{Type: engine.Done, Finish: engine.FinishStop, Usage: engine.Usage{
			CompletionTokens: 9, DraftTokens: 7, AcceptedTokens: 5, BlockTokens: 3,
			BlockAccepted: 3, PredictionTokens: 3, PredictionAccepted: 1}})
	})
	s := start(t, e, server.Options{})
	for fields, want := range map[string]string{
		``: `"accepted_prediction_tokens":5,"rejected_prediction_tokens":2}`,
		`,"prediction":{"type":"content","content":"a"}`: `"accepted_prediction_tokens":1,` +
			`"rejected_prediction_tokens":2}`,
	} {
		_, _, text := post(t, s.URL+"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"U"}]`+fields+`}`)
		if !strings.Contains(text, want) || !strings.Contains(text,
			`"lookup":{"proposed":1,"accepted":1},"prediction":{"proposed":3,"accepted":1}`) {
			t.Errorf("%s: %s, expected %s", fields, text, want)
		}
	}
}

// TestPredictionUsage: the usage of a chat with a prediction has its tokens, even if none was
// tried.
func TestPredictionUsage(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	const counts = `"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}`
	for fields, want := range map[string]bool{``: false,
		`,"prediction":null`:                             false,
		`,"prediction":{"type":"content","content":"a"}`: true,
		`,"prediction":{"type":"content","content":""}`:  true,
		`,"prediction":{"type":"content","content":[]}`:  true,
		`,"stream":true,"stream_options":{"include_usage":true},` +
			`"prediction":{"type":"content","content":"a"}`: true} {
		status, _, text := post(t, s.URL+"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"U"}]`+fields+`}`)
		if status != 200 || strings.Contains(text, counts) != want {
			t.Errorf("%s: %d %s", fields, status, text)
		}
	}
}

// TestPrivateRequests checks where a request may be cached, in body and header, on every route.
func TestPrivateRequests(t *testing.T) {
	var log bytes.Buffer
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, route := range []struct{ path, input string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"U"}]`},
		{"/v1/completions", `"prompt":"U"`},
		{"/v1/responses", `"input":"U"`},
	} {
		for _, c := range []struct {
			body, header     string
			private, noCache bool
			refused          string // part of the message
		}{
			{body: ``}, {body: `,"store":true`}, {body: `,"store":null,"cache":null`},
			{body: `,"store":false`, private: true},
			{body: `,"cache":"disk"`}, {body: `,"cache":"disk","store":false`},
			{body: `,"cache":"memory"`, private: true},
			{body: `,"cache":"none","store":true`, private: true, noCache: true},
			{header: "memory", private: true}, {header: "disk", body: `,"cache":"memory"`},
			{header: "none", body: `,"cache":"disk"`, private: true, noCache: true},
			{body: `,"cache":"ram"`, refused: `cache: expected \"disk\", \"memory\" or \"none\"`},
			{body: `,"cache":true`, refused: `cache: expected a string, got a boolean`},
			{body: `,"store":"no"`, refused: `store: expected a boolean, got a string`},
			{header: "Memory", refused: `Headroom-Cache: expected \"disk\"`},
		} {
			status, _, answer := post(t, s.URL+route.path, "{"+route.input+c.body+"}",
				"Headroom-Cache", c.header)
			if c.refused != "" {
				if status != http.StatusBadRequest || !strings.Contains(answer, c.refused) {
					t.Errorf("%s %s %s: %d %s, expected 400 and %s", route.path, c.body, c.header,
						status, answer, c.refused)
				}
				continue
			}
			<-e.streams
			if got := <-e.requests; got.Private != c.private || got.NoCache != c.noCache ||
				got.Uncached != c.noCache {
				t.Errorf("%s %s %s: private %t, no cache %t, uncached %t; expected %t, %t",
					route.path, c.body, c.header, got.Private, got.NoCache, got.Uncached,
					c.private, c.noCache)
			}
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions",
		strings.NewReader(`{"prompt":"U"}`))
	r.Header["Headroom-Cache"] = []string{"disk", "none"}
	if got, err := http.DefaultClient.Do(r); err != nil || got.Body.Close() != nil ||
		got.StatusCode != http.StatusBadRequest {
		t.Errorf("two different headers: %v, %v", got, err)
	}
	for _, body := range []string{
		`{"messages":[{"role":"BODYSECRET","content":"U"}],"store":false}`,
		`{"messages":[{"role":"user","content":"U"}],"cache":"BODYSECRET"}`,
		`{"messages":[{"role":"user","content":"U"}],"store":"BODYSECRET"}`,
	} {
		post(t, s.URL+"/v1/chat/completions", body)
	}
	post(t, s.URL+"/v1/BODYSECRET", `{"store":false}`)
	post(t, s.URL+"/v1/BODYSECRET", `{}`, "Headroom-Cache", "memory")
	for _, path := range []string{"/v1/BODYSECRET", "/v1/models/BODYSECRET"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		r.Header.Set("Headroom-Cache", "none")
		if got, err := http.DefaultClient.Do(r); err != nil || got.Body.Close() != nil ||
			got.StatusCode != 404 {
			t.Errorf("GET %s: %v, %v", path, got, err)
		}
	}
	s.Close() // the log's last line
	if strings.Contains(log.String(), "BODYSECRET") {
		t.Errorf("the log quotes a private request:\n%s", log.String())
	}
}

// TestDefaults checks that the user's defaults apply if a request omits a parameter. They are
// looked up by the ID of the model, even if the request names no model.
func TestDefaults(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{Defaults: func(id string) generate.Defaults {
		if id != "demo" {
			t.Errorf("Defaults was called for %q, expected demo", id)
		}
		return generate.Defaults{MaxTokens: 5, TopK: new(40),
			TemplateKwargs: json.RawMessage(`{"enable_thinking":false}`)}
	}})
	post(t, s.URL+"/v1/chat/completions", `{"messages":[{"role":"user","content":"U"}],"top_k":3}`)
	q := <-e.requests
	if got := e.tokenizer.Decode(q.Prompt, false); !strings.HasSuffix(got,
		"<think>\n\n</think>\n\n") || q.MaxTokens != 5 || q.Sampling.TopK != 3 {
		t.Errorf("chat: prompt %q, request %+v; expected no thinking, 5 tokens and top_k 3", got, q)
	}
	post(t, s.URL+"/v1/completions", `{"prompt":"a","max_tokens":2}`)
	if q := <-e.requests; q.MaxTokens != 2 || q.Sampling.TopK != 40 {
		t.Errorf("completion: request %+v, expected 2 tokens and top_k 40", q)
	}
}

func TestModelsAndHealth(t *testing.T) {
	models := &fakeModels{engine: newFakeEngine(nil)}
	s := start(t, nil, server.Options{Models: models})
	if status, _, text := do(t, http.MethodGet, s.URL+"/v1/models", ""); status != 200 ||
		!strings.Contains(text, `"id":"demo"`) || !strings.Contains(text, `"max_model_len":4096`) {
		t.Errorf("models: got %d %s, expected demo with 4,096 tokens", status, text)
	}
	if status, _, text := do(t, http.MethodGet, s.URL+"/v1/models/demo", ""); status != 200 ||
		!strings.HasPrefix(text, `{"id":"demo","object":"model"`) {
		t.Errorf("model: got %d %s, expected demo", status, text)
	}
	if status, _, text := do(t, http.MethodGet, s.URL+"/health", ""); status != 200 ||
		text != `{"status":"ok","model":"demo"}`+"\n" {
		t.Errorf("health: got %d %s, expected ok and demo", status, text)
	}
	models.err = problem.New(problem.Loading, "x", "", "")
	if status, _, text := do(t, http.MethodGet, s.URL+"/health", ""); status != 200 ||
		text != `{"status":"loading"}`+"\n" {
		t.Errorf("health while loading: got %d %s, expected loading", status, text)
	}
}

// aliasedModels are models with two aliases for the first.
type aliasedModels struct{ *fakeModels }

func (m aliasedModels) List() []server.ModelInfo {
	list := append(m.fakeModels.List(), server.ModelInfo{ID: "o/other"})
	list[0].Aliases = []string{"gpt-4o", "My/Alias"}
	return list
}

// Resolve implements server.Resolver.
func (m aliasedModels) Resolve(name string) (id string, err error) {
	for _, one := range m.List() {
		is := func(alias string) bool { return strings.EqualFold(alias, name) }
		if is(one.ID) || slices.ContainsFunc(one.Aliases, is) {
			return one.ID, nil
		}
	}
	return "", problem.New(problem.ModelNotFound, "There is no model "+name, "", "")
}

// TestAliasesInLists: OpenAI's list has an entry for each alias, after that of its model, and every
// entry can be asked for. Ollama's lists have a model once.
func TestAliasesInLists(t *testing.T) {
	s := start(t, nil, server.Options{
		Models: aliasedModels{&fakeModels{engine: newFakeEngine(nil)}}})
	type entry struct{ ID, Root string }
	var list struct{ Data []entry }
	_, _, text := do(t, http.MethodGet, s.URL+"/v1/models", "")
	want := []entry{{"demo", "demo"}, {"gpt-4o", "demo"}, {"My/Alias", "demo"},
		{"o/other", "o/other"}}
	if err := json.Unmarshal([]byte(text), &list); err != nil || !slices.Equal(list.Data, want) {
		t.Errorf("list: %s, want %v", text, want)
	}
	for path, want := range map[string]entry{"demo": want[0], "gpt-4o": want[1],
		"my/alias": want[2], "o/other": want[3]} {
		var got entry
		_, _, text := do(t, http.MethodGet, s.URL+"/v1/models/"+path, "")
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %s, want %v", path, text, want)
		}
	}
	_, _, text = do(t, http.MethodGet, s.URL+"/api/tags", "")
	if strings.Count(text, `"name":`) != 2 || strings.Contains(text, "gpt-4o") {
		t.Errorf("Ollama's list: %s", text)
	}
}

func TestMetrics(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.prefill(11, 4)
		s.say("Hm.\n</think>\n\nYes")
		s.done("stop", nil)
	})
	s := start(t, e, server.Options{})
	post(t, s.URL+"/v1/chat/completions", hiStreamed)
	post(t, s.URL+"/v1/chat/completions", `{`)
	do(t, http.MethodGet, s.URL+"/any/path", "")
	_, _, text := do(t, http.MethodGet, s.URL+"/metrics", "")
	for _, want := range []string{
		`headroom_http_requests_total{route="/v1/chat/completions",status="200"} 1`,
		`headroom_http_requests_total{route="/v1/chat/completions",status="400"} 1`,
		`headroom_http_requests_total{route="other",status="404"} 1`,
		`headroom_prompt_tokens_total 11`,
		`headroom_prefix_cache_hits_total 4`,
		`headroom_generation_tokens_total 7`,
		`headroom_reasoning_tokens_total 4`,
		`headroom_time_to_first_token_seconds_count 1`,
		`headroom_time_to_first_token_seconds_sum 0.02`,
		`headroom_request_time_per_output_token_seconds_sum 0.01`, // 30 ms for 3 steps
		`headroom_num_requests_running 2`,
		`headroom_num_requests_waiting 1`,
		`headroom_engine_memory_bytes{kind="weights"} 7`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

// TestLog checks that there is one log line per generation, with its token counts and times.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	e := newFakeEngine(func(s *fakeStream) { s.prefill(11, 4); s.say("a"); s.done("stop", nil) })
	s := start(t, e, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	post(t, s.URL+"/v1/chat/completions", hiStreamed)
	do(t, http.MethodGet, s.URL+"/health", "")
	s.Close() // waits for the handlers
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 {
		t.Fatalf("%d lines, expected one, because health checks are not logged\n%s", len(lines),
			log.String())
	}
	for _, want := range []string{"path=/v1/chat/completions", "status=200", "model=demo",
		"finish=stop", "prompt_tokens=11", "cached_tokens=4", "completion_tokens=1",
		"first_token=20ms", "tokens_per_second=100.0"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the line lacks %q: %s", want, lines[0])
		}
	}
}
