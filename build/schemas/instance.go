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

// orders are the orders in which a schema names members.
type orders struct {
	lists []map[string]int // the names in each properties, with their places
	all   map[string]int   // all names in the schema
	// literal: the schema is of draft 4, in which 1.0 is not an integer, and numbers are written as
	// they are in the instance.
	literal bool
}

// ordersOf returns the orders of a schema.
func ordersOf(schema any) *orders {
	o := &orders{all: map[string]int{}}
	if object, ok := schema.(members); ok {
		for _, m := range object {
			uri, _ := m.value.(string)
			o.literal = o.literal || m.key == "$schema" && strings.Contains(uri, "draft-04")
		}
	}
	o.walk(schema)
	return o
}

func (o *orders) add(name string) {
	if _, ok := o.all[name]; !ok {
		o.all[name] = len(o.all)
	}
}

func (o *orders) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if name, ok := item.(string); ok {
				o.add(name) // in required, or a dependency
			}
			o.walk(item)
		}
	case members:
		for _, m := range v {
			if properties, ok := m.value.(members); ok && m.key == "properties" {
				list := map[string]int{}
				for i, p := range properties {
					o.add(p.key)
					list[p.key] = i
				}
				o.lists = append(o.lists, list)
			}
		}
		for _, m := range v {
			o.add(m.key)
			o.walk(m.value)
		}
	}
}

// maxOrders is how many lists are tried for an object before other orders.
const maxOrders = 5

// sorts returns the members of an object in likely orders: those of the lists that name most of
// them, then that of all names in the schema. rank is the order of the first. Names that are not in
// the schema have the last place.
func (o *orders) sorts(object members) (sorted []members, rank func(string) int) {
	named := func(list map[string]int) (n int) {
		for _, m := range object {
			if _, ok := list[m.key]; ok {
				n++
			}
		}
		return n
	}
	lists := slices.Clone(o.lists)
	slices.SortStableFunc(lists, func(a, b map[string]int) int { return named(b) - named(a) })
	lists = append(lists[:min(len(lists), maxOrders)], nil)
	for n, list := range lists {
		place := func(name string) int {
			if i, ok := list[name]; ok {
				return i
			}
			if i, ok := o.all[name]; ok {
				return len(list) + i
			}
			return len(list) + len(o.all)
		}
		if n == 0 {
			rank = place
		}
		one := slices.Clone(object)
		slices.SortStableFunc(one, func(a, b member) int { return place(a.key) - place(b.key) })
		sorted = append(sorted, one)
	}
	return sorted, rank
}

// maxTries bounds the search for an order.
const maxTries = 20000

// search looks for an order of the members that a grammar takes.
type search struct {
	orders *orders
	tries  int
	most   string // the longest text that was a beginning
}

// place is a matcher and the text that it has taken.
type place struct {
	grammar.Matcher
	text string
}

// takes reports whether the grammar takes a value. If not, beginning is the longest that it takes.
func takes(g *grammar.Grammar, o *orders, v any) (ok bool, beginning string) {
	s := &search{orders: o}
	ok = s.write(place{Matcher: *g.NewMatcher()}, v, func(m place) bool { return m.Complete() })
	if s.tries > maxTries {
		s.most += " (gave up)"
	}
	return ok, s.most
}

func (s *search) feed(m *place, text string) bool {
	s.tries++
	if s.tries > maxTries {
		return false
	}
	n := m.AcceptBytes([]byte(text))
	if m.text += text[:n]; len(m.text) > len(s.most) {
		s.most = m.text
	}
	return n == len(text)
}

// write reports whether the matcher takes the value and then next holds.
func (s *search) write(m place, v any, next func(place) bool) bool {
	switch v := v.(type) {
	case []any:
		return s.feed(&m, "[") && s.items(m, v, "", next)
	case members:
		if !s.feed(&m, "{") {
			return false
		}
		sorted, rank := s.orders.sorts(v)
		for _, one := range sorted {
			if s.members(m, one, nil, "", next) {
				return true
			}
		}
		return s.members(m, sorted[0], rank, "", next)
	}
	written := scalar(v)
	if number, ok := v.(json.Number); ok && s.orders.literal {
		written = string(number)
	}
	return s.feed(&m, written) && next(m)
}

func (s *search) items(m place, items []any, comma string,
	next func(place) bool) bool {
	if len(items) == 0 {
		return s.feed(&m, "]") && next(m)
	}
	if !s.feed(&m, comma) {
		return false
	}
	return s.write(m, items[0], func(m place) bool {
		return s.items(m, items[1:], ", ", next)
	})
}

// members writes the members that are left, in any order if there is a rank.
func (s *search) members(m place, left members, rank func(string) int, comma string,
	next func(place) bool) bool {
	if len(left) == 0 {
		return s.feed(&m, "}") && next(m)
	}
	for i, chosen := range left {
		if i > 0 && (rank == nil || rank(chosen.key) == rank(left[i-1].key)) {
			break // no schema names them, so their order does not matter
		}
		at := m
		if !s.feed(&at, comma+jsonschema.Quote(chosen.key)+": ") {
			continue
		}
		others := slices.Delete(slices.Clone(left), i, i+1)
		if s.write(at, chosen.value, func(m place) bool {
			return s.members(m, others, rank, ", ", next)
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
