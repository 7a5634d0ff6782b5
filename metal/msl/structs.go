package msl

// Parameter structs are declared twice, in Go and in the kernel's source. All of their fields have
// four bytes, so that neither language pads them. This file compares the two declarations field by
// field: a missing or reordered field is an error before anything runs.

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Struct is a struct of a source, with its fields in order.
type Struct struct {
	Name   string
	Fields []Field
	fault  string // why the host cannot declare it too, "" if it can
}

// Field is one field of four bytes.
type Field struct {
	Name string
	Type string // uint, int or float
}

var goTypes = map[reflect.Kind]string{reflect.Uint32: "uint", reflect.Int32: "int",
	reflect.Float32: "float"}

// CheckStruct returns an error unless the Go struct type t matches the struct of k's buffer
// argument index. Fields must have the same order, the same names apart from capitals and
// underscores, and the corresponding types: uint32 for uint, int32 for int, float32 for float.
func (p *Program) CheckStruct(k *Kernel, index int, t reflect.Type) error {
	a := k.Buffer(index)
	if a == nil {
		return fmt.Errorf("%s has no [[buffer(%d)]], expected its parameter struct there", k.Name,
			index)
	}
	s := p.structOf(a)
	switch {
	case s == nil:
		return fmt.Errorf(
			"%s: argument %s refers to no struct of this source; write: constant SomeParams& %s "+
				"[[buffer(%d)]]", k.Name, a, a.Name, index)
	case s.fault != "":
		return fmt.Errorf(
			"%s: struct %s: %s; parameter structs may only have fields of type uint, int and float",
			k.Name, s.Name, s.fault)
	case t.Kind() != reflect.Struct:
		return fmt.Errorf("%s: got %s for struct %s, expected a Go struct", k.Name, t, s.Name)
	}
	if t.NumField() != len(s.Fields) {
		return fmt.Errorf("%s: Go's %s has %d fields, %s in the source has %d: %s", k.Name, t,
			t.NumField(), s.Name, len(s.Fields), s.list())
	}
	for i, f := range s.Fields {
		g := t.Field(i)
		if !strings.EqualFold(g.Name, strings.ReplaceAll(f.Name, "_", "")) ||
			goTypes[g.Type.Kind()] != f.Type {
			return fmt.Errorf(
				"%s: field %d is %s %s in Go's %s and %s %s in %s; make them the same", k.Name, i,
				g.Name, g.Type, t, f.Type, f.Name, s.Name)
		}
	}
	return nil
}

// StructBytes returns the size of the parameter struct that argument a refers to. ok is false
// unless a refers to a struct of four-byte fields.
func (p *Program) StructBytes(a *Argument) (bytes int, ok bool) {
	s := p.structOf(a)
	if s == nil || s.fault != "" {
		return 0, false
	}
	return 4 * len(s.Fields), true
}

func (s *Struct) list() string {
	var all []string
	for _, f := range s.Fields {
		all = append(all, f.Type+" "+f.Name)
	}
	return strings.Join(all, ", ")
}

var qualifiers = regexp.MustCompile(`\b(?:const|constant|device|struct)\b|[&*]`)

func (p *Program) structOf(a *Argument) *Struct {
	name := strings.TrimSpace(qualifiers.ReplaceAllString(a.Type, ""))
	for i := range p.structs {
		if p.structs[i].Name == name {
			return &p.structs[i]
		}
	}
	return nil
}

// structAt reads the struct whose keyword is token i: struct Name { type field; ... };
func (r *reader) structAt(i int) {
	s := Struct{Name: r.ts.at(i + 1).text}
	if r.ts.at(i+2).text != "{" {
		return
	}
	end := r.ts.closing(i+2, "{", "}")
	for at := i + 3; at < end; {
		to := at
		for to < end && r.ts[to].text != ";" {
			to++
		}
		f := Field{Type: r.ts.at(at).text, Name: r.ts.at(at + 1).text}
		if four := f.Type == "uint" || f.Type == "int" || f.Type == "float"; s.fault == "" &&
			(to != at+2 || !four) {
			s.fault = fmt.Sprintf("%q is not a plain field of four bytes", r.ts.words(at, to))
		}
		s.Fields = append(s.Fields, f)
		at = to + 1
	}
	r.p.structs = append(r.p.structs, s)
}
