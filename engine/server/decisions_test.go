package server_test

// OpenAI's decisions and System One through the server.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

const (
	decisionsPath = "/v1/decisions"
	systemOnePath = "/v1/systemone"
)

// threeQuestions has a question of each type.
const threeQuestions = `[{"type":"predicate","name":"refund","instructions":"They want money."},` +
	`{"type":"choice","instructions":"Which \"team\"?","choices":[{"value":"billing"},` +
	`{"value":true,"description":"<all> of them"},{"value":"true"}]},` +
	`{"type":"score","name":null,"instructions":"How angry?","levels":[{"label":"calm"},` +
	`{"label":"cross"},{"label":"angry","description":"in capitals"}]}]`

const threeNamed = `{"refund":{"type":"noul","instructions":"They want money."},` +
	`"team":{"type":"choice","instructions":{"which":"team"},"criteria":{"z <billing>":null,` +
	`"a":"all of them"}},"anger":{"type":"score","criteria":["calm",{"in":["capitals"]}]}}`

// decide reports for the first candidate of a read the probability p, and for the others 0.1 of it,
// 0.01 and so on.
func decide(p float64) func(*fakeStream) {
	return func(s *fakeStream) {
		s.prefill(len(s.request.Prompt), 4)
		list := make([]float32, len(s.request.Candidates))
		for i := range list {
			list[i] = float32(math.Log(p) - float64(i)*math.Log(10))
		}
		s.put(engine.Event{Type: engine.Scored, Position: len(s.request.Prompt), Candidates: list,
			Usage: s.usage})
		s.done(engine.FinishLength, nil)
	}
}

// TestDecisionsTranscripts compares HTTP responses with testdata/NAME.txt, byte for byte.
func TestDecisionsTranscripts(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		script           func(*fakeStream)
	}{
		{"decisions", decisionsPath, `{"input":"hi","questions":` + threeQuestions + `}`,
			decide(0.5)},
		{"decisions_one", decisionsPath, `{"model":"demo","input":[{"role":"user","content":[` +
			`{"type":"input_text","text":"hi"}]}],"questions":[{"type":"score","instructions":"?",` +
			`"levels":[{"label":"a"},{"label":"b"}]}]}`, decide(0.5)},
		{"decisions_refusal", decisionsPath, `{"input":"hi","questions":` + threeQuestions + `}`,
			decide(0)},
		{"decisions_error", decisionsPath, `{"input":"hi","questions":` + threeQuestions + `}`,
			func(s *fakeStream) {
				s.done(engine.FinishError, errors.New("the file is gone"))
			}},
		{"systemone", systemOnePath, `{"state":{"a":[1]},"questions":` + threeNamed + `}`,
			decide(0.5)},
		{"systemone_refusal", systemOnePath, `{"state":"hi","questions":` + threeNamed + `}`,
			decide(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFakeEngine(c.script), server.Options{})
			compareTranscript(t, c.name, s.URL+c.path, c.body)
		})
	}
}

