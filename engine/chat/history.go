package chat

// Tool calls in the history of a conversation. A client must be able to replay whatever a model
// wrote, so what a template would refuse takes a form here that it accepts. The form depends only
// on the call: the prompt stays the same as the conversation grows.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/engine/chat/jinja"
)

// decodeToolCalls decodes the arguments of each call, which OpenAI sends as JSON text. Arguments
// that are not valid JSON stay text: the model may have been cut off while it wrote them.
func decodeToolCalls(raw json.RawMessage) (any, error) {
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	calls, ok := v.(*jinja.List)
	if !ok {
		return nil, fmt.Errorf("must be a list")
	}
	for _, c := range calls.Items {
		call, ok := c.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("every tool call must be an object")
		}
		setFunction(call)
		if _, ok := call.Get("function"); ok && function(call) == call {
			return nil, fmt.Errorf("function must be an object")
		}
		call = function(call)
		arguments, _ := call.Get("arguments")
		s, ok := arguments.(string)
		if !ok {
			continue
		}
		if strings.TrimSpace(s) == "" {
			s = "{}" // a call without arguments
		}
		if decoded, err := jinja.FromJSON([]byte(s)); err == nil {
			call.Set("arguments", decoded)
		}
	}
	return calls, nil
}

// setFunction makes a call of a function of a call of a custom tool, whose argument is one text.
func setFunction(call *jinja.Dict) {
	v, _ := call.Get("custom")
	custom, ok := v.(*jinja.Dict)
	if _, has := call.Get("function"); !ok || has {
		return
	}
	name, _ := custom.Get("name")
	arguments := jinja.NewDict()
	if input, ok := custom.Get("input"); ok {
		arguments.Set("input", input)
	}
	f := jinja.NewDict()
	f.Set("name", name)
	f.Set("arguments", arguments)
	call.Set("type", "function")
	call.Set("function", f)
	call.Delete("custom")
}

// function returns the value of a call's key function, or the call itself if it has none.
func function(call *jinja.Dict) *jinja.Dict {
	v, _ := call.Get("function")
	if f, ok := v.(*jinja.Dict); ok {
		return f
	}
	return call
}

// toolCalls returns the tool calls of a message that Message.value returned.
func toolCalls(message any) (calls []*jinja.Dict) {
	m, ok := message.(*jinja.Dict)
	if !ok {
		return nil
	}
	v, _ := m.Get("tool_calls")
	list, ok := v.(*jinja.List)
	if !ok {
		return nil
	}
	for _, c := range list.Items {
		if call, ok := c.(*jinja.Dict); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// wrapArguments makes an object of all arguments of tool calls that are none, for templates that
// loop over the arguments: of text the object {"arguments": text}, of null an empty one. It reports
// whether there were any.
func wrapArguments(messages *jinja.List) (wrapped bool) {
	for _, m := range messages.Items {
		for _, call := range toolCalls(m) {
			f := function(call)
			arguments, _ := f.Get("arguments")
			if _, ok := arguments.(*jinja.Dict); ok {
				continue
			}
			object := jinja.NewDict()
			if arguments != nil {
				object.Set("arguments", arguments)
			}
			f.Set("arguments", object)
			wrapped = true
		}
	}
	return wrapped
}

// nameResults gives results without a name that of the function whose call they answer, for
// templates that demand one. OpenAI's results have none. It reports whether there were any.
func nameResults(messages *jinja.List) (named bool) {
	names := map[any]any{} // of functions, by the ID of the call
	for _, m := range messages.Items {
		for _, call := range toolCalls(m) {
			id, _ := call.Get("id")
			if _, isText := id.(string); isText {
				names[id], _ = function(call).Get("name")
			}
		}
		message, ok := m.(*jinja.Dict)
		if !ok || roleOf(message) != "tool" {
			continue
		}
		id, _ := message.Get("tool_call_id")
		_, isText := id.(string)
		if _, has := message.Get("name"); !has && isText && names[id] != nil {
			message.Set("name", names[id])
			named = true
		}
	}
	return named
}

// jsonText is the JSON text of a value.
var jsonText = mustParse("{{ value | tojson }}")

// jsonOf returns a value as JSON text.
func jsonOf(value any) (string, error) {
	vars := jinja.NewDict()
	vars.Set("value", value)
	return jsonText.Render(context.Background(), vars, time.Time{})
}

// argumentsAsText makes JSON text of the arguments of tool calls, for templates that add them to a
// text. It reports whether there were any.
func argumentsAsText(messages *jinja.List) (changed bool) {
	for _, m := range messages.Items {
		for _, call := range toolCalls(m) {
			f := function(call)
			arguments, ok := f.Get("arguments")
			if _, isText := arguments.(string); isText || !ok {
				continue
			}
			text, err := jsonOf(arguments)
			if err != nil {
				return false
			}
			f.Set("arguments", text)
			changed = true
		}
	}
	return changed
}

// shortIDsMark is how the templates of Mistral check the IDs of tool calls: "Tool call IDs should
// be alphanumeric strings with length 9!".
var shortIDsMark = regexp.MustCompile(`id\s*\|\s*length\s*!=\s*9\b`)

var shortID = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

// shortenIDs gives the IDs of tool calls the form that shortIDsMark checks. A call without an ID
// gets one of its position, and a result without one that of the first call that has no result yet.
func shortenIDs(messages *jinja.List) {
	var open []string // the calls without results
	for i, m := range messages.Items {
		for j, call := range toolCalls(m) {
			open = append(open, shorten(call, "id", fmt.Sprintf("call %d of message %d", j, i)))
		}
		message, ok := m.(*jinja.Dict)
		if !ok {
			continue
		}
		role, _ := message.Get("role")
		if _, has := message.Get("tool_call_id"); role != "tool" && !has {
			continue
		}
		next := ""
		if len(open) > 0 {
			next = open[0]
		}
		id := shorten(message, "tool_call_id", next)
		open = slices.DeleteFunc(open, func(o string) bool { return o == id })
	}
}

// shorten makes an ID of nine letters and digits of that at a key, or else of another text, and
// returns it.
func shorten(d *jinja.Dict, key, otherwise string) string {
	v, _ := d.Get(key)
	id, _ := v.(string)
	if id == "" {
		id = otherwise
	}
	if !shortID.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])[:9]
	}
	d.Set(key, id)
	return id
}
