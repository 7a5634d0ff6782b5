package msl

import (
	"regexp"
	"strconv"
	"strings"
)

// positions are the attributes of position arguments, each with the vector lengths it allows.
var positions = map[string]string{
	"thread_position_in_grid":          "123",
	"thread_position_in_threadgroup":   "123",
	"threadgroup_position_in_grid":     "123",
	"threads_per_threadgroup":          "123",
	"threadgroups_per_grid":            "123",
	"threads_per_grid":                 "123",
	"dispatch_threads_per_threadgroup": "123",
	"thread_index_in_threadgroup":      "1",
	"simdgroup_index_in_threadgroup":   "1",
	"thread_index_in_simdgroup":        "1",
	"simdgroups_per_threadgroup":       "1",
	"threads_per_simdgroup":            "1",
}

var (
	hostName   = regexp.MustCompile(`host_name \( ((?:"[^"]*" ?)+)\)`)
	maxThreads = regexp.MustCompile(`max_total_threads_per_threadgroup \( (\d+) \)`)
	position   = regexp.MustCompile(`^(?:const )?(?:uint|ushort)([23]?)$`)
)

// kernel reads the kernel definition, template or explicit instantiation whose keyword is token i.
// It returns the token to continue at. step reads the body.
func (r *reader) kernel(i int) int {
	k := i + 1
	for k < len(r.ts) && (r.attribute[k] || r.ts[k].text == "inline" || r.ts[k].text == "static") {
		k++
	}
	if !r.attribute[i] {
		r.replace(r.ts[i].pos, r.ts[i].end(), "")
	}
	from := i
	for from > 0 && r.ts[from-1].text != ";" && r.ts[from-1].text != "}" {
		from--
	}
	head := r.ts.words(from, k)
	host := ""
	if m := hostName.FindStringSubmatch(head); m != nil {
		host = strings.NewReplacer(`" "`, "", `"`, "", " ", "").Replace(m[1])
	}
	returns, at := r.ts.at(k), k+1
	if returns.text == "decltype" {
		at = r.ts.closing(at, "(", ")") + 1
	}
	name := r.ts.at(at)
	if !name.ident {
		r.fault(r.ts[i], "expected a kernel's name, got %q", name.text)
		return i + 1
	}
	at++
	if strings.HasPrefix(head, "template") && !strings.HasPrefix(head, "template <") {
		return r.instantiation(i, host, name, at)
	}
	if returns.text != "void" {
		r.fault(returns, "kernel %s returns %s, expected void", name.text, returns.text)
	}
	if r.ts.at(at).text != "(" {
		r.fault(name, "kernel %s: expected its arguments, got %q", name.text, r.ts.at(at).text)
		return i + 1
	}
	f := &function{template: strings.HasPrefix(head, "template"),
		maxThreads: MaxThreadsPerThreadgroup}
	if m := maxThreads.FindStringSubmatch(head); m != nil {
		f.maxThreads, _ = strconv.Atoi(m[1])
	}
	end := r.ts.closing(at, "(", ")")
	f.arguments = r.arguments(at+1, end)
	if r.templates[name.text] != nil {
		r.fault(name, "kernel %s is declared twice; give each a different name", name.text)
	}
	r.templates[name.text] = f
	if host == "" {
		host = name.text
	}
	if !f.template {
		r.add(name, host, name.text, f)
	}
	r.bodyNext = r.ts.at(end+1).text == "{"
	return end + 1
}

// instantiation reads template [[host_name("h")]] [[kernel]] void f<half, 64>(...); up to its
// semicolon. at is the token after the name.
func (r *reader) instantiation(i int, host string, name token, at int) int {
	expression := name.text
	if r.ts.at(at).text == "<" {
		if j := r.ts.closingAngle(at); j > 0 {
			expression += r.ts.words(at, j+1)
		}
	}
	f := r.templates[name.text]
	switch {
	case host == "":
		r.fault(r.ts[i],
			"instantiation of %s without [[host_name(\"...\")]]: the host could not ask for it",
			name.text)
	case f == nil:
		r.fault(r.ts[i],
			"instantiation of %s, but this source has no such kernel template before it", name.text)
	default:
		r.add(name, host, expression, f)
	}
	for at < len(r.ts) && r.ts[at].text != ";" {
		at++
	}
	return at
}

