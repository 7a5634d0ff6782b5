package control

// What is kept of conversations, over HTTP: the documents of app/cache, word for word.

import (
	"net/http"

	"headroom/app/cache"
	"headroom/engine/problem"
)

// PinRequest is the body of /api/cache/{key}/pin; without Pinned it pins.
type PinRequest struct {
	Pinned *bool `json:"pinned"`
}

// onlyQuery is for who removes the files himself, as `headroom cache` does, and cannot reach
// memory.
var onlyQuery = Query{"only", `"memory" leaves the files.`}

func onlyMemory(r *http.Request) bool { return r.URL.Query().Get("only") == "memory" }

func (a *API) cacheRoutes() []Route {
	return []Route{
		route("GET /api/cache", "What is kept of conversations, on disk and in memory.", "",
			func(*http.Request, nothing) (cache.List, error) { return a.host.Conversations() }),
		route("DELETE /api/cache",
			"Forgets all that is kept on disk and in memory, or what is one model's.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				model := r.URL.Query().Get("model")
				if onlyMemory(r) {
					return a.host.ForgetAll(model), nil
				}
				return a.host.ClearCache(model)
			}).
			with(Query{"model", "A model's fingerprint or name."}, onlyQuery),
		route("GET /api/cache/{key}",
			"One conversation and its files. At least 4 digits of the key.", "",
			func(r *http.Request, _ nothing) (cache.Detail,
				error) {
				return a.host.Conversation(r.PathValue("key"))
			}),
		route("DELETE /api/cache/{key}",
			"Forgets a conversation: what memory has of it, and the files that are its alone.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				if onlyMemory(r) {
					return a.host.ForgetConversation(r.PathValue("key"))
				}
				return a.host.RemoveConversation(r.PathValue("key"))
			}).
			with(onlyQuery),
		route("POST /api/cache/{key}/pin",
			"Pins a conversation, which is never evicted then, or unpins it.", `{"pinned": true}`,
			func(r *http.Request, q PinRequest) (nothing, error) {
				return nothing{}, a.host.PinConversation(r.PathValue("key"), q.Pinned == nil ||
					*q.Pinned)
			}),
	}
}

// MoveRequest is the body of /api/cache/move.
type MoveRequest struct {
	// absolute; the cache gets a folder of its own in one that has other things
	Dir string `json:"dir"`
}

// CacheMove is what begins.
type CacheMove struct {
	Dir   string `json:"dir"`   // where the cache will lie
	Bytes int64  `json:"bytes"` // of its entries
	Job   string `json:"job"`   // the ID of the job
}

func (a *API) moveRoutes() []Route {
	return []Route{
		route("POST /api/cache/move",
			"Moves the cache to another folder, as a job. The model is loaded again when no "+
				"answer is under way.", `{"dir": "/Volumes/Disk"}`,
			func(_ *http.Request, q MoveRequest) (CacheMove,
				error) {
				return a.moveCache(q)
			}).answering(http.StatusAccepted),
	}
}

func (a *API) moveCache(q MoveRequest) (CacheMove, error) {
	if a.transfers.Mover == nil {
		return CacheMove{}, problem.New(problem.NotFound, "This server cannot move its cache", "",
			"")
	}
	if q.Dir == "" {
		return CacheMove{}, problem.New(problem.BadRequest, "The cache has nowhere to go",
			"no folder was given", `Send {"dir": "/Volumes/Disk"}.`)
	}
	mover, err := a.transfers.Mover()
	if err != nil {
		return CacheMove{}, err
	}
	to := cache.Target(q.Dir)
	bytes, err := mover.Check(to)
	if err != nil {
		return CacheMove{}, err
	}
	return CacheMove{Dir: to, Bytes: bytes, Job: a.transfers.Jobs.Start(mover.Job(to)).ID}, nil
}
