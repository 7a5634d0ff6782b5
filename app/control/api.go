// Package control is the control API: the one door through which tray, window and browser reach the host.
//
//	GET    /api/state                         State
//	GET    /api/events                        server-sent events: "state" with State, at once and after changes, and "models" with ModelsEvent; see events.go
//	POST   /api/engine/start {model}          202 State; loading goes on in the background
//	POST   /api/engine/stop                   200 State
//	POST   /api/requests/{id}/cancel          204
//	GET    /api/requests/recent               host.FinishedList: the last requests that ended, and why their prompts were read again.
//	                                          It has something new where State.LastFinished changes
//	GET    /api/models                        host.ModelList; ?context= says for how many tokens needBytes and fits are
//	POST   /api/models/rescan                 200 host.ModelList, when all folders have been read anew
//	POST   /api/models/watching {paused}      204; whether the list follows the disk by itself
//	POST   /api/models/{id}/remove {path}     204; to the trash. The "/" of an ID is written %2F
//	GET    /api/cache                         what is kept of conversations, on disk and in memory; see cache.List
//	DELETE /api/cache                         200 cache.Removed: all that is on disk; ?model= takes away one model's, by fingerprint or name
//	GET    /api/cache/{key}                   cache.Detail: one conversation and its files. At least 4 digits of the key
//	DELETE /api/cache/{key}                   200 cache.Removed: the files that are the conversation's alone
//	POST   /api/cache/{key}/pin {pinned}      204; a pinned conversation is never evicted
//	GET    /api/settings/cache                CacheSettings: the cache's switch, folder and limits
//	PUT    /api/settings/cache {maxBytes...}  200 CacheSettings; limits hold at once, switch and folder from the next start on
//	POST   /api/window/show                   204; only where there is a window: a second start of the agent sends it to the first
//
// Everything under /api needs the per-install token (token.go), as header X-Headroom-Token, or, for EventSource, which cannot
// send headers, as query parameter token. The web UI lies at /, without a token: it holds no secret, and gets the token from the
// address that the owner was given. /v1, /health and /metrics go to the OpenAI-compatible server, so that one address serves
// both. The TypeScript side of the types is frontend/src/lib/backend/types.ts.
package control

import "headroom/app/host"

// State is the document of /api/state and of each event.
type State = host.State

// Error is what a refused request carries as {"error": ...}.
type Error = host.Error

// ErrorBody is the body of a refused request.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// StartRequest is the body of /api/engine/start. An empty Model means the one that ran last, or the bundled one.
type StartRequest struct {
	Model string `json:"model"`
}

// TokenHeader carries the token.
const TokenHeader = "X-Headroom-Token"

// tokenQuery carries it where headers cannot.
const tokenQuery = "token"
