// Package jinja interprets the Jinja that chat templates are written in.
//
// A chat template comes with a downloaded model, so it is untrusted code that
// runs inside the server. This interpreter gives it the language and nothing
// else: no files, no imports, no reflection on Go values, no mutation of what
// it was given. Steps, output, nesting and recursion are bounded, and every
// failure is an *Error.
//
// The behaviour to match is that of Jinja2 3.1 in the environment of Hugging
// Face transformers (apply_chat_template): sandboxed and immutable, trim_blocks
// and lstrip_blocks on, loop controls, {% generation %} blocks, and the globals
// raise_exception and strftime_now. Dictionaries keep their insertion order, as
// Python's do, so one input always renders to the same bytes.
//
// The path of a template through the files: lexer.go (text to tokens, all
// white-space rules), parser.go and expression.go (tokens to the tree of
// ast.go), render.go and eval.go (the tree walk), value.go (what Python values
// become), and the library: filters.go, predicates.go (Jinja calls them tests),
// methods.go, globals.go, format.go, printf.go, json.go.
//
// Not supported, each refused by name when the template is parsed: include,
// import, from, extends, block, do, autoescape and trans. The safe filter
// returns its input: Jinja2's Markup type, which escapes what is added to it,
// has no place in a prompt.
package jinja
