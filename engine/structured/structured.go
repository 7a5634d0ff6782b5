// Package structured constrains answers to a form: JSON of a schema, a regular expression, one of
// several texts, or a grammar. Clients call it structured output.
//
// An Output says what a request demands. A Compiler makes its grammar (engine/grammar) and keeps
// those that were used last. An Answer follows one answer: before each token it says which tokens
// may come, or which must.
//
// Reasoning is free: the form begins with the content of the answer.
package structured

import (
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headroom/engine/grammar"
	"headroom/engine/grammar/gbnf"
	"headroom/engine/grammar/jsonschema"
	"headroom/engine/grammar/regular"
	"headroom/engine/problem"
)

// Kind is a kind of form.
type Kind string

// The kinds of forms.
const (
	JSONSchema Kind = "json_schema" // Source is a JSON Schema
	JSONObject Kind = "json_object" // any JSON object
	Regex      Kind = "regex"       // Source is a regular expression, as in JavaScript
	Choice     Kind = "choice"      // Source is a JSON list of texts
	Grammar    Kind = "grammar"     // Source is a grammar in GBNF
	Calls      Kind = "calls"       // calls of Tools, in the way of the model
	Free       Kind = ""            // any text
)

// OfContent reports whether it is a form of content.
func (k Kind) OfContent() bool { return k != Free && k != Calls }

// Output is the form that a request demands of its answer.
type Output struct {
	Kind   Kind
	Source string
	// Strict refuses what a JSON Schema may leave to the model, such as formats of strings that
	// nobody knows.
	Strict bool
	// Tools are the functions of Calls, as in the request. OneCall allows one call, else there may
	// be more.
	Tools   []json.RawMessage
	OneCall bool
	// OneBlock allows the calls of one block, which are several where a format has blocks of calls.
	OneBlock bool
	// Whitespace allows white space between the parts of JSON. Without it, JSON has one fixed
	// form.
	Whitespace bool
	Before     Before // what may come before the content; set by engine/generate
	// Begun is the beginning of the content, which the prompt has. Nothing can come before it.
	Begun string
	// Calls is the form of one of the calls that may come in place of content, or in it if that is
	// free; nil: any. Each begins with a tag of Before.Calls.
	Calls *Output
}

// Before says what may come before the content of an answer. The zero value: nothing.
type Before struct {
	// Inside: the prompt ends inside of reasoning, or the content needs a header.
	Inside bool
	// Open begins reasoning if the answer begins with it, "" if there is none.
	Open string
	// Close are the tags after which the content begins, each of which comes after the one before.
	Close []string
	// Calls begin tool calls, which may come in place of content.
	Calls []string
	// Watch says that calls begin where a CallWatch says, in place of Calls. Prompt is what it
	// needs of the prompt.
	Watch  bool
	Prompt string
}

// Limits of an Output. A JSON Schema has those of package jsonschema, too.
const (
	maxSchemaBytes = 1 << 20
	maxSourceBytes = 128 << 10 // of any other source
	maxChoices     = 10_000
)

// CallForm adds the calls of an Output to a grammar, as a model writes them.
type CallForm func(*grammar.Builder, *Output) (grammar.Node, error)

// CallWatch follows the text of an answer. If a call has begun, Add returns the beginning of the
// call as its form writes it.
type CallWatch interface {
	Add(text string) (begun string, ok bool)
}

// builders has the function for each kind that adds its form to a grammar, but for Calls.
var builders = map[Kind]func(*grammar.Builder, *Output) (grammar.Node, error){
	JSONSchema: func(b *grammar.Builder, o *Output) (grammar.Node, error) {
		return jsonschema.Build(b, json.RawMessage(o.Source), jsonschema.Options{
			FlexibleWhitespace: o.Whitespace, Strict: o.Strict, ListedOnly: true})
	},
	JSONObject: func(b *grammar.Builder, o *Output) (grammar.Node, error) {
		return jsonschema.Build(b, json.RawMessage(`{"type":"object"}`), jsonschema.Options{
			FlexibleWhitespace: o.Whitespace})
	},
	Regex:  buildRegex,
	Choice: buildChoice,
	Grammar: func(b *grammar.Builder, o *Output) (grammar.Node, error) {
		return gbnf.Build(b, o.Source)
	},
}

