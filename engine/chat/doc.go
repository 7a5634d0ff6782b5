// Package chat turns messages into a prompt, and generated text into the parts of
// an answer: content, reasoning and tool calls.
//
//   - Template renders a model's own chat template (template.go, message.go),
//     with the interpreter of the subpackage jinja.
//   - Splitter separates content, reasoning and tool calls as text arrives (splitter.go). For
//     models that write several messages with headers, channels.go does.
//   - The tables in reasoning.go, tools.go and channels.go have a row for each format, which a mark
//     in the template selects. A format of tool calls has a file, such as gemma4.go. Formats with
//     the same form share a reader: invoke.go, separated.go, json_list.go, argument_tags.go.
//   - history.go, callroles.go and functionids.go give replayed calls and results the form that a
//     template wants. FORMATS.md says which templates were checked.
//   - arguments.go, json_object.go and literal.go convert arguments to JSON.
//   - StopMatcher cuts a text at a stop string (stop.go).
//
// The package does no I/O.
package chat
