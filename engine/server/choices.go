package server

// A request may have several prompts, and several answers to each: choices, in OpenAI's words. They
// are sent in the order of the prompts. The engine computes some of them in advance, and computes a
// prompt only once for its answers.

import (
	"context"
	"net/http"
	"sync"
	"unicode/utf8"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// maxAhead is how many answers of a request are computed at once. The others of a long list wait,
// so that they do not take the places of other clients' requests.
const maxAhead = 8

// choice is one answer of a request.
type choice struct {
	generation *generation
	request    engine.Request
	answer     *answer
	err        error // of Submit
}

// choices are the answers of a request.
type choices struct {
	server *Server
	record *record
	out    response
	list   []*generation
	owner  string // see engine.Request
	client string // see engine.Request
	// background is that of engine.Request. What nobody waits for is cached in memory alone: the
	// conversations of a batch do not go on.
	background bool
	begun      []*choice // those that have been submitted, in order

	usage  generate.Usage // of the answers that are complete
	decode engine.Timing  // of these, the time and the steps of decoding
	done   int            // how many these are
}

// generate submits the generations of a request and sends their answers.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, list []*generation) {
	rec := recordOf(r)
	rec.model, rec.id = list[0].model.Name(), list[0].ID
	if list[0].Cancellable != nil {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		list[0].Cancellable(func() { cancel(errCancelled) })
		r = r.WithContext(ctx)
	}
	c := &choices{server: s, record: rec, list: list, owner: ownerOf(r),
		client:     rec.withoutKeys(clientName(r.Header)),
		background: guard.InBackground(r.Context())}
	c.out = s.output(w, r, list[0], c.prompt)
	first := c.submit(0)
	if first.err != nil && !lostProcess(first.err) {
		rec.fail(first.err)
		_ = c.out.fail(first.err)
		return
	}
	c.begun = append(c.begun, first)
	next := 0
	defer func() { c.closeFrom(r.Context(), next) }()
	for next < len(list) {
		c.submitAhead(next)
		now := c.begun[next]
		if c.run(r.Context(), now); c.done <= next {
			return // it has failed, and its error is the end of the response
		}
		c.close(now)
		next++
	}
}

// closeFrom cancels the answers from number next on, all of them first, and counts them. The server
// does not wait for figures when it shuts down.
func (c *choices) closeFrom(ctx context.Context, next int) {
	for _, one := range c.begun[next:] {
		if one.answer.stream != nil && !one.answer.counted {
			one.answer.stream.Cancel()
		}
	}
	wait, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	for _, one := range c.begun[next:] {
		a := one.answer
		if a.stream != nil && !a.counted && context.Cause(ctx) != errShutdown {
			a.count(wait)
		}
		c.close(one)
	}
}

// submit submits the generation with number i.
func (c *choices) submit(i int) *choice {
	g := c.list[i]
	id := g.ID
	if i > 0 {
		id = generate.NewID(id + "-")
	}
	sampling := g.Sampling(g.model.Engine.Defaults())
	if sampling.Seed != nil {
		sampling.Seed = new(*sampling.Seed + uint64(g.number))
	}
	now := &choice{generation: g, request: engine.Request{
		ID:        id,
		Prompt:    g.prompt,
		MaxTokens: g.MaxTokens,
		Sampling:  sampling,
		IgnoreEOS: g.IgnoreEOS,
		ShowTags:  g.split != nil,
		Output:    g.Output,
		Private:   g.Cache.Private() || c.background,
		NoCache:   g.Cache == generate.CacheNone,
		Uncached:  g.Cache == generate.CacheNone,
		NoAnswer:  g.NoAnswer,
		Priority:  g.Priority, Background: c.background,
		Owner:     c.owner,
		Client:    c.client,
		Key:       c.record.key,
		Speculate: g.Speculate, Prediction: g.prediction, Adapter: g.model.Adapter,
	}}
	if g.read != nil {
		now.request.Prompt, now.request.Candidates = g.read.Prompt(), g.read.Tokens
		now.request.NoCache = now.request.NoCache || !g.read.Keep
	}
	var stop *chat.StopMatcher
	switch {
	case g.split == nil:
		now.request.Stop = g.Stop
	case g.Continue: // the content has begun
		stop = chat.NewStopMatcher(g.Stop)
	default: // only the server knows what is content
		stop = chat.NewContentMatcher(g.Stop)
	}
	var echo *echo
	if g.Echo {
		echo = newEcho(g)
		now.request.ScorePrompt = g.Logprobs
	}
	var stream *engine.Stream
	stream, now.err = g.model.Engine.Submit(now.request)
	texts := g.model.Engine.Tokenizer()
	now.answer = &answer{stream: stream, split: g.split, stop: stop, oneCall: g.OneCall,
		tokenizer: texts, logprobs: g.Logprobs, echo: echo, keepAlive: c.server.keepAlive,
		record: &record{},
		usage:  engine.Usage{PromptTokens: len(now.request.Prompt)}, out: c}
	if g.Logprobs && g.split == nil {
		now.answer.offsets = sync.OnceValue(func() *tokenizer.Offsets {
			return tokenizer.NewOffsets(texts.NewContinuation(g.prompt))
		})
		if echo != nil {
			now.answer.echoed = utf8.RuneCountInString(echo.text)
		}
	}
	return now
}

