package agents

// YAML: keys of the document with a scalar (paths of one name), and objects in a list of the
// document (paths of two names). The parser's nodes have the lines of both.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlparser "go.yaml.in/yaml/v3"
)

type yaml struct{}

func (yaml) parse(text []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := yamlparser.Unmarshal(text, &tree); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if tree == nil {
		tree = map[string]any{}
	}
	return tree, nil
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

// root returns the mapping of the document; nil if the text has none.
func (yaml) root(text []byte) (*yamlparser.Node, error) {
	var doc yamlparser.Node
	if err := yamlparser.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	if root := doc.Content[0]; root.Kind == yamlparser.MappingNode {
		if root.Style&yamlparser.FlowStyle != 0 {
			return nil, errors.New("it is in braces, which Headroom does not edit")
		}
		return root, nil
	}
	if doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return nil, errors.New("it is not a mapping")
}

// of returns the key and the value of a name in a mapping, nil if it is missing.
func of(mapping *yamlparser.Node, name string) (key, value *yamlparser.Node) {
	if mapping == nil || mapping.Kind != yamlparser.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// item returns the lines [from, to) of an object in a list, from its dash.
func (y yaml) item(text []byte, path []string) (from, to int, err error) {
	root, err := y.root(text)
	if err != nil {
		return 0, 0, err
	}
	_, list := of(root, path[0])
	for i := 0; list != nil && list.Kind == yamlparser.SequenceNode && i < len(list.Content); i++ {
		one := list.Content[i]
		if _, name := of(one, "name"); name == nil || name.Value != path[1] {
			continue
		}
		if list.Style&yamlparser.FlowStyle != 0 || one.Style&yamlparser.FlowStyle != 0 ||
			hasBlockText(one) {
			break
		}
		return one.Line - 1, lastLine(one), nil
	}
	return 0, 0, fmt.Errorf("%s in %s is written in a form that Headroom does not edit", path[1],
		path[0])
}

// lastLine returns the number of a node's last line. Texts of several lines are not among them.
func lastLine(n *yamlparser.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}

// hasBlockText reports whether a node has a text that may take several lines.
func hasBlockText(n *yamlparser.Node) bool {
	return n.Kind == yamlparser.ScalarNode &&
		n.Style&(yamlparser.LiteralStyle|yamlparser.FoldedStyle) != 0 ||
		slices.ContainsFunc(n.Content, hasBlockText)
}

func (y yaml) raw(text []byte, path []string) (string, error) {
	if len(path) != 2 {
		return "", fmt.Errorf("%s has another value", strings.Join(path, "."))
	}
	from, to, err := y.item(text, path)
	if err != nil {
		return "", err
	}
	return strings.Join(splitLines(text)[from:to], ""), nil
}

func (y yaml) restore(text []byte, path []string, raw string) ([]byte, error) {
	from, to, err := y.item(text, path)
	if err != nil {
		return nil, err
	}
	return y.replace(text, from, to, raw), nil
}

// replace replaces the lines [from, to).
func (yaml) replace(text []byte, from, to int, with string) []byte {
	all := splitLines(text)
	return []byte(strings.Join(all[:from], "") + with + strings.Join(all[to:], ""))
}

func (y yaml) set(text []byte, path []string, value any) ([]byte, error) {
	root, err := y.root(text)
	if err != nil {
		return nil, err
	}
	eol := lineEnd(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clone(text), eol...)
	}
	if len(path) == 1 {
		return append(slices.Clone(text),
			path[0]+": "+string(encodeJSON(value))+eol...), nil
	}
	if from, to, err := y.item(text, path); err == nil {
		indent, _, _ := strings.Cut(splitLines(text)[from], "-")
		return y.replace(text, from, to, yamlItem(value.(object), indent, eol)), nil
	}
	key, list := of(root, path[0])
	switch {
	case key == nil:
		return append(slices.Clone(text),
			path[0]+":"+eol+yamlItem(value.(object), "  ", eol)...), nil
	case len(list.Content) == 0: // "models: []" or "models:", perhaps with a comment after it
		line := splitLines(text)[key.Line-1]
		line = strings.Replace(line, "[]", "", 1)
		line = strings.TrimRight(line, " \r\n") + eol
		return y.replace(text, key.Line-1, key.Line, line+yamlItem(value.(object), "  ", eol)), nil
	case list.Kind != yamlparser.SequenceNode || list.Style&yamlparser.FlowStyle != 0:
		return nil, fmt.Errorf("%s is written in a form that Headroom does not edit", path[0])
	}
	first := splitLines(text)[list.Content[0].Line-1]
	indent, _, _ := strings.Cut(first, "-")
	at := key.Line // before comments of the first item
	return y.replace(text, at, at, yamlItem(value.(object), indent, eol)), nil
}

func (y yaml) remove(text []byte, path []string) ([]byte, error) {
	root, err := y.root(text)
	if err != nil {
		return nil, err
	}
	key, value := of(root, path[0])
	if key == nil {
		return nil, errors.New("a value is missing")
	}
	if len(path) == 1 {
		return y.replace(text, key.Line-1, max(lastLine(value), key.Line), ""), nil
	}
	from, to, err := y.item(text, path)
	if err != nil {
		return nil, err
	}
	if text = y.replace(text, from, to, ""); len(value.Content) > 1 {
		return text, nil
	}
	line := strings.TrimRight(splitLines(text)[key.Line-1], "\r\n") // an empty list, not null
	name, comment, found := strings.Cut(line, ":")
	if found && strings.TrimSpace(comment) != "" {
		comment = " " + strings.TrimSpace(comment)
	}
	return y.replace(text, key.Line-1, key.Line, name+": []"+comment+lineEnd(text)), nil
}

// yamlItem returns an object as an item of a list. A value in one line of JSON is YAML, too.
func yamlItem(o object, indent, eol string) string {
	var b strings.Builder
	for i, m := range o {
		b.WriteString(indent + map[bool]string{true: "- ", false: "  "}[i == 0] + m.name + ":")
		if inner, ok := m.value.(object); ok {
			b.WriteString(eol)
			for _, m := range inner {
				b.WriteString(indent + "    " + m.name + ": " + string(encodeJSON(m.value)) + eol)
			}
			continue
		}
		b.WriteString(" " + string(encodeJSON(m.value)) + eol)
	}
	return b.String()
}
