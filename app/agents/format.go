package agents

// Edits of a file as text, and the check that the text says what the edits say. The check does not
// use the code that edits: it parses the texts before and after, and compares the values.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// edit sets the value at a path of names. In a list of objects, a name is that of the object whose
// "name" it is.
type edit struct {
	path      []string
	value     any  // string, int, bool, object or []any
	ifMissing bool // an existing value stays
}

// object is an object whose members have an order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encodeJSON(m.name))
		b.WriteByte(':')
		b.Write(encodeJSON(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// control are the control characters that JSON allows in a string, but TOML and YAML do not.
var control = regexp.MustCompile("[\u007f-\u009f]")

// encodeJSON returns a value as JSON in one line.
func encodeJSON(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("agents: encodeJSON: " + err.Error()) // a bug: the types are ours
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return control.ReplaceAllFunc(text, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
}

// canonical returns a value as JSON with sorted names, for comparison.
func canonical(value any) string {
	var plain any
	if err := json.Unmarshal(encodeJSON(value), &plain); err != nil {
		panic("agents: canonical: " + err.Error())
	}
	return string(encodeJSON(plain))
}

// format edits files of one format. An empty text is an empty file. Errors are sentences' ends.
type format interface {
	// parse returns the values of a text.
	parse(text []byte) (map[string]any, error)
	// raw returns the text of the value at a path, for restore.
	raw(text []byte, path []string) (raw string, err error)
	set(text []byte, path []string, value any) ([]byte, error)
	restore(text []byte, path []string, raw string) ([]byte, error)
	remove(text []byte, path []string) ([]byte, error)
}

// written is an edit that was made: what Undo needs.
type written struct {
	Path  []string `json:"path"`
	Value string   `json:"value"` // canonical
	// Had is the text of the value before; nil: there was none.
	Had *string `json:"had"`
	// Depth is how many names of the path led to something before.
	Depth int `json:"depth"`
}

var byteOrderMark = []byte("\uFEFF")

// apply makes edits in a text and checks the result.
func apply(f format, text []byte, edits []edit) (after []byte, made []written, err error) {
	body, marked := bytes.CutPrefix(text, byteOrderMark)
	tree, err := f.parse(body)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range edits {
		old, depth := lookup(tree, e.path)
		w := written{Path: e.path, Value: canonical(e.value), Depth: depth}
		if depth == len(e.path) {
			if e.ifMissing || canonical(old) == w.Value {
				continue
			}
			raw, err := f.raw(body, e.path)
			if err != nil {
				return nil, nil, err
			}
			w.Had = &raw
		}
		if body, err = f.set(body, e.path, e.value); err != nil {
			return nil, nil, err
		}
		if err := assign(tree, e.path, e.value); err != nil {
			return nil, nil, err
		}
		made = append(made, w)
	}
	if err := says(f, body, tree); err != nil {
		return nil, nil, err
	}
	if marked {
		body = slices.Concat(byteOrderMark, body)
	}
	return body, made, nil
}

// revert takes back what was written, as far as it is still there. kept are the paths of values
// that have another value now.
func revert(f format, text []byte, made []written) (before []byte, kept []string, err error) {
	body, marked := bytes.CutPrefix(text, byteOrderMark)
	for _, w := range slices.Backward(made) {
		tree, err := f.parse(body)
		if err != nil {
			return nil, nil, err
		}
		switch now, depth := lookup(tree, w.Path); {
		case depth < len(w.Path): // gone already
			continue
		case canonical(now) != w.Value:
			kept = append(kept, strings.Join(w.Path, "."))
			continue
		}
		if body, err = revertOne(f, body, w); err != nil {
			return nil, nil, err
		}
	}
	slices.Reverse(kept)
	if _, err := f.parse(body); err != nil {
		return nil, nil, err
	}
	if marked {
		body = slices.Concat(byteOrderMark, body)
	}
	return body, kept, nil
}

// revertOne takes back one value, and the objects around it that were made for it and are empty.
func revertOne(f format, body []byte, w written) ([]byte, error) {
	if w.Had != nil {
		return f.restore(body, w.Path, *w.Had)
	}
	body, err := f.remove(body, w.Path)
	for n := len(w.Path) - 1; err == nil && n > w.Depth; n-- {
		tree, parseErr := f.parse(body)
		if parseErr != nil {
			return nil, parseErr
		}
		parent, depth := lookup(tree, w.Path[:n])
		if depth < n {
			continue // went with its last member
		}
		if o, ok := parent.(map[string]any); !ok || len(o) > 0 {
			break
		}
		body, err = f.remove(body, w.Path[:n])
	}
	return body, err
}

// says returns an error unless a text has these values.
func says(f format, text []byte, want map[string]any) error {
	got, err := f.parse(text)
	if err == nil && canonical(got) != canonical(want) {
		err = errors.New("the file is written in a form that Headroom does not edit")
	}
	return err
}

// lookup returns the value at a path. depth is how many names lead to something.
func lookup(tree any, path []string) (value any, depth int) {
	for i, name := range path {
		next, ok := child(tree, name)
		if !ok {
			return nil, i
		}
		tree = next
	}
	return tree, len(path)
}

func child(tree any, name string) (any, bool) {
	switch t := tree.(type) {
	case map[string]any:
		value, ok := t[name]
		return value, ok
	case []any:
		for _, one := range t {
			if o, ok := one.(map[string]any); ok && o["name"] == name {
				return o, true
			}
		}
	}
	return nil, false
}

// assign sets a value in a tree. A list gets it in front.
func assign(tree map[string]any, path []string, value any) error {
	name := path[0]
	if len(path) == 1 {
		tree[name] = value
		return nil
	}
	switch next := tree[name].(type) {
	case map[string]any:
		return assign(next, path[1:], value)
	case []any:
		for i, one := range next {
			if o, ok := one.(map[string]any); ok && o["name"] == path[1] {
				next[i] = value
				return nil
			}
		}
		tree[name] = slices.Insert(next, 0, value)
		return nil
	case nil:
		if name == "models" && len(path) == 2 && isNamed(value, path[1]) {
			tree[name] = []any{value}
			return nil
		}
		inner := map[string]any{}
		tree[name] = inner
		return assign(inner, path[1:], value)
	}
	return fmt.Errorf("%s is not an object", name)
}

// isNamed reports whether a value is an object that its own member "name" names, as in a list.
func isNamed(value any, name string) bool {
	o, ok := value.(object)
	return ok && len(o) > 0 && o[0].name == "name" && o[0].value == name
}

// lineEnd returns how the lines of a text end.
func lineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// splice replaces text[from:to].
func splice(text []byte, from, to int, with string) []byte {
	return slices.Concat(text[:from], []byte(with), text[to:])
}

// lineBegin and lineAfter return the begin of the line with an offset, and of the next line.
func lineBegin(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineAfter(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// isBlank reports whether a text has nothing but white space.
func isBlank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }
