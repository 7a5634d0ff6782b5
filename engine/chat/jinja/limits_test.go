package jinja

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHostileTemplates runs templates that try to exhaust a resource or to leave the sandbox. Each
// must soon end with an *Error that names the reason.
func TestHostileTemplates(t *testing.T) {
	deep := func(open, mid, end string, n int) string {
		return strings.Repeat(open, n) + mid + strings.Repeat(end, n)
	}
	tests := []struct{ name, template, want string }{
		{"a macro that calls itself", "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
			"recurses"},
		{"a recursive loop without end",
			"{% for i in [[1]] recursive %}{{ loop([i]) }}{% endfor %}", "recurses"},
		{"nested loops",
			"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
			"takes too"},
		{"nested loops in a filter",
			"{% for a in range(99999) %}{% set x = range(99999) | map('string') | list %}" +
				"{% endfor %}", "takes too long"},
		{"a doubling text",
			"{% set n = namespace(s='x') %}{% for a in range(60) %}{% set n.s = n.s ~ n.s %}" +
				"{% endfor %}", "more than"},
		{"a doubling text by +",
			"{% set n = namespace(s='x') %}{% for a in range(60) %}{% set n.s = n.s + n.s %}" +
				"{% endfor %}", "more than"},
		{"a doubling list",
			"{% set n = namespace(s=[1]) %}{% for a in range(60) %}{% set n.s = n.s + n.s %}" +
				"{% endfor %}", "more than"},
		{"a long repetition", "{{ 'x' * 999999999999 }}", "more than"},
		{"a long list", "{{ [1] * 999999999999 }}", "more than"},
		{"replacements that grow", "{% set a = 'x' * 9000 %}{{ a.replace('x', a * 100) }}",
			"more than"},
		{"a join that grows", "{% set a = 'x' * 1000000 %}{{ ('y' * 1000) | join(a) }}",
			"more than"},
		{"much output", "{% set a = 'x' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}",
			"more than"},
		{"a list of lists that prints endlessly",
			"{% set n = namespace(s=[1]) %}{% for a in range(60) %}{% set n.s = [n.s, n.s] %}" +
				"{% endfor %}{{ n.s }}", "makes a text"},
		{"endless JSON of a list of lists",
			"{% set n = namespace(s=[1]) %}{% for a in range(60) %}{% set n.s = [n.s, n.s] %}" +
				"{% endfor %}{{ n.s | tojson }}", "makes a text"},
		{"an endless comparison of lists of lists",
			"{% set n = namespace(s=[1], t=[1]) %}{% for a in range(60) %}" +
				"{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}",
			"takes too long"},
		{"a deep value",
			"{% set n = namespace(s=[]) %}{% for a in range(9999) %}{% set n.s = [n.s] %}" +
				"{% endfor %}{{ n.s }}", "deeper"},
		{"a namespace inside itself", "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
			"deeper"},
		{"a large power", "{{ 9 ** 99999999 }}", "too large"},
		{"powers of powers", "{{ ((10 ** 1000) ** 1000) }}", "too large"},
		{"a wide format", "{{ '%99999999d' % 1 }}", "width"},
		{"a wide format by argument", "{{ '{:999999999}'.format(1) }}", "width"},
		{"a wide center", "{{ 'a'.center(999999999) }}", "width"},
		{"a wide JSON indent", "{{ [1] | tojson(indent=999999999) }}", "width"},
		{"a long range", "{{ range(0, 9223372036854775807, 9223372036854775807) }}", "2^60"},
		{"deep brackets", "{{ " + deep("(", "1", ")", 60000) + " }}", "nested"},
		{"deep lists", "{{ " + deep("[", "1", "]", 60000) + " }}", "nested"},
		{"many signs", "{{ " + deep("-", "1", "", 60000) + " }}", "nested"},
		{"many nots", "{{ " + deep("not ", "1", "", 60000) + " }}", "nested"},
		{"deep blocks", deep("{% if 1 %}", "", "{% endif %}", 20000), "nested"},
		{"a deep target", "{% set " + deep("(", "a", ")", 60000) + " = 1 %}", "nested"},
		{"a long sum", "{{ 1" + strings.Repeat("+1", 90000) + " }}", "recurses"},
		{"a long chain of ifs", "{{ 1" + strings.Repeat(" if 1 else 1", 40000) + " }}", "nested"},
		{"a long chain of filters", "{{ 1" + strings.Repeat("|string", 90000) + " }}", "recurses"},
		{"a long chain of attributes", "{{ {}" + strings.Repeat(".copy()", 40000) + " }}",
			"recurses"},
		{"many tokens", "{{ [" + strings.Repeat("1,", 150_000) + "] }}", "tokens"},
		{"a source too long", strings.Repeat("x", maxSourceBytes+1), "bytes"},
		{"a source that is not UTF-8", "a\xff", "UTF-8"},
		{"include", "{% include '/etc/passwd' %}", "is not supported"},
		{"import", "{% import 'x' as y %}", "is not supported"},
		{"from", "{% from 'x' import y %}", "is not supported"},
		{"extends", "{% extends 'x' %}", "is not supported"},
		{"Python internals", "{{ ''.__class__.__mro__ }}", "has no attribute"},
		{"changing the messages", "{{ l.append(1) }}", "cannot be changed"},
		{"a column of width 0", "{{ l | batch(0) | list }}", "positive"},
	}
	for _, tt := range tests {
		begin := time.Now()
		got, err := render(tt.template, `{"l":[1,2]}`)
		e := new(Error)
		if !errors.As(err, &e) || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: got %.60q, %v; want an error about %q", tt.name, got, err, tt.want)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %v", tt.name, took)
		} else if took > time.Second {
			t.Logf("%s: took %v", tt.name, took)
		}
	}
}

