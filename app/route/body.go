package route

// What the router reads of a request: the model, and which conversation it belongs to.

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"strings"
)

// body has the fields that the router reads, of all dialects.
type body struct {
	Model          string            `json:"model"`
	PromptCacheKey string            `json:"prompt_cache_key"`
	Previous       string            `json:"previous_response_id"`
	System         json.RawMessage   `json:"system"`       // Anthropic, and Ollama's generate
	Instructions   json.RawMessage   `json:"instructions"` // Responses
	Messages       []json.RawMessage `json:"messages"`
	Input          json.RawMessage   `json:"input"`  // Responses, embeddings
	Prompt         json.RawMessage   `json:"prompt"` // Completions
	Cache          json.RawMessage   `json:"cache"`  // Headroom's own
	Metadata       struct {
		UserID string `json:"user_id"` // Claude Code's has the session
	} `json:"metadata"`
}

// readBody reads a body. ok is false if it is no request that the router understands; the dialect
// then says what is wrong with it.
func readBody(data []byte) (b body, ok bool) {
	err := json.Unmarshal(data, &b)
	if err == nil {
		return b, true
	}
	// A field of another form, such as metadata, is nothing to the router as long as it knows the
	// model.
	var only struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(data, &only) != nil {
		return b, false
	}
	return body{Model: only.Model}, true
}

// sessionHeaders name the conversation of a request. Codex sends session_id, Claude Code
// X-Claude-Code-Session-Id, opencode X-Session-Affinity; others the first one.
var sessionHeaders = []string{"X-Session-Id", "Session_id", "Session-Id",
	"X-Claude-Code-Session-Id", "X-Session-Affinity", "Conversation_id"}

// session identifies a conversation with a model. The number of those that are known at once is
// far too small for two to have the same one.
type session uint64

var seed = maphash.MakeSeed()

// sessionOf returns the conversation of a request.
func sessionOf(h http.Header, b *body, model string) session {
	var hash maphash.Hash
	hash.SetSeed(seed)
	add := func(kind string, parts ...[]byte) session {
		for _, part := range append([][]byte{[]byte(strings.ToLower(model)), []byte(kind)},
			parts...) {
			_, _ = hash.Write(part)
			_ = hash.WriteByte(0)
		}
		return session(hash.Sum64())
	}
	if b.PromptCacheKey != "" {
		return add("key", []byte(b.PromptCacheKey))
	}
	for _, name := range sessionHeaders {
		if value := h.Get(name); value != "" {
			return add("header", []byte(value))
		}
	}
	if b.Metadata.UserID != "" && strings.Contains(b.Metadata.UserID, "session") {
		return add("user", []byte(b.Metadata.UserID))
	}
	return add("text", firstText(b)...)
}

// maxPlainBytes of a plain prompt or input tell its conversation.
const maxPlainBytes = 1000

// firstText returns what stays the same in all requests of a conversation: the system message and
// the first message of the user.
func firstText(b *body) (parts [][]byte) {
	parts = append(parts, b.System, b.Instructions)
	messages := b.Messages
	if messages == nil && len(b.Input) > 0 && b.Input[0] == '[' {
		_ = json.Unmarshal(b.Input, &messages)
	}
	for _, m := range messages {
		role, text := textOf(m)
		parts = append(parts, text)
		if role == "user" {
			return parts
		}
	}
	for _, plain := range [][]byte{b.Prompt, b.Input} {
		if messages == nil {
			parts = append(parts, plain[:min(len(plain), maxPlainBytes)])
		}
	}
	return parts
}

// textOf returns the role and the text of a message. Marks that move from message to message as a
// conversation grows, such as cache_control, are left out.
func textOf(message []byte) (role string, text []byte) {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(message, &m) != nil {
		return "", message
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return m.Role, m.Content
	}
	for _, part := range parts {
		text = append(text, part.Text...)
	}
	return m.Role, text
}

// withModel returns a body whose model has another name. The rest stays as it is, byte by byte. ok
// is false if the body has no model at its top level.
func withModel(data []byte, name string) (changed []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, false
	}
	from, to := int64(-1), int64(-1)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if field, _ := key.(string); strings.EqualFold(field, "model") { // as Unmarshal reads it
			to = d.InputOffset()
			from = to - int64(len(value))
		}
	}
	if from < 0 {
		return nil, false
	}
	return bytes.Join([][]byte{data[:from], quoted, data[to:]}, nil), true
}
