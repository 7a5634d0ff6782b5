// Package chat turns messages into a prompt, and generated text into the parts of
// an answer: content, reasoning and tool calls.
//
//   - Template renders a model's own chat template (template.go, message.go),
//     with the interpreter of the subpackage jinja.
//   - Splitter separates reasoning from content as text arrives (splitter.go).
//   - With Tools, the Splitter also parses tool calls. tools.go has the part that all formats
//     share, qwen3_coder.go and json_tools.go have one format each, and arguments.go and literal.go
//     convert arguments to JSON.
//   - StopMatcher cuts a text at a stop string (stop.go).
//
// The package does no I/O.
package chat
