package chat

// Conversations that a template would refuse, or of which it would drop a part. A client must be
// able to replay whatever happened: a second system message, two questions in a row, an answer
// without text. Arrange brings such a conversation into a form that the template renders. The form
// of a message depends on the template and on the messages before it, so that a conversation keeps
// its prefix as it grows.

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// habits tell which conversations a template renders completely and in their order.
type habits struct {
	system    bool // a system message that comes first
	later     bool // a later system message
	alone     bool // a system message without a user's
	repeats   bool // two messages of one role in a row
	assistant bool // an assistant's message that comes first
	empty     bool // an assistant's message without text
	tools     bool // tool calls and their results
	interrupt bool // a user's message after the result of a tool
}

// probe finds out the habits of a template once.
type probe struct {
	mu     sync.Mutex
	known  bool
	habits habits
}

// The texts of the messages that a template is probed with. No template has them.
const (
	probeSystem = "qz0system"
	probeLater  = "qz1later"
	probeUser   = "qz2user"
	probeAgain  = "qz3again"
	probeReply  = "qz4reply"
	probeMore   = "qz5more"
	probeResult = "qz6result"
	probeTool   = `{"type":"function","function":{"name":"qz7call","description":"None.",` +
		`"parameters":{"type":"object","properties":{}}}}`
	probeName  = "qz9name"
	probeCalls = `[{"id":"qz8callid","type":"function","function":{"name":"` + probeName +
		`","arguments":"{}"}}]`
)

// habitsOf returns the habits of the template. The zero value with false means that ctx has ended.
// A template that renders not even a question has all habits: its own errors are the best ones.
func (t *Template) habitsOf(ctx context.Context) (habits, bool) {
	t.probe.mu.Lock()
	defer t.probe.mu.Unlock()
	if t.probe.known {
		return t.probe.habits, true
	}
	h := t.findHabits(ctx)
	if ctx.Err() != nil {
		return habits{}, false
	}
	t.probe.habits, t.probe.known = h, true
	return h, true
}

func (t *Template) findHabits(ctx context.Context) habits {
	system := Message{Role: "system", Content: probeSystem}
	later := Message{Role: "system", Content: probeLater}
	user := Message{Role: "user", Content: probeUser}
	again := Message{Role: "user", Content: probeAgain}
	reply := Message{Role: "assistant", Content: probeReply}
	more := Message{Role: "assistant", Content: probeMore}
	call := Message{Role: "assistant", ToolCalls: json.RawMessage(probeCalls)}
	result := Message{Role: "tool", Content: probeResult, ToolCallID: "qz8callid", Name: "qz7call"}
	var tools []json.RawMessage
	renders := func(messages ...Message) bool { return t.shows(ctx, tools, messages, false) }
	if !renders(user) {
		tools = []json.RawMessage{json.RawMessage(probeTool)}
		if !renders(user) {
			return habits{true, true, true, true, true, true, true, true}
		}
	}
	h := habits{
		// Some templates put the system message into the user's, after or before its text.
		system:    t.shows(ctx, tools, []Message{system, user}, true),
		alone:     renders(system),
		repeats:   renders(user, again) && renders(user, reply, more, again),
		assistant: renders(reply, user),
		empty:     renders(user, Message{Role: "assistant"}, again),
	}
	begin := []Message{user}
	if h.system {
		begin = []Message{system, user}
	}
	h.later = renders(append(slices.Clone(begin), reply, later, again)...) &&
		renders(append(slices.Clone(begin), later, reply, again)...)
	tools = []json.RawMessage{json.RawMessage(probeTool)}
	h.tools = renders(user, call, result, reply)
	h.interrupt = renders(user, call, result, again)
	return h
}

// shows reports whether the prompt of messages has all their texts, in this order unless anyOrder
// is set, and the names of functions that are called.
func (t *Template) shows(ctx context.Context, tools []json.RawMessage, messages []Message,
	anyOrder bool) bool {
	prompt, err := t.render(ctx, Input{Messages: messages, Tools: tools, AddGenerationPrompt: true})
	if err != nil {
		return false
	}
	at := 0
	for _, m := range messages {
		i := strings.Index(prompt[at:], m.Content)
		if i < 0 {
			return false
		}
		if !anyOrder {
			at += i
		}
		if m.ToolCalls != nil && !strings.Contains(prompt, probeName) {
			return false
		}
	}
	return true
}

// Arrange returns a conversation in a form that the template renders completely:
//
//   - System messages at the beginning become one. One that the template does not know becomes the
//     beginning of the user's first message.
//   - A later system message stays where it is. If the template refuses it, drops it or moves it to
//     the front, it becomes a user's message: at the front, it would change the whole prompt.
//   - Where roles must alternate, messages of one role become one. Where that is not possible, a
//     message stands between them that is as short as the template allows.
//   - An answer without text is left out if the template refuses it.
//   - If the template has no tools, calls become text and results a user's messages.
//
// tools tells whether the request offers tools. The messages themselves are not changed. The error
// is that of ctx.
func (t *Template) Arrange(ctx context.Context, messages []Message, tools bool) ([]Message, error) {
	t = t.of(tools)
	if plain(messages) {
		return messages, nil
	}
	h, ok := t.habitsOf(ctx)
	if !ok {
		return nil, ctx.Err()
	}
	a := arrangement{habits: h, list: make([]Message, 0, len(messages)+1)}
	for _, m := range messages {
		a.add(m)
	}
	a.end()
	return a.list, nil
}

