package chat

// Arguments that models write as JSON. An object shows by itself where it ends, so a call is
// complete with its last brace, and one that is cut off never is.

import (
	"bytes"
	"encoding/json"
	"strings"
)

// objectSpan finds a JSON object in a text that grows, with a cursor. With python set, it finds the
// arguments of a call in Python: parentheses, in which strings may have single quotes.
type objectSpan struct {
	python    bool
	from, end int  // text[from:end] is the object, once read returns isCall
	begun     bool // from is known
	complete  bool // end is known
	broken    bool // there is a < outside of strings, which JSON does not have
	depth     int
	quote     byte // of the string around the cursor; 0: none
	escaped   bool
}

// read looks for an object at the cursor, after white space. It returns isText if there is none or
// if it cannot be one, and isCall when the object has ended. The cursor is then after the object,
// and stays where the caller moves it. Brackets in strings do not count. The object may still be
// invalid.
func (o *objectSpan) read(c *cursor, text string) verdict {
	if o.complete {
		return isCall
	}
	if !o.begun {
		if !c.spaces(text) {
			return undecided
		}
		if text[c.at] != '{' && !(o.python && text[c.at] == '(') {
			return isText
		}
		o.from, o.begun = c.at, true
	}
	at := c.at
	for ; at < len(text) && !o.complete && !o.broken; at++ {
		o.next(text[at])
	}
	c.work += at - c.at
	switch c.moveTo(at); {
	case o.broken:
		c.moveTo(at - 1) // a tag may begin here
		return isText
	case !o.complete:
		return undecided
	}
	o.end = at
	return isCall
}

// next reads the next byte of the object.
func (o *objectSpan) next(c byte) {
	switch {
	case o.escaped:
		o.escaped = false
	case o.quote != 0:
		o.escaped = c == '\\'
		if c == o.quote {
			o.quote = 0
		}
	case c == '"' || c == '\'' && o.python:
		o.quote = c
	case c == '<' && !o.python:
		o.broken = true
	case c == '{' || c == '[' || c == '(' && o.python:
		o.depth++
	case c == '}' || c == ']' || c == ')' && o.python:
		o.depth--
		o.complete = o.depth == 0
	}
}

// readJSONCall parses the object of a call, such as {"name": NAME, "arguments": {...}}. Llama's key
// for the arguments is parameters, and Command's keys are tool_name and parameters.
func readJSONCall(text string, schemas map[string]schema) (ToolCall, bool) {
	var wire struct {
		Name       string          `json:"name"`
		ToolName   string          `json:"tool_name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	body, ok := lenientJSON(text)
	if !ok || json.Unmarshal([]byte(body), &wire) != nil {
		return ToolCall{}, false
	}
	if wire.Name == "" {
		wire.Name = wire.ToolName
	}
	if isNull(wire.Arguments) {
		wire.Arguments = wire.Parameters
	}
	return callWithArguments(wire.Name, wire.Arguments, schemas)
}

// callWithArguments returns a call with arguments in valid JSON. Missing arguments become {}, and a
// string with an object becomes that object.
func callWithArguments(name string, arguments json.RawMessage, schemas map[string]schema) (ToolCall,
	bool) {
	if isNull(arguments) {
		return ToolCall{Name: name, Arguments: "{}"}, name != ""
	}
	var quoted string
	if json.Unmarshal(arguments, &quoted) == nil {
		arguments = json.RawMessage(quoted)
	}
	return callWithJSON(name, string(arguments), schemas)
}

// callWithJSON returns a call whose arguments are a JSON object, with the declared types. It
// returns false if they are not an object.
func callWithJSON(name, arguments string, schemas map[string]schema) (ToolCall, bool) {
	body, ok := lenientJSON(arguments)
	if !ok || name == "" || body[0] != '{' {
		return ToolCall{}, false
	}
	return ToolCall{Name: name, Arguments: coerce(body, schemas[name])}, true
}

// coerce converts the members of a JSON object to the types that the tool's schema declares, where
// that loses nothing: "3" becomes 3 for an integer, and 3 becomes "3" for a string. If no member
// changes, the object is returned as it is.
func coerce(arguments string, types schema) string {
	if len(types.nodes) == 0 {
		return arguments
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	if _, err := d.Token(); err != nil {
		return arguments
	}
	var out object
	changed := false
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return arguments
		}
		typed := coerceValue(string(value), types.inner(name))
		changed = changed || typed != string(value)
		out.set(name, typed)
	}
	if !changed {
		return arguments
	}
	return out.String()
}

// coerceValue converts one JSON value to a type.
func coerceValue(value string, is schema) string {
	var text string
	switch quoted := value[0] == '"'; {
	case is.allows("string"):
		if isScalar := !quoted && value[0] != '{' && value[0] != '[' && value != "null"; isScalar &&
			is.all(isTextOrNested) {
			return quote(value)
		}
	case is.allows(untyped):
	case quoted && json.Unmarshal([]byte(value), &text) == nil:
		if typed := is.convert(text); typed[0] != '"' && typed != "null" &&
			!(typed == "false" && !isBoolean(text)) {
			return typed
		}
	}
	return value
}

func isTextOrNested(kind string) bool {
	return kind == "string" || isObjectKind(kind) || isArrayKind(kind)
}

// lenientJSON returns JSON text without white space between tokens. It accepts raw control
// characters inside strings, because models write line breaks instead of \n.
func lenientJSON(text string) (string, bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var repaired strings.Builder
	inString, escaped := false, false
	for i := range len(text) {
		c := text[i]
		if inString && c < ' ' {
			if escaped { // a backslash before a control character is not an escape
				return "", false
			}
			repaired.WriteString(`\u00` + string("0123456789abcdef"[c>>4]) +
				string("0123456789abcdef"[c&15]))
			continue
		}
		if c == '"' && !escaped {
			inString = !inString
		}
		escaped = inString && c == '\\' && !escaped
		repaired.WriteByte(c)
	}
	var out bytes.Buffer
	if json.Compact(&out, []byte(repaired.String())) != nil || out.Len() == 0 {
		return "", false
	}
	return out.String(), true
}

// quote returns text as a JSON string. It does not escape < and &.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(text, "\uFFFD")) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// object is a JSON object that keeps the order in which keys were first set. A
// repeated key has its last value.
type object struct {
	keys   []string
	values map[string]string // JSON
}

func (o *object) set(key, value string) {
	if o.values == nil {
		o.values = map[string]string{}
	}
	if _, has := o.values[key]; !has {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) String() string {
	var b strings.Builder
	for i, key := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(key) + ": " + o.values[key])
	}
	return "{" + b.String() + "}"
}
