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

// onlyQuery is for who removes the files himself, as `headroom cache` does, and cannot reach memory.
var onlyQuery = Query{"only", `"memory" leaves the files.`}

func onlyMemory(r *http.Request) bool { return r.URL.Query().Get("only") == "memory" }

func (a *API) cacheRoutes() []Route {
	return []Route{
		route("GET /api/cache", "What is kept of conversations, on disk and in memory.", "",
			func(*http.Request, nothing) (cache.List, error) { return a.host.Conversations() }),
		route("DELETE /api/cache", "Forgets all that is kept on disk and in memory, or what is one model's.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				model := r.URL.Query().Get("model")
				if onlyMemory(r) {
					return a.host.ForgetAll(model), nil
				}
				return a.host.ClearCache(model)
			}).
			with(Query{"model", "A model's fingerprint or name."}, onlyQuery),
		route("GET /api/cache/{key}", "One conversation and its files. At least 4 digits of the key.", "",
			func(r *http.Request, _ nothing) (cache.Detail, error) { return a.host.Conversation(r.PathValue("key")) }),
		route("DELETE /api/cache/{key}", "Forgets a conversation: what memory has of it, and the files that are its alone.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				if onlyMemory(r) {
					return a.host.ForgetConversation(r.PathValue("key"))
				}
				return a.host.RemoveConversation(r.PathValue("key"))
			}).
			with(onlyQuery),
		route("POST /api/cache/{key}/pin", "Pins a conversation, which is never evicted then, or unpins it.", `{"pinned": true}`,
			func(r *http.Request, q PinRequest) (nothing, error) {
				return nothing{}, a.host.PinConversation(r.PathValue("key"), q.Pinned == nil || *q.Pinned)
			}),
	}
}
