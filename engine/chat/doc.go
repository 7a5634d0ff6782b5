// Package chat is the text side of a conversation: messages to a prompt, and
// generated text to what the client sees.
//
//   - Template renders a model's own chat template (template.go, message.go),
//     with the interpreter of the subpackage jinja.
//   - Splitter separates reasoning from content as text arrives (splitter.go).
//   - StopMatcher ends a text at a stop string (stop.go).
//
// Everything here is pure: strings in, strings out.
package chat
