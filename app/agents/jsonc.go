package agents

// JSON with comments and trailing commas. hujson keeps every byte of a text in its tree, so an edit
// of the tree is an edit of the text.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

type jsonc struct{}

func (jsonc) parse(text []byte) (map[string]any, error) {
	if isBlank(text) {
		return map[string]any{}, nil
	}
	plain, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(plain, &tree); err != nil || tree == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return tree, nil
}

// jsonTree returns the tree of a text; of an object for an empty one.
func jsonTree(text []byte) (hujson.Value, error) {
	if isBlank(text) {
		text = []byte("{}" + lineEnd(text))
	}
	return hujson.Parse(bytes.Clone(text))
}

// at returns the object that holds the last name of a path, and the index of that name; -1 if it is
// missing. Of two members of one name the last one counts, as for parsers.
func at(root *hujson.Value, path []string) (o *hujson.Object, i int, err error) {
	for n, name := range path {
		var ok bool
		if o, ok = root.Value.(*hujson.Object); !ok {
			return nil, -1, fmt.Errorf("%s is not an object", strings.Join(path[:n], "."))
		}
		i = memberIndex(o, name)
		if i < 0 {
			return o, -1, nil
		}
		root = &o.Members[i].Value
	}
	return o, i, nil
}

func memberIndex(o *hujson.Object, name string) int {
	for i := len(o.Members) - 1; i >= 0; i-- {
		if l, ok := o.Members[i].Name.Value.(hujson.Literal); ok && l.String() == name {
			return i
		}
	}
	return -1
}

func (jsonc) raw(text []byte, path []string) (string, error) {
	root, err := jsonTree(text)
	if err != nil {
		return "", err
	}
	o, i, err := at(&root, path)
	if err != nil || i < 0 {
		return "", errors.Join(err, fmt.Errorf("%s is missing", strings.Join(path, ".")))
	}
	v := o.Members[i].Value
	return string(text[v.StartOffset:v.EndOffset]), nil
}

func (j jsonc) restore(text []byte, path []string, raw string) ([]byte, error) {
	root, err := jsonTree(text)
	if err != nil {
		return nil, err
	}
	o, i, err := at(&root, path)
	if err != nil || i < 0 {
		return nil, errors.Join(err, errors.New("a value is missing"))
	}
	v := o.Members[i].Value
	return splice(text, v.StartOffset, v.EndOffset, raw), nil
}

func (jsonc) set(text []byte, path []string, value any) ([]byte, error) {
	root, err := jsonTree(text)
	if err != nil {
		return nil, err
	}
	style := jsonStyle{eol: lineEnd(text), unit: jsonUnit(&root)}
	here, indent := &root, ""
	for n, name := range path {
		o, ok := here.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:n], "."))
		}
		i := memberIndex(o, name)
		if i < 0 {
			for k := len(path) - 1; k > n; k-- {
				value = object{{path[k], value}}
			}
			style.insert(o, indent, name, value)
			return root.Pack(), nil
		}
		here = &o.Members[i].Value
		if own, ok := lastIndent(o.Members[i].Name.BeforeExtra); ok {
			indent = own
		}
	}
	here.Value = style.value(value, indent, true)
	return root.Pack(), nil
}

// jsonStyle is how a text is written.
type jsonStyle struct{ eol, unit string }

// jsonUnit returns the indent of the first member; two spaces if it has none.
func jsonUnit(root *hujson.Value) string {
	if o, ok := root.Value.(*hujson.Object); ok && len(o.Members) > 0 {
		if indent, ok := lastIndent(o.Members[0].Name.BeforeExtra); ok && indent != "" {
			return indent
		}
	}
	return "  "
}

// lastIndent returns the white space after the last line end; ok is false if there is none.
func lastIndent(extra hujson.Extra) (indent string, ok bool) {
	i := bytes.LastIndexByte(extra, '\n')
	line := extra[i+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))]), i >= 0
}

// value returns the tree of a value whose line has this indent.
func (s jsonStyle) value(value any, indent string, lines bool) hujson.ValueTrimmed {
	text := encodeJSON(value)
	if lines {
		var b bytes.Buffer
		if err := json.Indent(&b, text, indent, s.unit); err != nil {
			panic("agents: jsonStyle: " + err.Error())
		}
		text = bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(s.eol))
	}
	v, err := hujson.Parse(text)
	if err != nil {
		panic("agents: jsonStyle: " + err.Error())
	}
	return v.Value
}

// insert adds a member at the end of an object whose line has this indent. Comments at the end of
// the object stay before it.
func (s jsonStyle) insert(o *hujson.Object, indent, name string, value any) {
	lines, own := true, indent+s.unit
	if n := len(o.Members); n > 0 {
		if own, lines = lastIndent(o.Members[n-1].Name.BeforeExtra); !lines {
			own = ""
		}
	}
	end := bytes.TrimRight(o.AfterExtra, " \t\r\n")
	before, after := string(end), string(o.AfterExtra[len(end):])
	ends := strings.Contains(after, "\n") // so before may end in a comment to the end of the line
	switch {
	case lines && !ends:
		before, after = before+s.eol+own, s.eol+indent
	case lines || ends && before != "":
		before += s.eol + own
	default:
		before += " "
	}
	m := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(before), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: s.value(value, own, lines)},
	}
	if n := len(o.Members); n > 0 && o.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{} // a comma after the last member
	}
	o.Members, o.AfterExtra = append(o.Members, m), hujson.Extra(after)
}

func (jsonc) remove(text []byte, path []string) ([]byte, error) {
	root, err := jsonTree(text)
	if err != nil {
		return nil, err
	}
	o, i, err := at(&root, path)
	if err != nil || i < 0 {
		return nil, errors.Join(err, errors.New("a value is missing"))
	}
	gone := o.Members[i]
	comments := bytes.TrimRight(gone.Name.BeforeExtra, " \t\r\n")
	o.Members = append(o.Members[:i:i], o.Members[i+1:]...)
	switch n := len(o.Members); {
	case i < n:
		m := &o.Members[i].Name
		m.BeforeExtra = join(comments, m.BeforeExtra)
	case n == 0:
		o.AfterExtra = join(comments, o.AfterExtra)
		if isBlank(o.AfterExtra) {
			o.AfterExtra = nil
		}
	default:
		last := &o.Members[n-1].Value
		if gone.Value.AfterExtra == nil { // no comma after the last member
			comments = join(last.AfterExtra, comments)
			last.AfterExtra = nil
		} else if last.AfterExtra == nil {
			last.AfterExtra = hujson.Extra{}
		}
		o.AfterExtra = join(comments, o.AfterExtra)
	}
	return root.Pack(), nil
}

func join(a, b []byte) hujson.Extra { return append(bytes.Clone(a), b...) }
