package msl

// The parser makes one pass over a source's tokens. It records declarations, and edits for syntax
// that C++ for OpenCL writes differently:
//
//	[[attributes]]         removed after reading
//	kernel void f(...)     a plain function, which the device's entry calls
//	constant T c [[...]];  MSL_FUNCTION_CONSTANT, and each use of c becomes a call
//	threadgroup T a[N];    MSL_THREADGROUP
//	float4(x, y)           a function with Metal's rules, which OpenCL's vector literals lack

import (
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// edit replaces bytes [from, to) of the source.
type edit struct {
	from, to int
	text     string
}

type reader struct {
	p         *Program
	source    string
	ts        tokens
	attribute []bool // whether each token is within [[ ]]
	edits     []edit
	templates map[string]*function
	constants map[string]bool
	faults    []error

	depth       int // braces open
	parens      int
	kernelDepth int // depth of the current kernel body, -1 outside of kernels
	bodyNext    bool
	variables   int // threadgroup variables so far
}

// function is a kernel function as declared, template or not.
type function struct {
	arguments  []Argument
	template   bool
	maxThreads int
}

// Parse reads a source whose includes have been inlined. The error joins all mistakes in the
// source, each with file and line.
func Parse(file, source string) (*Program, error) {
	r := &reader{p: &Program{}, source: source, ts: lex(file, source),
		templates: map[string]*function{}, constants: map[string]bool{}, kernelDepth: -1}
	r.attributes()
	for i := 0; i < len(r.ts); {
		i = r.step(i)
	}
	r.recursion()
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	r.p.opencl = r.apply(file)
	return r.p, nil
}

func (r *reader) fault(at token, format string, args ...any) {
	r.faults = append(r.faults,
		fmt.Errorf("%s:%d: %s", at.file, at.line, fmt.Sprintf(format, args...)))
}

func (r *reader) replace(from, to int, text string) {
	r.edits = append(r.edits, edit{from, to, text})
}

// attributes marks the tokens of every [[ ]] and removes them from the translation.
func (r *reader) attributes() {
	r.attribute = make([]bool, len(r.ts))
	for i := 0; i < len(r.ts); i++ {
		if r.ts[i].text != "[[" {
			continue
		}
		j := r.ts.closing(i, "[[", "]]")
		if j == len(r.ts) {
			r.fault(r.ts[i], "[[ without ]]")
			return
		}
		for k := i; k <= j; k++ {
			r.attribute[k] = true
		}
		r.replace(r.ts[i].pos, r.ts[j].end(), "")
		i = j
	}
}

var vectorName = regexp.MustCompile(
	`^(?:bool|char|uchar|short|ushort|int|uint|long|ulong|half|float|bfloat)[234]$`)

// step reads token i and returns the next token to read.
func (r *reader) step(i int) int {
	t := r.ts[i]
	if r.attribute[i] && t.text != "kernel" {
		return i + 1
	}
	switch t.text {
	case "{":
		if r.bodyNext && r.parens == 0 {
			r.kernelDepth, r.bodyNext = r.depth, false
		}
		r.depth++
	case "}":
		if r.depth--; r.depth == r.kernelDepth {
			r.kernelDepth = -1
		}
	case "(":
		r.parens++
	case ")":
		r.parens--
	case "constant":
		if r.depth == 0 {
			return r.functionConstant(i)
		}
	case "kernel":
		if r.depth == 0 {
			return r.kernel(i)
		}
	case "struct":
		if r.depth == 0 {
			r.structAt(i)
		}
	case "threadgroup":
		if before := r.ts.at(i - 1).text; r.depth > 0 &&
			(before == ";" || before == "{" || before == "}") {
			return r.threadgroupVariable(i)
		}
	case "vec":
		if r.ts.at(i+1).text == "<" {
			if j := r.ts.closingAngle(i + 1); j > 0 && r.ts.at(j+1).text == "(" {
				r.replace(t.pos, t.pos, "msl::construct<")
				r.replace(r.ts[j].end(), r.ts[j].end(), ">")
			}
		}
	default:
		switch {
		case r.constants[t.text]:
			r.replace(t.pos, t.end(), "msl_constant_"+t.text+"()")
		case vectorName.MatchString(t.text) && r.ts.at(i+1).text == "(" && !r.functionType(i):
			r.replace(t.pos, t.end(), "msl::construct<"+t.text+">")
		}
	}
	return i + 1
}

// functionType reports whether the vector type at i begins a declaration such as `thread float4
// (&x)[2]`, not the constructor float4(...).
func (r *reader) functionType(i int) bool {
	switch r.ts.at(i + 2).text {
	case "&":
		return true
	case "*":
		switch r.ts.at(i - 1).text {
		case "device", "threadgroup", "thread", "constant", "const":
			return true
		}
	}
	return false
}

// functionConstant reads constant T name [[function_constant(index)]]; and skips other constants at
// program scope.
func (r *reader) functionConstant(i int) int {
	t, k := r.ts[i], i+1
	for k < len(r.ts) && !strings.Contains("; = [[ (", r.ts[k].text) {
		k++
	}
	if r.ts.at(k).text != "[[" || r.ts.at(k+1).text != "function_constant" {
		return i + 1
	}
	end := r.ts.closing(k, "[[", "]]") + 1
	index, err := strconv.Atoi(r.ts.at(k + 3).text)
	c := Constant{Name: r.ts.at(k - 1).text, Type: r.ts.words(i+1, k-1), Index: index}
	if err != nil || index < 0 || index > 65535 || r.ts.at(end).text != ";" {
		r.fault(t,
			"function constant %s: expected constant T name [[function_constant(index)]]; with an "+
				"index from 0 to 65535", c.Name)
		return i + 1
	}
	switch c.Type {
	case "bool", "int", "uint", "float":
	default:
		r.fault(t, "function constant %s has type %s, expected bool, int, uint or float", c.Name,
			c.Type)
	}
	if r.constants[c.Name] {
		r.fault(t, "function constant %s is declared twice", c.Name)
	}
	r.constants[c.Name] = true
	r.p.Constants = append(r.p.Constants, c)
	r.replaceAll(t.pos, r.ts[end].end(),
		fmt.Sprintf("MSL_FUNCTION_CONSTANT(%s, %s, %d)", c.Type, c.Name, index))
	return end + 1
}

// replaceAll is replace, but also drops the edits within the range.
func (r *reader) replaceAll(from, to int, text string) {
	kept := r.edits[:0]
	for _, e := range r.edits {
		if e.from < from || e.to > to {
			kept = append(kept, e)
		}
	}
	r.edits = append(kept, edit{from, to, text})
}

// threadgroupVariable reads threadgroup T name[dims]; at kernel scope. It skips pointers and
// references to threadgroup memory.
func (r *reader) threadgroupVariable(i int) int {
	t, k := r.ts[i], i+1
	for ; k < len(r.ts) && !strings.Contains("; = [ ( { ,", r.ts[k].text); k++ {
		switch r.ts[k].text {
		case "*", "&":
			return i + 1
		case "<":
			if j := r.ts.closingAngle(k); j > 0 {
				k = j
			}
		}
	}
	end := k
	for end < len(r.ts) && r.ts[end].text != ";" {
		if r.ts[end].text == "," || r.ts[end].text == "=" {
			break
		}
		end++
	}
	if end == len(r.ts) {
		r.fault(t, "threadgroup variable without a semicolon")
		return end
	}
	switch {
	case r.kernelDepth < 0:
		r.fault(t,
			"threadgroup variable outside a kernel: declare it in the kernel and pass a pointer")
	case r.depth != r.kernelDepth+1:
		r.fault(t, "threadgroup variable in a block: declare it at the kernel's outermost level")
	case r.ts[end].text == "=":
		r.fault(t,
			"threadgroup variable with an initialiser: Metal has none; write it in one thread, "+
				"then a barrier")
	case r.ts[end].text == ",":
		r.fault(t, "two threadgroup variables in one declaration: write one each")
	}
	name := r.ts.at(k - 1).text
	r.replaceAll(t.pos, r.ts[end].pos,
		fmt.Sprintf("MSL_THREADGROUP(%d, %s, %s, %s)", r.variables, name, r.ts.words(k, end),
			r.ts.words(i+1, k-1)))
	r.variables++
	return max(end, i+1)
}

// apply makes the edits. It keeps the newlines that they replace, so that line numbers stay those
// of the source.
func (r *reader) apply(file string) string {
	sort.SliceStable(r.edits, func(a, b int) bool { return r.edits[a].from < r.edits[b].from })
	var b strings.Builder
	fmt.Fprintf(&b, "#line 1 %q\n", file)
	at := 0
	for _, e := range r.edits {
		if e.from < at {
			continue
		}
		b.WriteString(r.source[at:e.from])
		b.WriteString(e.text)
		b.WriteString(strings.Repeat("\n",
			strings.Count(r.source[e.from:e.to], "\n")-strings.Count(e.text, "\n")))
		at = e.to
	}
	b.WriteString(r.source[at:])
	return b.String()
}
