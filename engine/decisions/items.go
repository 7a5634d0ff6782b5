package decisions

// The input of /v1/decisions. It becomes messages of the form that chat templates know. A call of a
// function becomes a part of the assistant's message before it.
//
// All of the input is evidence. So a part that the model cannot read is refused, not left out as
// in the Responses API.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/jsonbody"
)

// wireItem has the fields of all items.
type wireItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Input     *string         `json:"input"`
	Output    json.RawMessage `json:"output"`
}

// wirePart has the fields of all parts of a content.
type wirePart struct {
	Type    string          `json:"type"`
	Text    *string         `json:"text"`
	Refusal *string         `json:"refusal"`
	Data    json.RawMessage `json:"data"`
}

// conversation builds messages from items.
type conversation struct {
	messages []chat.Message
	names    map[string]string // of functions, by the IDs of their calls
}

func (r *Request) readInput(raw json.RawMessage) error {
	c := &conversation{names: map[string]string{}}
	switch kind := jsonbody.Kind(raw); {
	case jsonbody.IsNull(raw):
		return badParam("input", "is missing")
	case kind == "a string":
		text, err := readContent(raw, "input")
		if err != nil {
			return err
		}
		c.add("user", text)
	case kind == "an array":
		at := 0
		err := jsonbody.Elements(jsonbody.Trimmed(raw), func(item []byte) *Error {
			if at == jsonbody.MaxMessages {
				return badParam("input", "at most %d items", jsonbody.MaxMessages)
			}
			at++
			return c.read(item, fmt.Sprintf("input[%d]", at-1))
		})
		switch {
		case err != nil:
			return err
		case at == 0:
			return badParam("input", "expected at least one item, got none")
		}
	default:
		return badParam("input", "expected a string or an array of items, got %s", kind)
	}
	r.Messages = c.messages
	return nil
}

func (c *conversation) add(role, text string) {
	c.messages = append(c.messages, chat.Message{Role: role, Content: text})
}

func (c *conversation) read(raw []byte, path string) *Error {
	var item wireItem
	if err := fillObject(raw, &item, path); err != nil {
		return err
	}
	switch item.Type {
	case "message":
		return c.readMessage(&item, path)
	case "function_call", "custom_tool_call":
		return c.readCall(&item, path)
	case "function_call_output", "custom_tool_call_output":
		return c.readOutput(&item, path)
	case "":
		if item.Role != "" {
			return c.readMessage(&item, path)
		}
		return badParam(path+".type", "is missing")
	}
	return badParam(path+".type", `expected "message", "function_call", "function_call_output", `+
		`"custom_tool_call" or "custom_tool_call_output", got %.80q`, item.Type)
}

func (c *conversation) readMessage(item *wireItem, path string) *Error {
	role := item.Role
	switch role {
	case "user", "system", "assistant":
	case "developer":
		role = "system"
	default:
		return badParam(path+".role",
			`expected "user", "assistant", "system" or "developer", got %.80q`, role)
	}
	if jsonbody.IsNull(item.Content) {
		return badParam(path+".content", "is missing")
	}
	text, err := readContent(item.Content, path+".content")
	c.add(role, text)
	return err
}

func (c *conversation) readCall(item *wireItem, path string) *Error {
	arguments := item.Arguments
	switch custom := item.Type == "custom_tool_call"; {
	case item.Name == "":
		return badParam(path+".name", "is missing")
	case item.CallID == "":
		return badParam(path+".call_id", "is missing")
	case !custom && arguments == nil:
		return badParam(path+".arguments", "is missing")
	case custom && item.Input == nil:
		return badParam(path+".input", "is missing")
	case custom: // it is offered as a function with one string
		arguments = new(`{"input":` + quote(*item.Input) + `}`)
	}
	c.names[item.CallID] = item.Name
	n := len(c.messages)
	if n == 0 || c.messages[n-1].Role != "assistant" {
		c.add("assistant", "")
		n++
	}
	calls := &c.messages[n-1].ToolCalls
	if *calls == nil {
		*calls = json.RawMessage("[")
	} else {
		(*calls)[len(*calls)-1] = ',' // instead of the bracket
	}
	*calls = fmt.Appendf(*calls,
		`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}]`,
		quote(item.CallID), quote(item.Name), quote(*arguments))
	return nil
}

func (c *conversation) readOutput(item *wireItem, path string) *Error {
	name, known := c.names[item.CallID]
	switch {
	case !known:
		return badParam(path+".call_id", "no call before it has the ID %.80q", item.CallID)
	case jsonbody.IsNull(item.Output):
		return badParam(path+".output", "is missing")
	}
	text, err := readContent(item.Output, path+".output")
	c.messages = append(c.messages, chat.Message{Role: "tool", Content: text,
		ToolCallID: item.CallID, Name: name})
	return err
}

// quote returns a text as JSON, with <, > and & as they are.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // never fails for a string
	return strings.TrimSuffix(b.String(), "\n")
}

// readContent returns the text of a content, which is a string or an array of parts.
func readContent(raw json.RawMessage, path string) (string, *Error) {
	switch kind := jsonbody.Kind(raw); kind {
	case "a string":
		var text string
		err := jsonbody.Fill(raw, &text, path)
		return text, err
	case "an array":
	default:
		return "", badParam(path, "expected a string or an array of parts, got %s", kind)
	}
	var texts []string
	err := jsonbody.Elements(jsonbody.Trimmed(raw), func(part []byte) *Error {
		text, err := readPart(part, fmt.Sprintf("%s[%d]", path, len(texts)))
		texts = append(texts, text)
		return err
	})
	return strings.Join(texts, "\n"), err
}

func readPart(raw []byte, path string) (string, *Error) {
	var part wirePart
	if err := fillObject(raw, &part, path); err != nil {
		return "", err
	}
	field, text := "text", part.Text
	switch part.Type {
	case "input_text", "output_text", "text":
	case "refusal":
		field, text = "refusal", part.Refusal
	case "input_json":
		return readJSON(part.Data, path+".data")
	case "":
		return "", badParam(path+".type", "is missing")
	default:
		return "", unsupported(path+".type", "%.80q is not supported: the model reads text only",
			part.Type)
	}
	if text == nil {
		return "", badParam(path+"."+field, "is missing")
	}
	return *text, nil
}

// readJSON returns an object or an array as text.
func readJSON(raw json.RawMessage, path string) (string, *Error) {
	var compact bytes.Buffer
	switch kind := jsonbody.Kind(raw); {
	case jsonbody.IsNull(raw):
		return "", badParam(path, "is missing")
	case kind != "an object" && kind != "an array":
		return "", badParam(path, "expected an object or an array, got %s", kind)
	case json.Compact(&compact, raw) != nil:
		return "", badParam(path, "is not valid JSON") // Check has accepted it
	}
	return compact.String(), nil
}
