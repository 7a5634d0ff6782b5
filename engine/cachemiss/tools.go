package cachemiss

// The tools in a prompt's head, as chat templates write them: one JSON object per line between
// <tools> and </tools> (Qwen, Hermes), XML functions in the same place (Qwen3-Coder), or a JSON
// list between [AVAILABLE_TOOLS] marks (Mistral). Two lists of tools are compared by name, order
// and content, regardless of the order of JSON keys.

import (
	"encoding/json"
	"strings"
)

// tool is one function.
type tool struct {
	name string
	body string // JSON with sorted keys, or the text itself
}

// section is the part [from, to) of a head that lists the tools. The zero value has no tools.
type section struct {
	from, to int
	text     string
}

// sectionMarks open and close a section. Templates also mention <tools></tools> in their prose, so
// the marks include a line break.
var sectionMarks = []struct{ open, close string }{{"<tools>\n", "\n</tools>"},
	{"[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"}}

func findTools(head string) section {
	for _, m := range sectionMarks {
		from := strings.Index(head, m.open)
		if from < 0 {
			continue
		}
		from += len(m.open)
		to := len(head)
		if n := strings.Index(head[from:], m.close); n >= 0 {
			to = from + n
		}
		return section{from, to, head[from:to]}
	}
	return section{}
}

// tools parses a section. The name of a tool that cannot be parsed is its text.
func (s section) tools() (list []tool) {
	text := strings.TrimSpace(s.text)
	if parts := strings.Split(text, "<function>"); len(parts) > 1 {
		for _, p := range parts[1:] {
			_, rest, _ := strings.Cut(p, "<name>")
			name, _, _ := strings.Cut(rest, "</name>")
			list = append(list, tool{name, strings.TrimSpace(p)})
		}
		return list
	}
	var all []json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, json.RawMessage(line))
			}
		}
	}
	for _, raw := range all {
		list = append(list, readTool(raw))
	}
	return list
}

func readTool(raw json.RawMessage) tool {
	var whole map[string]any
	if json.Unmarshal(raw, &whole) != nil {
		return tool{string(raw), string(raw)}
	}
	inner, ok := whole["function"].(map[string]any)
	if !ok {
		inner = whole
	}
	name, _ := inner["name"].(string)
	body, err := json.Marshal(whole) // keys sorted
	if err != nil {
		body = raw
	}
	return tool{name, string(body)}
}

// compareTools returns how the tools changed, and the name of a changed tool, if known. If the
// sections are equal, the cause is "".
func compareTools(was, is section) (cause Cause, name string) {
	if was.text == is.text {
		return "", ""
	}
	a, b := was.tools(), is.tools()
	if name, ok := missing(b, a); ok {
		return ToolsChanged, name
	}
	if name, ok := missing(a, b); ok {
		return ToolsChanged, name
	}
	if len(a) != len(b) {
		return ToolsChanged, ""
	}
	for i := range a {
		if a[i].name != b[i].name {
			return ToolsReordered, b[i].name
		}
	}
	for i := range a {
		if a[i].body != b[i].body {
			return ToolsChanged, b[i].name
		}
	}
	return ToolsReordered, "" // only the order of keys or white space differs
}

// missing returns the name of the first tool of list that is not in others.
func missing(list, others []tool) (name string, ok bool) {
	names := make(map[string]bool, len(others))
	for _, t := range others {
		names[t.name] = true
	}
	for _, t := range list {
		if !names[t.name] {
			return t.name, true
		}
	}
	return "", false
}
