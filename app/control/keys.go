package control

// The named API keys of the endpoint over HTTP, as app/keys stores them. All changes apply at once.
// The text of a key is only in the response that creates it.

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/app/keys"
	"headroom/engine/problem"
)

// APIKey is a named API key with its limits and what its requests have used.
type APIKey struct {
	ID                 string        `json:"id"`
	Name               string        `json:"name"`
	Models             []string      `json:"models"`             // IDs; empty: all models
	RequestsPerMinute  int           `json:"requestsPerMinute"`  // 0: no limit
	ConcurrentRequests int           `json:"concurrentRequests"` // 0: no limit
	Priority           keys.Priority `json:"priority"`
	Paired             bool          `json:"paired"` // of a paired machine, and for it alone
	CreatedAtUnixMs    int64         `json:"createdAt"`
	Requests           int64         `json:"requests"`
	PromptTokens       int64         `json:"promptTokens"`
	GeneratedTokens    int64         `json:"generatedTokens"`
	LastUsedAtUnixMs   int64         `json:"lastUsedAt"` // 0: never
}

// APIKeyList is the response of GET /control/keys.
type APIKeyList struct {
	Keys []APIKey `json:"keys"` // in the order of their names
}

// APIKeyChange is the body of POST /control/keys and PUT /control/keys/{id}.
type APIKeyChange struct {
	Name               string        `json:"name"`
	Models             []string      `json:"models"`
	RequestsPerMinute  int           `json:"requestsPerMinute"`
	ConcurrentRequests int           `json:"concurrentRequests"`
	Priority           keys.Priority `json:"priority"`
}

func (c APIKeyChange) limits() keys.Limits {
	return keys.Limits{Models: c.Models, RequestsPerMinute: c.RequestsPerMinute,
		ConcurrentRequests: c.ConcurrentRequests, Priority: c.Priority}
}

// NewAPIKey is the response of POST /control/keys.
type NewAPIKey struct {
	Key  APIKey `json:"key"`
	Text string `json:"text"` // which requests send; only its hash is stored
}

func (a *API) keyRoutes() []Route {
	return []Route{
		route("GET /control/keys", "Lists the named API keys, their limits and their use.", "",
			func(*http.Request, nothing) (APIKeyList, error) { return KeysOf(a.keys), nil }),
		route("POST /control/keys", "Makes an API key. Only this response has its text.",
			`{"name": "laptop", "models": [], "requestsPerMinute": 60}`,
			func(_ *http.Request, c APIKeyChange) (NewAPIKey, error) {
				if err := a.checkKeyModels(c.Models, ""); err != nil {
					return NewAPIKey{}, err
				}
				k, text, err := a.keys.Add(c.Name, c.limits())
				return NewAPIKey{apiKey(keys.Listed{Key: k}), text}, err
			}).withKnownFields(),
		route("PUT /control/keys/{id}",
			"Replaces the name and the limits of an API key; a missing limit is none.",
			`{"name": "laptop", "requestsPerMinute": 60}`,
			func(r *http.Request, c APIKeyChange) (APIKeyList, error) {
				id := r.PathValue("id")
				err := a.checkKeyModels(c.Models, id)
				if err == nil {
					_, err = a.keys.Set(id, c.Name, c.limits())
				}
				return KeysOf(a.keys), err
			}).withKnownFields(),
		route("DELETE /control/keys/{id}",
			"Removes an API key. Requests that use it end at once.", "",
			func(r *http.Request, _ nothing) (APIKeyList, error) {
				_, _, err := a.keys.Remove(r.PathValue("id"))
				return KeysOf(a.keys), err
			}),
	}
}

// checkKeyModels returns a Problem unless all models exist or the key with an ID has them already.
func (a *API) checkKeyModels(models []string, keyID string) error {
	if len(models) == 0 {
		return nil
	}
	var known []string
	for _, m := range a.host.Models(0).Models {
		known = append(known, m.ID)
	}
	for _, k := range a.keys.List() {
		if k.ID == keyID {
			known = append(known, k.Models...)
		}
	}
	for _, id := range models {
		if !slices.ContainsFunc(known,
			func(other string) bool { return strings.EqualFold(other, id) }) {
			return problem.New(problem.BadRequest,
				fmt.Sprintf("There is no model with the ID %q", id), "",
				"Use IDs that GET /control/models lists.")
		}
	}
	return nil
}

// KeysOf returns the list of a store.
func KeysOf(store *keys.Store) APIKeyList {
	list := APIKeyList{Keys: []APIKey{}}
	for _, k := range store.List() {
		list.Keys = append(list.Keys, apiKey(k))
	}
	return list
}

func apiKey(k keys.Listed) APIKey {
	return APIKey{ID: k.ID, Name: k.Name, Models: append([]string{}, k.Models...),
		RequestsPerMinute: k.RequestsPerMinute, ConcurrentRequests: k.ConcurrentRequests,
		Priority: k.Priority, Paired: k.Certificate != "",
		CreatedAtUnixMs: unixMs(k.Created), Requests: k.Requests,
		PromptTokens: k.PromptTokens, GeneratedTokens: k.GeneratedTokens,
		LastUsedAtUnixMs: unixMs(k.LastUse)}
}

// unixMs returns a time in milliseconds since 1970; 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