var cName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func (r *reader) add(at token, host, expression string, f *function) {
	if r.p.Kernel(host) != nil {
		r.fault(at, "two kernels are called %s", host)
	}
	if !cName.MatchString(host) {
		r.fault(at, "host name %q: expected letters, digits and underscores", host)
	}
	r.p.Kernels = append(r.p.Kernels,
		&Kernel{Name: host, Expression: expression, Arguments: f.arguments,
			MaxThreads: f.maxThreads})
}

// arguments reads the parameter list in tokens [from, to).
func (r *reader) arguments(from, to int) []Argument {
	var all []Argument
	used := map[string]string{}
	depth, begin := 0, from
	for i := from; i <= min(to, len(r.ts)); i++ {
		switch r.ts.at(i).text {
		case "(", "<", "[[":
			depth++
			continue
		case ")", ">", "]]":
			if i < to {
				depth--
				continue
			}
		case ",":
			if depth > 0 {
				continue
			}
		default:
			if i < to {
				continue
			}
		}
		if i > begin {
			all = append(all, r.argument(begin, i, used))
		}
		begin = i + 1
	}
	return all
}

// argument reads one parameter, tokens [from, to). used holds the name of the argument with each
// index.
func (r *reader) argument(from, to int, used map[string]string) Argument {
	split := from
	for split < to && r.ts[split].text != "[[" {
		split++
	}
	at, a := r.ts[from], Argument{Index: -1}
	if split < from+2 {
		r.fault(at, "%q is no kernel argument: expected type, name and [[attribute]]",
			r.ts.words(from, to))
		return a
	}
	a.Name, a.Type = r.ts[split-1].text, r.ts.words(from, split-1)
	space, pointer := "", false
	for _, t := range r.ts[from : split-1] {
		switch t.text {
		case "device", "constant", "threadgroup", "thread":
			space = t.text
		case "const":
			a.ReadOnly = true
		case "&":
			a.Reference = true
		case "*":
			pointer = true
		}
	}
	a.Constant = space == "constant"
	a.ReadOnly = a.ReadOnly || a.Constant
	kind := r.binding(&a, split, to, used)
	switch {
	case kind == "buffer" && (space != "device" && space != "constant" || !a.Reference && !pointer):
		r.fault(at, "argument %s: a buffer is a device or constant pointer or reference", &a)
	case kind == "threadgroup" && (space != "threadgroup" || !pointer):
		r.fault(at, "argument %s: threadgroup memory is a threadgroup pointer", &a)
	case kind == "":
		r.fault(at,
			"argument %s has no binding: give it [[buffer(i)]], [[threadgroup(i)]] or a position",
			&a)
	}
	return a
}

// binding reads the attributes of an argument, tokens [from, to). It returns the kind of the
// binding, "" if there is none.
func (r *reader) binding(a *Argument, from, to int, used map[string]string) (kind string) {
	for j := from + 1; j < to; j++ {
		t := r.ts[j]
		if !t.ident {
			continue
		}
		switch {
		case t.text == "buffer" || t.text == "threadgroup":
			kind = t.text
			a.Kind = BufferArgument
			if kind == "threadgroup" {
				a.Kind = ThreadgroupArgument
			}
			n, err := strconv.Atoi(r.ts.at(j + 2).text)
			if err != nil || n < 0 || n >= MaxBuffers {
				r.fault(t, "argument %s: %s(%s), expected a literal index from 0 to %d", a, kind,
					r.ts.at(j+2).text, MaxBuffers-1)
			}
			a.Index = n
			key := kind + strconv.Itoa(n)
			if used[key] != "" {
				r.fault(t, "argument %s: %s(%d) is taken by %s", a, kind, n, used[key])
			}
			used[key] = a.Name
			j += 3
		case t.text == "function_constant":
			a.Optional = r.ts.at(j + 2).text
			j += 3
		case positions[t.text] != "":
			kind, a.Kind, a.Attribute = "position", PositionArgument, t.text
			if m := position.FindStringSubmatch(a.Type); m == nil || m[1] != "" &&
				!strings.Contains(positions[t.text], m[1]) {
				r.fault(t,
					"argument %s: not a type for [[%s]], expected uint, ushort or their vectors "+
						"where the position has dimensions", a, t.text)
			}
		default:
			r.fault(t, "argument %s: unknown attribute %s", a, t.text)
			kind = "unknown"
		}
	}
	return kind
}
