package chat

// Calls as a grammar, for requests whose answer must be a call (tool_choice). What a format's
// reader reads, its form writes: in the way of the model's template, with arguments that fit the
// schema of the function. Formats without a form cannot be forced.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
	"headroom/engine/grammar/regular"
)

// CallOptions say which calls an answer must have.
type CallOptions struct {
	Tools []json.RawMessage // those that may be called, as in the request
	One   bool              // one call; else one or more
	// OneBlock allows only the calls that one opening tag begins.
	OneBlock bool
	// IsToken reports whether a tag is one token of the model.
	IsToken func(tag string) bool
}

// callForm is how a format writes calls. Its texts are those of the template.
type callForm struct {
	before  string // of the first call
	between string // after one call and before the next
	after   string // of the last call
	block   bool   // before and after are the tags of all calls together
	// section and sectionEnd are tags around all calls. No call begins with them, so they are not
	// of a block that the model begins by itself.
	section, sectionEnd string
	call                callWriting
	// begun returns the beginning of the call that a reader is in, as the form writes it. It is
	// false as long as the text may be no call. nil: calls begin with a tag.
	begun func(reader callReader, text string) (beginning string, ok bool)
}

// callWriting returns the node of one call of a function.
type callWriting func(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error)

// CallError says why calls cannot be forced.
type CallError struct{ Message string }

func (e *CallError) Error() string { return e.Message }

var errUnwritableName = &CallError{"its name cannot be written in this model's tool calls"}

// Calls adds to b the answers that are calls, and nothing else but reasoning in formats of
// messages. An error about a schema is one of package jsonschema.
func (t *Template) Calls(b *grammar.Builder, o CallOptions) (grammar.Node, error) {
	t = t.of(true)
	form, name := t.callForm()
	if form == nil {
		return 0, &CallError{fmt.Sprintf("calls cannot be required of this model: there is no "+
			"grammar of its format of tool calls (%s)", name)}
	}
	w := &callWriter{b: b, o: o, tags: t.Tags()}
	var calls []grammar.Node
	for i, raw := range o.Tools {
		var tool struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
				Strict     bool            `json:"strict"`
			} `json:"function"`
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			return 0, fmt.Errorf("tool %d: %w", i, err)
		}
		w.strict = tool.Function.Strict
		if !describesObject(tool.Function.Parameters) {
			if w.strict {
				return 0, fmt.Errorf(`function %q: the type of its parameters is not "object"`,
					tool.Function.Name)
			}
			tool.Function.Parameters = nil
		}
		node, err := form.call(w, tool.Function.Name, tool.Function.Parameters)
		if err != nil {
			return 0, fmt.Errorf("function %q: %w", tool.Function.Name, err)
		}
		calls = append(calls, node)
	}
	call := b.Choice(calls...)
	more := b.Seq()
	if !o.One && form.between != "" && (form.block || !o.OneBlock) {
		more = b.Repeat(b.Seq(w.text(form.between), call), 0, regular.Unlimited)
	}
	before, after := form.before, form.after
	if !o.OneBlock {
		before, after = form.section+before, after+form.sectionEnd
	}
	return b.Seq(w.text(before), call, more, w.text(after)), nil
}

// callForm returns the form of the template's calls, nil if it has none, and the format's name.
func (t *Template) callForm() (*callForm, string) {
	switch {
	case t.channels != nil:
		return t.channels.form, t.channels.name
	case t.tools == nil:
		return nil, "unknown"
	}
	return t.tools.form, t.tools.name
}

// callWriter builds the parts of calls.
type callWriter struct {
	b      *grammar.Builder
	o      CallOptions
	tags   []string
	strict bool // of the current function
}

// TagMark stands before and after a tag that is one token, in a grammar and in a vocabulary for it.
// No text has this byte, so a tag in a text is never taken for the token.
const TagMark = "\xFF"

// text returns the node of a text whose tags are tokens where the model has such.
func (w *callWriter) text(text string) grammar.Node { return w.b.Text(w.mark(text)) }

// mark returns a text with a TagMark before and after each tag that is a token.
func (w *callWriter) mark(text string) string {
	var marked strings.Builder
	for text != "" {
		at, tag := len(text), ""
		for _, t := range w.tags {
			i := strings.Index(text, t)
			if t != "" && i >= 0 && (i < at || i == at && len(t) > len(tag)) && w.o.IsToken(t) {
				at, tag = i, t
			}
		}
		marked.WriteString(text[:at])
		if tag != "" {
			marked.WriteString(TagMark + tag + TagMark)
		}
		text = text[at+len(tag):]
	}
	return marked.String()
}

// object returns the node of the arguments in a notation, nil for JSON. A schema that cannot be
// enforced is an error if the function is strict; else they are any object.
func (w *callWriter) object(schema json.RawMessage, n *jsonschema.Notation) (grammar.Node, error) {
	if len(schema) == 0 || string(schema) == "null" {
		schema = json.RawMessage(anyObject)
	}
	o := jsonschema.Options{Strict: w.strict, ListedOnly: true, Notation: n}
	node, err := jsonschema.Build(w.b, asObject(schema), o)
	if err != nil && !w.strict {
		o = jsonschema.Options{Notation: n}
		return jsonschema.Build(w.b, json.RawMessage(anyObject), o)
	}
	return node, err
}