// compiling bounds how many forms are compiled at once. A hostile one takes 2 s and 200 MB until it
// is refused.
var compiling = slots{taken: make(chan struct{}, maxCompiling), patience: compileWait}

const (
	maxCompiling = 2
	compileWait  = 10 * time.Second
)

type slots struct {
	taken    chan struct{}
	patience time.Duration
}

// take takes a slot, and waits for it. The error is a Problem with the code Overloaded.
func (s *slots) take() error {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-timer.C:
		return problem.New(problem.Overloaded, "Too many answers of a given form begin at once", "",
			"Try again.")
	}
}

func (s *slots) give() { <-s.taken }

// IsOverloaded reports whether an error of Compile or NewAnswer says nothing about the form: others
// were compiled meanwhile.
func IsOverloaded(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == problem.Overloaded
}

// Compile returns the grammar of a form. calls is that of the model; nil: it has no calls. Errors
// are Problems that begin with what is wrong, or for which IsOverloaded holds.
func (o *Output) Compile(calls CallForm) (*grammar.Grammar, error) {
	if err := compiling.take(); err != nil {
		return nil, err
	}
	defer compiling.give()
	most := maxSourceBytes
	if o.Kind == JSONSchema {
		most = maxSchemaBytes
	}
	if len(o.Source) > most {
		return nil, refused("it has %d bytes, at most %d are allowed", len(o.Source), most)
	}
	build := builders[o.Kind]
	if o.Kind == Calls {
		build = calls
	}
	if build == nil {
		return nil, refused("the kind %q is not known", o.Kind)
	}
	b := grammar.NewBuilder()
	start, err := build(b, o)
	if err != nil {
		return nil, because(err)
	}
	if o.Before.Inside || o.Before.Open != "" {
		// Models write line breaks after their reasoning.
		breaks := b.Space.Repeat(b.Space.Text("\n"), 0, 2)
		start = b.Seq(b.Terminal(breaks), start)
	}
	g, err := b.Compile(start)
	switch {
	case errors.Is(err, grammar.ErrNothing):
		return nil, refused("no answer can have this form")
	case err != nil:
		return nil, refused("%v", err)
	}
	return g, nil
}

// because returns a refusal in the words of err.
func because(err error) error {
	p := problem.New(problem.BadRequest, err.Error(), "", "")
	p.Err = err
	return p
}

func refused(format string, args ...any) error {
	return problem.New(problem.BadRequest, fmt.Sprintf(format, args...), "", "")
}

func buildChoice(b *grammar.Builder, o *Output) (grammar.Node, error) {
	var texts []string
	if err := json.Unmarshal([]byte(o.Source), &texts); err != nil {
		return 0, fmt.Errorf("expected a list of texts: %w", err)
	}
	if len(texts) == 0 || len(texts) > maxChoices {
		return 0, fmt.Errorf("expected 1 to %d texts, got %d", maxChoices, len(texts))
	}
	parts := make([]grammar.Node, len(texts))
	for i, text := range texts {
		if text == "" {
			return 0, fmt.Errorf("text %d is empty", i)
		}
		parts[i] = b.Text(text)
	}
	return b.Choice(parts...), nil
}

// buildRegex adds a regular expression, which the whole answer must match.
func buildRegex(b *grammar.Builder, o *Output) (grammar.Node, error) {
	p, err := regular.ParsePattern(o.Source)
	if err != nil {
		return 0, err
	}
	character := func(set []regular.RuneRange) regular.Expr { return b.Space.Runes(set...) }
	e, err := p.Whole(b.Space, character)
	if err != nil {
		return 0, err
	}
	return b.Terminal(e), nil
}