// plain reports whether every template renders the conversation: a user's messages and answers with
// text, one after the other.
func plain(messages []Message) bool {
	for i := range messages {
		m := &messages[i]
		if i%2 == 0 && m.Role != "user" ||
			i%2 == 1 && (m.Role != "assistant" || m.ToolCalls != nil || m.Blank()) {
			return false
		}
	}
	return true
}

// arrangement builds the arranged conversation message by message.
type arrangement struct {
	habits
	list    []Message
	begun   bool   // there is a message other than the system messages at the beginning
	pending string // a system message that becomes the beginning of the next message
	turn    string // the role of the last message that counts where roles alternate
}

// answerFiller is the text of an answer that only keeps up the order of roles.
const answerFiller = "OK."

func (a *arrangement) add(m Message) {
	if m.Role == "developer" {
		m.Role = "system"
	}
	if m.Role == "system" {
		if !a.begun {
			a.addFirstSystem(m)
			return
		}
		if !a.later {
			m.Role = "user"
		}
	}
	a.begun = true
	if !a.tools {
		m.flattenTools()
	}
	if m.Role == "assistant" && !a.empty && m.Blank() {
		return
	}
	a.takePending(&m)
	a.addTurn(m)
}

// addFirstSystem adds one of the system messages at the beginning.
func (a *arrangement) addFirstSystem(m Message) {
	switch {
	case !a.system:
		a.pending = join2(a.pending, m.Text())
	case len(a.list) > 0:
		a.list[0].append(&m)
	default:
		a.list = append(a.list, m)
	}
}

// takePending puts the pending system message before a user's message, or into one of its own.
func (a *arrangement) takePending(m *Message) {
	if a.pending == "" {
		return
	}
	first := Message{Role: "user", Content: a.pending}
	a.pending = ""
	if m.Role == "user" && first.append(m) {
		m.Content, m.Parts = first.Content, first.Parts
		return
	}
	a.list, a.turn = append(a.list, first), "user"
}

// end adds what is left when all messages have been added.
func (a *arrangement) end() {
	switch {
	case a.pending != "":
		a.list = append(a.list, Message{Role: "user", Content: a.pending})
	case !a.alone && len(a.list) == 1 && a.list[0].Role == "system":
		a.list[0].Role = "user"
	}
}

// addTurn adds a message other than a system message at the beginning. Where roles must alternate,
// calls and results do not count.
func (a *arrangement) addTurn(m Message) {
	var last *Message
	if n := len(a.list); n > 0 {
		last = &a.list[n-1]
	}
	switch m.Role {
	case "user":
		switch {
		case a.turn != "user":
		case last.Role == "user":
			if !a.repeats && last.append(&m) {
				return
			}
		case !a.interrupt:
			filler := Message{Role: "assistant"}
			if !a.empty {
				filler.Content = answerFiller
			}
			a.list = append(a.list, filler)
		}
		a.turn = "user"
	case "assistant":
		if a.turn == "" && !a.assistant {
			a.list, a.turn = append(a.list, Message{Role: "user"}), "user"
		}
		follows := last != nil && last.Role == "assistant" && last.ToolCalls == nil
		if follows && !a.repeats {
			// The text before calls is a part of their message.
			if text := *last; text.append(&m) {
				m.Content, m.Parts = text.Content, text.Parts
				m.ReasoningContent = join2(last.ReasoningContent, m.ReasoningContent)
				a.list = a.list[:len(a.list)-1]
				a.turn = "user"
			}
		}
		if m.ToolCalls == nil {
			a.turn = "assistant"
		}
	}
	a.list = append(a.list, m)
}

// Blank reports whether a message has no text but white space, and no tool call.
func (m *Message) Blank() bool {
	text, ok := m.plainText()
	return ok && m.ToolCalls == nil && strings.TrimSpace(text) == ""
}

// Text returns the text of a message.
func (m *Message) Text() string {
	text, _ := m.plainText()
	return text
}

// plainText returns the text of a message. It returns false if the content has other parts.
func (m *Message) plainText() (string, bool) {
	if m.Parts == nil {
		return m.Content, true
	}
	var parts []textPart
	if json.Unmarshal(m.Parts, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" && p.Type != "" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

// append appends the text of another message as a paragraph. It returns false, and changes nothing,
// if one of them has other parts than text.
func (m *Message) append(other *Message) bool {
	before, ok := m.plainText()
	after, alsoOK := other.plainText()
	if !ok || !alsoOK {
		return false
	}
	m.Content, m.Parts = join2(before, after), nil
	return true
}

// join2 joins two texts as paragraphs.
func join2(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// flattenTools makes text of tool calls, and a user's message of a result.
func (m *Message) flattenTools() {
	switch {
	case m.Role == "tool":
		m.Role = "user"
	case m.ToolCalls != nil:
		text := m.Text()
		var calls []struct{ Function json.RawMessage }
		if json.Unmarshal(m.ToolCalls, &calls) == nil {
			for _, c := range calls {
				text = join2(text, string(c.Function))
			}
		}
		m.Content, m.Parts, m.ToolCalls = text, nil, nil
		if m.fields != nil {
			m.fields = m.fields.Clone()
			m.fields.Delete("tool_calls")
		}
	}
}
