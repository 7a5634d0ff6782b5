package main

// Whether a grammar takes a JSON value. A grammar fixes how a value is written but for the order of
// members, so this searches for an order that it takes.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
)

// members is an object with its order.
type members []member

type member struct {
	key   string
	value any
}

// decode reads a JSON value: nil, bool, json.Number, string, []any or members.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		items := []any{}
		for d.More() {
			item, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		_, err = d.Token()
		return items, err
	case json.Delim('{'):
		object := members{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			object = append(object, member{key.(string), value})
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// ranks returns the place of each name in the properties of a schema, wherever they are.
func ranks(schema any) map[string]int {
	out := map[string]int{}
	add := func(name string) {
		if _, ok := out[name]; !ok {
			out[name] = len(out)
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case members:
			for _, m := range v {
				if properties, ok := m.value.(members); ok && m.key == "properties" {
					for _, p := range properties {
						add(p.key)
					}
				}
			}
			for _, m := range v {
				if names, ok := m.value.([]any); ok && m.key == "required" {
					for _, name := range names {
						if name, ok := name.(string); ok {
							add(name)
						}
					}
				}
				walk(m.value)
			}
		}
	}
	walk(schema)
	return out
}

// maxTries bounds the search for an order.
const maxTries = 4000

// search looks for an order of the members that a grammar takes.
type search struct {
	ranks map[string]int
	tries int
}

// takes reports whether the grammar takes a value.
func takes(g *grammar.Grammar, ranks map[string]int, v any) bool {
	s := &search{ranks: ranks}
	return s.write(*g.NewMatcher(), v, func(m grammar.Matcher) bool { return m.Complete() })
}

func (s *search) feed(m *grammar.Matcher, text string) bool {
	s.tries++
	return s.tries <= maxTries && m.AcceptBytes([]byte(text)) == len(text)
}

// write reports whether the matcher takes the value and then next holds.
func (s *search) write(m grammar.Matcher, v any, next func(grammar.Matcher) bool) bool {
	switch v := v.(type) {
	case []any:
		return s.feed(&m, "[") && s.items(m, v, "", next)
	case members:
		if !s.feed(&m, "{") {
			return false
		}
		v = slices.Clone(v)
		slices.SortStableFunc(v, func(a, b member) int { return s.rank(a.key) - s.rank(b.key) })
		return s.members(m, v, "", next)
	}
	return s.feed(&m, scalar(v)) && next(m)
}

func (s *search) rank(key string) int {
	if rank, ok := s.ranks[key]; ok {
		return rank
	}
	return len(s.ranks)
}

func (s *search) items(m grammar.Matcher, items []any, comma string,
	next func(grammar.Matcher) bool) bool {
	if len(items) == 0 {
		return s.feed(&m, "]") && next(m)
	}
	if !s.feed(&m, comma) {
		return false
	}
	return s.write(m, items[0], func(m grammar.Matcher) bool {
		return s.items(m, items[1:], ", ", next)
	})
}

func (s *search) members(m grammar.Matcher, left members, comma string,
	next func(grammar.Matcher) bool) bool {
	if len(left) == 0 {
		return s.feed(&m, "}") && next(m)
	}
	for i, chosen := range left {
		if i > 0 && s.rank(chosen.key) == len(s.ranks) && s.rank(left[i-1].key) == len(s.ranks) {
			break // no schema names them, so their order does not matter
		}
		at := m
		if !s.feed(&at, comma+jsonschema.Quote(chosen.key)+": ") {
			continue
		}
		others := slices.Delete(slices.Clone(left), i, i+1)
		if s.write(at, chosen.value, func(m grammar.Matcher) bool {
			return s.members(m, others, ", ", next)
		}) {
			return true
		}
	}
	return false
}

// scalar writes a value as grammars do. Numbers have no exponent unless they are huge.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return jsonschema.Quote(v)
	case json.Number:
		return decimal(string(v))
	}
	return ""
}

func decimal(number string) string {
	const most = 400
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(number[at+1:])
		if err != nil || exponent > most || exponent < -most {
			return number
		}
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return number
	}
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(2*most), "0")
}
