package jinja

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// bigValues sets up values that make operations expensive: a list of numbers, of texts, of
// dictionaries and of lists, long texts of three kinds, a dictionary, and a long path.
const bigValues = `{% set l = range(90000) | list %}{% set t = l | map('string') | list %}` +
	`{% set s = 'ab c' * 500000 %}{% set u = 'äÖ\n' * 300000 %}{% set c = '\x01' * 500000 %}` +
	`{% set o = [{'a': 'X'}] * 50000 %}{% set m = dict([['k', 1]] * 1000 + [['j', s]]) %}` +
	`{% set p = 'a.' * 50000 %}{% set n = 10 ** 1200 %}{% set g = [l] * 900 %}`

// expensive lists expressions over these values. Each is evaluated until the budget ends.
var expensive = []string{
	// filters
	"l|unique|list", "t|unique|list", "s|unique|list", "l|sort", "t|sort(reverse=true)",
	"o|sort(attribute='a')", "o|sort(attribute='a,b,c,d')", "o|groupby('a')", "l|join(',')",
	"l|join(s)|length", "s.replace('a', 'bb')", "u.replace('ä', 'a')", "s|replace('', 'x')",
	"s|indent(2)", "u|indent(1, true, true)", "l|map('string')|list", "o|map(attribute='a')|list",
	"[o]|map('map', attribute='a')|list", "[1]|map(attribute=p)|list", "l|select('odd')|list",
	"o|selectattr('a', 'equalto', 'X')|list", "o|rejectattr('a', 'in', l)|list", "l|tojson",
	"s|tojson", "c|tojson", "u|tojson(ensure_ascii=true)", "o|tojson(indent=4)", "l|string",
	"c ~ ''", "[c]|string", "[u]|string", "l|sum", "o|sum('a', '')", "l|min", "t|max", "s|upper",
	"u|lower", "u|title", "s|capitalize", "u|trim", "(' ' * 3000000)|trim", "u|trim(u)",
	"s|truncate(5)", "u|wordcount", "s|length", "u|e", "('<' * 500000)|e", "s|list", "s|first",
	"s|last", "u|reverse", "l|reverse|list", "l|batch(3)|list", "l|batch(90000, 1)|list",
	"[1]|batch(90000, 1)|list", "l|slice(90000)|list", "m|items|list", "m|dictsort", "s|int",
	"s|float", "n|string", "n * n", "n / (n + 1)", "n // 7", "n ** 3", "n == n + 1", "s|format",
	"'%s%s'|format(s, s)", "'%9999s' % 1", "'{:>9999}'.format(1)",
	"('%d' * 9000)|format(*l[:9000])", "s|center(9999)", "l|list|length", "u|wordcount",
	"l|abs if false else 1",
	// operators
	"s * 2", "[1] * 90000", "l + l", "s + s", "s ~ s", "l[1:]", "l[::-1]", "s[::2]", "u[1:]",
	"s[99999]", "s in u", "'zz' in s", "99999999 in l", "'zz' in t", "s == s ~ ''", "s < s ~ ''",
	"l == l[:]", "l < l[:]", "g == g[:]", "m == dict(m)", "m[s]", "m[s ~ 'x'] is defined",
	"{s: 1}[s]", "s is lower", "u is upper", "s is in u", "l is in l", "l is sequence",
	"undefinedvariable is defined",
	// methods
	"s.split()", "s.split(' ')", "s.split('b')", "s.rsplit()", "s.rsplit('b')", "u.splitlines()",
	"u.split('\n')", "s.partition('zz')", "s.rpartition('zz')", "s.find('zz')", "s.rfind('zz')",
	"u.find('zz')", "s.count('a')", "s.count('')", "s.upper()", "u.swapcase()", "u.title()",
	"s.isalpha()", "('a' * 3000000).isalpha()", "('a' * 3000000).islower()", "s.strip(u)",
	"u.strip('ä\nÖabcdefghijk')", "s.startswith(s)", "s.startswith('a', 1)", "s.expandtabs()",
	"('\t' * 300000).expandtabs(16)", "u.casefold()", "u.istitle()", "s.isidentifier()",
	"u|int", "s.endswith(t)", "s.removeprefix(s)",
	"s.join(['', ''])", "''.join(t)", "s.ljust(9999)", "s.zfill(9999)", "s.format()",
	"('{}' * 9000).format(*l[:9000])", "('{a}' * 9000).format(**dict(a=1))", "m.items()",
	"m.copy()", "m.keys()|list", "m.get(s)", "t.index('89999')", "l.count(5)", "s.capitalize()",
	// calls
	"range(99999)", "dict(m)", "dict(m, a=1)", "namespace(m)", "namespace(**m)", "joiner(s)",
	"cycler(*l)", "strftime_now('%A' * 9000)", "strftime_now(s)", "f(*l)", "f(**m)", "f(x=1)",
	"(n|string)|int", "range(*[1, 99999])", "'%s' % [l]", "'%(k)s' % m", "'%.5s' % s", "'%x' % n",
}

