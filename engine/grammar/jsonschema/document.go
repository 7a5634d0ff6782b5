package jsonschema

// The schemas of a document. Nothing is fetched: a $ref must lead to a place in the document.

import (
	"net/url"
	"strconv"
	"strings"
)

// document is a schema with the schemas inside.
type document struct {
	root      *value
	draft     int // 4, 6, 7, 2019 or 2020
	bases     map[*value]*url.URL
	resources map[string]*value // schemas with an $id, by URI
	anchors   map[string]*value // by URI and anchor
	dynamic   map[string]int    // how many schemas have a $dynamicAnchor
	recursive bool              // a schema has $recursiveAnchor: true
	unread    bool              // unevaluatedProperties or unevaluatedItems occurs
}

// Where schemas are in a schema.
var (
	oneSchema = words("additionalProperties additionalItems items contains not if then else " +
		"propertyNames unevaluatedProperties unevaluatedItems contentSchema")
	listOfSchemas = words("allOf anyOf oneOf prefixItems items")
	mapOfSchemas  = words("properties patternProperties dependentSchemas dependencies $defs " +
		"definitions")
)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(s) {
		m[word] = true
	}
	return m
}

var drafts = []struct {
	name  string
	draft int
}{
	{"draft-03", 3}, {"draft-04", 4}, {"draft-06", 6}, {"draft-07", 7}, {"2019-09", 2019},
	{"2020-12", 2020},
}

func (c *compiler) openDocument(root *value) {
	c.document = document{root: root, draft: 2020, bases: map[*value]*url.URL{},
		resources: map[string]*value{}, anchors: map[string]*value{}, dynamic: map[string]int{}}
	if s := root.get("$schema"); s != nil && s.kind == text {
		for _, d := range drafts {
			if strings.Contains(s.text, d.name) {
				c.draft = d.draft
			}
		}
	}
	base := &url.URL{}
	c.bases[root] = base
	c.resources[""] = root
	c.scan(root, base)
}

// scan registers the identifiers of a schema and of those inside.
func (c *compiler) scan(v *value, base *url.URL) {
	if v.kind != object {
		return
	}
	base = c.identify(v, base)
	for _, m := range v.members {
		switch {
		case m.value.kind == object && oneSchema[m.key]:
			c.scan(m.value, base)
		case m.value.kind == array && listOfSchemas[m.key]:
			for _, item := range m.value.items {
				c.scan(item, base)
			}
		case m.value.kind == object && mapOfSchemas[m.key]:
			for _, item := range m.value.members {
				c.scan(item.value, base)
			}
		}
		switch m.key {
		case "unevaluatedProperties", "unevaluatedItems":
			c.unread = true
		case "$recursiveAnchor":
			c.recursive = c.recursive || m.value.is
		}
	}
}

// identify registers the identifiers of one schema and returns its base URI.
func (c *compiler) identify(v *value, base *url.URL) *url.URL {
	for _, key := range []string{"$id", "id"} {
		id := v.get(key)
		if id == nil || id.kind != text || c.draft <= 7 && v.get("$ref") != nil {
			continue
		}
		if key == "id" && c.draft != 4 && !(c.draft == 2020 && v == c.root) {
			continue
		}
		c.spend(3 + len(id.text)/16)
		uri, err := base.Parse(id.text)
		if err != nil {
			continue
		}
		anchor := uri.Fragment
		uri.Fragment, uri.RawFragment = "", ""
		if anchor != "" {
			c.anchors[uri.String()+"#"+anchor] = v
		}
		if !strings.HasPrefix(id.text, "#") {
			base = uri
			c.bases[v], c.resources[uri.String()] = uri, v
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if anchor := v.get(key); anchor != nil && anchor.kind == text {
			c.anchors[base.String()+"#"+anchor.text] = v
			if key == "$dynamicAnchor" {
				c.dynamic[anchor.text]++
			}
		}
	}
	return base
}

// base returns the base URI of a place, and the schema that has it.
func (c *compiler) base(v *value) (*url.URL, *value) {
	for at := v; at != nil; at = at.parent {
		if uri, ok := c.bases[at]; ok {
			return uri, at
		}
	}
	return c.bases[c.root], c.root
}

// resolve returns the schema to which a $ref of a schema leads.
func (c *compiler) resolve(at *value, keyword string, ref *value) *value {
	if ref.kind != text {
		invalid(at, "$ref is not a string")
	}
	base, resource := c.base(at)
	uri, err := base.Parse(ref.text)
	if err != nil {
		invalid(at, "$ref is not a URI reference")
	}
	c.spend(2 + len(ref.text)/16)
	fragment := uri.Fragment
	uri.Fragment, uri.RawFragment = "", ""
	if name := uri.String(); name != base.String() {
		var ok bool
		if resource, ok = c.resources[name]; !ok {
			unsupported(at, keyword, strconv.Quote(ref.text)+
				" is not in the document, and nothing is fetched")
		}
	}
	if fragment == "" {
		return resource
	}
	target := c.anchors[uri.String()+"#"+fragment]
	if strings.HasPrefix(fragment, "/") {
		target = follow(resource, fragment)
	}
	if target == nil {
		invalid(at, strconv.Quote(ref.text)+" leads nowhere")
	}
	return target
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// follow returns the value at a JSON pointer.
func follow(v *value, pointer string) *value {
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescapePointer.Replace(token)
		switch v.kind {
		case object:
			v = v.get(token)
		case array:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v.items) {
				return nil
			}
			v = v.items[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}
