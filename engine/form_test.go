package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/sample"
	"headroom/engine/structured"
)

// person is a grammar with texts that are forced, free and repeated.
const person = `
root   ::= ("{\"name\": " string ", \"address\": {\"street\": " string ", \"number\": " number
           "}, \"children\": [" (child (", " child){0,2})? "], \"married\": " ("true" | "false") "}")
child  ::= "{\"first_name\": " string "}"
string ::= "\"" [^"\\\x00-\x1F]{1,12} "\""
number ::= [1-9] [0-9]{0,3}
`

func formOf(source string) *structured.Output {
	return &structured.Output{Kind: structured.Grammar, Source: source}
}

type formAnswer struct {
	tokens   []int32
	text     string
	logprobs []float32
	finish   engine.FinishReason
	err      error
}

func answerOf(t testing.TB, e *engine.Engine, r engine.Request) (a formAnswer) {
	t.Helper()
	s := submit(t, e, r)
	for {
		ev, err := s.Next(context.Background())
		if err != nil {
			return a
		}
		a.text += ev.Text
		switch ev.Type {
		case engine.Token:
			a.tokens, a.logprobs = append(a.tokens, ev.Token), append(a.logprobs, ev.Logprob)
		case engine.Done:
			a.finish, a.err = ev.Finish, ev.Err
		}
	}
}

// TestForm answers in a form with several samplers: alone and in a crowd, with forced tokens
// computed together and one by one. The texts have the form, and tokens and log-probabilities are
// the same.
func TestForm(t *testing.T) {
	e, single := open(t, engine.Options{}), open(t, engine.Options{})
	single.OneByOne()
	var requests []engine.Request
	temperatures := []float32{0, 2, 0.7, 1, 1.5, 2, 2, 2}
	if testing.Short() { // under the race detector
		temperatures = temperatures[:2]
	}
	for i, temperature := range temperatures {
		requests = append(requests, engine.Request{Prompt: encode(e, question),
			Output: formOf(person), MaxTokens: 200,
			Sampling: sample.Params{Temperature: temperature, Seed: new(uint64(i)), TopK: 40,
				RepetitionPenalty: 1.1}})
	}
	var alone []formAnswer
	for _, r := range requests {
		a := answerOf(t, e, r)
		alone = append(alone, a)
		var v any
		if a.err != nil || a.finish != engine.FinishStop ||
			json.Unmarshal([]byte(a.text), &v) != nil {
			t.Errorf("temperature %v: %q (%s), %v", r.Sampling.Temperature, a.text, a.finish,
				a.err)
		}
		if b := answerOf(t, single, r); !equalAnswers(a, b) {
			t.Errorf("temperature %v: together %q, one by one %q", r.Sampling.Temperature, a.text,
				b.text)
		}
	}
	ahead := draftingEngine(t, requests, alone)
	for i, r := range requests {
		if a := answerOf(t, ahead, r); !equalAnswers(a, alone[i]) {
			t.Errorf("temperature %v: plain %q, with drafts %q", r.Sampling.Temperature,
				alone[i].text, a.text)
		}
	}
	if s := ahead.Stats(); s.AcceptedTokens == 0 || s.AcceptedTokens == s.DraftTokens {
		t.Errorf("%d of %d drafts were right, expected some of them", s.AcceptedTokens,
			s.DraftTokens)
	}
	answers := make(chan string)
	for i, r := range requests {
		go func() {
			a := answerOf(t, e, r)
			if !equalAnswers(a, alone[i]) {
				answers <- fmt.Sprintf("alone %q, in a crowd %q", alone[i].text, a.text)
				return
			}
			answers <- ""
		}()
	}
	for range requests {
		if failed := <-answers; failed != "" {
			t.Error(failed)
		}
	}
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
}

