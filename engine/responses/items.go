package responses

// Items of the input. They become messages of the form that chat templates know: reasoning, a
// message and calls that follow one another are fields of one message of the assistant.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/jsonbody"
)

// wireItem has the fields of all items. null is the same as absent.
type wireItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Summary          json.RawMessage `json:"summary"`
	EncryptedContent string          `json:"encrypted_content"`
	CallID           string          `json:"call_id"`
	Name             string          `json:"name"`
	Arguments        string          `json:"arguments"`
	Input            string          `json:"input"`
	Output           json.RawMessage `json:"output"`
}

// wirePart is a part of a content. A text is a part, too.
type wirePart struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`
}

// conversation builds the messages of a prompt from items.
type conversation struct {
	messages []chat.Message
	now      chat.Message // of the assistant, being built; without a role: none
	// thoughts, texts and calls are those of now.
	thoughts, texts, calls []string
	names                  map[string]string // of functions, by the IDs of their calls
}

// readInput reads instructions, the conversation of previous_response_id, and input.
func (r *Request) readInput(w *wireRequest, past *Store) error {
	c := &conversation{names: map[string]string{}}
	if w.Instructions != nil && *w.Instructions != "" {
		c.messages = append(c.messages, chat.Message{Role: "system", Content: *w.Instructions})
	}
	if id := w.PreviousResponseID; id != nil && *id != "" {
		items, err := past.conversation(*id)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := c.read(item, "previous_response_id"); err != nil {
				return err
			}
		}
		r.Previous = *id
	}
	items, err := inputItems(w.Input)
	if err == nil {
		err = past.resolve(items)
	}
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := c.read(item, inputPath(i)); err != nil {
			return err
		}
	}
	c.flush()
	if len(c.messages) == 0 {
		return badParam("input", "is missing")
	}
	r.input, r.Messages = items, c.messages
	return nil
}

func inputPath(i int) string { return fmt.Sprintf("input[%d]", i) }

// inputItems returns the items of an input, which may be a text.
func inputItems(raw json.RawMessage) (items []json.RawMessage, err error) {
	switch {
	case jsonbody.IsNull(raw):
		return nil, nil
	case jsonbody.Kind(raw) == "a string":
		return []json.RawMessage{json.RawMessage(`{"type":"message","role":"user","content":` +
			string(raw) + `}`)}, nil
	case jsonbody.Kind(raw) != "an array":
		return nil, badParam("input", "expected a string or an array of items, got %s",
			jsonbody.Kind(raw))
	}
	bad := jsonbody.Elements(raw, func(item []byte) *Error {
		if len(items) == jsonbody.MaxMessages {
			return badParam("input", "at most %d items", jsonbody.MaxMessages)
		}
		items = append(items, item)
		return nil
	})
	if bad != nil {
		return nil, bad
	}
	return items, nil
}

// itemKind has the fields that tell what an item is.
type itemKind struct {
	Type string `json:"type"`
	Role string `json:"role"`
	ID   string `json:"id"`
}

// kindOf returns what an item is. A message needs no type, and neither does a reference.
func kindOf(raw json.RawMessage, path string) (kind itemKind, err error) {
	if jsonbody.IsNull(raw) {
		return kind, badParam(path, "expected an object, got null")
	}
	if err := jsonbody.Decode(raw, &kind, path); err != nil {
		return kind, err
	}
	switch {
	case kind.Type != "":
	case kind.Role != "":
		kind.Type = "message"
	case kind.ID != "":
		kind.Type = "item_reference"
	default:
		return kind, badParam(path+".type", "is missing")
	}
	return kind, nil
}

// resolve replaces references in an input by the items of stored responses.
func (s *Store) resolve(input []json.RawMessage) error {
	total := 0
	for i, raw := range input {
		kind, err := kindOf(raw, inputPath(i))
		if err != nil {
			return err
		}
		if kind.Type != "item_reference" {
			continue
		}
		item, ok := s.item(kind.ID)
		if !ok {
			return badParam(inputPath(i)+".id", "no item %.80q is stored. Responses are kept in "+
				"memory while there is room. Send the item itself", kind.ID)
		}
		if total += len(item); total > maxPastBytes {
			return badParam(inputPath(i), "the items that are referred to have more than %d MiB",
				maxPastBytes>>20)
		}
		input[i] = item
	}
	return nil
}

// read reads an item.
func (c *conversation) read(raw json.RawMessage, path string) error {
	kind, err := kindOf(raw, path)
	if err != nil {
		return err
	}
	switch f := row(itemTable, kind.Type); f.Support {
	case refused: // the model has not written it: it asks for something
		return unsupported(path+".type", "%q is not supported. %s", kind.Type, f.Instead)
	case leftOut:
		return nil
	}
	item := &wireItem{}
	if err := jsonbody.Fill(raw, item, path); err != nil {
		return err
	}
	if err := c.readItem(item, path); err != nil {
		return err
	}
	return nil
}

func (c *conversation) readItem(item *wireItem, path string) *Error {
	switch item.Type {
	case "reasoning":
		text, err := reasoningText(item, path)
		if err != nil || text == "" {
			return err
		}
		c.begin(c.texts != nil || c.calls != nil)
		c.thoughts = append(c.thoughts, text)
	case "compaction":
		if text, ok := unseal(item.EncryptedContent); ok {
			c.add(chat.Message{Role: "user", Content: summaryMark + text})
		}
	case "function_call", "custom_tool_call":
		return c.readCall(item, path)
	case "function_call_output", "custom_tool_call_output":
		text, err := outputText(item.Output, path+".output")
		if err != nil {
			return err
		}
		c.add(chat.Message{Role: "tool", Content: text, ToolCallID: item.CallID,
			Name: c.names[item.CallID]})
	default:
		return c.readMessage(item, path)
	}
	return nil
}

// begin begins a message of the assistant, if a new one is asked for or there is none.
func (c *conversation) begin(another bool) {
	if another {
		c.flush()
	}
	c.now.Role = "assistant"
}

// flush completes the message that is being built.
func (c *conversation) flush() {
	if c.now.Role == "" {
		return
	}
	c.now.ReasoningContent = strings.Join(c.thoughts, "\n\n")
	c.now.Content = strings.Join(c.texts, "\n\n")
	if len(c.calls) > 0 {
		c.now.ToolCalls = json.RawMessage("[" + strings.Join(c.calls, ",") + "]")
	}
	c.messages = append(c.messages, c.now)
	c.now, c.thoughts, c.texts, c.calls = chat.Message{}, nil, nil, nil
}

// add adds a whole message.
func (c *conversation) add(m chat.Message) {
	c.flush()
	c.messages = append(c.messages, m)
}

func (c *conversation) readMessage(item *wireItem, path string) *Error {
	role := item.Role
	switch role {
	case "user", "system", "assistant":
	case "developer":
		role = "system"
	case "":
		return badParam(path+".role",
			`is missing; expected "user", "assistant", "system" or "developer"`)
	default:
		return badParam(path+".role",
			`expected "user", "assistant", "system" or "developer", got %.80q`, role)
	}
	texts, other, err := textsOf(item.Content, path+".content")
	switch {
	case err != nil:
		return err
	case other != nil && role != "assistant":
		return unsupported(other.path+".type", "%.80q is not supported: the model reads text only",
			other.kind)
	}
	text := strings.Join(texts, "\n")
	if role != "assistant" {
		c.add(chat.Message{Role: role, Content: text})
		return nil
	}
	c.begin(c.texts != nil && c.calls == nil)
	c.texts = append(c.texts, text)
	return nil
}

func (c *conversation) readCall(item *wireItem, path string) *Error {
	if item.Name == "" {
		return badParam(path+".name", "is missing")
	}
	arguments := item.Arguments
	if item.Type == "custom_tool_call" {
		arguments = argumentsOf(item.Input)
	}
	c.begin(false)
	c.names[item.CallID] = item.Name
	c.calls = append(c.calls, `{"id":`+quote(item.CallID)+`,"type":"function","function":{"name":`+
		quote(item.Name)+`,"arguments":`+quote(arguments)+`}}`)
	return nil
}

// otherPart is a part of a content that is no text.
type otherPart struct{ path, kind string }

// textsOf returns the texts of a content, and the first part that is none; nil: there is none.
func textsOf(raw json.RawMessage, path string) (texts []string, other *otherPart, err *Error) {
	switch {
	case jsonbody.IsNull(raw):
		return nil, nil, nil
	case jsonbody.Kind(raw) == "a string":
		var text string
		err := jsonbody.Fill(raw, &text, path)
		return []string{text}, nil, err
	case jsonbody.Kind(raw) != "an array":
		return nil, nil, badParam(path, "expected a string or an array of parts, got %s",
			jsonbody.Kind(raw))
	}
	i := 0
	err = jsonbody.Elements(raw, func(element []byte) *Error {
		var part wirePart
		partPath := fmt.Sprintf("%s[%d]", path, i)
		i++
		if jsonbody.IsNull(element) {
			return badParam(partPath, "expected an object, got null")
		}
		if err := jsonbody.Fill(element, &part, partPath); err != nil {
			return err
		}
		text := part.Text
		switch part.Type {
		case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		case "refusal":
			text = part.Refusal
		case "":
			return badParam(partPath+".type", "is missing")
		default:
			if other == nil {
				other = &otherPart{partPath, part.Type}
			}
			return nil
		}
		if text == nil {
			return badParam(partPath+".text", "is missing")
		}
		texts = append(texts, *text)
		return nil
	})
	return texts, other, err
}

// outputText returns the text of a tool's result. What a model cannot read must not end a
// conversation: the tool has run.
func outputText(raw json.RawMessage, path string) (string, *Error) {
	texts, other, err := textsOf(raw, path)
	if other != nil {
		texts = append(texts, "["+other.kind+" left out: the model reads text only]")
	}
	return strings.Join(texts, "\n"), err
}

// sealed begins the encrypted_content of Headroom. The text follows, as base64. It is not
// encrypted: it is the user's own, and a client that stores nothing here can replay it anywhere.
const sealed = "headroom:"

func seal(text string) string {
	return sealed + base64.StdEncoding.EncodeToString([]byte(text))
}

// unseal returns the text of an encrypted_content. ok is false if it is another server's.
func unseal(content string) (text string, ok bool) {
	encoded, ok := strings.CutPrefix(content, sealed)
	if !ok {
		return "", false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	return strings.ToValidUTF8(string(data), "\uFFFD"), err == nil
}

// reasoningText returns the text of an item of reasoning, or else its summary.
func reasoningText(item *wireItem, path string) (string, *Error) {
	if text, ok := unseal(item.EncryptedContent); ok {
		return text, nil
	}
	texts, _, err := textsOf(item.Content, path+".content")
	if err == nil && texts == nil {
		texts, _, err = textsOf(item.Summary, path+".summary")
	}
	return strings.Join(texts, "\n\n"), err
}
