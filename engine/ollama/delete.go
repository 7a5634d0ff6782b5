package ollama

import (
	"context"

	"headroom/engine/server"
)

// Deleted is the answer to DELETE /api/delete. Ollama's own is empty; its clients look at the
// status alone.
type Deleted struct {
	Status string `json:"status"` // "success"
}

// deleteModel deletes a model, if the server lets clients do that.
func deleteModel(_ context.Context, body []byte, with server.Resources) (any, error) {
	name, err := parseName(body)
	if err != nil {
		return nil, err
	}
	if err := with.Delete(name); err != nil {
		return nil, err
	}
	return Deleted{Status: "success"}, nil
}
