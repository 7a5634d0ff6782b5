package jsonschema

// Arguments of tool calls that are written between tags. A string stands there without quotation
// marks and escapes, and every other value as JSON.

import (
	"encoding/json"
	"strconv"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// Arguments builds the values of a function's arguments.
type Arguments struct {
	b       *grammar.Builder
	o       Options
	allowed regular.Expr
	isNull  regular.Expr
	root    *value
	// raw reads strings without quotation marks, quoted all other values. They know what they have
	// read for other arguments; nil: not begun.
	raw, quoted *compiler
}

// Argument is a property of a function's schema.
type Argument struct {
	Name     string
	Required bool
	schema   *value
}

// ReadArguments reads the schema of a function. All strings in values are among allowed. A text of
// isNull is read as null, unless the schema lists it. The error is *Unsupported or *Invalid.
func ReadArguments(b *grammar.Builder, schema json.RawMessage, o Options,
	allowed, isNull regular.Expr) (*Arguments, error) {
	root, err := read(b, schema)
	if err != nil {
		return nil, err
	}
	if properties := root.get("properties"); root.kind != object ||
		properties != nil && properties.kind != object && properties.kind != null {
		return nil, &Invalid{Reason: "the parameters of a function are an object with properties"}
	}
	return &Arguments{b: b, o: o, allowed: allowed, isNull: isNull, root: root}, nil
}

// apart are the keywords of a function's schema that say something about one argument alone.
var apart = words("type properties required additionalProperties unevaluatedProperties")

// List returns the arguments in their order. With Options.Strict, a keyword that is about several
// arguments is an error: each is written for itself.
func (a *Arguments) List() (list []Argument, err error) {
	defer stop(&err)
	required := map[string]bool{}
	if names := a.root.get("required"); names != nil {
		for _, name := range names.items {
			required[name.text] = true
		}
	}
	if properties := a.root.get("properties"); properties != nil {
		for _, m := range properties.members {
			list = append(list, Argument{m.key, required[m.key], m.value})
			delete(required, m.key)
		}
	}
	if !a.o.Strict {
		return list, nil
	}
	for _, m := range a.root.members {
		if keywords[m.key] != annotation && !apart[m.key] {
			unsupported(a.root, m.key, "this model writes each argument of a call for itself")
		}
	}
	for name := range required {
		unsupported(a.root, "required", strconv.Quote(name)+" is not among properties")
	}
	return list, nil
}

// Build adds the values of an argument to the grammar. The error is *Unsupported or *Invalid.
func (a *Arguments) Build(argument Argument) (n grammar.Node, err error) {
	defer func() {
		if err != nil {
			a.raw, a.quoted = nil, nil // they may have stopped in the middle
		}
	}()
	defer stop(&err)
	if a.raw == nil {
		raw := a.o
		raw.Notation = &rawNotation
		a.raw = newCompiler(a.b, a.root, raw)
		a.quoted = newCompiler(a.b, a.root, a.o)
		a.quoted.allowed = a.allowed
	}
	r, q := a.raw, a.quoted
	s := r.set(r.possible(argument.schema))
	text := r.space.And(s.text, a.allowed)
	if !s.null && s.values == nil {
		text = r.space.And(text, r.space.Not(a.isNull))
	}
	none, err := r.space.IsNone(text)
	r.check(err)
	others := *q.set(q.schema(argument.schema))
	others.text = regular.None
	var parts []grammar.Node
	if !none {
		parts = append(parts, a.b.Terminal(text))
	}
	if !others.isNothing() {
		parts = append(parts, q.choices(&others))
		q.define()
	}
	if len(parts) == 0 {
		invalid(argument.schema, "no value can be written in this model's tool calls")
	}
	return a.b.Choice(parts...), nil
}

// BuildLoosely is Build for an argument whose schema cannot be enforced, but for its type.
func (a *Arguments) BuildLoosely(argument Argument) (grammar.Node, error) {
	root := &value{kind: object}
	if t := argument.schema.get("type"); t != nil {
		root.members = []member{{key: "type", value: t}}
	}
	loose := &Arguments{b: a.b, o: a.o, allowed: a.allowed, isNull: a.isNull, root: root}
	return loose.Build(Argument{schema: root})
}
