// Package jinja interprets the Jinja that chat templates are written in.
//
// A chat template comes with a downloaded model, so it is untrusted code that runs inside the
// server. This interpreter offers only the language itself: no files, no imports, no reflection on
// Go values, no mutation of its input. Work, memory, nesting and recursion are bounded
// (budget.go), rendering stops with its context, and every failure is an *Error.
//
// It behaves like Jinja2 3.1 in the environment of Hugging Face transformers (apply_chat_template):
// sandboxed and immutable, trim_blocks and lstrip_blocks on, loop controls, {% generation %}
// blocks, and the globals raise_exception and strftime_now. Dictionaries keep their insertion
// order, as in Python, so the same input always renders to the same bytes.
//
// The stages and their files are: lexer.go (text to tokens, all white-space rules), parser.go and
// expression.go (tokens to the tree of ast.go), render.go and eval.go (the tree walk), call.go
// (calls), value.go and number.go (Python's values and arithmetic). The library is in filters.go,
// sequences.go, predicates.go (Jinja calls them tests), methods.go, globals.go, format.go,
// printf.go and json.go.
//
// The statements include, import, from, extends, block, do, autoescape and trans are not supported.
// Parse returns an error that names them. The safe filter returns its input, because a prompt needs
// no Markup type.
package jinja
