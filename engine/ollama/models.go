package ollama

// The lists of models. A model has the name ID:latest, because clients of Ollama expect a tag, and
// some compare the name that they ask for with those in the list.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/modelfile"
	"headroom/engine/server"
)

const latest = ":latest"

// nameOf returns the name of the model with an ID, "" for none.
func nameOf(id string) string {
	if id == "" || strings.Contains(id[strings.LastIndex(id, "/")+1:], ":") {
		return id
	}
	return id + latest
}

// listModels answers GET /api/tags: the models that a request may name.
func listModels(_ *http.Request, models server.Models) (any, error) {
	list := ModelList{Models: []Model{}}
	for _, m := range models.List() {
		one := newModel(m)
		one.Size, one.ModifiedAt = m.Description.SizeBytes, new(modified(m))
		list.Models = append(list.Models, one)
	}
	return list, nil
}

// listLoaded answers GET /api/ps: the loaded models.
func listLoaded(_ *http.Request, models server.Models) (any, error) {
	list := ModelList{Models: []Model{}}
	for _, m := range models.List() {
		if m.State != server.Loaded {
			continue
		}
		one := newModel(m)
		one.Size, one.SizeVRAM, one.ContextLength = m.MemoryBytes, new(m.MemoryBytes),
			m.ContextTokens
		if m.Engine != nil && strings.HasPrefix(m.Engine.Info().Device, "CPU") {
			*one.SizeVRAM = 0
		}
		one.ExpiresAt = new(m.UnloadAt)
		if m.UnloadAt.IsZero() {
			*one.ExpiresAt = time.Now().Add(longest) // Ollama's clients expect a time
		}
		list.Models = append(list.Models, one)
	}
	return list, nil
}

// newModel returns what the entries of both lists have.
func newModel(m server.ModelInfo) Model {
	return Model{Name: nameOf(m.ID), Model: nameOf(m.ID), Digest: digest(m),
		Details: newDetails(m)}
}

func newDetails(m server.ModelInfo) Details {
	d := m.Description
	return Details{Format: "safetensors", Family: d.Architecture,
		Families: []string{d.Architecture}, ParameterSize: parameterSize(d.Parameters),
		QuantizationLevel: d.Quantization}
}

// parameterSize returns a number of parameters as "8.2B" or "596M"; "" for 0, which is unknown.
func parameterSize(n int64) string {
	switch {
	case n == 0:
		return ""
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0fK", float64(n)/1e3)
}

// digest returns a hash of what tells one model, and one state of its files, from another.
func digest(m server.ModelInfo) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", m.ID, m.Description.SizeBytes,
		m.UpdatedAt.UnixNano()))
	return hex.EncodeToString(sum[:])
}

// modified returns when the files of a model last changed, or the beginning of 1970.
func modified(m server.ModelInfo) time.Time {
	if m.UpdatedAt.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return m.UpdatedAt.UTC()
}

// showModel answers POST /api/show.
func showModel(ctx context.Context, body []byte, with server.Resources) (any, error) {
	name, err := parseName(body)
	if err != nil {
		return nil, err
	}
	id, texts, err := with.Texts(ctx, name)
	if err != nil {
		return nil, err
	}
	m, list := server.ModelInfo{ID: id}, with.Models.List()
	same := func(one server.ModelInfo) bool { return one.ID == id }
	if i := slices.IndexFunc(list, same); i >= 0 {
		m = list[i]
	}
	return Show{Modelfile: "FROM " + id + "\n", Parameters: parameters(m), Details: newDetails(m),
		ModelInfo: modelInfo(m), Capabilities: capabilities(m, texts), ModifiedAt: modified(m)}, nil
}

// parseName parses a body that names a model, as model or, in old clients, name.
func parseName(body []byte) (string, error) {
	var w struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	if err := jsonbody.Check(body); err != nil {
		return "", err
	}
	if err := jsonbody.Decode(body, &w, ""); err != nil {
		return "", err
	}
	if w.Model == "" {
		w.Model = w.Name
	}
	switch {
	case w.Model == "":
		return "", badParam("model", "is missing")
	case len(w.Model) > jsonbody.MaxNameBytes:
		return "", badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes,
			len(w.Model))
	}
	return w.Model, nil
}

// parameters returns the context as a line of a Modelfile, which clients read. It is "" if the
// context is not known.
func parameters(m server.ModelInfo) string {
	if m.ContextTokens == 0 {
		return ""
	}
	return fmt.Sprintf("num_ctx %d", m.ContextTokens)
}

// modelInfo returns the keys that clients read. The length of the context is the one that this
// server has, which may be shorter than the one that the model was trained for.
func modelInfo(m server.ModelInfo) map[string]any {
	d := m.Description
	info := map[string]any{"general.basename": m.ID[strings.LastIndex(m.ID, "/")+1:]}
	if d.Architecture != "" {
		info["general.architecture"] = d.Architecture
		if m.ContextTokens > 0 {
			info[d.Architecture+".context_length"] = m.ContextTokens
		}
		if d.Dimensions > 0 {
			info[d.Architecture+".embedding_length"] = d.Dimensions
		}
	}
	if d.Parameters > 0 {
		info["general.parameter_count"] = d.Parameters
	}
	return info
}

// capabilities returns what clients can ask a model for. Every model with a chat template gets
// tools: the server describes them to one whose template does not.
func capabilities(m server.ModelInfo, texts generate.Model) []string {
	switch m.Description.Task {
	case modelfile.Embed:
		return []string{"embedding"}
	case modelfile.Rerank: // Ollama has no name for it
		return []string{}
	}
	list := []string{"completion"}
	if t := texts.Template(); t != nil {
		list = append(list, "tools")
		if t.Reasons() {
			list = append(list, "thinking")
		}
	}
	return list
}
