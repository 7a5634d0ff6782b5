package jinja

import (
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// A template value has one of these Go types. Each stands for a Python type:
//
//	nil          None            *List       list, tuple or generator
//	bool         bool            *Dict       dict, in insertion order
//	int64        int             *big.Int    int beyond 64 bits
//	float64      float           *Namespace  the result of namespace()
//	string       str             *undefined  a missing variable or attribute
//	*function    a builtin, or a method bound to its object
//	*macro       a macro or caller
//	*loop        the loop variable
//
// Values are immutable once a template can see them, except for a Namespace,
// which belongs to one rendering.

type listKind uint8

const (
	kindList listKind = iota
	kindTuple
	kindGenerator // the result of map, select and others; always true, and without a length
)

// List is a Python list, tuple or generator.
type List struct {
	Items []any
	kind  listKind
	shown string // how Python prints the type of a view, such as dict_keys; or a range, in full
}

// NewList returns a list of the values.
func NewList(items ...any) *List { return &List{Items: items} }

func newGenerator(items []any) *List { return &List{Items: items, kind: kindGenerator} }

// Dict is a dictionary that keeps the order in which keys were first set. The
// zero value is not usable: call NewDict.
type Dict struct {
	keys   []any
	values []any
	index  map[any]int
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{index: map[any]int{}} }

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// Set adds an entry, or replaces its value in place.
func (d *Dict) Set(key string, value any) { d.set(key, value) }

// Get returns a value by its string key.
func (d *Dict) Get(key string) (any, bool) { return d.get(key) }

// Delete removes the entry of a string key, if there is one.
func (d *Dict) Delete(key string) {
	at, ok := d.index[hashKey(key)]
	if !ok {
		return
	}
	delete(d.index, hashKey(key))
	d.keys = append(d.keys[:at], d.keys[at+1:]...)
	d.values = append(d.values[:at], d.values[at+1:]...)
	for i := at; i < len(d.keys); i++ {
		d.index[hashKey(d.keys[i])] = i
	}
}

// Clone returns a shallow copy: the values are shared.
func (d *Dict) Clone() *Dict {
	c := NewDict()
	for i, k := range d.keys {
		c.set(k, d.values[i])
	}
	return c
}

// Without returns a shallow copy without a key.
func (d *Dict) Without(key string) *Dict {
	c := NewDict()
	for i, k := range d.keys {
		if k != key {
			c.set(k, d.values[i])
		}
	}
	return c
}

// hashKey maps keys that are equal in Python (1, 1.0, True) to one Go value.
func hashKey(key any) any {
	switch k := key.(type) {
	case nil, string, int64:
		return k
	case bool:
		return asInt(k)
	case float64:
		if n := int64(k); float64(n) == k {
			return n
		}
		return k
	case *big.Int:
		return "\x00int " + k.String()
	}
	panic(&Error{Message: "unhashable type: '" + typeName(key) + "'"})
}

func (d *Dict) set(key, value any) {
	h := hashKey(key)
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

func (d *Dict) get(key any) (any, bool) {
	i, ok := d.index[hashKey(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// put sets an entry of a dictionary, and lookIn returns one. They count the work.
func (r *renderer) put(d *Dict, key, value any) {
	r.hash(key)
	r.take(entryBytes)
	d.set(key, value)
}

func (r *renderer) lookIn(d *Dict, key any) (any, bool) {
	r.hash(key)
	return d.get(key)
}

// hash counts the work of hashing a key.
func (r *renderer) hash(key any) {
	switch k := key.(type) {
	case string:
		r.work(1 + len(k)/bytesPerStep)
	case *big.Int:
		r.work(bigIntSteps)
	}
}

// pairs returns the entries as (key, value) tuples.
func (r *renderer) pairs(d *Dict) []any {
	r.entries(d.Len())
	list := make([]any, len(d.keys))
	for i, k := range d.keys {
		list[i] = &List{Items: []any{k, d.values[i]}, kind: kindTuple}
	}
	return list
}

// Namespace is the result of namespace(), the only value whose attributes a template may set.
type Namespace struct{ attrs *Dict }

// undefined is a missing value. It is false, empty and printed as "". Looking up
// an attribute, calling it and calculating with it are errors.
type undefined struct {
	message string // what is missing; if it is empty, object has no attribute name
	object  any
	name    string
}

// why returns the message of an error about the value.
func (u *undefined) why() string {
	if u.message != "" {
		return u.message
	}
	return fmt.Sprintf("'%s object' has no attribute '%s'", typeName(u.object),
		excerpt(u.name, maxNameBytes))
}

func undefinedName(name string) *undefined {
	return &undefined{message: "'" + excerpt(name, maxNameBytes) + "' is undefined"}
}

func undefinedAttr(object any, name string) *undefined {
	return &undefined{object: object, name: name}
}

func isUndefined(v any) bool {
	_, ok := v.(*undefined)
	return ok
}

// intValue returns n as an int64 if it fits.
func intValue(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// asInt returns Python's int(b).
func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// typeName returns the name of a value's type in Python.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return [...]string{"list", "tuple", "generator"}[v.kind]
	case *Dict:
		return "dict"
	case *Namespace:
		return "Namespace"
	case *undefined:
		return "Undefined"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// truth returns Python's bool(v).
func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return v.kind == kindGenerator || len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// iterate returns the items of a for loop over v.
func (r *renderer) iterate(v any) []any {
	switch v := v.(type) {
	case *undefined:
		return nil
	case string:
		n := utf8.RuneCountInString(v)
		r.take(2 * itemBytes * n) // each is a string of one character
		items := make([]any, 0, n)
		for _, c := range v {
			r.step()
			items = append(items, string(c))
		}
		return items
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	}
	r.fail("'%s' object is not iterable", typeName(v))
	return nil
}

func iterable(v any) bool {
	switch v.(type) {
	case *undefined, string, *List, *Dict:
		return true
	}
	return false
}

// length returns Python's len(v).
func (r *renderer) length(v any) int {
	switch v := v.(type) {
	case *undefined:
		return 0
	case string:
		r.read(len(v))
		return utf8.RuneCountInString(v)
	case *List:
		if v.kind != kindGenerator {
			return len(v.Items)
		}
	case *Dict:
		return v.Len()
	}
	r.fail("object of type '%s' has no len()", typeName(v))
	return 0
}

// maxValueDepth bounds recursion into nested values.
const maxValueDepth = 500

// equal is Python's ==.
func (r *renderer) equal(a, b any) bool { return r.equalAt(a, b, 0) }

func (r *renderer) equalAt(a, b any, depth int) bool {
	r.step()
	if depth > maxValueDepth {
		r.fail("values nested deeper than %d levels cannot be compared", maxValueDepth)
	}
	if x, y, ok := numbers(a, b); ok {
		return compareNumbers(x, y) == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		if !ok || len(a) != len(b) {
			return false
		}
		r.work(len(a) / bytesPerStep)
		return a == b
	case *undefined:
		return isUndefined(b)
	case *List:
		b, ok := b.(*List)
		if !ok || a.kind != b.kind || len(a.Items) != len(b.Items) || a.kind == kindGenerator {
			return ok && a == b
		}
		for i := range a.Items {
			if !r.equalAt(a.Items[i], b.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || a.Len() != b.Len() {
			return false
		}
		for i, k := range a.keys {
			v, ok := r.lookIn(b, k)
			if !ok || !r.equalAt(a.values[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders a and b as Python's < does; it fails for types without order.
func (r *renderer) compare(op string, a, b any) int { return r.compareAt(op, a, b, 0) }

func (r *renderer) compareAt(op string, a, b any, depth int) int {
	r.step()
	if depth > maxValueDepth {
		r.fail("values nested deeper than %d levels cannot be compared", maxValueDepth)
	}
	if x, y, ok := numbers(a, b); ok {
		return compareNumbers(x, y)
	}
	switch a := a.(type) {
	case *undefined:
		r.fail("%s", a.why())
	case string:
		if b, ok := b.(string); ok {
			r.work(min(len(a), len(b)) / bytesPerStep)
			return strings.Compare(a, b)
		}
	case *List:
		if b, ok := b.(*List); ok && a.kind == b.kind && a.kind != kindGenerator {
			for i := range min(len(a.Items), len(b.Items)) {
				if !r.equalAt(a.Items[i], b.Items[i], depth+1) {
					return r.compareAt(op, a.Items[i], b.Items[i], depth+1)
				}
			}
			return len(a.Items) - len(b.Items)
		}
	}
	if b, ok := b.(*undefined); ok {
		r.fail("%s", b.why())
	}
	r.fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0
}

// find counts the search for sub in s.
func (r *renderer) find(s, sub string) { r.work(1 + (len(s)+len(sub))/(bytesPerStep/4)) }

// contains is Python's "item in container".
func (r *renderer) contains(container, item any) bool {
	switch c := container.(type) {
	case string:
		s, ok := item.(string)
		if !ok {
			r.fail("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		r.find(c, s)
		return strings.Contains(c, s)
	case *Dict:
		_, ok := r.lookIn(c, item)
		return ok
	}
	for _, v := range r.iterate(container) {
		if r.equal(v, item) {
			return true
		}
	}
	return false
}
