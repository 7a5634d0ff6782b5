// Package chat is the text side of a conversation: messages to a prompt, and
// generated text to what the client sees.
//
//   - Template renders a model's own chat template (template.go, message.go),
//     with the interpreter of the subpackage jinja.
//   - Splitter separates reasoning from content as text arrives (splitter.go).
//   - Tools let the Splitter take tool calls out of the text: tools.go for what
//     holds of all, qwen3_coder.go and json_tools.go for the forms, arguments.go
//     and literal.go for values that become JSON.
//   - StopMatcher ends a text at a stop string (stop.go).
//
// Everything here is pure: strings in, strings out.
package chat
