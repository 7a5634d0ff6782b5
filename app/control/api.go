// Package control is the control API: the one door through which tray, window and browser reach the
// host.
//
// routes.go says what an address is, and engine.go, models.go, memory.go, cache.go, jobs.go, hub.go
// and the files of settings have the rows; GET /api/openapi.json tells them to others.
//
// Everything under /api needs the per-install token (token.go), as header X-Headroom-Token, or, for
// EventSource, which cannot send headers, as query parameter token. The web UI lies at /, without a
// token: it holds no secret, and gets the token from the address that the owner was given. /v1,
// /health and /metrics go to the OpenAI-compatible server, so that one address serves both. The
// web UI's types are generated from the OpenAPI document: frontend/src/lib/backend/schema.ts.
package control

import "headroom/app/host"

// State is the document of /api/state and of each event. It does not carry the models: where its
// ModelsVersion changes, /api/models has something new.
type State = host.State

// Error is what a refused request carries as {"error": ...}.
type Error = host.Error

// ErrorBody is the body of a refused request.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// TokenHeader carries the token.
const TokenHeader = "X-Headroom-Token"

// tokenQuery carries it where headers cannot.
const tokenQuery = "token"
