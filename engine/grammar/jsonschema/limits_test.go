package jsonschema

import (
	"fmt"
	"strings"
	"testing"
)

// TestSchemaLimits: each schema exceeds one limit and is refused with its reason. One that is just
// within the limit is read.
func TestSchemaLimits(t *testing.T) {
	list := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(format, "%d", fmt.Sprint(i))
		}
		return strings.Join(parts, ",")
	}
	for _, c := range []struct {
		limit  int
		schema func(n int) string // at the limit, if n is the limit
		reason string
	}{
		{maxBytes, func(n int) string { return "{}" + strings.Repeat(" ", n-2) },
			"the schema has 1048577 bytes, the limit is 1048576"},
		{maxDepth, func(n int) string {
			return strings.Repeat(`{"items":`, n) + "{}" + strings.Repeat("}", n)
		}, "nested more than 200 levels"},
		{maxValues, func(n int) string { return `{"examples":[` + list(n-2, "1") + `]}` },
			"more than 50000 values"},
		{maxDigits, func(n int) string { return `{"minimum":1` + strings.Repeat("0", n-1) + `}` },
			"too many digits"},
		// 100 places of items, and 200 of members, by the number of those that count.
		{maxStates / 100, func(n int) string {
			return fmt.Sprintf(`{"type":"array","contains":{"const":1},"maxItems":99,`+
				`"minContains":%d}`, n-1)
		}, "the array may be too long"},
		{maxStates / 200, func(n int) string {
			return fmt.Sprintf(`{"type":"object","properties":{%s},"minProperties":%d,`+
				`"additionalProperties":false}`, list(199, `"p%d":true`), n-1)
		}, "the object may have too many members"},
		{maxUnique, func(n int) string {
			return `{"type":"array","uniqueItems":true,"items":{"enum":[` + list(n, "%d") + `]}}`
		}, "up to 8 values"},
		{maxEvaluatedBranches, func(n int) string {
			return `{"type":"object","unevaluatedProperties":false,"anyOf":[` +
				list(n, `{"properties":{"p%d":true}}`) + `]}`
		}, "more than 4 schemas"},
		{maxPatterns, func(n int) string {
			return `{"patternProperties":{` + list(n, `"^p%d$":true`) + `}}`
		}, "too many patterns"},
		{maxShapes / 20, func(n int) string { // combined with 20 others
			required := func(n int, name string) string {
				return `{"anyOf":[` + list(n, `{"type":"object","required":["`+name+`%d"]}`) + `]}`
			}
			return `{"allOf":[` + required(n, "p") + "," + required(20, "q") + `]}`
		}, "too many combinations"},
		{2000, func(n int) string { // maxWork, which counts steps of all kinds
			if n > 2000 {
				n = 20_000
			}
			return `{"properties":{` + list(n, `"p%d":{"type":"string"}`) + `}}`
		}, "too complex"},
	} {
		for _, n := range []int{c.limit, c.limit + 1} {
			_, err := compile(c.schema(n), Options{})
			if n == c.limit && err != nil || n > c.limit &&
				(err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("%d of %d: got %.200v, expected %q beyond the limit", n, c.limit, err,
					c.reason)
			}
		}
	}
}
