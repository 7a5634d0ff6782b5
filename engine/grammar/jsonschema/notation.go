package jsonschema

// Values that are not written as JSON, for models whose tool calls look otherwise: Python literals,
// or keys without quotation marks. A notation changes what is written, never which values fit.

import (
	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// Notation is how values are written. Numbers are those of JSON in all notations.
type Notation struct {
	// Quotes are the quotation marks of strings, each of which a string may have around it. Its
	// characters have JSON's escapes, and so has the quotation mark around it.
	Quotes []string
	// Verbatim strings have no escapes. They do not contain Avoid.
	Verbatim bool
	Avoid    string // "": nothing is avoided
	// Null, False and True are the words for these values. Each may be written in several ways.
	Null, False, True []string
	// Tight leaves out the space after a comma and after the colon between a key and its value.
	Tight bool
	// Object is how objects are written, Outermost how the value itself is, which is an object.
	Object, Outermost Brackets
}

// Brackets are the marks of an object.
type Brackets struct {
	Open, Colon, Close string
	// Names is the pattern of keys, which stand without quotation marks. "": keys are strings.
	Names string
}

// jsonNotation is the notation without Options.Notation.
var jsonNotation = Notation{Quotes: []string{`"`}, Null: []string{"null"},
	False: []string{"false"}, True: []string{"true"}, Object: Brackets{"{", ": ", "}", ""}}

// rawNotation has strings as they are.
var rawNotation = Notation{Quotes: []string{""}, Verbatim: true}

// brackets are the marks of an object in a grammar.
type brackets struct {
	open, shut grammar.Node
	afterKey   regular.Expr
	bare       bool         // keys have no quotation marks
	names      regular.Expr // what keys may be
	keys       map[string]grammar.Node
}

// brackets returns the marks of objects. blank is what may stand between the parts of JSON.
func (c *compiler) brackets(o Brackets, colon, blank regular.Expr) *brackets {
	s, b := c.space, c.b
	in := &brackets{afterKey: colon, names: regular.All, bare: o.Names != "",
		keys: map[string]grammar.Node{},
		open: b.Terminal(s.Concat(s.Text(o.Open), blank)),
		shut: b.Terminal(s.Concat(blank, s.Text(o.Close)))}
	if !in.bare {
		return in
	}
	pattern, err := regular.ParsePattern(o.Names)
	if err == nil {
		in.names, err = pattern.Whole(s, func(set []regular.RuneRange) regular.Expr {
			return s.Runes(set...)
		})
	}
	if err != nil {
		panic(err) // a fault of the notation
	}
	return in
}

// outermostNode returns the node of the objects of a formula, in the brackets that the notation has
// for the value itself.
func (c *compiler) outermostNode(f formula) grammar.Node {
	var parts []grammar.Node
	for _, o := range c.set(f).objects {
		parts = append(parts, c.objectNodes(o, c.outermost)...)
	}
	if len(parts) == 0 {
		invalid(c.root, "it allows no object")
	}
	return c.b.Choice(parts...)
}

// way is one of the ways to write strings.
type way struct {
	verbatim     bool
	quote        string // the quotation mark, if it is in expressions
	anyCharacter regular.Expr
	formats      map[string]regular.Expr
	sets         map[string]regular.Expr // characters of sets, by their ranges
	escapes      []escape                // the characters that have one
}

// escape is a character that is not spelled as itself.
type escape struct {
	character rune
	expr      regular.Expr
}

func newWay(s *regular.Space, n *Notation, quote string) *way {
	w := &way{verbatim: n.Verbatim, formats: map[string]regular.Expr{},
		sets: map[string]regular.Expr{}}
	if len(n.Quotes) > 1 {
		w.quote = quote
	}
	for c := rune(0); c <= '\\' && !w.verbatim; c++ {
		if spelled := w.spelling(c); len(spelled) > 1 {
			w.escapes = append(w.escapes, escape{c, s.Text(spelled)})
		}
	}
	w.anyCharacter = w.characters(s, []regular.RuneRange{{Lo: 0, Hi: 0x10FFFF}})
	return w
}

// spelling returns how a character is written in a string.
func (w *way) spelling(r rune) string {
	switch {
	case w.verbatim || w.quote == "'" && r == '"':
		return string(r)
	case w.quote == "'" && r == '\'':
		return `\'`
	}
	return spelling(r)
}

// content returns the text of a string, without quotation marks.
func (w *way) content(s string) string {
	if w.verbatim {
		return s
	}
	var b []byte
	for _, r := range s {
		b = append(b, w.spelling(r)...)
	}
	return string(b)
}

// characters returns the expression of the spelling of one character of a set.
func (w *way) characters(s *regular.Space, set []regular.RuneRange) regular.Expr {
	if w.verbatim {
		return s.Runes(set...)
	}
	var raw []regular.RuneRange
	var escaped []regular.Expr
	for _, r := range set {
		for _, e := range w.escapes {
			if e.character < r.Lo || e.character > r.Hi {
				continue
			}
			escaped = append(escaped, e.expr)
			raw = append(raw, regular.RuneRange{Lo: r.Lo, Hi: e.character - 1})
			r.Lo = e.character + 1
		}
		raw = append(raw, r)
	}
	return s.Or(append(escaped, s.Runes(raw...))...)
}
