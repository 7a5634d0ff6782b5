package route

// What the router reads of a request: the model, and which conversation it belongs to.

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
)

// body has the fields that the router reads, of all dialects. Values are JSON.
type body struct {
	model       string
	modelAt     []byte // the JSON of the model's name, a part of the body
	cacheKey    string // prompt_cache_key
	previous    string // previous_response_id, of Responses
	user        string // metadata.user_id; Claude Code's has the session
	private     bool   // the body says where it may be cached, which only Headroom understands
	system      []byte // Anthropic's, and Ollama's generate
	instruction []byte // Responses
	messages    []byte
	input       []byte   // Responses, embeddings
	prompt      []byte   // Completions
	likeModel   string   // the name of a field that differs from model only in case; "": none
	further     string   // the name of one of furtherModels, in any case; "": none
	managing    []change // what takes from a body that which a named key may not decide
}

// readBody reads a body. ok is false if it is no request that the router understands; the dialect
// then says what is wrong with it.
func readBody(data []byte) (b body, ok bool) {
	ok = fields(data, func(name string, value []byte) {
		switch name {
		case "model":
			b.model, b.modelAt = text(value), value
		case "prompt_cache_key":
			b.cacheKey = text(value)
		case "previous_response_id":
			b.previous = text(value)
		case "cache":
			b.private = true
		case "system":
			b.system = value
		case "instructions":
			b.instruction = value
		case "messages":
			b.messages = value
		case "input":
			b.input = value
		case "prompt":
			b.prompt = value
		case "metadata":
			fields(value, func(name string, value []byte) {
				if name == "user_id" {
					b.user = text(value)
				}
			})
		default:
			b.noteOther(name, value)
		}
	})
	return b, ok
}

// sessionHeaders name the conversation of a request. Codex sends session_id, Claude Code
// X-Claude-Code-Session-Id, opencode X-Session-Affinity; others the first one.
var sessionHeaders = []string{"X-Session-Id", "Session_id", "Session-Id",
	"X-Claude-Code-Session-Id", "X-Session-Affinity", "Conversation_id"}

// session identifies a conversation with a model. The number of those that are known at once is
// far too small for two to have the same one.
type session uint64

var seed = maphash.MakeSeed()

// hashed returns the session that a text of some kind stands for.
func hashed(model, kind string, parts ...[]byte) session {
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, part := range append([][]byte{[]byte(strings.ToLower(model)), []byte(kind)}, parts...) {
		_, _ = hash.Write(part)
		_ = hash.WriteByte(0)
	}
	return session(hash.Sum64())
}

// sessionOf returns the conversation of a request.
func sessionOf(h http.Header, b *body, model string) session {
	add := func(kind string, parts ...[]byte) session { return hashed(model, kind, parts...) }
	if b.cacheKey != "" {
		return add("key", []byte(b.cacheKey))
	}
	for _, name := range sessionHeaders {
		if value := h.Get(name); value != "" {
			return add("header", []byte(value))
		}
	}
	if strings.Contains(b.user, "session") {
		return add("user", []byte(b.user))
	}
	return add("text", firstText(b)...)
}

// maxPlainBytes of a plain prompt or input tell its conversation.
const maxPlainBytes = 1000

// firstText returns what stays the same in all requests of a conversation: the system message and
// the first message of the user.
func firstText(b *body) (parts [][]byte) {
	parts = append(parts, b.system, b.instruction)
	messages := b.messages
	if messages == nil {
		messages = b.input
	}
	isList := elements(messages, func(m []byte) bool {
		role, content := textOf(m)
		parts = append(parts, content)
		return role != "user"
	})
	if !isList {
		for _, plain := range [][]byte{b.prompt, b.input} {
			parts = append(parts, plain[:min(len(plain), maxPlainBytes)])
		}
	}
	return parts
}

// textOf returns the role and the text of a message. Marks that move from message to message as a
// conversation grows, such as cache_control, are left out.
func textOf(message []byte) (role string, content []byte) {
	if !fields(message, func(name string, value []byte) {
		switch name {
		case "role":
			role = text(value)
		case "content":
			content = value
		}
	}) {
		return "", message
	}
	var parts []byte
	if elements(content, func(part []byte) bool {
		fields(part, func(name string, value []byte) {
			if name == "text" {
				parts = append(parts, value...)
			}
		})
		return true
	}) {
		return role, parts
	}
	return role, content
}

// change is another JSON text for a value.
type change struct {
	value []byte // a part of the body
	to    string
}

// changed returns a body with changes, which must not overlap. The rest stays as it is, byte by
// byte.
func changed(data []byte, changes ...change) []byte {
	at := func(value []byte) int { return cap(data) - cap(value) } // a part of the same memory
	slices.SortFunc(changes, func(a, b change) int { return at(a.value) - at(b.value) })
	var parts [][]byte
	from := 0
	for _, c := range changes {
		parts = append(parts, data[from:at(c.value)], []byte(c.to))
		from = at(c.value) + len(c.value)
	}
	return bytes.Join(append(parts, data[from:]), nil)
}

// withModel returns a body whose model has another name, with more changes. ok is false if the body
// has no model at its top level.
func withModel(data []byte, b *body, name string, more ...change) (_ []byte, ok bool) {
	quoted, err := json.Marshal(name)
	if err != nil || b.modelAt == nil {
		return nil, false
	}
	return changed(data, append(more, change{b.modelAt, string(quoted)})...), true
}
