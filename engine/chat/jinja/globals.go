package jinja

// Jinja2's global functions, and the two that transformers adds: raise_exception and strftime_now.
// The caller passes the time: rendering reads no clock, so the same input gives the same prompt.

import (
	"fmt"
	"strings"
	"time"
)

// globals are the functions that every template can call.
var globals = map[string]*function{
	"range":           {"range", rangeGlobal},
	"dict":            {"dict", dictGlobal},
	"namespace":       {"namespace", namespaceGlobal},
	"joiner":          {"joiner", joinerGlobal},
	"cycler":          {"cycler", cyclerGlobal},
	"raise_exception": {"raise_exception", raiseGlobal},
	"strftime_now":    {"strftime_now", strftimeGlobal},
}

// raiseGlobal stops rendering with the template's own message.
func raiseGlobal(r *renderer, a *args) any {
	v := r.bind(a, "raise_exception", "message")
	panic(&Error{Line: r.line, Message: r.str(v[0]), Raised: true})
}

// maxRange is the bound of Jinja2's sandbox on range().
const maxRange = 100_000

func rangeGlobal(r *renderer, a *args) any {
	v := r.bind(a, "range", "start", "stop?", "step?")
	from, to, step := int64(0), r.toInt("range", v[0]), r.orInt("range", v[2], 1)
	if v[1] != (absent{}) {
		from, to = to, r.toInt("range", v[1])
	}
	if step == 0 {
		r.fail("range() step must not be zero")
	}
	const far = 1 << 60 // keeps the additions below from overflowing
	if max(from, -from, to, -to, step, -step) > far {
		r.fail("range() does not support numbers beyond 2^60")
	}
	items := []any{}
	r.list(0)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(items) == maxRange {
			r.fail("range() is limited to %d items", maxRange)
		}
		r.step()
		r.take(2 * itemBytes)
		items = append(items, i)
	}
	return &List{Items: items, shown: rangeText(from, to, step)}
}

// rangeText is how Python prints a range.
func rangeText(from, to, step int64) string {
	if step != 1 {
		return fmt.Sprintf("range(%d, %d, %d)", from, to, step)
	}
	return fmt.Sprintf("range(%d, %d)", from, to)
}

// dictOf builds a dictionary from an optional mapping or pairs, and keywords.
func (r *renderer) dictOf(fn string, a *args) *Dict {
	d := NewDict()
	if len(a.pos) > 1 {
		r.fail("%s takes at most 1 positional argument", fn)
	}
	if len(a.pos) == 1 {
		if from, ok := a.pos[0].(*Dict); ok {
			r.entries(from.Len())
			d = from.Clone()
		} else {
			for _, pair := range r.iterate(a.pos[0]) {
				kv := r.iterate(pair)
				if len(kv) != 2 {
					r.fail("%s needs pairs, got %d values", fn, len(kv))
				}
				r.put(d, kv[0], kv[1])
			}
		}
	}
	for i, name := range a.names {
		r.put(d, name, a.named[i])
	}
	return d
}

func dictGlobal(r *renderer, a *args) any      { return r.dictOf("dict", a) }
func namespaceGlobal(r *renderer, a *args) any { return &Namespace{r.dictOf("namespace", a)} }

// joinerGlobal returns a function that returns "" the first time and the separator
// afterwards.
func joinerGlobal(r *renderer, a *args) any {
	v := r.bind(a, "joiner", "sep?")
	sep, used := r.orText("sep", v[0], ", "), false
	return &function{"joiner", func(*renderer, *args) any {
		if !used {
			used = true
			return ""
		}
		return sep
	}}
}

func cyclerGlobal(r *renderer, a *args) any {
	if len(a.pos) == 0 {
		r.fail("cycler needs at least one item")
	}
	items, at := a.pos, 0
	attrs := NewDict()
	attrs.Set("next", &function{"next", func(*renderer, *args) any {
		v := items[at]
		at = (at + 1) % len(items)
		return v
	}})
	attrs.Set("reset", &function{"reset", func(*renderer, *args) any { at = 0; return nil }})
	return &Namespace{attrs}
}

// strftimeFormats maps Python's directives to Go layouts.
var strftimeFormats = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03",
	'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'Z': "MST",
	'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'e': "_2",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'h': "Jan",
}

func strftimeGlobal(r *renderer, a *args) any {
	v := r.bind(a, "strftime_now", "format")
	return r.strftime(r.now, r.text("strftime_now's format", v[0]))
}

func (r *renderer) strftime(t time.Time, format string) string {
	var b strings.Builder
	r.charge(len(format))
	r.read(len(format))
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		r.work(2 * callSteps)
		r.take(len(time.RFC1123))
		c, plain := format[i], false
		if c == '-' && i+1 < len(format) { // %-d: without leading zeros
			i++
			c, plain = format[i], true
		}
		layout, known := strftimeFormats[c]
		text := t.Format(layout)
		switch {
		case c == '%':
			text = "%"
		case c == 'n':
			text = "\n"
		case c == 't':
			text = "\t"
		case c == 'f':
			text = fmt.Sprintf("%06d", t.Nanosecond()/1000)
		case c == 'w':
			text = fmt.Sprint(int(t.Weekday()))
		case c == 'u':
			text = fmt.Sprint((int(t.Weekday())+6)%7 + 1)
		case c == 's':
			text = fmt.Sprint(t.Unix())
		case !known:
			r.fail("strftime_now: unknown directive %%%c", c)
		}
		if plain && len(text) > 1 {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		b.WriteString(text)
	}
	return b.String()
}
