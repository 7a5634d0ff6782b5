package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

func demoSource(t testing.TB) engine.Source {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	return engine.Source{FS: files}
}

func open(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	return openModel(t, demoSource(t), o)
}

// openModel opens an engine that is closed when the test ends.
func openModel(t testing.TB, src engine.Source, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// collect reads a stream to its end.
func collect(t testing.TB, s *engine.Stream) (tokens []int32, text string, done engine.Event) {
	t.Helper()
	for {
		e, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return tokens, text, done
		}
		if err != nil {
			t.Fatal(err)
		}
		text += e.Text
		switch e.Type {
		case engine.Token:
			tokens = append(tokens, e.Token)
		case engine.Done:
			done = e
		}
	}
}

func submit(t testing.TB, e *engine.Engine, r engine.Request) *engine.Stream {
	t.Helper()
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const question = "<|im_start|>user\nWhat is 76 - 27?<|im_end|>\n<|im_start|>assistant\n" +
	"<think>\n\n</think>\n\n"

func encode(e *engine.Engine, text string) []int32 {
	return e.Tokenizer().Encode(text, tokenizer.EncodeOptions{})
}

func TestAnswers(t *testing.T) {
	e := open(t, engine.Options{})
	tokens, text, done := collect(t, submit(t, e, engine.Request{Prompt: encode(e, question)}))
	if text != "76 - 27 = 49." || done.Finish != engine.FinishStop {
		t.Errorf("answer %q (%s), expected \"76 - 27 = 49.\" (stop)", text, done.Finish)
	}
	if want := (engine.Usage{PromptTokens: 22, PromptDoneTokens: 22,
		CompletionTokens: len(tokens)}); done.Usage != want {
		t.Errorf("usage %+v, expected %+v", done.Usage, want)
	}
	if done.Timing.FirstToken <= 0 || done.Timing.DecodeSteps != len(tokens)-1 {
		t.Errorf("timing %+v for %d tokens, expected FirstToken and a decode step for each but "+
			"the first", done.Timing, len(tokens))
	}
}

// TestStopsAndLimits ends generations in every possible way. The texts must add up to the decoded
// tokens.
func TestStopsAndLimits(t *testing.T) {
	e := open(t, engine.Options{})
	prompt := encode(e, question)
	for _, c := range []struct {
		name   string
		r      engine.Request
		text   string
		tokens int // 0: any
		finish engine.FinishReason
	}{
		{"stop text", engine.Request{Stop: []string{" = "}}, "76 - 27", 0, engine.FinishStop},
		{"stop text that never comes", engine.Request{Stop: []string{"49.never", "zzz"}},
			"76 - 27 = 49.", 0, engine.FinishStop},
		{"max tokens", engine.Request{MaxTokens: 3}, "76 -", 3, engine.FinishLength},
		{"one token", engine.Request{MaxTokens: 1}, "7", 1, engine.FinishLength},
	} {
		c.r.Prompt = slices.Clone(prompt)
		tokens, text, done := collect(t, submit(t, e, c.r))
		if text != c.text || done.Finish != c.finish || c.tokens > 0 && len(tokens) != c.tokens {
			t.Errorf("%s: %q, %d tokens (%s), expected %q, %d (%s)", c.name, text, len(tokens),
				done.Finish, c.text, c.tokens, c.finish)
		}
	}
}

// demoCases returns short prompts of very different lengths.
func demoCases(t testing.TB, maxTokens int) (prompts []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("models", "testdata", "demo", "demo_cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Prompt string `json:"prompt"`
		Len    int    `json:"prompt_len"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Len <= maxTokens {
			prompts = append(prompts, c.Prompt)
		}
	}
	return prompts
}

// TestBatchedEqualsAlone checks that many concurrent requests, sampled and greedy, give the same
// tokens as each of them alone. There are too few pages, so some requests are preempted and
// computed again.
func TestBatchedEqualsAlone(t *testing.T) {
	prompts := demoCases(t, 400)
	request := func(e *engine.Engine, i int) engine.Request {
		seed := uint64(i)
		r := engine.Request{Prompt: encode(e, prompts[i]), MaxTokens: 40}
		if i%2 == 1 {
			r.Sampling = sample.Params{Temperature: 1.3, TopP: 0.9, Seed: &seed,
				RepetitionPenalty: 1.1}
		}
		return r
	}
	alone := open(t, engine.Options{MaxSequences: 1, ChunkTokens: 64})
	want := make([][]int32, len(prompts))
	for i := range prompts {
		want[i], _, _ = collect(t, submit(t, alone, request(alone, i)))
	}
	together := open(t, withPages(t,
		engine.Options{MaxSequences: 6, ChunkTokens: 200, ContextTokens: 512}, 16))
	var streams []*engine.Stream
	for i := range prompts {
		streams = append(streams, submit(t, together, request(together, i)))
	}
	for i, s := range streams {
		if got, _, done := collect(t, s); !slices.Equal(got, want[i]) {
			t.Errorf("request %d (%s): got %v, alone %v", i, done.Finish, got, want[i])
		}
	}
	idle(t, together)
	if n := together.Stats().Preemptions; n == 0 {
		t.Error("no request was preempted, so preemption was not tested")
	}
}

// withPages returns o with memory for just that many KV pages of the demo model.
func withPages(t testing.TB, o engine.Options, pages int64) engine.Options {
	t.Helper()
	o.KeptStates = max(o.KeptStates, 4) // the default depends on the memory
	d, err := engine.Describe(demoSource(t), o)
	if err != nil {
		t.Fatal(err)
	}
	// Half of the free memory is for pages.
	o.AvailableBytes = d.Need.TotalBytes() - d.Need.KVBytes +
		2*pages*d.KVBytesPerToken*cache.PageTokens
	return o
}

// idle checks that Stats shows no request and no pages in use.
func idle(t testing.TB, e *engine.Engine) {
	t.Helper()
	s := e.Stats()
	if s.Running != 0 || s.Waiting != 0 || s.KVUsedBytes != 0 || len(s.Requests) != 0 {
		t.Errorf("stats after the last request: %+v, expected no request and no used pages", s)
	}
}

func TestCancelFreesAtOnce(t *testing.T) {
	e := open(t, engine.Options{})
	s := submit(t, e, engine.Request{Prompt: encode(e, question), IgnoreEOS: true})
	if _, err := s.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.Cancel()
	s.Cancel()
	if _, _, done := collect(t, s); done.Finish != engine.FinishCancelled {
		t.Errorf("finish %q, expected cancelled", done.Finish)
	}
	other := submit(t, e, engine.Request{ID: "other", Prompt: encode(e, question),
		IgnoreEOS: true})
	if _, err := other.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !e.Cancel("other") || e.Cancel("nobody") {
		t.Error("Cancel by ID: expected true for a request in flight and false for an unknown ID")
	}
	if _, _, done := collect(t, other); done.Finish != engine.FinishCancelled {
		t.Errorf("finish %q, expected cancelled", done.Finish)
	}
	collect(t, submit(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 1}))
	idle(t, e)
}

// TestStop checks that a reader can end a request whose answer is complete, and that its prompt is
// cached.
func TestStop(t *testing.T) {
	e := open(t, engine.Options{})
	s := submit(t, e, engine.Request{Prompt: encode(e, question), IgnoreEOS: true})
	for event := (engine.Event{}); event.Type != engine.Token; {
		var err error
		if event, err = s.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	s.Cancel()
	if _, _, done := collect(t, s); done.Finish != engine.FinishStop || done.Err != nil {
		t.Errorf("finish %q, %v, expected stop", done.Finish, done.Err)
	}
	_, _, done := collect(t, submit(t, e, engine.Request{Prompt: encode(e, question),
		MaxTokens: 1}))
	if done.Usage.CachedTokens == 0 {
		t.Errorf("the prompt is not cached: %+v", done.Usage)
	}
	idle(t, e)
}

func TestRefusals(t *testing.T) {
	e := open(t, engine.Options{ContextTokens: 64, QueueRequests: 1})
	for _, c := range []struct {
		r    engine.Request
		code problem.Code
		says string
	}{
		{engine.Request{}, problem.BadRequest, "empty"},
		{engine.Request{Prompt: []int32{1, 99999}}, problem.BadRequest, "99999"},
		{engine.Request{Prompt: make([]int32, 64)}, problem.ContextExceeded,
			"your prompt has 64 tokens: the answer needs at least one more"},
		{engine.Request{Prompt: []int32{1}, Sampling: sample.Params{TopP: 7}}, problem.BadRequest,
			"7"},
	} {
		_, err := e.Submit(c.r)
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%+v: got %v, expected %s saying %q", c.r, err, c.code, c.says)
		}
	}
	_, _, done := collect(t,
		submit(t, e, engine.Request{Prompt: encode(e, question), IgnoreEOS: true}))
	if total := done.Usage.PromptTokens + done.Usage.CompletionTokens; total != 64 ||
		done.Finish != engine.FinishLength {
		t.Errorf("without a limit: %d tokens in all (%s), expected the context of 64 (length)",
			total, done.Finish)
	}
}

func TestCloseEndsRequests(t *testing.T) {
	e := open(t, engine.Options{MaxSequences: 1})
	running := submit(t, e, engine.Request{Prompt: encode(e, question), IgnoreEOS: true})
	waiting := submit(t, e, engine.Request{Prompt: encode(e, question), IgnoreEOS: true})
	if _, err := running.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*engine.Stream{running, waiting} {
		if _, _, done := collect(t, s); done.Finish != engine.FinishCancelled {
			t.Errorf("finish %q, expected cancelled", done.Finish)
		}
	}
	if _, err := e.Submit(engine.Request{Prompt: []int32{1}}); problem.From(
		err).Code != problem.NotRunning {
		t.Errorf("submit after close: %v, expected %s", err, problem.NotRunning)
	}
}

func TestDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		o    engine.Options
		says string // in the form of the window
	}{
		{engine.Options{AvailableBytes: 8 << 20}, "8.0 MB is available for a model"},
		{engine.Options{AvailableBytes: 300 << 20, MaxSequences: 4096},
			"300 MB is available for a model"},
	} {
		_, err := engine.Open(context.Background(), demoSource(t), c.o)
		if p := problem.From(err); p.Code != problem.DoesNotFit || !strings.Contains(p.Why,
			"weights") || !strings.HasSuffix(p.Why, c.says) {
			t.Errorf("got %v, expected %s with the numbers and %q", err, problem.DoesNotFit, c.says)
		}
	}
}

// TestPrefixCache runs a conversation of several turns, one that diverges from it, and the first
// one again, with the prefix cache and without. The cache must save work and must not change a bit
// of any log-probability.
func TestPrefixCache(t *testing.T) {
	turns := []string{"What is a KV cache?", "What is 63 + 29?", "Why are models quantized?",
		"Sort these words: pear, drum, banana, plum"}
	talk := func(e *engine.Engine, system string) (answers [][]float32, cached, prompts int) {
		text := "<|im_start|>system\n" + system + "<|im_end|>\n"
		for _, turn := range turns {
			text += "<|im_start|>user\n" + turn + "<|im_end|>\n<|im_start|>assistant\n"
			s := submit(t, e, engine.Request{Prompt: encode(e, text+"<think>\n\n</think>\n\n"),
				MaxTokens: 60})
			var logprobs []float32
			answer := ""
			for {
				ev, err := s.Next(context.Background())
				if errors.Is(err, io.EOF) {
					break
				}
				answer += ev.Text
				if ev.Type == engine.Token {
					logprobs = append(logprobs, ev.Logprob)
				} else if ev.Type == engine.Done {
					cached += ev.Usage.CachedTokens
					prompts += ev.Usage.PromptTokens
				}
			}
			answers = append(answers, logprobs)
			// The template renders past answers without the empty think block.
			text += answer + "<|im_end|>\n"
		}
		return answers, cached, prompts
	}
	with, without := open(t, engine.Options{}), open(t, engine.Options{NoPrefixCache: true})
	for i, system := range []string{strings.Repeat("Answer briefly. ", 40),
		strings.Repeat("Answer briefly. ", 40) + "Be kind.",
		strings.Repeat("Answer briefly. ", 40)} {
		want, none, prompts := talk(without, system)
		got, cached, _ := talk(with, system)
		if !slices.EqualFunc(got, want, func(a, b []float32) bool { return slices.Equal(a, b) }) {
			t.Errorf("conversation %d: the cache changes the log-probabilities", i)
		}
		t.Logf("conversation %d: %d of %d prompt tokens were cached", i, cached, prompts)
		if none != 0 {
			t.Errorf("conversation %d: %d tokens cached without a cache, expected 0", i, none)
		}
		if cached < prompts/2 {
			t.Errorf("conversation %d: %d of %d prompt tokens cached, expected most", i, cached,
				prompts)
		}
	}
	idle(t, with)
}