// TestExpensiveOperations evaluates operations until the budget ends. That must take about a
// second, and the context must be able to end it earlier. With HEADROOM_LONG set, it tests all.
func TestExpensiveOperations(t *testing.T) {
	const patience = 6 * time.Second // other tests run beside this one
	type result struct {
		what string
		took time.Duration
	}
	var slowest []result
	for i, e := range expensive {
		if i%16 != 0 && os.Getenv("HEADROOM_LONG") == "" {
			continue
		}
		source := bigValues +
			"{% macro f() %}{{ varargs|length }}{{ kwargs|length }}{% endmacro %}" +
			"{% for i in range(99999) %}{% for j in range(99999) %}{% set x = " + e +
			" %}{% endfor %}{% endfor %}"
		template, err := Parse(source)
		if err != nil {
			t.Errorf("%s: %v", e, err)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		begin := time.Now()
		_, err = template.Render(ctx, NewDict(), testTime)
		cancel()
		took := time.Since(begin)
		if err == nil || took > patience {
			t.Errorf("%s: a cancelled rendering took %v: %v", e, took, err)
		}
		slowest = append(slowest, result{"cancelled: " + e, took})
		begin = time.Now()
		_, used, err := template.render(context.Background(), NewDict(), testTime)
		took = time.Since(begin)
		slowest = append(slowest, result{
			fmt.Sprintf("%s: %d steps, %d MB: %v", e, used.steps, used.memory>>20, err), took})
		if err == nil || took > patience {
			t.Errorf("%s: a rendering took %v: %v", e, took, err)
		}
	}
	slices.SortFunc(slowest, func(a, b result) int { return int(b.took - a.took) })
	for _, r := range slowest[:min(40, len(slowest))] {
		t.Logf("%v %s", r.took, r.what)
	}
}

// TestRenderStopsWithContext ends the context of a rendering that would go on.
func TestRenderStopsWithContext(t *testing.T) {
	template, err := Parse("{% set r = range(99999) %}{% for i in r %}{% for j in r %}" +
		"{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, used, err := template.render(ctx, NewDict(), testTime)
	if !errors.Is(err, context.Canceled) || used.steps > 2*stepsPerLook {
		t.Errorf("got %v after %d steps", err, used.steps)
	}
	if _, err = template.Render(context.Background(), NewDict(), testTime); !errors.Is(err,
		ErrTooMuchWork) {
		t.Errorf("got %v", err)
	}
}

// TestBudgetGrowsWithInput checks that a long input has a larger budget, up to a bound.
func TestBudgetGrowsWithInput(t *testing.T) {
	small := newBudget(context.Background(), 1000)
	large := newBudget(context.Background(), 1<<20)
	huge := newBudget(context.Background(), 1<<40)
	if small.maxSteps >= large.maxSteps || large.maxSteps >= huge.maxSteps ||
		huge.maxSteps != maxSteps || huge.maxMemory != maxMemory || huge.maxText != maxTextBytes {
		t.Errorf("got %+v, %+v, %+v", small, large, huge)
	}
}

// TestMemoryIsBounded builds values that stay small each and are many.
func TestMemoryIsBounded(t *testing.T) {
	for _, source := range []string{
		"{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = n.l + [i] %}" +
			"{% endfor %}",
		"{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% for j in range(99) %}" +
			"{% set n.l = [n.l, range(99)] %}{% endfor %}{% endfor %}",
		"{% set n = namespace(l='') %}{% for i in range(99999) %}{% set n.l = 'abcdefgh' ~ n.l %}" +
			"{% endfor %}",
		"{% set n = namespace(l='') %}{% for i in range(99999) %}{% set n.l = n.l ~ 'abcdefgh' %}" +
			"{% set m = n.l ~ 'a' %}{% set n.l = n.l ~ 'b' %}{% endfor %}",
		"{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% for j in range(99) %}" +
			"{% macro f() %}{% endmacro %}{% set n.l = [n.l, f] %}{% endfor %}{% endfor %}",
	} {
		_, err := render(source, "{}")
		if !errors.Is(err, ErrTooMuchMemory) && !errors.Is(err, ErrTooMuchWork) {
			t.Errorf("%s: got %v", source, err)
		}
	}
}

// TestGrowingText checks that a text that is built by appending takes memory and work in proportion
// to its length, and that the texts from which it grew stay as they are.
func TestGrowingText(t *testing.T) {
	const messages, size = 400, 1000
	var all []string
	var want strings.Builder
	for i := range messages {
		content := strings.Repeat(fmt.Sprintf("%09d ", i), size/10)
		all = append(all, fmt.Sprintf(`{"role":"user","content":"%s"}`, content))
		want.WriteString("user" + content)
	}
	vars := `{"messages":[` + strings.Join(all, ",") + `]}`
	for _, source := range []string{
		"{% set ns = namespace(out='') %}{% for m in messages %}" +
			"{% set ns.out = ns.out + m.role + m.content %}{% endfor %}{{ ns.out }}",
		"{% set ns = namespace(out='') %}{% for m in messages %}" +
			"{% set ns.out = ns.out ~ m.role ~ m.content %}{% endfor %}{{ ns.out }}",
		"{% set ns = namespace(out='', also='') %}{% for m in messages %}" +
			"{% set ns.out = ns.out + (m.role + m.content) %}" +
			"{% set ns.also = ns.also + m.content %}{% endfor %}{{ ns.out }}",
	} {
		dict, err := FromJSON([]byte(vars))
		if err != nil {
			t.Fatal(err)
		}
		template, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		got, used, err := template.render(context.Background(), dict.(*Dict), testTime)
		if err != nil || got != want.String() {
			t.Errorf("%s: got %d bytes, %v", source, len(got), err)
		}
		t.Logf("%d bytes take %d bytes and %d steps", len(got), used.memory, used.steps)
		if used.memory > 12*len(got) || used.steps > len(got)/4 {
			t.Errorf("%s: %d bytes take %d bytes and %d steps", source, len(got), used.memory,
				used.steps)
		}
	}
	const sums = "{% set n = namespace(l=[]) %}{% set s = 'abcdefgh' * 99999 %}" +
		"{% for i in range(999) %}{% set n.l = [n.l, s + 'a'] %}{% endfor %}"
	if _, err := render(sums, "{}"); !errors.Is(err, ErrTooMuchMemory) {
		t.Errorf("many long sums: got %v", err)
	}
	const forks = "{% set a = 'x' * 300 %}{% set b = a + 'b' %}{% set c = b + 'c' %}" +
		"{% set d = b + 'd' %}{% set e = c + c %}{{ a|length }}{{ b[299:] }}{{ c[299:] }}" +
		"{{ d[299:] }}{{ e[299:303] }}{{ e|length }}"
	if got, err := render(forks, "{}"); err != nil || got != "300xbxbcxbdxbcx604" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestErrorsAreShort checks that no error repeats a long text of the template.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("a", 300_000)
	for _, source := range []string{
		"{{ " + long + "() }}", "{{ 1 | " + long + " }}", "{{ 1 is " + long + " }}",
		"{% " + long + " %}", "{{ raise_exception('" + long + "') }}", "{{ (1).x" + long + ".y }}",
		"{{ [].x" + long + ".y }}", "{{ '{" + long + "}'.format() }}",
		"{{ '%(" + long + ")s' % {} }}",
		"{{ [1]|map('" + long + "')|list }}", "{{ [1]|select('" + long + "')|list }}",
		"{{ ['" + long + "'].index('b') }}", "{{ [1].index('" + long + "') }}",
		"{{ range(x" + long + "=1) }}", "{{ 1" + strings.Repeat("1", 5000) + " }}",
	} {
		if _, err := render(source, "{}"); err == nil || len(err.Error()) > 2*maxMessageBytes {
			t.Errorf("%.40s: got an error of %d bytes", source, len(fmt.Sprint(err)))
		}
	}
}
