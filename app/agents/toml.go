package agents

// TOML: keys before the first table (paths of one name), and tables (paths of several names), which
// are written as a whole. The parser's tree has the places of both in the text.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	tomlparser "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

type toml struct{}

func (toml) parse(text []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := tomlparser.Unmarshal(text, &tree); err != nil {
		var at *tomlparser.DecodeError
		if errors.As(err, &at) {
			row, _ := at.Position()
			return nil, fmt.Errorf("line %d: %s", row, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, err
	}
	return tree, nil
}

// span is a part of a text: a key and its value before the first table, or a table with its header.
type span struct {
	path     []string
	from, to int // a table ends after its last line with a value
	table    bool
}

// spans returns the parts of a text, in order.
func spans(text []byte) (list []span, err error) {
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			from := int(e.Raw.Offset)
			to := from + int(e.Raw.Length)
			if n := len(list); n > 0 && list[n-1].table {
				list[n-1].to = lineAfter(text, to)
				continue
			}
			list = append(list, span{path: keyOf(e), from: from, to: to})
		case unstable.Table, unstable.ArrayTable:
			key := e.Key()
			key.Next()
			at := int(key.Node().Raw.Offset)
			list = append(list, span{path: keyOf(e), from: lineBegin(text, at),
				to: lineAfter(text, at), table: true})
		}
	}
	return list, p.Error()
}

func keyOf(e *unstable.Node) (path []string) {
	for key := e.Key(); key.Next(); {
		path = append(path, string(key.Node().Data))
	}
	return path
}

// part returns the part with a path; ok is false if there is none.
func (toml) part(text []byte, path []string) (s span, ok bool, err error) {
	list, err := spans(text)
	if slices.ContainsFunc(list, func(other span) bool {
		return other.table && len(other.path) > len(path) &&
			slices.Equal(other.path[:len(path)], path)
	}) {
		return span{}, false, fmt.Errorf("[%s] has tables in it, which Headroom does not edit",
			strings.Join(path, "."))
	}
	i := slices.IndexFunc(list, func(s span) bool {
		return slices.Equal(s.path, path) && s.table == (len(path) > 1)
	})
	if i < 0 {
		return span{}, false, err
	}
	return list[i], true, err
}

func (t toml) raw(text []byte, path []string) (string, error) {
	s, ok, err := t.part(text, path)
	if err == nil && !ok {
		err = fmt.Errorf("%s is written in a form that Headroom does not edit",
			strings.Join(path, "."))
	}
	return string(text[s.from:s.to]), err
}

func (t toml) restore(text []byte, path []string, raw string) ([]byte, error) {
	s, ok, err := t.part(text, path)
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("a value is missing"))
	}
	return splice(text, s.from, s.to, raw), nil
}

func (t toml) set(text []byte, path []string, value any) ([]byte, error) {
	s, ok, err := t.part(text, path)
	if err != nil {
		return nil, err
	}
	eol := lineEnd(text)
	if len(path) == 1 {
		line := tomlKey(path[0]) + " = " + tomlValue(value)
		if ok {
			return splice(text, s.from, s.to, line), nil
		}
		return insertKey(text, line, eol)
	}
	table := tomlTable(path, value.(object), eol)
	if ok {
		return splice(text, s.from, s.to, table), nil
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clone(text), eol...)
	}
	if len(text) > 0 {
		table = eol + table
	}
	return append(slices.Clone(text), table...), nil
}

// insertKey adds a line after the last key before the first table, or at the begin of the text.
func insertKey(text []byte, line, eol string) ([]byte, error) {
	list, err := spans(text)
	if err != nil {
		return nil, err
	}
	at := -1
	for _, s := range list {
		if !s.table {
			at = lineAfter(text, s.to)
		}
	}
	if at < 0 {
		line += eol
		if len(text) > 0 && text[0] != '\n' && text[0] != '\r' {
			line += eol // a blank line before what follows
		}
		return splice(text, 0, 0, line), nil
	}
	if text[at-1] != '\n' {
		return append(slices.Clone(text), eol+line+eol...), nil
	}
	return splice(text, at, at, line+eol), nil
}

func (t toml) remove(text []byte, path []string) ([]byte, error) {
	s, ok, err := t.part(text, path)
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("a value is missing"))
	}
	before := text[:lineBegin(text, s.from)]
	after := text[s.to:]
	if !s.table {
		after = text[lineAfter(text, s.to):]
		if len(before) == 0 { // and the blank line after the keys
			after = bytes.TrimPrefix(bytes.TrimPrefix(after, []byte("\r")), []byte("\n"))
		}
		return slices.Concat(before, after), nil
	}
	for _, blank := range []string{"\n\r\n", "\n\n"} { // the blank line before the table
		if bytes.HasSuffix(before, []byte(blank)) {
			before = before[:len(before)-len(blank)+1]
			break
		}
	}
	return slices.Concat(before, after), nil
}

func tomlTable(path []string, o object, eol string) string {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = tomlKey(name)
	}
	var b strings.Builder
	b.WriteString("[" + strings.Join(keys, ".") + "]" + eol)
	for _, m := range o {
		b.WriteString(tomlKey(m.name) + " = " + tomlValue(m.value) + eol)
	}
	return b.String()
}

// tomlKey returns a name as a key, in quotes if it needs them.
func tomlKey(name string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' ||
			r == '-'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !bare(r) }) < 0 {
		return name
	}
	return tomlValue(name)
}

// tomlValue returns a value in one line. A string of JSON is a string of TOML, too.
func tomlValue(value any) string {
	switch v := value.(type) {
	case string:
		return string(encodeJSON(v))
	case object:
		members := make([]string, len(v))
		for i, m := range v {
			members[i] = tomlKey(m.name) + " = " + tomlValue(m.value)
		}
		return "{ " + strings.Join(members, ", ") + " }"
	}
	return fmt.Sprint(value)
}