// describesObject reports whether the type of a function's parameters is an object, or not said.
func describesObject(schema json.RawMessage) bool {
	var s struct {
		Type *string `json:"type"`
	}
	return json.Unmarshal(schema, &s) != nil || s.Type == nil || *s.Type == "object"
}

// asObject adds the type to a schema without one: arguments are an object.
func asObject(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members["type"] != nil || members == nil {
		return schema
	}
	end := bytes.LastIndexByte(schema, '}')
	with := append(slices.Clone(schema[:end]), `,"type":"object"}`...)
	if len(members) == 0 {
		return json.RawMessage(anyObject)
	}
	return with
}

const anyObject = `{"type":"object"}`

// jsonCall returns the form of a call that is one text with the name and the arguments as JSON.
// Between them is middle.
func jsonCall(head, middle, tail string, quoted bool) callWriting {
	return func(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error) {
		arguments, err := w.object(parameters, nil)
		if err != nil {
			return 0, err
		}
		if quoted {
			name = jsonschema.Quote(name)
		}
		return w.b.Seq(w.text(head+name+middle), arguments, w.text(tail)), nil
	}
}

// notedCall returns the form of a call that is a name and arguments in a notation. isName reports
// whether the reader takes a name.
func notedCall(n *jsonschema.Notation, isName func(string) bool) callWriting {
	return func(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error) {
		if !isName(name) {
			return 0, errUnwritableName
		}
		arguments, err := w.object(parameters, n)
		if err != nil {
			return 0, err
		}
		return w.b.Seq(w.text(name), arguments), nil
	}
}

// argumentForm is how a format writes a call whose arguments have tags around them, in the order of
// the schema's properties.
type argumentForm struct {
	head, afterName     string // before and after the name of the function
	key, afterKey, next string // before a key, after it, and after its value
	tail                string // after the last value
	// tags are those that no value may have: the reader would take them for its end.
	tags []string
	// attributes: names are values of attributes.
	attributes bool
	// trimmed: the reader takes away line breaks around a value.
	trimmed bool
}

// takes reports whether a name can be written.
func (f *argumentForm) takes(name string) bool {
	return !strings.ContainsAny(name, "<>\n") &&
		!(f.attributes && (name == "" || strings.ContainsAny(name, " \t\r\"'=")))
}

func (f *argumentForm) call(w *callWriter, name string, parameters json.RawMessage) (grammar.Node,
	error) {
	if !f.takes(name) {
		return 0, errUnwritableName
	}
	if len(parameters) == 0 || string(parameters) == "null" {
		parameters = json.RawMessage(anyObject)
	}
	arguments, err := jsonschema.ReadArguments(w.b, parameters,
		jsonschema.Options{Strict: w.strict, ListedOnly: true}, w.values(f), w.wordNull())
	if err != nil {
		return 0, err
	}
	list, err := arguments.List()
	if err != nil {
		return 0, err
	}
	parts := []grammar.Node{w.text(f.head + name + f.afterName)}
	for _, p := range list {
		if !f.takes(p.Name) {
			return 0, &CallError{fmt.Sprintf("parameter %q cannot be written in this model's "+
				"tool calls", p.Name)}
		}
		value, err := arguments.Build(p)
		if err != nil && !w.strict {
			value, err = arguments.BuildLoosely(p)
		}
		if err != nil {
			return 0, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		part := w.b.Seq(w.text(f.key+p.Name+f.afterKey), value, w.text(f.next))
		if !p.Required {
			part = w.b.Optional(part)
		}
		parts = append(parts, part)
	}
	return w.b.Seq(append(parts, w.text(f.tail))...), nil
}

// wordNull returns the texts that schema.convert reads as null.
func (w *callWriter) wordNull() regular.Expr {
	var letters []regular.Expr
	for _, c := range []string{"nN", "uU", "lL", "lL"} {
		letters = append(letters, w.b.Space.Set(regular.Of(c)))
	}
	return w.b.Space.Concat(letters...)
}

// values returns the texts that a value may be.
func (w *callWriter) values(f *argumentForm) regular.Expr {
	space := w.b.Space
	character := space.Runes(regular.RuneRange{Lo: 0, Hi: 0x10FFFF})
	allowed := space.Repeat(character, 0, regular.Unlimited)
	for _, tag := range f.tags {
		allowed = space.And(allowed,
			space.Not(space.Concat(regular.All, space.Text(tag), regular.All)))
	}
	if f.trimmed {
		line := space.Text("\n")
		allowed = space.And(allowed, space.Not(space.Concat(line, regular.All)),
			space.Not(space.Concat(regular.All, line)))
	}
	return allowed
}
