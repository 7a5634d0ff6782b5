package jsonschema

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the processor time of this process, on which other programs have no influence.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
		{"huge number", `{"minimum": 1e1000000000}`},
		{"long number", `{"const": 1` + strings.Repeat("0", 1<<20) + `}`},
		{"long pattern", `{"pattern": "` + strings.Repeat("(a|b)?", 100_000) + `"}`},
		{"negations", `{"not": {"allOf": [` + list(200, func(i int) string {
			return fmt.Sprintf(`{"not": {"properties": {"a%d": {"const": %d}}}}`, i, i)
		}) + `]}}`},
	} {
		began := cpuTime(t)
		_, err := compile(c.schema, Options{})
		took := cpuTime(t) - began
		// 50 ms on a fast machine, and more on a slow one and with the garbage of other tests.
		limit := 200 * time.Millisecond
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
