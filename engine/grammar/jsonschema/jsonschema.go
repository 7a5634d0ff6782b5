// Package jsonschema turns a JSON Schema into a grammar of the JSON texts that are valid.
//
// The schemas are those of draft 2020-12, with the older spellings of drafts 4 to 2019-09 and
// OpenAPI's nullable. What cannot be enforced is an error that names the keyword and its place:
// every text of the grammar is valid, and every valid value has a text, but for Options.ListedOnly.
//
// A schema is first read as a set of values (set.go): what it allows of each type. Sets have
// intersections, unions and mostly complements, so allOf, anyOf, oneOf, not and if are exact. A
// string or number is a regular expression. Arrays and objects are lists of shapes, any of which
// may fit. What a shape says about its elements are formulas (formula.go): conjunctions of schemas
// and of negated ones, which become sets only when they are needed. So recursive schemas end.
//
//	value.go      JSON values
//	document.go   the schemas of a document, $id, $anchor and $ref
//	formula.go    conjunctions of schemas
//	keywords.go   from a schema to a set
//	set.go        sets of values: and, or, not
//	numbers.go, strings.go, formats.go, arrays.go, objects.go  the parts of sets
//	emit.go       from sets to a grammar
//	notation.go   values that are not written as JSON
//	arguments.go  schemas of functions whose calls have tags
//
// The work is counted, so that a hostile schema ends in an error and not in a long wait.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// Options of Build. The zero value is that of structured output.
type Options struct {
	// FlexibleWhitespace allows white space where JSON does, up to 40 characters at a place.
	// Without it a text has one space after each comma and colon and no other.
	FlexibleWhitespace bool
	// AnnotateFormats makes format an annotation, as it is by default in draft 2020-12. Without it
	// the known formats are enforced.
	AnnotateFormats bool
	// ListedOnly leaves out members of objects that no schema mentions. Where a schema lists
	// properties, its additionalProperties must allow others explicitly.
	ListedOnly bool
	// Strict refuses formats that are not known, instead of taking them as annotations.
	Strict bool
	// Notation is how the value is written, which must be an object. nil: JSON.
	Notation *Notation
}

// Unsupported is the error of a schema that may be valid but cannot be enforced.
type Unsupported struct {
	Path    string // JSON pointer of the schema
	Keyword string
	Reason  string
}

func (e *Unsupported) Error() string {
	return fmt.Sprintf("the schema at %q: %q cannot be enforced: %s", "#"+e.Path, e.Keyword,
		e.Reason)
}

// Invalid is the error of a schema that breaks the rules of JSON Schema, or the limits.
type Invalid struct {
	Path   string
	Reason string
}

func (e *Invalid) Error() string {
	return fmt.Sprintf("the schema at %q is not valid: %s", "#"+e.Path, e.Reason)
}

// Build adds the grammar of a schema to a Builder and returns its node. The error is *Unsupported
// or *Invalid.
func Build(b *grammar.Builder, schema json.RawMessage, o Options) (n grammar.Node, err error) {
	defer stop(&err)
	root, err := read(b, schema)
	if err != nil {
		return 0, err
	}
	c := newCompiler(b, root, o)
	if f := c.possible(root); o.Notation == nil {
		n = c.node(f)
	} else {
		n = c.outermostNode(f)
	}
	c.define()
	return n, nil
}

// read parses a schema.
func read(b *grammar.Builder, schema json.RawMessage) (*value, error) {
	b.Steps += len(schema) / bytesPerStep
	return parse(schema)
}

// possible returns the formula of a schema with values.
func (c *compiler) possible(schema *value) formula {
	f := c.schema(schema)
	if c.isEmpty(f) {
		invalid(schema, "no value is valid")
	}
	return f
}

// stop recovers from a panic that the compiler has stopped with. It must be deferred.
func stop(err *error) {
	if r := recover(); r != nil {
		s, ok := r.(stopped)
		if !ok {
			panic(r)
		}
		*err = s.err
	}
}

// stopped is a panic of the compiler, which Build returns.
type stopped struct{ err error }

func unsupported(at *value, keyword, reason string) {
	panic(stopped{&Unsupported{Path: at.path(), Keyword: keyword, Reason: reason}})
}

func invalid(at *value, reason string) {
	panic(stopped{&Invalid{Path: at.path(), Reason: reason}})
}

// Steps of about a microsecond are counted.
const (
	// maxWork bounds the steps of a Build. The largest schema of JSONSchemaBench needs 67,000.
	maxWork = 70_000
	// maxSteps bounds those of all schemas of a grammar, such as the functions of a request.
	maxSteps = 150_000
	// bytesPerStep is how many bytes of a schema are read in a step.
	bytesPerStep = 16
	// partsPerStep is how many parts of expressions are joined in a step, and newPartsPerStep how
	// many of characters are made in one.
	partsPerStep    = 16
	newPartsPerStep = 4
)

// spend counts steps.
func (c *compiler) spend(n int) {
	c.work += n
	c.b.Steps += n
	work := c.work + (c.space.Work()-c.began)/partsPerStep
	if work > maxWork || c.b.Steps > maxSteps || c.space.Full() {
		panic(stopped{&Invalid{Path: c.at.path(), Reason: "it is too complex"}})
	}
}

// check stops the compiler if an expression was too complex to be decided.
func (c *compiler) check(err error) {
	if errors.Is(err, regular.ErrTooComplex) {
		panic(stopped{&Invalid{Path: c.at.path(), Reason: "its patterns are too complex"}})
	}
}

// compiler is the state of a Build.
type compiler struct {
	b     *grammar.Builder
	space *regular.Space
	o     Options
	work  int
	began int    // the Work of space when the compiler was made
	at    *value // the schema that is being read, for errors
	// allowed are the strings that values may have, besides what the schema says.
	allowed regular.Expr

	document
	formulas
	texts
	numerals
	emitter
}

// newCompiler returns a compiler of the schemas in root.
func newCompiler(b *grammar.Builder, root *value, o Options) *compiler {
	n := o.Notation
	if n == nil {
		n = &jsonNotation
	}
	c := &compiler{b: b, space: b.Space, o: o, allowed: regular.All,
		began: b.Space.Work()}
	if n.Avoid != "" {
		c.allowed = c.space.Not(c.space.Concat(regular.All, c.space.Text(n.Avoid), regular.All))
	}
	c.formulas = newFormulas()
	c.texts = newTexts(b.Space, n)
	c.numerals = newNumerals(b.Space)
	c.emitter = newEmitter(c, n)
	c.openDocument(root)
	return c
}