// TestErrorLine checks that an error has the line of the statement that failed.
func TestErrorLine(t *testing.T) {
	for template, want := range map[string]int{
		"a\nb\n{{ nosuch.x }}":                                  3,
		"{% if true %}\n\n{{ 1 / 0 }}\n{% endif %}":             3,
		"a\n{% endif %}":                                        2,
		"{#\n\n#}\n{{ 'a\nb' }}{{ 1 +* 2 }}":                    5,
		"{% raw %}\n{% endraw %}\n{% if %}":                     3,
		"{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ f() }}": 2,
	} {
		_, err := render(template, `{}`)
		if e := new(Error); !errors.As(err, &e) || e.Line != want {
			t.Errorf("%q: got %v, want line %d", template, err, want)
		}
	}
}

// FuzzTemplate checks that any source with any variables gives a text or an *Error,
// and the same one each time, within the bounds of time.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for k, v in d | items %}{{ k ~ v | tojson }}{% endfor %}",
		`{"d":{"b":1,"a":[2.0,null]}}`)
	f.Add("{%- macro f(a, b=1) -%}{{ a[::-1] }}{%- endmacro -%}{{ f('x') }}", `{}`)
	f.Add("{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ '%s' % ns.a }}", `{}`)
	f.Add("{{ '{:>5}'.format(1) | center(9) | title | truncate(3) }}", `{}`)
	f.Add("{{ l | sort | map('string') | join(',') | int ** 3 // 7 % 5 }}", `{"l":[3,1]}`)
	for _, c := range readCases(f).Cases {
		f.Add(c.Template, `{"l":[3,1,2],"d":{"z":1,"a":"x"},"s":"héllo","n":7}`)
	}
	for i := 0; i < len(expensive); i += 16 {
		f.Add("{% set s = 'ab c' * 5000 %}{{ "+expensive[i]+" }}", `{"l":[1],"m":{"a":1}}`)
	}
	f.Fuzz(func(t *testing.T, source, vars string) {
		begin := time.Now()
		a, errA := render(source, vars)
		if took := time.Since(begin); took > 10*time.Second {
			t.Fatalf("took %v: %v", took, errA) // the bounds end a rendering after about a second
		}
		if e := new(Error); errors.As(errA, &e) && strings.Contains(e.Message, "internal error") {
			t.Fatal(errA)
		}
		b, errB := render(source, vars)
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("two renderings differ: %q, %v and %q, %v", a, errA, b, errB)
		}
	})
}