// draftingEngine returns an engine that proposes the tokens of the answers, a third of them wrong.
func draftingEngine(t *testing.T, requests []engine.Request,
	answers []formAnswer) *engine.Engine {
	e := open(t, engine.Options{Speculate: engine.SpeculateAuto})
	d := &drafter{r: rand.New(rand.NewPCG(1, 9)), depth: 4, wrong: 0.3, vocab: 500}
	for i, r := range requests {
		d.answers = append(d.answers, slices.Concat(r.Prompt, answers[i].tokens))
	}
	e.AlwaysDraft(d.propose)
	return e
}

// TestFormsInSmallPasses answers several forms at once on an engine with small passes. Their forced
// tokens and the prompts of others must share the rows of a pass.
func TestFormsInSmallPasses(t *testing.T) {
	const form = `root ::= "{\"the first of several long names\": " [0-9]{1,3} ` +
		`", \"the second of several long names\": " [0-9]{1,3} "}"`
	e := open(t, engine.Options{MaxSequences: 4, ChunkTokens: 16})
	r := engine.Request{Prompt: encode(e, question), Output: formOf(form), MaxTokens: 100}
	want := answerOf(t, e, r)
	if want.finish != engine.FinishStop {
		t.Fatalf("alone: %q (%s), %v", want.text, want.finish, want.err)
	}
	var running sync.WaitGroup
	for i := range 12 {
		running.Go(func() {
			r := r
			r.Prompt = slices.Concat(encode(e, fmt.Sprint(i, " ")), r.Prompt)
			if a := answerOf(t, e, r); a.finish != engine.FinishStop {
				t.Errorf("in a crowd: %q (%s), %v", a.text, a.finish, a.err)
			}
			r.Prompt = encode(e, question)
			if a := answerOf(t, e, r); !equalAnswers(a, want) {
				t.Errorf("alone %q, in a crowd %q (%s), %v", want.text, a.text, a.finish, a.err)
			}
		})
	}
	running.Wait()
}

func equalAnswers(a, b formAnswer) bool {
	return slices.Equal(a.tokens, b.tokens) && slices.Equal(a.logprobs, b.logprobs) &&
		a.text == b.text && a.finish == b.finish
}

// TestFreeForm: a form that allows everything changes nothing.
func TestFreeForm(t *testing.T) {
	e := open(t, engine.Options{})
	r := engine.Request{Prompt: encode(e, question), MaxTokens: 60}
	free := answerOf(t, e, r)
	r.Output = formOf("root ::= .*")
	if formed := answerOf(t, e, r); formed.text != free.text ||
		!slices.Equal(formed.tokens, free.tokens) {
		t.Errorf("with a form %q, without %q", formed.text, free.text)
	}
}

// TestFormStaysCached continues an answer whose forced tokens were computed together. What is
// cached of it gives the same answer as computing all again.
func TestFormStaysCached(t *testing.T) {
	e := open(t, engine.Options{})
	prompt := encode(e, question)
	a := answerOf(t, e, engine.Request{Prompt: prompt, Output: formOf(person), MaxTokens: 200})
	next := engine.Request{Prompt: slices.Concat(prompt, a.tokens, encode(e, " That is")),
		MaxTokens: 20, Sampling: sample.Params{Logprobs: 5}}
	cached := answerOf(t, e, next)
	whole := answerOf(t, open(t, engine.Options{}), next)
	if !equalAnswers(cached, whole) {
		t.Errorf("cached %q %v, computed %q %v", cached.text, cached.logprobs, whole.text,
			whole.logprobs)
	}
}

// TestFormErrors: a form that nothing fits is refused, and so is a grammar that is wrong.
func TestFormErrors(t *testing.T) {
	e := open(t, engine.Options{})
	for _, source := range []string{`root ::= root "a"`, ``, `root ::= [`} {
		_, err := e.Submit(engine.Request{Prompt: []int32{1}, Output: formOf(source)})
		if err == nil {
			t.Errorf("%q was accepted", source)
		}
	}
}