// TestDecisionsErrors: statuses and bodies in OpenAI's form.
func TestDecisionsErrors(t *testing.T) {
	body := func(questions string) string {
		return `{"input":"hi","questions":` + questions + `}`
	}
	refuses := func(p error) func(*fakeEngine) { return func(e *fakeEngine) { e.refusal = p } }
	for _, c := range []struct {
		name, path, body string
		change           func(*fakeEngine)
		status           int
		want             string
	}{
		{"no questions", decisionsPath, body(`[]`), nil, 400, `"param":"questions"`},
		{"a bad type", decisionsPath, body(`[{"type":"box"}]`), nil, 400,
			`"param":"questions[0].type"`},
		{"an image", decisionsPath, `{"input":[{"role":"user","content":[{"type":"input_image",` +
			`"image_url":"data:"}]}],"questions":` + threeQuestions + `}`, nil, 400,
			`"code":"unsupported_parameter"`},
		{"a stream", decisionsPath, `{"stream":true,"input":"hi","questions":` + threeQuestions +
			`}`, nil, 400, `"param":"stream"`},
		{"unknown model", "/decisions", `{"model":"x","input":"hi","questions":` + threeQuestions +
			`}`, nil, 404, `"code":"model_not_found"`},
		{"too long", decisionsPath, body(threeQuestions),
			refuses(problem.TooLong(problem.Overflow{Tokens: 4013, Context: 4096}, "")), 400,
			`"code":"context_length_exceeded"`},
		{"queue full", decisionsPath, body(threeQuestions), refuses(problem.New(problem.Busy, "No",
			"", "")), 429, `"type":"rate_limit_error"`},
		{"no template", decisionsPath, body(threeQuestions),
			func(e *fakeEngine) { e.template = nil }, 400, `"code":"no_template"`},
		{"a cache", systemOnePath, `{"state":"","cache":"x","questions":` + threeNamed + `}`, nil,
			400, `"param":"cache"`},
		{"an array", "/systemone", `{"state":"","questions":[]}`, nil, 400,
			`"param":"questions"`},
		{"a box", systemOnePath, `{"state":"","questions":{"a":{"type":"box"}}}`, nil, 400,
			`"param":"questions.a.type"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(decide(0.5))
			if c.change != nil {
				c.change(e)
			}
			s := start(t, e, server.Options{})
			status, _, text := post(t, s.URL+c.path, c.body)
			if status != c.status || !strings.HasPrefix(text, `{"error":{"message":`) ||
				!strings.Contains(text, c.want) {
				t.Errorf("got %d %s, want %d with %s", status, text, c.status, c.want)
			}
		})
	}
}

// TestDecisionsRequests checks what the engine is asked for: the first question is cached, and
// those whose labels have several tokens. The others resume what is cached.
func TestDecisionsRequests(t *testing.T) {
	for _, c := range []struct {
		cache   string
		private bool
		cached  string // for each read
	}{
		{`"disk"`, false, "yes no no no no"},
		{`"memory"`, true, "yes no no no no"},
		{`"none"`, true, "no no no no no"},
	} {
		e := newFakeEngine(decide(0.5))
		s := start(t, e, server.Options{})
		status, _, text := post(t, s.URL+decisionsPath, `{"input":"hi","cache":`+c.cache+
			`,"questions":`+threeQuestions+`}`, "Headroom-Priority", "3")
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		var cached []string
		prompts := map[string]bool{}
		for range len(e.requests) {
			q := <-e.requests
			cached = append(cached, map[bool]string{false: "yes", true: "no"}[q.NoCache])
			if prompts[fmt.Sprint(q.Prompt)] || q.Private != c.private || len(q.Candidates) == 0 {
				t.Errorf("cache %s: %+v", c.cache, q)
			}
			prompts[fmt.Sprint(q.Prompt)] = true
		}
		if got := strings.Join(cached, " "); got != c.cached {
			t.Errorf("cache %s: %s, expected %s", c.cache, got, c.cached)
		}
	}
}

// decisionAnswer is the response of /v1/decisions.
type decisionAnswer struct {
	Answers []json.RawMessage
	Usage   struct {
		Input   int `json:"input_tokens"`
		Output  int `json:"output_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
}

func askDecisions(t *testing.T, url, input string, questions ...string) (a decisionAnswer) {
	t.Helper()
	body := `{"input":` + input + `,"questions":[` + strings.Join(questions, ",") + `]}`
	status, _, text := post(t, url+decisionsPath, body)
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
		t.Errorf("%d %s: %v", status, text, err)
	}
	return a
}

// exact has everything that must be equal however an answer is computed.
func (a *decisionAnswer) exact() string { return fmt.Sprintf("%s", a.Answers) }

// choiceOf returns a choice of n options, o0 to the last one.
func choiceOf(n int) string {
	var options []string
	for i := range n {
		options = append(options, fmt.Sprintf(`{"value":"o%d"}`, i))
	}
	return `{"type":"choice","instructions":"Which?","choices":[` + strings.Join(options, ",") +
		`]}`
}

const (
	isSky   = `{"type":"predicate","instructions":"The sky is blue."}`
	howMany = `{"type":"score","instructions":"How many?","levels":[{"label":"none"},` +
		`{"label":"one"},{"label":"many"}]}`
)

// decisionState is a conversation with a tool call, which decisions are about.
var decisionState = marshalJSON([]any{
	object{"role": "system", "content": strings.Repeat("Use the tool for the time. ", 40)},
	object{"role": "user", "content": "Tell me the time in Boston."},
	object{"type": "function_call", "name": "get_time", "call_id": "a", "arguments": `{"city":"B"}`},
	object{"type": "function_call_output", "call_id": "a", "output": "15:04"},
	object{"role": "assistant", "content": "It is 15:04."},
})

func marshalJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// TestSameDecisions checks that the same questions have the same bits alone, in a crowd, cached,
// after a restart, and whatever else is asked with them.
func TestSameDecisions(t *testing.T) {
	questions := []string{isSky, choiceOf(5), howMany, choiceOf(40),
		strings.Replace(isSky, "blue", "green", 1)}
	o := engine.Options{ContextTokens: 2048, MaxSequences: 4}
	cold := o
	cold.NoPrefixCache, cold.MaxSequences = true, 1
	url, _, stop := serveDemo(t, cold)
	var want []string // for each question alone
	for _, q := range questions {
		a := askDecisions(t, url, decisionState, q)
		want = append(want, a.exact())
		if a.Usage.Details.Cached > 0 || a.Usage.Output > 0 {
			t.Errorf("without a cache: %+v", a.Usage)
		}
	}
	stop()
	if len(slices.Compact(slices.Sorted(slices.Values(want)))) != len(questions) {
		t.Fatal("questions have equal answers")
	}
	check := func(how, url string, cached bool) {
		t.Helper()
		a := askDecisions(t, url, decisionState, questions...)
		for i, answer := range a.Answers {
			if got := fmt.Sprintf("%s", []json.RawMessage{answer}); got != want[i] {
				t.Errorf("%s, question %d: %s, alone and cold %s", how, i, got, want[i])
			}
		}
		if len(a.Answers) != len(want) || cached && a.Usage.Details.Cached*10 < a.Usage.Input*7 {
			t.Errorf("%s: %d answers, %+v", how, len(a.Answers), a.Usage)
		}
	}
	dir := t.TempDir()
	serve := func() (url string, stop func()) {
		stored := o
		var err error
		if stored.BlockStore, err = engine.OpenBlockStore(dir,
			engine.BlockStoreOptions{MinFreeBytes: -1}); err != nil {
			t.Fatal(err)
		}
		url, _, end := serveDemo(t, stored)
		return url, func() {
			end()
			stored.BlockStore.Close()
		}
	}
	url, stop = serve()
	check("together", url, false)
	check("cached", url, true)
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			if n%2 == 0 {
				check(fmt.Sprint("in a crowd, ", n), url, false)
				return
			}
			_, _, _ = post(t, url+"/v1/chat/completions",
				`{"messages":[{"role":"user","content":"What is a KV cache?"}],"max_tokens":60}`)
		})
	}
	all.Wait()
	stop()
	url, stop = serve()
	check("after a restart", url, true)
	slices.Reverse(questions)
	slices.Reverse(want)
	check("in another order", url, true)
	stop()
}

