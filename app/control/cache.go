package control

// The prefix cache over HTTP, as app/cache encodes it: its conversations, on disk and in memory.

import (
	"net/http"

	"headroom/app/cache"
	"headroom/engine/problem"
)

// PinRequest is the body of /control/cache/{key}/pin. Without Pinned, the conversation is pinned.
type PinRequest struct {
	Pinned *bool `json:"pinned"`
}

// onlyQuery is for the command `headroom cache`, which removes the files itself.
var onlyQuery = Query{"only", `"memory" keeps the files on disk.`}

func onlyMemory(r *http.Request) bool { return r.URL.Query().Get("only") == "memory" }

func (a *API) cacheRoutes() []Route {
	return []Route{
		route("GET /control/cache", "Lists the cached conversations, on disk and in memory.", "",
			func(*http.Request, nothing) (cache.List, error) { return a.host.Conversations() }),
		route("DELETE /control/cache",
			"Clears the cache on disk and in memory, for all models or for one.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				model, only := r.URL.Query().Get("model"), onlyMemory(r)
				return removeSoon(func() (cache.Removed, error) {
					if only {
						return a.host.ForgetAll(model), nil
					}
					return a.host.ClearCache(model)
				})
			}).
			withQueries(Query{"model", "The fingerprint or name of a model. Default: all models."},
				onlyQuery),
		route("GET /control/cache/{key}",
			"Returns one conversation and its files. The key may be shortened to 4 digits.", "",
			func(r *http.Request, _ nothing) (cache.Detail, error) {
				return a.host.Conversation(r.PathValue("key"))
			}),
		route("DELETE /control/cache/{key}",
			"Removes a conversation from memory, and its unshared files from disk.", "",
			func(r *http.Request, _ nothing) (cache.Removed, error) {
				key, only := r.PathValue("key"), onlyMemory(r)
				return removeSoon(func() (cache.Removed, error) {
					if only {
						return a.host.ForgetConversation(key)
					}
					return a.host.RemoveConversation(key)
				})
			}).
			withQueries(onlyQuery),
		route("POST /control/cache/{key}/pin",
			"Pins a conversation, so that it is never evicted, or unpins it.", `{"pinned": true}`,
			func(r *http.Request, q PinRequest) (nothing, error) {
				pinned := q.Pinned == nil || *q.Pinned
				return nothing{}, a.host.PinConversation(r.PathValue("key"), pinned)
			}),
	}
}

// removeSoon removes conversations. If the running model does not free its memory in time, because
// it computes a long step or hangs, the removal goes on, and the answer says so.
func removeSoon(remove func() (cache.Removed, error)) (cache.Removed, error) {
	removed, ended, err := soon(remove)
	removed.Pending = !ended
	return removed, err
}

// MoveRequest is the body of /control/cache/move.
type MoveRequest struct {
	// Dir is an absolute path. If the folder is not empty, the cache moves to a new folder in it.
	Dir string `json:"dir"`
}

// CacheMove describes a move of the cache that has started.
type CacheMove struct {
	Dir   string `json:"dir"`   // the new folder of the cache
	Bytes int64  `json:"bytes"` // total size of the cache's entries
	Job   string `json:"job"`   // the ID of the job
}

func (a *API) moveRoutes() []Route {
	return []Route{
		route("POST /control/cache/move",
			"Moves the cache to another folder, as a job. The model is loaded again when no "+
				"request is running.", `{"dir": "/Volumes/Disk"}`,
			func(_ *http.Request, q MoveRequest) (CacheMove, error) {
				return a.moveCache(q)
			}).withStatus(http.StatusAccepted),
	}
}

func (a *API) moveCache(q MoveRequest) (CacheMove, error) {
	if a.transfers.Mover == nil {
		return CacheMove{}, problem.New(problem.NotFound, "This server cannot move its cache", "",
			"")
	}
	if q.Dir == "" {
		return CacheMove{}, problem.New(problem.BadRequest, "The cache cannot be moved",
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
