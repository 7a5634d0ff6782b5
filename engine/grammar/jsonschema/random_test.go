package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"headroom/engine/grammar"
)

// maker makes random schemas and values of few names, texts and numbers, so that they often have to
// do with each other.
type maker struct{ r *rand.Rand }

func (m maker) of(list ...string) string { return list[m.r.IntN(len(list))] }
func (m maker) chance(percent int) bool  { return m.r.IntN(100) < percent }

func (m maker) name() string { return m.of(`"a"`, `"b"`, `"ab"`) }

func (m maker) scalar() string {
	return m.of(`null`, `true`, `false`, `0`, `1`, `2`, `-1`, `1.5`, `10`, `-0.25`, `12`, `3`, `""`,
		`"a"`, `"b"`, `"ab"`, `"aé\""`, `"\n"`, `"2024-01-01"`)
}

func (m maker) value(depth int) string {
	if depth == 0 || m.chance(50) {
		return m.scalar()
	}
	var parts []string
	if m.chance(50) {
		for range m.r.IntN(4) {
			parts = append(parts, m.value(depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	names := []string{`"a"`, `"b"`, `"ab"`, `"c"`}
	m.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:m.r.IntN(4)] {
		parts = append(parts, name+":"+m.value(depth-1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (m maker) count() string { return m.of("0", "1", "2", "3") }

func (m maker) number() string { return m.of("0", "1", "-1", "1.5", "2.25", "10", "-12.5", "100") }

func (m maker) pattern() string {
	return m.of(`"^a"`, `"b$"`, `"a"`, `"^a?b*$"`, `"^(?!a)"`, `"^[^a]*$"`, `"^.{2}$"`,
		`"^(a|ab)$"`)
}

func (m maker) list(n int, one func() string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = one()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (m maker) mapping(key, one func() string) string {
	var parts []string
	seen := map[string]bool{}
	for range 1 + m.r.IntN(2) {
		if k := key(); !seen[k] {
			seen[k] = true
			parts = append(parts, k+":"+one())
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// schema returns a random schema. Each keyword is there rarely, so that schemas stay small.
func (m maker) schema(depth int) string {
	if m.chance(8) {
		return m.of("true", "false", "{}")
	}
	inner := func() string {
		if depth == 0 {
			return m.of(`{"type": "integer"}`, `{"type": "string"}`, `true`, `{"const": 1}`, `false`,
				`{"enum": [1, "a", null]}`, `{"type": ["boolean", "null"]}`,
				`{"type": "object"}`, `{"$ref": "#/$defs/x"}`)
		}
		return m.schema(depth - 1)
	}
	distinctNames := func() string { return m.of(`["a"]`, `["b"]`, `["a","b"]`, `["ab","c"]`) }
	all := []struct {
		keyword string
		value   func() string
	}{
		{"type", func() string {
			return m.of(`"object"`, `"object"`, `"array"`, `"string"`, `"number"`, `"integer"`, `"null"`,
				`"boolean"`, `["object","array"]`, `["integer","string"]`, `["object","null"]`)
		}},
		{"type", func() string { return m.of(`"object"`, `"array"`, `"string"`, `"number"`) }},
		{"enum", func() string {
			return m.list(1+m.r.IntN(3), func() string { return m.value(2) })
		}},
		{"const", func() string { return m.value(2) }},
		{"properties", func() string { return m.mapping(m.name, inner) }},
		{"properties", func() string { return m.mapping(m.name, inner) }},
		{"patternProperties", func() string { return m.mapping(m.pattern, inner) }},
		{"additionalProperties", inner},
		{"required", distinctNames},
		{"propertyNames", inner},
		{"minProperties", m.count}, {"maxProperties", m.count},
		{"dependentRequired", func() string { return m.mapping(m.name, distinctNames) }},
		{"dependentSchemas", func() string { return m.mapping(m.name, inner) }},
		{"unevaluatedProperties", inner},
		{"items", inner}, {"prefixItems", func() string { return m.list(1+m.r.IntN(2), inner) }},
		{"minItems", m.count}, {"maxItems", m.count}, {"contains", inner},
		{"minContains", m.count}, {"maxContains", m.count}, {"unevaluatedItems", inner},
		{"uniqueItems", func() string { return "true" }},
		{"minLength", m.count}, {"maxLength", m.count}, {"pattern", m.pattern},
		{"format", func() string { return m.of(`"date"`, `"ipv4"`) }},
		{"minimum", m.number}, {"maximum", m.number}, {"exclusiveMinimum", m.number},
		{"exclusiveMaximum", m.number},
		{"multipleOf", func() string { return m.of("1", "2", "3", "0.5", "2.5", "0.01") }},
		{"allOf", func() string { return m.list(1+m.r.IntN(2), inner) }},
		{"anyOf", func() string { return m.list(1+m.r.IntN(3), inner) }},
		{"oneOf", func() string { return m.list(1+m.r.IntN(3), inner) }},
		{"not", inner}, {"if", inner}, {"then", inner}, {"else", inner},
		{"$ref", func() string { return m.of(`"#/$defs/x"`, `"#/$defs/y"`) }},
	}
	var parts []string
	seen := map[string]bool{}
	for range 1 + m.r.IntN(4) {
		k := all[m.r.IntN(len(all))]
		if !seen[k.keyword] {
			seen[k.keyword] = true
			parts = append(parts, fmt.Sprintf("%q: %s", k.keyword, k.value()))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// document returns a schema with the two that $ref names.
func (m maker) document() string {
	s := m.schema(3)
	if !strings.HasPrefix(s, "{") {
		s = "{}"
	}
	s = strings.TrimSuffix(s, "}")
	if len(s) > 1 {
		s += ", "
	}
	return s + `"$defs": {"x": ` + m.schema(1) + `, "y": ` + m.schema(0) + "}}"
}

// forms returns the texts of a value in the grammars, one for each order of members.
func forms(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{"null"}
	case string:
		return []string{Quote(v)}
	case []any:
		out := []string{"["}
		for i, item := range v {
			if i > 0 {
				out = product(out, []string{", "})
			}
			out = product(out, forms(item))
		}
		return product(out, []string{"]"})
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		var out []string
		permutations(keys, func(keys []string) {
			one := []string{"{"}
			for i, key := range keys {
				comma := ", "
				if i == 0 {
					comma = ""
				}
				one = product(one, []string{comma + Quote(key) + ": "})
				one = product(one, forms(v[key]))
			}
			out = append(out, product(one, []string{"}"})...)
		})
		return out
	}
	return []string{fmt.Sprint(v)}
}

func product(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out
}

func permutations(keys []string, do func([]string)) {
	var permute func(n int)
	permute = func(n int) {
		if n == len(keys) {
			do(keys)
			return
		}
		for i := n; i < len(keys); i++ {
			keys[n], keys[i] = keys[i], keys[n]
			permute(n + 1)
			keys[n], keys[i] = keys[i], keys[n]
		}
	}
	permute(0)
}

// walk returns a random text of a grammar; false: it did not end soon.
func walk(r *rand.Rand, g *grammar.Grammar) (string, bool) {
	const long, longest = 40, 400
	m := *g.NewMatcher()
	var text []byte
	for len(text) < longest {
		var next []byte
		for b := range 256 {
			one := m
			if one.AcceptBytes([]byte{byte(b)}) == 1 {
				next = append(next, byte(b))
			}
		}
		if m.Complete() && (len(next) == 0 || len(text) > long || r.IntN(4) == 0) {
			return string(text), true
		}
		if len(next) == 0 {
			return string(text), false
		}
		b := next[r.IntN(len(next))]
		// Whole alphabets are long, so that marks and what ends a text are preferred.
		marks := "\"]}0"
		if len(text) <= long {
			marks += "{[,ab"
		}
		next = slices.DeleteFunc(next, func(b byte) bool {
			return !strings.Contains(marks, string(rune(b)))
		})
		if len(next) > 0 && (len(text) > long || r.IntN(3) > 0) {
			b = next[r.IntN(len(next))]
		}
		m.AcceptBytes([]byte{b})
		text = append(text, b)
	}
	return "", false
}

// checkRandom compares the grammar of a random schema with a validator, on texts of the grammar and
// on random values. It returns whether the schema was refused.
func checkRandom(t *testing.T, seed uint64) (refused bool) {
	t.Helper()
	m := maker{rand.New(rand.NewPCG(seed, 1))}
	schema := m.document()
	doc, err := validator.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("seed %d: %s: %v", seed, schema, err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		return true
	}
	v, err := c.Compile("schema.json")
	if err != nil {
		return true
	}
	valid := func(text string) (ok bool) {
		defer func() {
			if recover() != nil {
				ok = false // an endless $ref
			}
		}()
		value, err := validator.UnmarshalJSON(strings.NewReader(text))
		return err == nil && v.Validate(value) == nil
	}
	g, err := compile(schema, Options{})
	var isInvalid *Invalid
	isNothing := errors.As(err, &isInvalid) && isInvalid.Reason == "no value is valid" ||
		errors.Is(err, grammar.ErrNothing)
	if err != nil && !isNothing {
		return true
	}
	for range 12 {
		if g == nil {
			break
		}
		if text, ok := walk(m.r, g); ok && !valid(text) {
			t.Errorf("seed %d: %s\n\ttakes %s", seed, schema, text)
			return false
		}
	}
	for range 25 {
		text := m.value(2)
		value, err := validator.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		want := valid(text)
		got := g != nil && slices.ContainsFunc(forms(value), func(s string) bool {
			return matches(g, s)
		})
		if got != want {
			t.Errorf("seed %d: %s\n\t%s: taken %v, valid %v", seed, schema, text, got, want)
			return false
		}
	}
	return false
}

// TestRandom compares grammars of random schemas with a validator.
func TestRandom(t *testing.T) {
	const n = 300
	refused := 0
	for seed := range uint64(n) {
		if checkRandom(t, seed) {
			refused++
		}
	}
	if refused > n/2 {
		t.Errorf("%d of %d schemas were refused", refused, n)
	}
}

// FuzzRandom does the same for other seeds.
func FuzzRandom(f *testing.F) {
	f.Add(uint64(0))
	f.Fuzz(func(t *testing.T, seed uint64) { checkRandom(t, seed) })
}

// FuzzBuild reads any text as a schema.
func FuzzBuild(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"string","pattern":"^a"}`, `{"$ref":"#"}`, `[`, ``,
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`,
		`{"items":[{"minItems":1e2}],"additionalItems":{"multipleOf":0.3}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		g, err := compile(schema, Options{})
		if err == nil && !json.Valid([]byte(schema)) {
			t.Error("a schema is no JSON")
		}
		if err == nil {
			matches(g, `{"a": [1]}`)
		}
	})
}