// recorder is an engine that records its requests.
type recorder struct {
	*engine.Engine
	mu       sync.Mutex
	requests []engine.Request
}

func (r *recorder) Submit(q engine.Request) (*engine.Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	return r.Engine.Submit(q)
}

// TestDecisionProbabilities compares the probabilities of options with those that the prompt has
// when a label is written after it. A label of several tokens has the product of theirs.
func TestDecisionProbabilities(t *testing.T) {
	_, e, stop := serveDemo(t, engine.Options{ContextTokens: 4096, MaxSequences: 4})
	defer stop()
	for _, n := range []int{2, 26, 27, 255} {
		r := &recorder{Engine: e}
		s := httptest.NewServer(server.New(server.Options{Models: &fakeModels{engine: r},
			Dialects: dialects}))
		answer := askDecisions(t, s.URL, `"Some text."`, choiceOf(n))
		s.Close()
		var choice struct {
			Probabilities []struct {
				Value       string
				Probability float64
			}
		}
		if err := json.Unmarshal(answer.Answers[0], &choice); err != nil {
			t.Fatal(err)
		}
		prompt := e.Tokenizer().Decode(r.requests[0].Prompt, false)
		labels := regexp.MustCompile(`(?m)^([A-Z]+)\. o(\d+)$`).FindAllStringSubmatch(prompt, -1)
		if len(labels) != n || len(choice.Probabilities) != n {
			t.Fatalf("%d labels of %d options in %q: %+v", len(labels), n, prompt, choice)
		}
		reads := 1
		if n > 26 {
			reads += (n + 25) / 26
		}
		if len(r.requests) > reads {
			t.Errorf("%d options: %d reads, expected at most %d", n, len(r.requests), reads)
		}
		sum, first := 0.0, 0.0
		for i, p := range choice.Probabilities {
			if sum += p.Probability; p.Value != fmt.Sprint("o", i) || p.Value[1:] != labels[i][2] {
				t.Errorf("%d options: number %d is %+v, labelled as o%s", n, i, p, labels[i][2])
			}
			if i%max(1, n/3) > 0 {
				continue
			}
			joint := written(t, e, prompt, labels[i][1])
			if i == 0 {
				first = joint / p.Probability
			}
			if want := joint / first; math.Abs(p.Probability-want) > 1e-5*want {
				t.Errorf("%d options: %+v with the label %s, expected the probability %v", n, p,
					labels[i][1], want)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%d options: the probabilities add up to %v", n, sum)
		}
	}
}

// written returns the probability that text comes after a prompt.
func written(t *testing.T, e *engine.Engine, prompt, text string) float64 {
	t.Helper()
	encode := func(text string) []int32 {
		return e.Tokenizer().Encode(text, tokenizer.EncodeOptions{})
	}
	stream, err := e.Submit(engine.Request{Prompt: encode(prompt + text), ScorePrompt: true,
		NoAnswer: true})
	if err != nil {
		t.Fatal(err)
	}
	logprob := 0.0
	for ev, err := stream.Next(t.Context()); err == nil; ev, err = stream.Next(t.Context()) {
		for i, score := range ev.Scores {
			if ev.Position+i >= len(encode(prompt)) {
				logprob += float64(score.Logprob)
			}
		}
	}
	return math.Exp(logprob)
}

// TestDecisionsShareTheState checks that a second question about 8,000 tokens computes only its own
// tokens, in the same request and in a later one.
func TestDecisionsShareTheState(t *testing.T) {
	url, e, stop := serveDemo(t, engine.Options{ContextTokens: 16384, MaxSequences: 4})
	defer stop()
	text := strings.Repeat("The little dog ran into the garden, and nobody saw where it went. ",
		500)
	state := len(e.Tokenizer().Encode(text, tokenizer.EncodeOptions{}))
	if state < 8000 {
		t.Fatalf("a state of %d tokens", state)
	}
	input := marshalJSON(text)
	ask := func(questions ...string) (computed, own int) {
		t.Helper()
		u := askDecisions(t, url, input, questions...).Usage
		return u.Input - u.Details.Cached, u.Input - len(questions)*state
	}
	if computed, _ := ask(howMany); computed < state {
		t.Errorf("the first question computed %d tokens", computed)
	}
	if computed, own := ask(choiceOf(3)); computed > own {
		t.Errorf("the second question computed %d tokens, it has %d", computed, own)
	}
	if computed, own := ask(choiceOf(4), isSky, choiceOf(5), choiceOf(6)); computed > own {
		t.Errorf("four questions computed %d tokens, they have %d", computed, own)
	}
	input, state = marshalJSON("Yes. "+text[:len(text)/8]), state/8
	if computed, own := ask(choiceOf(4), isSky, choiceOf(5), choiceOf(6)); computed < state ||
		computed > state+own {
		t.Errorf("four first questions computed %d tokens, they have %d and the state %d",
			computed, own, state)
	}
}
