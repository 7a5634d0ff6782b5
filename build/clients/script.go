package main

// The scripted model: a loaded engine whose answers to some prompts are prescribed. The engine
// computes prompt and prescribed answer, as if it had chosen the answer's tokens itself, and its
// cache then has both. Prompts that no rule fits are answered by the model.

import (
	"context"
	"strings"
	"sync"

	"headroom/app/host"
	"headroom/engine"
	"headroom/engine/tokenizer"
)

// rule prescribes an answer.
type rule struct {
	// after is a text in the prompt after the model's last answer. It comes from the user or from
	// the result of a tool.
	after string
	// tools says that only prompts with tools are meant. Agents also ask for titles, with the same
	// message of the user and without tools.
	tools  bool
	answer string // content, then calls, as the chat template writes them
}

// served is a request that was answered by a rule.
type served struct {
	after          string
	prompt, cached int
}

// script has the rules of the client that runs, and the requests that they have answered.
type script struct {
	mu     sync.Mutex
	rules  []rule
	served []served
}

// begin replaces the rules.
func (s *script) begin(rules []rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.served = rules, nil
}

// answered returns the requests that rules have answered since begin.
func (s *script) answered() []served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]served(nil), s.served...)
}

// rule returns the first rule that fits a prompt of the demo model's template.
func (s *script) rule(prompt string) (rule, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turns := strings.Split(prompt, "<|im_start|>")
	last := 0 // the model's last answer; the last turn is the one that the model is to answer
	for i, turn := range turns[:len(turns)-1] {
		if strings.HasPrefix(turn, "assistant\n") {
			last = i
		}
	}
	input := strings.Join(turns[last+1:], "")
	for _, r := range s.rules {
		hasTools := strings.Contains(turns[min(1, len(turns)-1)], "<tools>")
		if strings.Contains(input, r.after) && (hasTools || !r.tools) {
			return r, true
		}
	}
	return rule{}, false
}

func (s *script) record(one served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = append(s.served, one)
}

// scripted is a loaded model that answers by a script.
type scripted struct {
	host.Engine
	text   *engine.TextProcessor
	script *script
}

// open is host.Options.Open.
func (s *script) open(ctx context.Context, src engine.Source, o engine.Options) (host.Engine,
	error) {
	e, err := engine.Open(ctx, src, o)
	if err != nil {
		return nil, err
	}
	return &scripted{Engine: e, text: e.TextProcessor, script: s}, nil
}

// Submit answers by a rule, if one fits.
func (e *scripted) Submit(r engine.Request) (*engine.Stream, error) {
	prompt := e.text.Tokenizer().Decode(r.Prompt, false)
	found, ok := e.script.rule(prompt)
	if !ok {
		return e.Engine.Submit(r)
	}
	text := found.answer
	if strings.HasSuffix(prompt, "<think>\n") {
		text = "\n</think>\n\n" + text
	}
	answer := e.text.Tokenizer().Encode(text+"<|im_end|>", tokenizer.EncodeOptions{})
	length, tags := len(r.Prompt), r.ShowTags
	head := r.Prompt
	r.Prompt, r.NoAnswer = append(append([]int32(nil), head...), answer[:len(answer)-1]...), true
	computed, err := e.Engine.Submit(r)
	if err != nil {
		return nil, err
	}
	stream, put := engine.NewStream(computed.ID(), func(why engine.FinishReason) {
		if why == engine.FinishStop {
			computed.Stop()
		} else {
			computed.Cancel()
		}
	})
	go e.tell(computed, put, found, answer, length, e.text.NewStream(head, tags))
	return stream, nil
}

// tell passes the events of the computed prompt on, as those of a prompt of that length, and then
// has the answer's tokens.
func (e *scripted) tell(computed *engine.Stream, put func(engine.Event), found rule,
	answer []int32, length int, text *tokenizer.Stream) {
	for {
		event, err := computed.Next(context.Background())
		if err != nil {
			return
		}
		u := &event.Usage
		u.PromptTokens = length
		u.PromptDoneTokens = min(u.PromptDoneTokens, length)
		u.CachedTokens = min(u.CachedTokens, length)
		if event.Type == engine.Prefill {
			put(event)
			continue
		}
		if event.Type != engine.Done {
			continue
		}
		if event.Finish != engine.FinishLength {
			put(event)
			return
		}
		e.script.record(served{found.after, length, u.CachedTokens})
		for _, id := range answer {
			u.CompletionTokens++
			token := engine.Event{Type: engine.Token, Token: id, Usage: *u}
			if !e.text.IsEOS(id) {
				token.Text = text.Add(id)
			}
			put(token)
		}
		event.Finish, event.Text = engine.FinishStop, text.Close()
		put(event)
		return
	}
}

// call returns a tool call as the demo model's template writes it. arguments are names and values
// in turn.
func call(tool string, arguments ...string) string {
	var b strings.Builder
	b.WriteString("<tool_call>\n<function=" + tool + ">\n")
	for i := 0; i+1 < len(arguments); i += 2 {
		b.WriteString("<parameter=" + arguments[i] + ">\n" + arguments[i+1] + "\n</parameter>\n")
	}
	b.WriteString("</function>\n</tool_call>")
	return b.String()
}
