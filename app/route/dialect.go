package route

// The routes by which Headrooms ask each other. They need an API key as all routes of the endpoint.

import (
	"crypto/rand"
	"net/http"

	"headroom/app/version"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// Dialect serves GET /api/machine and POST /api/prefix.
type Dialect struct{}

// Routes implements server.Dialect.
func (Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /api/machine", Summary: "The models of this machine and its free memory.",
			Document: describe},
		{Pattern: "POST /api/prefix", Free: true, Body: prefixSchema, Answer: answerPrefix,
			Summary: "How many tokens of a prompt are cached, by hashes of its blocks."},
	}
}

// Error renders err as {"error": {...}}, as OpenAI's routes do.
func (Dialect) Error(err error) server.Event {
	return server.Event{Data: openai.NewErrorBody(err)}
}

// description is the answer to GET /api/machine. ID is that of the process, so that a machine is
// not added to itself, or twice. It is made anew when a server starts.
type description struct {
	Info
	ID string `json:"id,omitempty"`
}

// processID is the ID of this process.
var processID = rand.Text()

// describe answers GET /api/machine.
func describe(_ *http.Request, models server.Models) (any, error) {
	info := Info{Version: version.Version, Models: []Model{}}
	if room, ok := models.(interface{ RoomBytes() int64 }); ok {
		info.RoomBytes = room.RoomBytes()
	}
	for _, m := range models.List() {
		if m.OnlyElsewhere {
			continue
		}
		one := Model{ID: m.ID, Aliases: m.Aliases, Loaded: m.Engine != nil,
			ContextTokens: m.ContextTokens}
		if m.Engine != nil {
			stats := m.Engine.Stats()
			one.Requests = stats.Running + stats.Waiting
			one.PrefillTokensPerSecond = stats.PrefillTokensPerSecond
		}
		info.Models = append(info.Models, one)
	}
	return description{Info: info, ID: processID}, nil
}

// prefixSchema is the schema of POST /api/prefix.
func prefixSchema() map[string]any {
	hash := map[string]any{"type": "string", "pattern": "^[0-9a-f]{32}$"}
	return map[string]any{"type": "object", "required": []string{"model", "block_tokens", "hashes"},
		"properties": map[string]any{
			"model": map[string]any{"type": "string"},
			"block_tokens": map[string]any{"type": "integer",
				"enum": []int{32, 64, 128, 256}},
			"hashes": map[string]any{"type": "array", "minItems": 1, "maxItems": maxHashes,
				"items": hash},
			"ends": map[string]any{"type": "array", "maxItems": maxEnds, "items": map[string]any{
				"type": "object", "required": []string{"tokens", "hash"},
				"properties": map[string]any{
					"tokens": map[string]any{"type": "integer", "minimum": 1}, "hash": hash}}},
		}}
}
