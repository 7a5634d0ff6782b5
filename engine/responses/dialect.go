package responses

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"headroom/engine/generate"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// Dialect serves OpenAI's responses. New returns one.
type Dialect struct{ store *Store }

// New returns a Dialect with an empty Store.
func New() *Dialect { return &Dialect{NewStore()} }

// Forget forgets all stored responses.
func (d *Dialect) Forget() { d.store.Forget() }

// Routes returns the routes of the dialect.
func (d *Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/responses", Alias: "POST /responses", Summary: "OpenAI's Responses.",
			Body: bodySchema, Parse: d.parse},
		{Pattern: "POST /v1/responses/input_tokens", Alias: "POST /responses/input_tokens",
			Summary: "The number of tokens of a prompt.", Body: bodySchema,
			Answer: d.countTokens},
		{Pattern: "POST /v1/responses/compact", Alias: "POST /responses/compact",
			Summary: "A summary of a conversation.", Body: bodySchema, Whole: true,
			Parse: d.parseCompact},
		{Pattern: "GET /v1/responses/{id}", Alias: "GET /responses/{id}",
			Summary: "A stored response.", Document: d.get},
		{Pattern: "DELETE /v1/responses/{id}", Alias: "DELETE /responses/{id}",
			Summary: "Deletes a stored response.", Document: d.delete},
		{Pattern: "POST /v1/responses/{id}/cancel", Alias: "POST /responses/{id}/cancel",
			Summary: "Ends a response that is being streamed.", Document: d.cancel},
		{Pattern: "GET /v1/responses/{id}/input_items", Alias: "GET /responses/{id}/input_items",
			Summary: "The items from which a response was generated.", Document: d.inputItems},
	}
}

func (d *Dialect) parse(body []byte) (*server.Call, error) {
	r, err := Parse(body, d.store)
	if err != nil {
		return nil, err
	}
	id := generate.NewID("resp_")
	return &server.Call{ID: id, Request: r.Request, OneCall: r.OneCall,
		Begun: func(key string) {
			d.store.begin(id, key, r)
			r.Request, r.input = generate.Request{}, nil // the renderer does not need them
		},
		Cancellable: func(cancel func()) { d.store.cancellable(id, cancel) },
		Ended:       func() { d.store.end(id) },
		Renderer: func(h generate.Head) server.Renderer {
			return newRenderer(h, r, d.store)
		}}, nil
}

// countTokens answers with the number of tokens of a prompt, which may be longer than the context.
func (d *Dialect) countTokens(ctx context.Context, body []byte, with server.Resources) (any,
	error) {
	r, err := Parse(body, d.store)
	if err != nil {
		return nil, err
	}
	id, texts, err := with.Texts(ctx, r.Model)
	if err != nil {
		return nil, err
	}
	r.SetDefaults(with.Defaults(id))
	prompt, _, err := r.Encode(ctx, texts, 0)
	if err != nil {
		return nil, err
	}
	return TokenCount{"response.input_tokens", len(prompt)}, nil
}

func (d *Dialect) get(r *http.Request, _ server.Models) (any, error) {
	if on, _ := strconv.ParseBool(r.URL.Query().Get("stream")); on {
		return nil, unsupported("stream", "a stored response cannot be streamed. Get it without")
	}
	return d.store.get(r.PathValue("id"))
}

func (d *Dialect) delete(r *http.Request, _ server.Models) (any, error) {
	id := r.PathValue("id")
	if err := d.store.delete(id); err != nil {
		return nil, err
	}
	return Deleted{ID: id, Object: "response", Deleted: true}, nil
}

func (d *Dialect) cancel(r *http.Request, _ server.Models) (any, error) {
	return d.store.cancel(r.PathValue("id"))
}

// Pages of a list.
const (
	defaultPage = 20
	maxPage     = 100
	// maxPageBytes ends a page before its limit: a client that does not read it holds the memory.
	maxPageBytes = 1 << 20
)

// inputItems lists the items from which a response was generated, the last one first unless the
// order is "asc".
func (d *Dialect) inputItems(r *http.Request, _ server.Models) (any, error) {
	items, err := d.store.inputOf(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	limit := defaultPage
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return nil, badParam("limit", "must be between 1 and %d, got %.80q", maxPage, text)
		}
	}
	switch order := query.Get("order"); order {
	case "", "desc":
		items = slices.Clone(items)
		slices.Reverse(items)
	case "asc":
	default:
		return nil, badParam("order", `must be "asc" or "desc", got %.80q`, order)
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(one item) bool { return one.id == after })
		if at < 0 {
			return nil, badParam("after", "the response has no item %.80q", after)
		}
		items = items[at+1:]
	}
	list, bytes := ItemList{Object: "list", Data: []json.RawMessage{}}, 0
	for i, one := range items {
		bytes += len(one.raw)
		if list.HasMore = i == limit || i > 0 && bytes > maxPageBytes; list.HasMore {
			break
		}
		list.Data = append(list.Data, one.raw)
		if list.LastID = new(one.id); list.FirstID == nil {
			list.FirstID = list.LastID
		}
	}
	return list, nil
}

// Error renders err as {"error": {...}}, as OpenAI's other routes do. In a stream that has begun
// the renderer's event is sent instead.
func (d *Dialect) Error(err error) server.Event {
	return server.Event{Name: "error", Data: openai.NewErrorBody(err)}
}
