package ollama

// Messages. They become messages of OpenAI's form, which chat templates know. There a call has an
// ID, to which the result of the tool refers. Most clients of Ollama know neither, so a call
// without an ID is numbered, and a result without one answers the first call that has none yet, of
// the tool that it names.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/jsonbody"
)

type wireMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Thinking   string            `json:"thinking"`
	Images     []json.RawMessage `json:"images"`
	ToolCalls  []wireCall        `json:"tool_calls"`
	ToolName   string            `json:"tool_name"`
	ToolCallID string            `json:"tool_call_id"`
}

type wireCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// call is a call without a result.
type call struct{ id, name string }

// conversation builds the messages of a prompt.
type conversation struct {
	messages []chat.Message
	open     []call // the calls of the last assistant's message that have no result yet
	calls    int    // the calls so far
}

// readMessages reads the messages of a chat. Without any, the model is only loaded. An answer
// continues a last message of the assistant.
func (r *Request) readMessages(list []wireMessage) error {
	if len(list) == 0 {
		r.Load = true
		return nil
	}
	var c conversation
	for i := range list {
		if err := c.read(&list[i], fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
	}
	r.Messages = c.messages
	last := r.Messages[len(r.Messages)-1]
	r.Continue = last.Role == "assistant" && last.Content != "" && last.ToolCalls == nil
	return nil
}

func (c *conversation) read(w *wireMessage, path string) error {
	m := chat.Message{Role: strings.ToLower(w.Role), Content: w.Content}
	switch {
	case m.Role == "":
		return badParam(path+".role",
			`is missing; expected "system", "user", "assistant" or "tool"`)
	case len(w.Images) > 0 && m.Role != "tool":
		return unsupported(path+".images", "is not supported: the model reads text only")
	}
	switch m.Role {
	case "assistant":
		m.ReasoningContent = w.Thinking
		var err error
		if m.ToolCalls, err = c.readCalls(w.ToolCalls, path); err != nil {
			return err
		}
	case "tool":
		answered := c.answered(w)
		m.ToolCallID, m.Name = answered.id, answered.name
		// The client replays the result in every later request, so its images are not refused.
		m.Content += strings.Repeat("\n[image left out: the model reads text only]", len(w.Images))
	}
	c.messages = append(c.messages, m)
	return nil
}

// readCalls returns the calls of an assistant's message in OpenAI's form, nil for none. The
// arguments stay as they were sent.
func (c *conversation) readCalls(list []wireCall, path string) (json.RawMessage, error) {
	c.open = nil
	if len(list) == 0 {
		return nil, nil
	}
	var calls []string
	for i, w := range list {
		if w.Function.Name == "" {
			return nil, badParam(fmt.Sprintf("%s.tool_calls[%d].function.name", path, i),
				"is missing")
		}
		c.calls++
		made := call{w.ID, w.Function.Name}
		if made.id == "" {
			made.id = fmt.Sprintf("call_%d", c.calls)
		}
		c.open = append(c.open, made)
		arguments := w.Function.Arguments
		if jsonbody.IsNull(arguments) {
			arguments = json.RawMessage("{}")
		}
		calls = append(calls, `{"id":`+quote(made.id)+`,"type":"function","function":{"name":`+
			quote(made.name)+`,"arguments":`+string(arguments)+`}}`)
	}
	return json.RawMessage("[" + strings.Join(calls, ",") + "]"), nil
}

// answered returns the call that a tool's message answers.
func (c *conversation) answered(w *wireMessage) call {
	i := slices.IndexFunc(c.open, func(open call) bool {
		switch {
		case w.ToolCallID != "":
			return open.id == w.ToolCallID
		case w.ToolName != "":
			return open.name == w.ToolName
		}
		return true
	})
	if i < 0 {
		return call{w.ToolCallID, w.ToolName}
	}
	found := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return found
}

// quote returns a text as JSON.
func quote(text string) string {
	data, _ := json.Marshal(text) // never fails
	return string(data)
}