// A Compiler keeps up to maxKept grammars, and not more than maxKeptBytes of them but for the last
// one. Those of answers in progress stay until the answers end.
const (
	maxKept      = 64
	maxKeptBytes = 256 << 20
)

// Compiler makes the grammars for a model, and keeps those that were used last, with all their
// states. It may be used from any goroutine.
type Compiler struct {
	vocabulary func() *grammar.Vocabulary
	calls      CallForm
	special    func(tag string) (token int32, ok bool)
	watch      func(*Output) CallWatch // for Outputs with Before.Watch
	most       int                     // bytes of kept grammars

	mu   sync.Mutex
	used list.List // of *kept, the last used first
	byID map[string]*list.Element
}

type kept struct {
	id   string
	once sync.Once
	g    atomic.Pointer[grammar.Grammar] // nil: not compiled yet, or refused
	err  error
}

// NewCompiler returns a Compiler for a vocabulary, which is made when it is first needed, and for
// the calls of a model. special returns the token of a tag, if it is one token, and watch the
// CallWatch of an answer; nil: calls begin with tags.
func NewCompiler(vocabulary func() *grammar.Vocabulary, calls CallForm,
	special func(tag string) (token int32, ok bool), watch func(*Output) CallWatch) *Compiler {
	return &Compiler{vocabulary: sync.OnceValue(vocabulary), calls: calls, special: special,
		watch: watch, most: maxKeptBytes, byID: map[string]*list.Element{}}
}

// NewAnswer returns the state at the beginning of an answer. Errors are Problems.
func (c *Compiler) NewAnswer(o *Output) (*Answer, error) {
	a := &Answer{open: -1, close: o.Before.Close}
	if o.Kind != Free {
		g, err := c.grammar(o)
		if err != nil {
			return nil, err
		}
		a.matcher = g.NewMatcher()
	}
	if o.Calls != nil {
		g, err := c.grammar(o.Calls)
		if err != nil {
			return nil, err
		}
		a.call = g
		if o.Before.Watch {
			a.watch = c.watch(o)
		}
	}
	return a, c.begin(a, o)
}

// grammar returns the grammar of a form.
func (c *Compiler) grammar(o *Output) (*grammar.Grammar, error) {
	k := c.kept(fmt.Sprintf("%q %t %t %t %t %t %t %q %q", o.Kind, o.Strict, o.Whitespace,
		o.Before.Inside, o.Before.Open != "", o.OneCall, o.OneBlock, o.Source,
		o.Tools))
	k.once.Do(func() {
		g, err := o.Compile(c.calls)
		if k.err = err; err == nil {
			g.SetVocabulary(c.vocabulary())
			k.g.Store(g)
		}
	})
	if IsOverloaded(k.err) {
		c.forget(k)
	}
	return k.g.Load(), k.err
}

func (c *Compiler) kept(id string) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		c.used.MoveToFront(e)
		return e.Value.(*kept)
	}
	for c.used.Len() >= maxKept || c.used.Len() > 0 && c.bytes() > c.most {
		last := c.used.Back()
		delete(c.byID, c.used.Remove(last).(*kept).id)
	}
	k := &kept{id: id}
	c.byID[id] = c.used.PushFront(k)
	return k
}

// forget removes k, so that its form is compiled again.
func (c *Compiler) forget(k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[k.id]; ok && e.Value.(*kept) == k {
		c.used.Remove(e)
		delete(c.byID, k.id)
	}
}

// bytes returns about how much memory the kept grammars take.
func (c *Compiler) bytes() (n int) {
	for e := c.used.Front(); e != nil; e = e.Next() {
		if g := e.Value.(*kept).g.Load(); g != nil {
			n += g.Bytes()
		}
	}
	return n
}

// tags returns the tokens of tags. A tag that is not one token is an error.
func (c *Compiler) tags(tags []string) (tokens []int32, err error) {
	for _, tag := range tags {
		token, ok := c.special(strings.TrimSpace(tag))
		if !ok {
			return nil, refused("this model's %q is no token of its own, so an answer of a given "+
				"form cannot begin with it", tag)
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
