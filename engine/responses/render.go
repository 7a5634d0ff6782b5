package responses

import (
	"strings"
	"time"

	"headroom/engine/generate"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// renderer renders an answer of /v1/responses. Its items follow one another: each is open until
// text of another kind comes. A whole answer goes the same way, and its events are dropped.
type renderer struct {
	request  *Request
	store    *Store
	keep     bool // the response is to be stored
	response Response

	began    bool
	sequence int // of the next event
	// The open item, if there is one. It is the last one of the output.
	reasoning *Reasoning
	message   *Message
	text      strings.Builder // of the open item
	// blank is white space that a message would begin with. A message has visible text.
	blank string
}

func newRenderer(h generate.Head, r *Request, store *Store) *renderer {
	keep := r.Store && h.Cache != generate.CacheNone
	return &renderer{request: r, store: store, keep: keep, response: Response{ID: h.ID,
		Object: "response", CreatedAt: h.Created.Unix(), Status: statusInProgress, Model: h.Model,
		Output: []any{}, Store: keep, Echo: r.Echo}}
}

func (r *renderer) Whole(a generate.Answer) any {
	r.Delta(a.Delta)
	r.complete(a.Finish, a.Usage)
	return &r.response
}

// event returns an event with the next number.
func (r *renderer) event(kind string, e event) server.Event {
	e.Type, e.Sequence = kind, r.sequence
	r.sequence++
	return server.Event{Name: kind, Data: e}
}

// itemEvent returns an event about the last item of the output.
func (r *renderer) itemEvent(kind, id string, e event) server.Event {
	e.ItemID, e.OutputIndex = id, new(len(r.response.Output)-1)
	return r.event(kind, e)
}

// snapshot returns the response as it is now.
func (r *renderer) snapshot() *Response {
	response := r.response
	return &response
}

func (r *renderer) Start() []server.Event {
	r.began = true
	r.store.put(r.response)
	return []server.Event{r.event("response.created", event{Response: r.snapshot()}),
		r.event("response.in_progress", event{Response: r.snapshot()})}
}

// Ping implements server.Pinger. OpenAI sends this event, too, although its reference lacks it.
func (r *renderer) Ping() []server.Event {
	return []server.Event{r.event("keepalive", event{})}
}

func (r *renderer) Delta(d generate.Delta) (events []server.Event) {
	if d.Reasoning != "" {
		events = r.addReasoning(events, d.Reasoning)
	}
	if d.Content != "" {
		events = r.addText(events, d.Content)
	}
	for _, call := range d.ToolCalls {
		events = r.addCall(events, call)
	}
	return events
}

// begin closes the open item and adds another one to the output. added is the item as it is in the
// event.
func (r *renderer) begin(events []server.Event, item, added any) []server.Event {
	events = r.end(events, statusCompleted)
	r.blank = ""
	r.response.Output = append(r.response.Output, item)
	return append(events, r.event("response.output_item.added",
		event{OutputIndex: new(len(r.response.Output) - 1), Item: added}))
}

// done returns the event that completes an item, which is the last one of the output.
func (r *renderer) done(item any) server.Event {
	return r.event("response.output_item.done",
		event{OutputIndex: new(len(r.response.Output) - 1), Item: item})
}

// The part of an item of reasoning: its summary, if the client asked for one, or else its text.
const (
	summaryText   = "summary_text"
	reasoningPart = "reasoning_text"
)

func (r *renderer) addReasoning(events []server.Event, text string) []server.Event {
	if r.reasoning == nil {
		item := &Reasoning{ID: generate.NewID("rs_"), Type: "reasoning", Status: statusInProgress,
			Summary: []Part{}}
		events = r.begin(events, item, *item)
		r.reasoning = item
		if r.request.Summary {
			events = append(events, r.itemEvent("response.reasoning_summary_part.added", item.ID,
				event{SummaryIndex: new(0), Part: &Part{Type: summaryText}}))
		} else {
			events = append(events, r.itemEvent("response.content_part.added", item.ID,
				event{ContentIndex: new(0), Part: &Part{Type: reasoningPart}}))
		}
	}
	r.text.WriteString(text)
	if r.request.Summary {
		return append(events, r.itemEvent("response.reasoning_summary_text.delta", r.reasoning.ID,
			event{SummaryIndex: new(0), Delta: &text}))
	}
	return append(events, r.itemEvent("response.reasoning_text.delta", r.reasoning.ID,
		event{ContentIndex: new(0), Delta: &text}))
}

// addEmptyReasoning adds an item for reasoning that has no text yet, such as white space.
func (r *renderer) addEmptyReasoning(events []server.Event, status string) []server.Event {
	item := &Reasoning{ID: generate.NewID("rs_"), Type: "reasoning", Status: statusInProgress,
		Summary: []Part{}}
	events = r.begin(events, item, *item)
	item.Status = status
	if r.request.Encrypted {
		item.EncryptedContent = new(seal(""))
	}
	return append(events, r.done(item))
}

// newText returns a part with the text of a message.
func newText(text string) Part {
	return Part{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

func (r *renderer) addText(events []server.Event, text string) []server.Event {
	if r.message == nil {
		text, r.blank = r.blank+text, ""
		if strings.TrimSpace(text) == "" {
			r.blank = text
			return events
		}
		events = r.beginMessage(events)
	}
	r.text.WriteString(text)
	return append(events, r.itemEvent("response.output_text.delta", r.message.ID,
		event{ContentIndex: new(0), Delta: &text, Logprobs: []any{}}))
}

func (r *renderer) beginMessage(events []server.Event) []server.Event {
	item := &Message{ID: generate.NewID("msg_"), Type: "message", Status: statusInProgress,
		Role: "assistant", Content: []Part{}}
	events = r.begin(events, item, *item)
	r.message = item
	return append(events, r.itemEvent("response.content_part.added", item.ID,
		event{ContentIndex: new(0), Part: new(newText(""))}))
}

// end closes the open item, if there is one.
func (r *renderer) end(events []server.Event, status string) []server.Event {
	text := r.text.String()
	r.text.Reset()
	switch {
	case r.reasoning != nil:
		events = r.endReasoning(events, text, status)
	case r.message != nil:
		id, part := r.message.ID, newText(text)
		r.message.Status, r.message.Content = status, []Part{part}
		events = append(events,
			r.itemEvent("response.output_text.done", id,
				event{ContentIndex: new(0), Text: &text, Logprobs: []any{}}),
			r.itemEvent("response.content_part.done", id,
				event{ContentIndex: new(0), Part: &part}),
			r.done(r.message))
		r.message = nil
	}
	return events
}

func (r *renderer) endReasoning(events []server.Event, text, status string) []server.Event {
	item := r.reasoning
	r.reasoning = nil
	item.Status = status
	if r.request.Encrypted {
		item.EncryptedContent = new(seal(text))
	}
	if r.request.Summary {
		part := Part{Type: summaryText, Text: text}
		item.Summary = []Part{part}
		return append(events,
			r.itemEvent("response.reasoning_summary_text.done", item.ID,
				event{SummaryIndex: new(0), Text: &text}),
			r.itemEvent("response.reasoning_summary_part.done", item.ID,
				event{SummaryIndex: new(0), Part: &part}),
			r.done(item))
	}
	part := Part{Type: reasoningPart, Text: text}
	item.Content = []Part{part}
	return append(events,
		r.itemEvent("response.reasoning_text.done", item.ID,
			event{ContentIndex: new(0), Text: &text}),
		r.itemEvent("response.content_part.done", item.ID,
			event{ContentIndex: new(0), Part: &part}),
		r.done(item))
}

// addCall adds a call, which is complete.
func (r *renderer) addCall(events []server.Event, call generate.ToolCall) []server.Event {
	if r.request.Custom[call.Name] {
		item := &CustomCall{ID: generate.NewID("ctc_"), Type: "custom_tool_call",
			Status: statusInProgress, CallID: "call_" + call.ID, Name: call.Name}
		events = r.begin(events, item, *item)
		item.Status, item.Input = statusCompleted, inputOf(call.Arguments)
		return append(events,
			r.itemEvent("response.custom_tool_call_input.delta", item.ID,
				event{Delta: &item.Input}),
			r.itemEvent("response.custom_tool_call_input.done", item.ID,
				event{Input: &item.Input}),
			r.done(item))
	}
	item := &Call{ID: generate.NewID("fc_"), Type: "function_call", Status: statusInProgress,
		CallID: "call_" + call.ID, Name: call.Name}
	events = r.begin(events, item, *item)
	item.Status, item.Arguments = statusCompleted, call.Arguments
	return append(events,
		r.itemEvent("response.function_call_arguments.delta", item.ID,
			event{Delta: &item.Arguments}),
		r.itemEvent("response.function_call_arguments.done", item.ID,
			event{Name: item.Name, Arguments: &item.Arguments}),
		r.done(item))
}

func (r *renderer) Finish(reason generate.FinishReason, u generate.Usage) []server.Event {
	events := r.complete(reason, u)
	return append(events, r.event("response."+r.response.Status, event{Response: &r.response}))
}

// complete completes the response and stores it.
func (r *renderer) complete(reason generate.FinishReason, u generate.Usage) []server.Event {
	status := statusCompleted
	if reason == generate.FinishLength {
		status = statusIncomplete
		r.response.Incomplete = &Incomplete{"max_output_tokens"}
	}
	open, empty := r.message != nil, len(r.response.Output) == 0
	events := r.end(nil, status)
	switch {
	case open || r.answered():
	case status == statusCompleted || empty && u.ReasoningTokens < u.CompletionTokens:
		// Programs read the text of the last item. An empty one is what the model has written.
		events = r.end(r.beginMessage(events), status)
	case empty:
		events = r.addEmptyReasoning(events, status)
	}
	r.response.Status = status
	if status == statusCompleted {
		r.response.CompletedAt = new(time.Now().Unix())
	}
	r.response.Usage = newUsage(u)
	r.response.Store = r.keep && r.store.put(r.response)
	return events
}

func newUsage(u generate.Usage) *Usage {
	return &Usage{InputTokens: u.PromptTokens, InputTokensDetails: InputDetails{u.CachedTokens},
		OutputTokens: u.CompletionTokens, OutputTokensDetails: OutputDetails{u.ReasoningTokens},
		TotalTokens: u.PromptTokens + u.CompletionTokens}
}

// answered reports whether the output has more than reasoning.
func (r *renderer) answered() bool {
	for _, item := range r.response.Output {
		if _, ok := item.(*Reasoning); !ok {
			return true
		}
	}
	return false
}

// Fail implements server.FailRenderer.
func (r *renderer) Fail(err error) (events []server.Event) {
	if !r.began {
		events = r.Start()
	}
	at := r.sequence
	r.end(nil, statusIncomplete) // for the output: a client would take its events for a whole item
	r.sequence = at
	r.response.Status = statusFailed
	if problem.From(err).Code == problem.Cancelled {
		r.response.Status = statusCancelled
	}
	r.response.Error = newFailure(err)
	r.response.Store = r.keep && r.store.put(r.response)
	return append(events, r.event("response.failed", event{Response: &r.response}))
}

// newFailure returns what a response says about its error. The codes are those of OpenAI, where it
// has one.
func newFailure(err error) *Failure {
	detail := openai.NewErrorBody(err).Error
	code := detail.Code
	switch {
	case problem.From(err).Code == problem.Busy:
		code = new("rate_limit_exceeded")
	case code == nil:
		code = new("invalid_prompt")
	case detail.Type == "server_error":
		code = &detail.Type
	}
	return &Failure{Code: *code, Message: detail.Message}
}
