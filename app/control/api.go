// Package control is the control API: the HTTP interface through which the window, a browser and
// the command line use the host.
//
// routes.go defines a route. The routes themselves are in the files of their subjects: engine.go,
// models.go, memory.go, cache.go, chats.go, jobs.go, hub.go, training.go, general.go, settings.go,
// modelsettings.go, agents.go, pairing.go, update.go and report.go. GET /control/openapi.json
// describes them all.
//
// Every request under /control needs the token of this installation (token.go). It is sent in the
// header X-Headroom-Token, or in the query parameter token, because an EventSource cannot send
// headers. The web UI is served at / without a token, because it contains no secret: it takes the
// token from the address that the owner opened. /v1, /api, /health, /ready and /metrics go to the
// OpenAI-compatible server on the same address. The types of the web UI
// (frontend/src/lib/backend/schema.ts) are generated from the OpenAPI document.
package control

import "headroom/app/host"

// State is the response of /control/state and the data of a "state" event. It does not contain the
// models: a new ModelsVersion means that /control/models has changed.
type State = host.State

// Error describes why a request failed.
type Error = host.Error

// ErrorBody is the response body of a request that failed.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// TokenHeader is the request header that holds the token.
const TokenHeader = "X-Headroom-Token"

// tokenQuery is the query parameter that holds the token of a client that cannot send headers.
const tokenQuery = "token"
