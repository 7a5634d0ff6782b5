package ollama

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"headroom/engine/jsonbody"
	"headroom/engine/server"
)

// Pulled is a line of POST /api/pull.
type Pulled struct {
	// Status is what happens, and "success" in the last line.
	Status string `json:"status"`
	// Digest is the same in all lines that tell the progress. It is no checksum.
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"` // in bytes, of all files
	Completed int64  `json:"completed,omitempty"`
}

// pullModel downloads a model. Its lines tell the progress of all files together, because Headroom
// downloads several at once.
func pullModel(body []byte) (server.Work, error) {
	name, err := parseName(body)
	if err != nil {
		return nil, err
	}
	var w struct {
		Stream *bool `json:"stream"`
	}
	if err := jsonbody.Decode(body, &w, ""); err != nil {
		return nil, err
	}
	quiet := w.Stream != nil && !*w.Stream
	return func(ctx context.Context, with server.Resources, send func(any) error) error {
		err := with.Pull(ctx, name, func(p server.Progress) error {
			if quiet {
				return nil
			}
			return send(newPulled(name, p))
		})
		if err != nil {
			return err
		}
		return send(Pulled{Status: "success"})
	}, nil
}

func newPulled(name string, p server.Progress) Pulled {
	if p.TotalBytes == 0 {
		return Pulled{Status: "pulling manifest"} // the list of files, in Ollama's words
	}
	sum := sha256.Sum256([]byte(name))
	return Pulled{Status: "pulling " + name, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Total: p.TotalBytes, Completed: p.DoneBytes}
}
