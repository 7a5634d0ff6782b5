package jsonschema

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the least processor time that f takes in three runs. On Linux it is that of the
// thread, on which neither other tests nor other programs have an influence.
func cpuTime(t *testing.T, f func()) (least time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	who := syscall.RUSAGE_SELF
	if runtime.GOOS == "linux" {
		who = 1 // RUSAGE_THREAD
	}
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for range 3 {
		began := now()
		f()
		if took := now() - began; least == 0 || took < least {
			least = took
		}
	}
	return least
}

// TestHostile reads schemas that would take long or much memory. Each ends in an error, or is read,
// within the time that a request may take.
func TestHostile(t *testing.T) {
	list := func(n int, one func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(i)
		}
		return strings.Join(parts, ",")
	}
	doubling := func(keyword string) string {
		return `{"$ref": "#/$defs/a0", "$defs": {` + list(60, func(i int) string {
			return fmt.Sprintf(`"a%d": {%q: [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`, i,
				keyword, i+1, i+1)
		}) + `, "a60": {"type": "object", "required": ["x"]}}}`
	}
	optional := func(keyword string) string { // 2^40 combinations
		return `{"type": "object", "allOf": [` + list(40, func(i int) string {
			return fmt.Sprintf(`{%q: [{"required": ["a%d"]}, {"required": ["b%d"]}]}`, keyword, i, i)
		}) + `]}`
	}
	// nested is a schema with four branches at each of some levels, each with a member of its own.
	var nested func(keyword string, depth int) string
	nested = func(keyword string, depth int) string {
		if depth == 0 {
			return `{"type": "object"}`
		}
		return fmt.Sprintf(`{%q: [`, keyword) + list(4, func(i int) string {
			return fmt.Sprintf(`{"properties": {"a%d%d": {"type": "string"}}, "allOf": [%s]}`,
				depth, i, nested(keyword, depth-1))
		}) + `]}`
	}
	for _, c := range []struct{ name, schema string }{
		{"10 MB", `{"description": "` + strings.Repeat("x", 10<<20) + `"}`},
		{"10 MB of values", `{"enum": [` + strings.Repeat("1,", 5<<20) + `1]}`},
		{"many values", `{"enum": [` + list(50_000, func(i int) string {
			return fmt.Sprint(i)
		}) + `]}`},
		{"many texts", `{"enum": [` + list(90_000, func(i int) string {
			return fmt.Sprintf(`"%d%d"`, i*7919%100_000, i)
		}) + `]}`},
		{"many properties", `{"properties": {` + list(20_000, func(i int) string {
			return fmt.Sprintf(`"p%d": {"type": "string"}`, i)
		}) + `}}`},
		{"deep", strings.Repeat(`{"items": `, 5000) + "{}" + strings.Repeat("}", 5000)},
		{"deep arrays", `{"enum": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) +
			"}"},
		{"doubling allOf", doubling("allOf")}, {"doubling anyOf", doubling("anyOf")},
		{"doubling oneOf", doubling("oneOf")},
		{"anyOf product", optional("anyOf")}, {"oneOf product", optional("oneOf")},
		{"dependencies", `{"type": "object", "dependentRequired": {` + list(40, func(i int) string {
			return fmt.Sprintf(`"a%d": ["b%d"]`, i, i)
		}) + `}}`},
		{"circle", `{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
			"b": {"$ref": "#/$defs/a"}}}`},
		{"circle of allOf", `{"allOf": [{"$ref": "#"}]}`},
		{"circle of not", `{"not": {"$ref": "#"}}`},
		{"patterns", `{"allOf": [` + list(30, func(i int) string {
			return fmt.Sprintf(`{"pattern": "(a|b)*a(a|b){%d}c(.*x){%d}"}`, i+5, i+1)
		}) + `]}`},
		{"a pattern", `{"pattern": "^((a{1,500}){1,500}b?){1,3}$", "not": {"pattern": "(a|aa)*c(a|b){200}"}}`},
		{"disjoint patterns", `{"oneOf": [` + list(12, func(i int) string {
			return fmt.Sprintf(`{"type": "string", "pattern": "^(.*a){%d}[^a]*$"}`, i+20)
		}) + `]}`},
		{"classes of keys", `{"patternProperties": {` + list(16, func(i int) string {
			return fmt.Sprintf(`"(.*%c){3}": {"minLength": %d}`, 'a'+rune(i), i)
		}) + `}}`},
		{"counted", `{"type": "object", "minProperties": 4000, "properties": {` +
			list(4000, func(i int) string { return fmt.Sprintf(`"p%d": true`, i) }) +
			`}, "additionalProperties": false}`},
		{"contains", `{"type": "array", "contains": {"const": 1}, "minContains": 100000000,
			"maxContains": 1000000000}`},
		{"multiples", `{"allOf": [` + list(20, func(i int) string {
			return fmt.Sprintf(`{"multipleOf": %d, "not": {"multipleOf": %d}}`, 99_991-i, 7919+i)
		}) + `, {"type": "integer"}]}`},
		{"oneOf of many", `{"oneOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"const": "%d"}`, i*7919)
		}) + `]}`},
		{"oneOf of objects", `{"oneOf": [` + list(300, func(i int) string {
			return fmt.Sprintf(`{"type": "object", "properties": {"k": {"const": %d}, "a%d": {}},
				"required": ["k"]}`, i, i)
		}) + `]}`},
		{"nested anyOf of objects", nested("anyOf", 6)},
		{"nested oneOf of objects", nested("oneOf", 5)},
		{"nested allOf of anyOf", `{"allOf": [` + list(8, func(i int) string {
			return `{"anyOf": [` + list(9, func(j int) string {
				return fmt.Sprintf(`{"properties": {"p%d": {"minLength": %d}}}`, i, j)
			}) + `]}`
		}) + `]}`},
		{"nested negations", strings.Repeat(`{"not": {"properties": {"a": `, 60) + `{"const": 1}` +
			strings.Repeat("}}}", 60)},
		{"conditions", strings.Repeat(`{"if": {"required": ["a"]}, "then": {"required": ["b"]},
			"else": `, 190) + `{}` + strings.Repeat("}", 190)},
		{"conditions beside", `{"allOf": [` + list(60, func(i int) string {
			return fmt.Sprintf(`{"if": {"properties": {"k": {"const": %d}}, "required": ["k"]},
				"then": {"required": ["a%d"]}}`, i, i)
		}) + `]}`},
		{"values and a pattern", `{"pattern": "^(.*[0-9]){4}(a|b|.*c)*$", "enum": [` +
			list(20_000, func(i int) string { return fmt.Sprintf(`"value %d"`, i) }) + `]}`},
		{"values of two lists", `{"allOf": [{"enum": [` + list(20_000, func(i int) string {
			return fmt.Sprintf(`"%d"`, i)
		}) + `]}, {"enum": [` + list(20_000, func(i int) string {
			return fmt.Sprintf(`"%d"`, i+1)
		}) + `]}]}`},
		{"objects as values", `{"enum": [` + list(9000, func(i int) string {
			return fmt.Sprintf(`{"a": %d, "b": [%d]}`, i, i)
		}) + `]}`},
		{"numbers as values", `{"enum": [` + list(40_000, func(i int) string {
			return fmt.Sprintf("%d.%d", i, i)
		}) + `]}`},
		{"references", `{"properties": {` + list(1500, func(i int) string {
			return fmt.Sprintf(`"p%d": {"$ref": "#`+strings.Repeat("/items", 90)+`"}`, i)
		}) + `}, "items": ` + strings.Repeat(`{"items": `, 150) + `{}` + strings.Repeat("}", 151)},
		{"a chain of references", `{"$ref": "#/$defs/a0", "$defs": {` + list(9000,
			func(i int) string { return fmt.Sprintf(`"a%d": {"$ref": "#/$defs/a%d"}`, i, i+1) }) +
			`, "a9000": {}}}`},
		{"a chain of allOf", `{"$ref": "#/$defs/a0", "$defs": {` + list(9000,
			func(i int) string {
				return fmt.Sprintf(`"a%d": {"allOf": [{"$ref": "#/$defs/a%d"}]}`, i, i+1)
			}) + `, "a9000": {}}}`},
		{"identifiers", `{"$defs": {` + list(12_000, func(i int) string {
			return fmt.Sprintf(`"a%d": {"$id": "http://h/%d", "$anchor": "x%d"}`, i, i, i)
		}) + `}}`},
		{"a long key", `{"properties": {"` + strings.Repeat("x", 1<<20-40) + `": {}}}`},
		{"required names", `{"required": [` + list(45_000, func(i int) string {
			return fmt.Sprintf(`"p%d"`, i)
		}) + `]}`},
		{"prefixItems", `{"prefixItems": [` + list(20_000, func(i int) string {
			return fmt.Sprintf(`{"const": %d}`, i)
		}) + `]}`},
		{"dependentSchemas", `{"dependentSchemas": {` + list(30, func(i int) string {
			return fmt.Sprintf(`"a%d": {"properties": {"b%d": {"const": %d}}}`, i, i, i)
		}) + `}}`},
		{"letters", `{"properties": {` + list(3000, func(i int) string {
			return fmt.Sprintf(`"p%d": {"pattern": "^\\p{L}[^\\p{Lu}]{%d}$"}`, i, i)
		}) + `}}`},
		{"classes", `{"properties": {` + list(2000, func(i int) string {
			return fmt.Sprintf(`"p%d": {"pattern": "[^\\u%04x-\\u%04x]"}`, i, 256+i, 9000+i)
		}) + `}}`},
		{"nested counts", `{"pattern": "^((((a{1,999}b?){1,999}c?){1,999}d?){1,999}e?){1,999}$"}`},
		{"nested stars", `{"pattern": "^(((((a*)*b*)*c*)*d*)*e*)*$", "minLength": 900}`},
		{"lookaheads", `{"pattern": "^` + strings.Repeat("(?=.*a)(?!.*b.*c)", 3000) + `x"}`},
		{"patterns that exclude", `{"pattern": "^(a|b)*a(a|b){12}$",
			"not": {"pattern": "^(a|b)*a(a|b){13}$"}}`},
		{"long texts", `{"minLength": 1000000000, "maxLength": 2000000000}`},
		{"unevaluated", `{"unevaluatedProperties": false, "allOf": [` + list(12,
			func(i int) string {
				return fmt.Sprintf(`{"anyOf": [{"properties": {"a%d": {}}}, {"required": ["b%d"]},
					{"patternProperties": {"c%d": {}}}]}`, i, i, i)
			}) + `]}`},
		{"unique items", `{"type": "array", "uniqueItems": true, "items": {"enum": [1, 2, 3, 4, 5,
			6, 7, 8]}, "minItems": 8, "prefixItems": [{"enum": [1]}, {"enum": [2, 3]}]}`},
		{"tiny multiples", `{"multipleOf": 1e-300, "maximum": 1e300, "exclusiveMinimum": -1e300}`},
		{"anyOf of patterns", `{"anyOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"pattern": "^a{%d}$"}`, i)
		}) + `]}`},
		{"allOf of patterns", `{"allOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"pattern": "b%dc"}`, i)
		}) + `]}`},
		{"oneOf of patterns", `{"oneOf": [` + list(500, func(i int) string {
			return fmt.Sprintf(`{"type": "string", "pattern": "^a%d"}`, i)
		}) + `]}`},
		{"anyOf of ranges", `{"anyOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"minimum": %d, "maximum": %d}`, 3*i, 3*i+1)
		}) + `]}`},
		{"anyOf of lengths", `{"items": {"anyOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"type": "string", "minLength": %d, "maxLength": %d}`, 3*i, 3*i+1)
		}) + `]}}`},
		{"not of values", `{"allOf": [` + list(5000, func(i int) string {
			return fmt.Sprintf(`{"not": {"const": "%d"}}`, i)
		}) + `]}`},
		{"names", `{"propertyNames": {"pattern": "^(.*a){9}$"}, "properties": {` + list(9000,
			func(i int) string { return fmt.Sprintf(`"p%d": {}`, i) }) + `}}`},
		{"siblings", `{"properties": {` + list(40, func(i int) string {
			return fmt.Sprintf(`"p%d": {"anyOf": [`, i) + list(40, func(j int) string {
				return fmt.Sprintf(`{"type": "object", "properties": {"q%d": {"anyOf": [{"minLength":
					%d}, {"maximum": %d}]}}}`, j, i, j)
			}) + `]}`
		}) + `}}`},
		{"huge number", `{"minimum": 1e1000000000}`},
		{"long number", `{"const": 1` + strings.Repeat("0", 1<<20) + `}`},
		{"long pattern", `{"pattern": "` + strings.Repeat("(a|b)?", 100_000) + `"}`},
		{"negations", `{"not": {"allOf": [` + list(200, func(i int) string {
			return fmt.Sprintf(`{"not": {"properties": {"a%d": {"const": %d}}}}`, i, i)
		}) + `]}}`},
	} {
		var err error
		took := cpuTime(t, func() { _, err = compile(c.schema, Options{}) })
		limit := 50 * time.Millisecond
		if testing.Short() {
			limit = 4 * time.Second // under the race detector
		}
		t.Logf("%s: %v, %.100v", c.name, took.Round(time.Millisecond/10), err)
		if took > limit {
			t.Errorf("%s: it took %v", c.name, took)
		}
		var unsupported *Unsupported
		var invalid *Invalid
		if err != nil && errors.As(err, &unsupported) && unsupported.Keyword == "" ||
			errors.As(err, &invalid) && invalid.Reason == "" {
			t.Errorf("%s: the error %v says nothing", c.name, err)
		}
	}
}
