package chat

// IDs of tool calls that tell the function. Kimi K2's templates write the ID of a call where its
// name belongs, and that of a result into its heading. The IDs of clients have no name in them.

import (
	"regexp"
	"slices"
	"strconv"

	"headroom/engine/chat/jinja"
)

// callIDMark is how Kimi K2's templates write the ID of a call. Those without it make an ID of the
// name and the place of the call in its message.
var callIDMark = regexp.MustCompile(`tool_call(\[['"]id['"]\]|\.id\b)`)

// nameIDs gives calls and their results the IDs that the model was trained on: functions.NAME:N. N
// counts the calls of the conversation, or of each message if perMessage is set. A result without
// a known ID gets that of the first call that has no result yet.
func nameIDs(messages *jinja.List, perMessage bool) {
	type call struct{ sent, id string }
	var open []call // the calls without results
	n := 0
	for _, m := range messages.Items {
		if perMessage {
			n = 0
		}
		for _, c := range toolCalls(m) {
			sent, _ := c.Get("id")
			name, _ := function(c).Get("name")
			text, _ := name.(string)
			id := "functions." + text + ":" + strconv.Itoa(n)
			c.Set("id", id)
			sentID, _ := sent.(string)
			open = append(open, call{sentID, id})
			n++
		}
		message, ok := m.(*jinja.Dict)
		if !ok || roleOf(message) != "tool" || len(open) == 0 {
			continue
		}
		sent, _ := message.Get("tool_call_id")
		at := max(0, slices.IndexFunc(open, func(c call) bool { return c.sent == sent }))
		message.Set("tool_call_id", open[at].id)
		open = slices.Delete(open, at, at+1)
	}
}