// submitAhead submits the answer with number next and those after it. It stops where the engine
// has no place.
func (c *choices) submitAhead(next int) {
	for i := len(c.begun); i < min(next+maxAhead, len(c.list)); i++ {
		ahead := c.submit(i)
		if ahead.err != nil && i > next {
			return // it is tried again when it is its turn
		}
		c.begun = append(c.begun, ahead)
	}
}

// run sends one answer. If the model's process ends before the answer has begun, its request is
// submitted again, and so is one, after the first, for which the engine had no place.
func (c *choices) run(ctx context.Context, now *choice) {
	a, err := now.answer, now.err
	if err == nil {
		if c.done > 0 {
			a.ahead = a.stream.Unread()
		}
		err = a.run(ctx)
	}
	again := func() bool {
		return lostProcess(err) ||
			err != nil && a.stream == nil && c.done > 0 && problem.From(err).Code == problem.Busy
	}
	for moves := 0; moves < maxMoves && again(); moves++ {
		if err = c.server.move(ctx, a, now.generation, now.request); err != nil {
			break
		}
		err = a.run(ctx)
	}
	if err != nil {
		a.abandon(ctx, err)
	}
}

// close counts an answer.
func (c *choices) close(now *choice) {
	a := now.answer
	c.server.metrics.generation(a.usage, a.reasoningTokens, a.record)
	if now.generation.number == 0 { // the answers to a prompt share it
		c.record.used.PromptTokens += a.usage.PromptDoneTokens
	}
	c.record.used.GeneratedTokens += a.usage.CompletionTokens
	c.record.add(a.record)
	now.request = engine.Request{} // hundreds of long prompts would take too much memory
}

// add adds the record of one of several answers.
func (rec *record) add(one *record) {
	first := rec.finish == ""
	if one.finish != "" {
		rec.finish, rec.err = one.finish, one.err
	}
	rec.prompt.PromptTokens += one.prompt.PromptTokens
	rec.prompt.CachedTokens += one.prompt.CachedTokens
	rec.prompt.CompletionTokens += one.prompt.CompletionTokens
	if first {
		rec.timing = one.timing
		return
	}
	rec.timing.Decode += one.timing.Decode
	rec.timing.DecodeSteps += one.timing.DecodeSteps
}

// prompt returns the tokens of the current answer's prompt, as far as they are known. A stream of
// which nothing was sent asks for them when the last answer has ended.
func (c *choices) prompt() generate.Usage {
	u := c.begun[min(c.done, len(c.begun)-1)].answer.usage
	return generate.Usage{PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens}
}

// choices is the output of each of its answers.

func (c *choices) progress(done, total int) error { return c.out.progress(done, total) }
func (c *choices) keepAlive() error               { return c.out.keepAlive() }
func (c *choices) delta(d generate.Delta) error   { return c.out.delta(d) }
func (c *choices) fail(err error) error           { return c.out.fail(err) }

// finish completes the response or, if there are more answers, the current one.
func (c *choices) finish(reason generate.FinishReason, stop string, usage generate.Usage) error {
	timing := c.begun[c.done].answer.record.timing
	c.decode.Decode += timing.Decode
	c.decode.DecodeSteps += timing.DecodeSteps
	c.decode.Saved += timing.Saved
	if c.done == 0 {
		c.usage.FirstToken = usage.FirstToken
	}
	if c.list[c.done].number == 0 { // the answers to a prompt share it
		c.usage.PromptTokens += usage.PromptTokens
		c.usage.CachedTokens += usage.CachedTokens
	}
	c.usage.CompletionTokens += usage.CompletionTokens
	c.usage.ReasoningTokens += usage.ReasoningTokens
	c.usage.DraftTokens += usage.DraftTokens
	c.usage.AcceptedTokens += usage.AcceptedTokens
	c.usage.Drafts.Add(usage.Drafts)
	c.usage.DecodeTokensPerSecond = c.decode.DecodeTokensPerSecond()
	c.usage.Speedup = c.decode.Speedup()
	c.done++
	if c.done < len(c.list) {
		return c.out.next(reason, stop)
	}
	return c.out.finish(reason, stop, c.usage)
}
