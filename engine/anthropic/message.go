package anthropic

// Messages. Their content blocks become messages of OpenAI's form, which chat templates know: a
// result of a tool is a message of its own there, and thinking and calls are fields of an
// assistant's message.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/jsonbody"
)

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// wireBlock has the fields of all content blocks. null is the same as absent.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    json.RawMessage `json:"source"`
	Title     string          `json:"title"`
	ToolName  string          `json:"tool_name"`
}

// wireSource is the source of a document.
type wireSource struct {
	Type    string          `json:"type"`
	Data    string          `json:"data"`
	Content json.RawMessage `json:"content"`
}

// conversation builds the messages of a prompt. Each is built from the blocks of all messages with
// its role that follow one another, in a time that is linear in their number.
type conversation struct {
	messages []chat.Message
	now      chat.Message // being built; without a role: none
	// texts, thoughts and calls are the blocks of now.
	texts, thoughts, calls []string
	names                  map[string]string // of functions, by the IDs of their calls
}

// readMessages reads system and messages.
func (r *Request) readMessages(w *wireRequest) error {
	if len(w.Messages) == 0 {
		return badParam("messages", "expected at least one message")
	}
	c := &conversation{names: map[string]string{}}
	if err := c.readSystem(w.System); err != nil {
		return err
	}
	for i := range w.Messages {
		if err := c.read(&w.Messages[i], fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
	}
	c.flush()
	if len(c.messages) == 0 {
		return badParam("messages", "the messages are empty")
	}
	r.Messages = c.messages
	last := r.Messages[len(r.Messages)-1]
	r.Continue = last.Role == "assistant" && last.Content != "" && last.ToolCalls == nil
	return nil
}

// begin begins a message, unless the current one has the same role. Every result of a tool is a
// message of its own.
func (c *conversation) begin(role string) {
	if c.now.Role != role || role == "tool" {
		c.flush()
		c.now.Role = role
	}
}

// flush completes the current message, if there is one.
func (c *conversation) flush() {
	if c.now.Role == "" {
		return
	}
	c.now.Content, c.now.ReasoningContent = joinTexts(c.texts), joinTexts(c.thoughts)
	if len(c.calls) > 0 {
		c.now.ToolCalls = json.RawMessage("[" + strings.Join(c.calls, ",") + "]")
	}
	c.messages = append(c.messages, c.now)
	c.now, c.texts, c.thoughts, c.calls = chat.Message{}, nil, nil, nil
}

// add adds a text to the message of a role.
func (c *conversation) add(role, text string) {
	c.begin(role)
	c.texts = append(c.texts, text)
}

// billingHeader begins a system block of Claude Code that has another value in every request. In
// the prompt it would end every match of the prefix cache.
const billingHeader = "x-anthropic-billing-header:"

func (c *conversation) readSystem(raw json.RawMessage) error {
	err := blocks(raw, "system", func(b *wireBlock, path string) *Error {
		switch {
		case b.Type != "text":
			return badParam(path+".type", "%.80q is not supported, only \"text\"", b.Type)
		case b.Text == nil:
			return badParam(path+".text", "is missing")
		case !strings.HasPrefix(*b.Text, billingHeader):
			c.add("system", *b.Text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return nil
}

func (c *conversation) read(m *wireMessage, path string) error {
	read := c.readAssistantBlock
	switch m.Role {
	case "assistant":
	case "user", "system":
		read = func(b *wireBlock, path string) *Error { return c.readBlock(m.Role, b, path) }
	case "":
		return badParam(path+".role", `is missing; expected "user" or "assistant"`)
	default:
		return badParam(path+".role", `expected "user" or "assistant", got %.80q`, m.Role)
	}
	if err := blocks(m.Content, path+".content", read); err != nil {
		return err
	}
	return nil
}

// blocks calls do for each block of a content. A text is a block, too.
func blocks(raw json.RawMessage, path string, do func(*wireBlock, string) *Error) *Error {
	switch {
	case jsonbody.IsNull(raw):
		return nil
	case jsonbody.Kind(raw) == "a string":
		b := &wireBlock{Type: "text"}
		if err := jsonbody.Fill(raw, &b.Text, path); err != nil {
			return err
		}
		return do(b, path)
	case jsonbody.Kind(raw) != "an array":
		return badParam(path, "expected a string or an array of blocks, got %s",
			jsonbody.Kind(raw))
	}
	i := 0
	return jsonbody.Elements(raw, func(element []byte) *Error {
		b := &wireBlock{}
		blockPath := fmt.Sprintf("%s[%d]", path, i)
		i++
		if jsonbody.IsNull(element) {
			return badParam(blockPath, "expected an object, got null")
		}
		if err := jsonbody.Fill(element, b, blockPath); err != nil {
			return err
		}
		return do(b, blockPath)
	})
}

// readBlock reads a block of a message of the user or the system.
func (c *conversation) readBlock(role string, b *wireBlock, path string) *Error {
	switch b.Type {
	case "tool_result":
		text, err := resultText(b, path)
		if err != nil {
			return err
		}
		c.add("tool", text)
		c.now.ToolCallID, c.now.Name = b.ToolUseID, c.names[b.ToolUseID]
		return nil
	case "mid_conv_system":
		text, _, err := textOf(b.Content, path+".content")
		if err != nil {
			return err
		}
		c.add("system", text)
		return nil
	}
	text, ok, err := blockText(b, path)
	switch {
	case err != nil:
		return err
	case !ok:
		return unsupported(path+".type", "%.80q is not supported: the model reads text only",
			b.Type)
	case c.now.Role == "tool" && isReminder(text):
		c.texts = append(c.texts, text)
	default:
		c.add(role, text)
	}
	return nil
}

// reminder begins a text that agents add to the results of tools. It is not the user's.
const reminder = "<system-reminder>"

// isReminder reports whether a text that follows the result of a tool belongs to it. As a message
// of the user it would begin a new turn, and many templates drop the reasoning of earlier turns.
// What follows that reasoning in the prompt would then be computed again.
func isReminder(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), reminder)
}

// joinTexts joins blocks, which are paragraphs, unless a line break is there already.
func joinTexts(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		if so := b.String(); so != "" && text != "" {
			if !strings.HasSuffix(so, "\n") && !strings.HasPrefix(text, "\n") {
				b.WriteString("\n")
			}
			b.WriteString("\n")
		}
		b.WriteString(text)
	}
	return b.String()
}

// readAssistantBlock reads a block of an assistant's message. Blocks of tools that Anthropic's
// servers run are left out, and so is thinking that only they can read.
func (c *conversation) readAssistantBlock(b *wireBlock, path string) *Error {
	switch b.Type {
	case "thinking":
		if text := thinkingText(b); text != "" {
			c.begin("assistant")
			c.thoughts = append(c.thoughts, text)
		}
		return nil
	case "tool_use":
		call, err := c.readCall(b, path)
		if err != nil {
			return err
		}
		c.begin("assistant")
		c.calls = append(c.calls, call)
		return nil
	}
	text, ok, err := blockText(b, path)
	if err != nil {
		return err
	}
	if ok {
		c.add("assistant", text)
	}
	return nil
}

// readCall returns a call in OpenAI's form. The input stays as it was sent.
func (c *conversation) readCall(b *wireBlock, path string) (string, *Error) {
	if b.Name == "" {
		return "", badParam(path+".name", "is missing")
	}
	c.names[b.ID] = b.Name
	input := b.Input
	if jsonbody.IsNull(input) {
		input = json.RawMessage("{}")
	}
	return `{"id":` + quote(b.ID) + `,"type":"function","function":{"name":` + quote(b.Name) +
		`,"arguments":` + string(input) + `}}`, nil
}

// quote returns a text as JSON.
func quote(text string) string {
	data, _ := json.Marshal(text) // never fails
	return string(data)
}

// errorMark begins the result of a tool that has failed, unless its text says so.
const errorMark = "Error: "

// resultText returns the text of a tool's result.
func resultText(b *wireBlock, path string) (string, *Error) {
	text, omitted, err := textOf(b.Content, path+".content")
	if err != nil {
		return "", err
	}
	if omitted != "" {
		// A message that cannot be read must not end a conversation: the tool has run.
		text = joinTexts([]string{text, "[" + omitted + " left out: the model reads text only]"})
	}
	if b.IsError && !strings.Contains(strings.ToLower(text), "error") {
		text = errorMark + text
	}
	return text, nil
}

// textOf returns the text of a content, and the type of a block without text, "" if there is none.
func textOf(raw json.RawMessage, path string) (text, omitted string, err *Error) {
	var texts []string
	err = blocks(raw, path, func(b *wireBlock, path string) *Error {
		text, ok, err := blockText(b, path)
		switch {
		case err != nil:
			return err
		case ok:
			texts = append(texts, text)
		case omitted == "":
			omitted = b.Type
		}
		return nil
	})
	return joinTexts(texts), omitted, err
}

// blockText returns the text of a block. ok is false if the block has something else.
func blockText(b *wireBlock, path string) (text string, ok bool, err *Error) {
	switch b.Type {
	case "text":
		if b.Text == nil {
			return "", false, badParam(path+".text", "is missing")
		}
		return *b.Text, true, nil
	case "document":
		return documentText(b, path)
	case "search_result":
		text, _, err = textOf(b.Content, path+".content")
		return joinTexts([]string{b.Title, text}), true, err
	case "tool_reference":
		return "The tool " + b.ToolName + " is available.", true, nil
	case "":
		return "", false, badParam(path+".type", "is missing")
	}
	return "", false, nil
}

// documentText returns the text of a document that is no file.
func documentText(b *wireBlock, path string) (text string, ok bool, err *Error) {
	var source wireSource
	if err := jsonbody.Fill(b.Source, &source, path+".source"); err != nil {
		return "", false, err
	}
	switch source.Type {
	case "text":
		text = source.Data
	case "content":
		if text, _, err = textOf(source.Content, path+".source.content"); err != nil {
			return "", false, err
		}
	default:
		return "", false, nil
	}
	return joinTexts([]string{b.Title, text}), true, nil
}

// signature is that of thinking blocks. Clients expect one and send it back.
const signature = "headroom"

// omittedSignature begins the signature of a thinking block without text. The text follows, as
// base64, so that it reaches the next prompt.
const omittedSignature = signature + ":"

// thinkingText returns the text of a thinking block.
func thinkingText(b *wireBlock) string {
	if b.Thinking != "" {
		return b.Thinking
	}
	encoded, ok := strings.CutPrefix(b.Signature, omittedSignature)
	if !ok {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(text)
}
