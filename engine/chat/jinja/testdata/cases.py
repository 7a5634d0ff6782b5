"""Writes cases.json: templates, variables, and what Jinja2 renders of them.

Usage: cases.py > cases.json        (needs jinja2 3.1)

A case whose template raises has "error" in place of "want": Jinja2's message, for the reader; the
test demands an error, and the same message where "raised" says that the template chose it.
"""
import json
import sys

from environment import Raised, env

VARS = {
    "s": "héllo wörld", "n": 7, "x": 2.5, "t": True, "f": False, "none_": None, "empty": "", "el": [], "ed": {},
    "l": [3, 1, 2], "d": {"z": 1, "a": {"y": [1, 2.0, None, True], "b": "<x>'\"&"}, "s": "str"},
    "msgs": [{"role": "system", "content": "sys"}, {"role": "user", "content": "u1"},
             {"role": "assistant", "content": "a1", "tool_calls": [{"function": {"name": "f", "arguments": {"q": 1, "b": "x"}}}]},
             {"role": "tool", "content": "r"}, {"role": "user", "content": "u2"}],
    "big": 123456789012345678901234567890, "tags": "<think>\nabc\n</think>\n\nOK", "ws": " \t a b  c \n",
}

GROUPS = {
    "whitespace": [
        "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a  {%- if t -%}  b  {%- endif -%}  c",
        "a\n  {%+ if t %}\nb{% endif +%}\nc", "  {{ n }}\n  {{- n -}}  \n x", "{{ n }}\n\n", "a {# c #}\nb", "a\n   {# c #}\nb", "a {#- c -#} b",
        "  {% set q = 1 %}  x", "{% if t %}\n    {% if t %}\n  y\n    {% endif %}\n{% endif %}\n", "a\r\nb\rc{{ n }}\r\n",
        "{% raw %}{{ n }} {% if %}{% endraw %}", "{%- raw -%}  {{ n }} {%- endraw -%}  z", "{% raw %}\nx\n  {% endraw %}\ny", "{{ '{{' }} {{ '}}' }} {{ {'a': {'b': 1}}['a']['b'] }}",
        "x {% if t %} y{% endif %} z", "\n{{ n }}", "{% for i in l %}\n{{ i }}\n{% endfor %}\nend", "{% for i in l -%}\n{{ i }}\n{%- endfor %}\nend", "{#\n multi\n line #}\n  a\n",
        "{{-n}} {{n-}} {{ -n }} {{- -n }}", "a{# {{ n }} {% if %} #}b", "\t{% if t %}x{% endif %}\t", "a\u00a0\n\u00a0{% if t %}x{% endif %}",
    ],
    "expressions": [
        "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
        "{{ 7 / 2 }} {{ 4 / 2 }} {{ 2.5 * 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 0.1 + 0.2 }}",
        "{{ 9223372036854775807 + 1 }} {{ big }} {{ big + 1 }} {{ 2 ** 100 }} {{ -9223372036854775808 }} {{ 3000000000 * 3000000000 }} {{ big % 7 }}",
        "{{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 1_000 }} {{ 1.5e-3 }}", "{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}", "{{ true + 1 }} {{ true == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }}",
        "{{ 'a' ~ 1 ~ none ~ 2.0 ~ nosuch ~ [1] }}", "{{ 'a' 'b' \"c\" }}", "{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1, 2] * 2 }} {{ 'a' * -1 }}|", "{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }}",
        "{{ 1 if t else 2 }} {{ 1 if f else 2 }} {{ 1 if f }}| {{ 'a' if f else 'b' if f else 'c' }}", "{{ t and n }} {{ f or n }} {{ empty or 'x' }} {{ n and empty }}| {{ not t }} {{ not el }}",
        "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 2 >= 2 }} {{ 1 != 2 }}", "{{ 1 in l }} {{ 9 not in l }} {{ 'éll' in s }} {{ 'z' in d }} {{ 'x' in nosuch }} {{ none in [none] }}",
        "{{ not 1 in l }} {{ not (f and t) }} {{ n is number and not f }}", "{{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ d['z'] }} {{ d.a.b }} {{ d['a']['y'][1] }} {{ l.0 }}", "{{ s[0] }} {{ s[1] }} {{ s[-1] }} {{ s[::-1] }} {{ s[1:4] }} {{ s[:-3] }} {{ s[::2] }} {{ s[-3:] }}",
        "{{ l[::-1] }} {{ l[1:] }} {{ l[:1] }} {{ l[5:] }} {{ l[-2:] }} {{ l[::-2] }} {{ l[2:0:-1] }} {{ msgs[1:][0].role }} {{ msgs[:-1] | length }}",
        "{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, 2 }} {{ [1, 'a', none, true, 2.0] }} {{ {'k': 'v', 1: [2]} }} {{ ['it\\'s', 'q\"', \"b'\\\"\"] }}", "{{ ['\\n\\t\\\\', 'é', '\\x01', '\\u200b'] }}",
        "{{ 'a\\nb\\tc\\\\d\\'e\\\"f\\u00e9\\x41\\101\\q' }}", "{{ nosuch }}|{{ nosuch is defined }}|{{ d.nosuch }}|{{ d.nosuch is undefined }}|{{ d['no'] }}", "{{ d.items is callable }} {{ d.nosuch or 'dflt' }} {{ nosuch == nosuch2 }}",
        "{{ {'items': 3}['items'] }} {{ {'get': 1}.get('get') }} {{ {'a': 1}.a }}", "{{ {1: 'i', 1.0: 'f', true: 'b'} }}", "{{ '%s-%d-%05.1f-%x-%-4s|-%+d-%%-%r' | format('a', 5, 3.14159, 255, 'b', 3, 'q') }}", "{{ '%s and %s' % ('a', 1) }} {{ '%s' % 3 }} {{ '%(k)s' % {'k': 'v'} }}",
        "{{ 5 is divisibleby 5 }} {{ 6 is divisibleby(4) }}", "{{ -x }} {{ +n }} {{ - 3 | abs }} {{ (-3) | abs }}", "{{ n is odd and n is not even }}", "{{ [l | length, l | first, l | last] }}", "{{ (l | sort)[0] }} {{ (s | upper)[0:2] }} {{ 'a-b'.split('-')[1] }}",
        "{{ 1.0 }} {{ 100000.0 }} {{ 1e22 }} {{ 1.5e300 * 1e10 }} {{ 123456789.123456789 }} {{ -0.0 }} {{ 1e400 }} {{ 2.0 ** 0.5 }} {{ 2 ** -1 }} {{ 0 ** 0 }} {{ (-1) ** 5 }} {{ 1 ** 1000000 }} {{ 0 ** 5 }}",
    ],
    "statements": [
        "{% if f %}a{% elif n == 7 %}b{% else %}c{% endif %}", "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
        "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}{{ loop.previtem is defined }};{% endfor %}", "{% for i in [] %}x{% else %}empty{% endfor %}", "{% for i in l if i > 1 %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% for k, v in d | items %}{{ k }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}", "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
        "{% for i in [1, [2, [3]]] recursive %}{{ loop.depth }}{{ i if i is number else loop(i) }}{% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{% endfor %}", "{% set v = 1 %}{% for i in l %}{% set v = v + i %}{{ v }} {% endfor %}{{ v }}", "{% set ns = namespace(v=0) %}{% for i in l %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}",
        "{% for i in l %}{{ y }}{% set y = i %}{{ y }}{% endfor %}{{ y is defined }}", "{% if t %}{% set q = 5 %}{% endif %}{{ q }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set c %}x{{ n }}y{% endset %}{{ c }}", "{% set c | upper | replace('X', 'z') %}xyz{% endset %}{{ c }}", "{% set m = namespace() %}{{ m.nosuch is defined }}{% set m.k = 'v' %}{{ m.k }}{{ m['k'] }}",
        "{% macro f(a, b='B', c=a) %}<{{ a }},{{ b }},{{ c }}>{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(b=1, a=2) }}{{ f() }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}{{ f() }}", "{% macro f(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) f(5) %}{{ y }}{{ n }}{% endcall %}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}z{% endcall %}",
        "{% macro fact(k) %}{{ 1 if k < 2 else k * fact(k - 1) | int }}{% endmacro %}{{ fact(5) }}", "{% macro f() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ f() }}", "{% for i in l %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}", "{% set o = 1 %}{% macro f() %}{% set o = 2 %}{{ o }}{% endmacro %}{{ f() }}{{ o }}",
        "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% set a = 0 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}", "{% filter upper | trim %} abc {% endfilter %}|", "a{% generation %}b{{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}", "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
        "{% for m in msgs %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", "{% for i in range(10, 0, -3) %}{{ i }},{% endfor %}{{ range(3) | list }}{{ range(2, 4) | sum }}", "{% for x in nosuch %}a{% else %}b{% endfor %}", "{% for i in [1,2] %}{% set loop_i = loop.index %}{% for j in [1] %}{{ loop_i }}{{ loop.index }}{% endfor %}{% endfor %}",
        "{% macro f(x) %}{% for i in x %}{{ i }}{{ ',' if not loop.last }}{% endfor %}{% endmacro %}{{ f([1, 2]) }}{{ f(x=[3]) }}", "{% set (a, b) = (1, 2) %}{{ a + b }}", "{% for i in l | sort if i != 2 %}{{ i }}{% endfor %}", "{% for i in (1, 2) %}{{ i }}{% endfor %}{% for i in 1, 2 %}{{ i }}{% endfor %}", "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('a', 1)]) }}",
        "{% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %y %A %a %j %I %p %-d %%') }}",
    ],
    "methods": [
        "{{ 'straße' | upper }} {{ 'ﬁn ŉ ΐ' | upper }} {{ 'İI'.lower() }} {{ 'ΣΑΣ ΟΔΟΣ, Σ ΑΣ.' | lower }} {{ 'ΑΣ'.lower() }} {{ 'Straße ſ ﬁ ΑΣς'.casefold() }}", "{{ 'ß'.upper() }}{{ 'é' | upper }}{{ 'ÀΩЖ' | lower }}",
        "{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ {}.items() }} {{ [d.keys()] }} {{ d.items() | list }} {{ d.keys() | length }} {{ 'z' in d.keys() }}", "{{ range(3) }} {{ range(1, 9, 2) }} {{ range(0, -4, -1) }} {{ [range(2)] }} {{ range(3) | list }} {{ range(5) | length }} {{ 2 in range(3) }}",
        "{{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '²'.isnumeric() }} {{ '①2'.isdigit() }} {{ '½'.isdigit() }} {{ '٣'.isdecimal() }}", "{{ '٣' | int }} {{ '१२' | int + 1 }} {{ '٣.٥' | float }} {{ '𝟗𝟠' | int }} {{ '²' | int }} {{ ' -٣ ' | int }}",
        "{{ '{0} {1} {0} {k}'.format(1, 2, k=3) }} {{ '{} {k} {}'.format(1, 2, k=3) }}",
        "{{ s.startswith('é', 1) }} {{ s.startswith('h', 1) }} {{ s.startswith('wö', 6, 8) }} {{ s.startswith('wö', 6, 7) }} {{ s.startswith('d', -1) }} {{ s.startswith('', 11) }} {{ s.startswith('', 12) }} {{ s.startswith('', 3, 2) }} {{ s.startswith(('x', 'l'), 2) }} {{ s.startswith('h', none, 1) }}",
        "{{ s.endswith('é', 0, 2) }} {{ s.endswith('d', 3) }} {{ s.endswith('héllo', 0, -6) }} {{ s.endswith('d', 11) }} {{ s.endswith('', 0, 99) }} {{ s.endswith(('x', 'o'), none, 5) }} {{ s.endswith('h', -99, 1) }}",
        "{{ 'a\\tb\\n\\tc\\r12345678\\td'.expandtabs() }}|{{ 'é\\tb\\t'.expandtabs(4) }}|{{ 'a\\tb'.expandtabs(0) }}|{{ 'a\\tb'.expandtabs(1) }}|{{ ''.expandtabs() }}|", "{{ 'a\\tb'.expandtabs(tabsize=2) }}",
        "{{ 'Ab Cd'.istitle() }} {{ 'Ab cd'.istitle() }} {{ 'AB'.istitle() }} {{ ''.istitle() }} {{ '1'.istitle() }} {{ \"It's\".istitle() }} {{ \"It'S\".istitle() }} {{ 'A1B'.istitle() }} {{ 'Ǆab'.istitle() }}", "{{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ ''.isidentifier() }} {{ 'é²'.isidentifier() }} {{ 'é٣'.isidentifier() }} {{ 'a-b'.isidentifier() }} {{ '_'.isidentifier() }} {{ 'if'.isidentifier() }}",
        "{{ 'a,b,,c'.split(',') }} {{ 'a b  c'.split() }} {{ ws.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c d'.split(none, 2) }} {{ ''.split() }} {{ ''.split(',') }} {{ '  a b '.split(maxsplit=1) }}", "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }}", "[{{ ws.strip() }}][{{ ws.lstrip() }}][{{ ws.rstrip() }}]", "{{ 'xxaxx'.strip('x') }} {{ 'abcab'.lstrip('ab') }} {{ 'abcab'.rstrip('ba') }} {{ '\\n\\na\\n'.strip('\\n') }}",
        "{{ tags.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}|{{ tags.split('</think>')[-1].lstrip('\\n') }}", "{{ s.startswith('hé') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'h')) }}", "{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'ab'.replace('', '-') }} {{ s.replace('', '.', 3) }}", "{{ s.upper() }} {{ 'ABC'.lower() }} {{ \"it's a tést-case x2y\".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aB'.swapcase() }}",
        "{{ s.find('w') }} {{ s.find('zz') }} {{ s.rfind('l') }} {{ s.index('o') }} {{ s.count('l') }}", "{{ ','.join(['a', 'b']) }} {{ '-'.join('abc') }}", "{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }}", "{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}",
        "{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ '1'.isupper() }}", "{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{k}'.format(k=3) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:*^7}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 255, 'm', 'q') }} {{ '{{}}'.format() }}", "{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.center(4, '*') }}|{{ 'a'.center(5, '*') }}|{{ 'ab'.center(7, '*') }}|{{ 'abc'.center(6, '*') }}",
        "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }}", "{{ d.get('z') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | list | length }} {{ d.items() | list | length }}", "{{ l.index(1) }} {{ l.count(3) }} {{ d.copy().z }}", "{% for k in d.keys() %}{{ k }}{% endfor %}{{ 'z' in d.keys() }}", "{{ '{:.3}'.format('abcdef') }} {{ '{:+d} {: d} {:e} {:g} {:g} {:%}'.format(5, 5, 12345.678, 0.00001, 100000.0, 0.25) }}", "{{ '%5s|%-5s|%05d|%.3s|%5.2f|%e|%g|%c|%o|%X|%i' % ('a', 'b', -42, 'abcdef', 3.14159, 12345.678, 1e10, 'z', 8, 255, 3.9) }}",
    ],
    "filters": [
        "{{ none | map('upper') | list }} {{ none | select('odd') | list }} {{ none | rejectattr('a') | list }} {{ 0 | map(attribute='a') | list }}",
        "{{ '<' | safe + '<' + 'a>' | e + '&\"\\'' }} {{ 'x<' + '<' | safe }} {{ '<' + ('<' | safe) + '<' }} {{ '<' | safe ~ '<' }} {{ '<' | safe + ('<' + '>') }}",
        "{% if f %}{{ 1 | nosuch }}{{ 1 is nosuch }}{% elif f %}{{ 1 | nosuch }}{% else %}ok{% endif %}",
        "{{ d | tojson }}", "{{ d | tojson(indent=2) }}", "{{ d | tojson(indent=4, sort_keys=true) }}", "{{ s | tojson }} {{ 'é\u2028\U0001F600<>&\\x7f' | tojson }} {{ 'é\U0001F600\\x7f' | tojson(ensure_ascii=true) }}", "{{ d | tojson(separators=(',', ':')) }}", "{{ 'a\"b\\\\c\\n\\t\\r\\x08\\x0c\\x01/' | tojson }}", "{{ [1, 1.0, 1e100, none, true, big, [], {}] | tojson }} {{ [[], {}] | tojson(indent=2) }}", "{{ {1: 2, none: 3, true: 4, 2.5: 5} | tojson }} {{ (1, 2) | tojson }}",
        "{{ nosuch | default('x') }} {{ empty | default('x') }}| {{ empty | default('x', true) }} {{ none_ | default('x') }} {{ nosuch | default }}| {{ nosuch | d('y') }} {{ f | default('z', boolean=true) }}", "{{ ws | trim }}| {{ 'xax' | trim('x') }} {{ nosuch | trim }}|", "{{ s | upper }} {{ s | lower }} {{ s | capitalize }} {{ \"it's a-b (c) x\" | title }} {{ 'HELLO wORLD' | title }}", "{{ l | length }} {{ s | length }} {{ d | count }} {{ nosuch | length }}", "{{ l | first }} {{ l | last }} {{ s | first }} {{ s | last }} {{ el | first }}|{{ d | first }}",
        "{{ l | join }} {{ l | join(', ') }} {{ msgs | join('-', attribute='role') }} {{ s | join('.') }} {{ el | join }}|", "{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ msgs | sort(attribute='role') | map(attribute='role') | join(',') }} {{ msgs | sort(attribute='role,content') | map(attribute='content') | list }}", "{{ l | reverse | list }} {{ s | reverse }}", "{{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}",
        "{{ msgs | map(attribute='role') | list }} {{ l | map('string') | join('+') }} {{ ['a', 'b'] | map('upper') | list }} {{ msgs | map(attribute='nosuch', default='-') | join }} {{ [[1, 2], [3]] | map('length') | list }} {{ [[1, 2], [3, 4]] | map(attribute=0) | list }} {{ msgs | map(attribute='tool_calls.0.function.name', default='-') | list }} {{ ['a'] | map('replace', 'a', 'b') | list }}",
        "{{ msgs | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ msgs | selectattr('tool_calls') | list | length }} {{ msgs | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list }} {{ msgs | selectattr('tool_calls', 'defined') | list | length }} {{ msgs | selectattr('role', '==', 'system') | list | length }}", "{{ [0, 1, 2, '', 'a'] | select | list }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ [1, none, 'a'] | select('string') | list }} {{ [1, none] | reject('none') | list }}",
        "{% if msgs | selectattr('role', 'equalto', 'nobody') %}yes{% else %}no{% endif %}{% if msgs | selectattr('role', 'equalto', 'nobody') | list %}yes{% else %}no{% endif %}", "{{ '3' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ -3.9 | int }} {{ '0x1f' | int(base=16) }} {{ true | int }} {{ '1e3' | int }} {{ none_ | int }} {{ ' 4 ' | int }}", "{{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ none_ | float }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 7 | round }} {{ 2.675 | round(2) }} {{ 1234 | round(-2) }} {{ 1250.0 | round(-2) }}",
        "{{ 5 | string ~ 'a' }} {{ none | string }} {{ [1, 2] | string | length }} {{ 1.0 | string }}", "{{ '<a href=\"x\">\\'&' | e }} {{ '<b>' | safe }} {{ '<b>' | escape | length }}", "{{ 'a b' | replace(' ', '_') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'a1a' | replace(1, 2) }}", "{{ l | sum }} {{ [{'v': 1}, {'v': 2}] | sum(attribute='v') }} {{ [1.5] | sum(start=1) }} {{ el | sum }}", "{{ l | min }} {{ l | max }} {{ ['b', 'A'] | min }} {{ [{'v': 3}, {'v': 1}] | max(attribute='v') }} {{ el | min }}|", "{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ msgs | unique(attribute='role') | map(attribute='content') | list }}",
        "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(2, blank=true) }}|{{ 'a\\nb' | indent('>> ') }}|{{ 'a\\n' | indent }}|", "{{ range(7) | batch(3) | list }} {{ range(7) | batch(3, 'x') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, 'x') | list }}", "{% for k, g in msgs | groupby('role') %}{{ k }}:{{ g | length }};{% endfor %}", "{{ 'one two three' | truncate(9) }} {{ 'one two three' | truncate(9, true) }} {{ 'one two three' | truncate(5, true, '..', 0) }} {{ 'short' | truncate(3, leeway=2) }}", "{{ 'one two  three' | wordcount }} {{ 'abc' | center(9) }}| {{ -5 | abs }} {{ (-5) | abs }} {{ -1.5 | abs }}", "{{ d | items | list }} {{ nosuch | items | list }} {{ d | attr('keys') is callable }} {{ d | attr('z') is defined }}", "{{ 'abc' | list }} {{ d | list }} {{ 'a' | upper | lower }}",
        "{{ x | tojson }} {{ n | tojson }} {{ t | tojson }} {{ none_ | tojson }}", "{{ '%s|%s' | format(1, 'b') }} {{ '%(a)s' | format(a=1) }}",
    ],
    "tests": [
        "{{ s is string }} {{ n is string }} {{ n is number }} {{ t is number }} {{ x is float }} {{ n is integer }} {{ t is integer }} {{ t is boolean }} {{ n is boolean }}", "{{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ none_ is iterable }} {{ nosuch is iterable }}", "{{ none_ is none }} {{ nosuch is none }} {{ f is none }} {{ t is true }} {{ 1 is true }} {{ f is false }} {{ 0 is false }} {{ none_ is defined }}", "{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is lt 8 }} {{ n is ge 7 }} {{ n is gt(7) }}",
        "{{ 1 is in l }} {{ 9 is not in l }} {{ none_ is sameas none }} {{ t is sameas true }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ 'ab' is upper }} {{ '12' is lower }}", "{{ s is not string }} {{ nosuch is not defined }} {{ not nosuch is defined }} {{ d.a.y is sequence and d.a.y is not string }}", "{{ range is callable }} {{ s is callable }} {{ l is iterable and l is not mapping }} {{ 4.0 is even }} {{ 3.5 is odd }}", "{{ 'a' if s is string else 'b' }} {{ [s is string, n is none] }} {{ (s is string) ~ '!' }}",
    ],
    # Whole chat templates of our own, built of what real ones use.
    "chat": [
        """{%- macro text_of(content, images, system=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if 'image' in part or part.type == 'image' %}
                {%- set images.n = images.n + 1 %}
                {{- 'Image ' ~ images.n ~ ': <img>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('bad content') }}
    {%- endif %}
{%- endmacro %}
{%- set images = namespace(n=0) %}
{%- set ns = namespace(searching=true, last=msgs | length - 1) %}
{%- for m in msgs[::-1] %}
    {%- set index = (msgs | length - 1) - loop.index0 %}
    {%- if ns.searching and m.role == "user" %}
        {%- set c = text_of(m.content, images) | trim %}
        {%- if not (c.startswith('<r>') and c.endswith('</r>')) %}
            {%- set ns.searching = false %}
            {%- set ns.last = index %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{{- 'last ' ~ ns.last ~ '\\n' }}
{%- for m in msgs + [{'role': 'assistant', 'content': tags}, {'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'see'}]}] %}
    {%- set c = text_of(m.content, images) %}
    {%- if m.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if m.thought is string %}
            {%- set thought = m.thought %}
        {%- elif '</think>' in c %}
            {%- set thought = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set c = c.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '[' + m.role + '](' + thought | trim + ')' + c }}
        {%- for call in m.tool_calls or [] %}
            {%- if call.function is defined %}{% set call = call.function %}{% endif %}
            {{- ('\\n\\n' if loop.first and c | trim else '\\n') + '<' + call.name + '>' }}
            {%- for key, value in call.arguments | items %}
                {%- set value = value | string if value is string else value | tojson | safe %}
                {{- '<' ~ key ~ '=' ~ value ~ '>' }}
            {%- endfor %}
        {%- endfor %}
    {%- elif m.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}{{ '<tools>' }}{% endif %}
        {{- c }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '</tools>' }}{% endif %}
    {%- else %}
        {{- '[' ~ m.role ~ ']' ~ c }}
    {%- endif %}
{%- endfor %}""",
        """{{ bos_token }}
{% for message in msgs %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 1) and loop.index0 < 2 %}
        {{ raise_exception('Conversation roles must alternate') }}
    {% endif %}
    {% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}
    {% else %}
{% generation %}
        {{ ' ' ~ message['content'] | trim }}{{ eos_token }}
{% endgeneration %}
    {% endif %}
{% endfor %}
""",
    ],
    "errors": [
        "{{ '{} {1}'.format(1, 2) }}", "{{ '{0} {}'.format(1, 2) }}",
        "{{ raise_exception('no ' ~ 1) }}", "{% if n == 7 %}{{ raise_exception('Only é') }}{% endif %}", "{{ nosuch.a }}", "{{ d.no.such }}", "{{ nosuch() }}", "{{ nosuch + 1 }}", "{{ 'a' + nosuch }}", "{{ 'a' + 1 }}", "{{ 'a' + none }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1 < 'a' }}", "{{ 1 in 5 }}", "{{ 1 in 'a' }}", "{% for i in 5 %}{% endfor %}", "{{ n | length }}", "{{ n() }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ nosuch | tojson }}", "{{ s | items | list }}", "{{ {[1]: 2} }}", "{% set d.x = 1 %}", "{% set a, b = [1] %}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{{ 'abc'.index('z') }}", "{{ range(100001) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % (1,) }}", "{{ 'a'.split('') }}", "{{ l[::0] }}", "{{ [3, 'a'] | sort }}", "{{ s.nosuch() }}", "{{ msgs | map('nosuch') | list }}", "{{ d.a < d }}", "{{ -s }}", "{{ ['a', 1] | join('') + 1 }}", "{{ (msgs | map(attribute='role')) | length }}", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{% if t %}{{ 1 | nosuch }}{% endif %}", "{% if t %}{{ 1 is nosuch }}{% endif %}", "{{ '<' | safe + 1 }}", "{{ s.join(1) }}", "{{ '{} {}'.format(1) }}", "{{ {'a': [1] | map('abs')} | tojson }}",
    ],
    "syntax": [
        "{{", "{% if %}", "{% if t %}", "{% endif %}", "{% for i %}{% endfor %}", "{% for in l %}{% endfor %}", "{{ 1 + }}", "{{ (1 }}", "{{ [1, }}", "{{ 'a }}", "{{ a..b }}", "{{ a | nosuch }}", "{{ a is nosuch }}", "{% nosuch %}", "{% macro %}{% endmacro %}", "{% macro f(a=1, b) %}{% endmacro %}", "{% break %}", "{# never closed", "{% raw %} never", "{{ f(a=1, 2) }}", "{% set true = 1 %}", "{% set %}", "{{ 1 2 }}", "{{ a b }}", "{% if t %}{% else %}{% else %}{% endif %}", "{% call 5 %}{% endcall %}", "{{ ) }}", "{{ } }}", "{{ $ }}", "{% set x = 1", "{{ a[] }}", "{{ a[1:2:3:4] }}", "{% for i in l %}{% endif %}", "{{ }}", "{% %}", "{{ {1} }}", "{{ 'a' is }}", "{{ a | }}", "{% include %}",
    ],
}

cases = []
for group, templates in GROUPS.items():
    for template in templates:
        case = {"group": group, "template": template}
        try:
            case["want"] = env.from_string(template).render(**VARS)
        except Raised as e:
            case["error"], case["raised"] = str(e), True
        except Exception as e:
            case["error"] = f"{type(e).__name__}: {e}"[:200]
        if ("error" in case) != (group in ("errors", "syntax")):
            print("unexpected outcome:", group, template, case, file=sys.stderr)
        cases.append(case)
json.dump({"vars": VARS, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
print()
