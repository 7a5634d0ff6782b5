package control

// What is kept of conversations, over HTTP: the documents of app/cache, word for word.

import (
	"net/http"

	"headroom/app/cache"
)

// PinRequest is the body of /api/cache/{key}/pin; without Pinned it pins.
type PinRequest struct {
	Pinned *bool `json:"pinned"`
}

func (a *API) cacheRoutes() []Route {
	return []Route{
		route("GET /api/cache", "What is kept of conversations, on disk and in memory.", "",
			func(*http.Request, nothing) (cache.List, error) { return a.host.Conversations() }),
		route("DELETE /api/cache", "Removes all that is on disk, or what is one model's.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				return a.host.ClearCache(r.URL.Query().Get("model"))
			}).
			with(Query{"model", "A model's fingerprint or name."}),
		route("GET /api/cache/{key}", "One conversation and its files. At least 4 digits of the key.", "",
			func(r *http.Request, _ nothing) (cache.Detail, error) { return a.host.Conversation(r.PathValue("key")) }),
		route("DELETE /api/cache/{key}", "Removes the files that are the conversation's alone.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				return a.host.RemoveConversation(r.PathValue("key"))
			}),
		route("POST /api/cache/{key}/pin", "Pins a conversation, which is never evicted then, or unpins it.", `{"pinned": true}`,
			func(r *http.Request, q PinRequest) (nothing, error) {
				return nothing{}, a.host.PinConversation(r.PathValue("key"), q.Pinned == nil || *q.Pinned)
			}),
	}
}
