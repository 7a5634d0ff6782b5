package msl

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const source = `#include <metal_stdlib>
using namespace metal;
struct ScaleParams { uint row_count; int from; float by; };
struct Pair { half2 h; };
constant constexpr int WIDTH = 32;
constant bool add [[function_constant(2)]];

template <typename T>
[[kernel]] void scale(
    constant ScaleParams& p [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device T* out [[buffer(2)]],
    device const float* bias [[buffer(4), function_constant(add)]],
    threadgroup float4* scratch [[threadgroup(0)]],
    uint2 at [[thread_position_in_grid]]) {
  threadgroup vec<float, 4> own[WIDTH][2];
  if (add) { out[at.x] = T(p.by) * x[at.x]; }
}
template [[host_name("scale_" "half")]] [[kernel]] void scale<half>(
    constant ScaleParams& p [[buffer(0)]], device const half* x [[buffer(1)]], device half* out [[buffer(2)]],
    device const float* bias [[buffer(4), function_constant(add)]], threadgroup float4* scratch [[threadgroup(0)]],
    uint2 at [[thread_position_in_grid]]);
[[max_total_threads_per_threadgroup(128)]]
kernel void plain(device const Pair& pair [[buffer(30)]], const ushort lane [[thread_index_in_simdgroup]]) { float4 v = float4(1, 2, 3, 4); }
`

func TestLex(t *testing.T) {
	for text, want := range map[string]string{
		"a+=b<<=c":                         "a += b <<= c",
		"x[[buffer(0)]]":                   "x [[ buffer ( 0 ) ]]",
		"1.5e3f .5h 0x1F a.b a->b":         "1.5e3f .5h 0x1F a . b a -> b",
		"\"a // \\\" b\" 'c' \"open\n d":   "\"a // \\\" b\" 'c' \" open d",
		"a /* b\n c */ d // e\nf /* g":     "a d f / * g",
		"#define a \\\n b\nc #pragma d\ne": "c e",
		"é\xff":                            "é \xff",
	} {
		ts := tokens(lex("", text))
		if got := ts.words(0, len(ts)); got != want {
			t.Errorf("%q: got %q, expected %q", text, got, want)
		}
	}
	if ts := lex("a", "/*\n*/ \"x\\\ny\" b\n#line 9 \"c\"\nd"); len(ts) != 3 || ts[1].line != 3 ||
		ts[2].line != 9 || ts[2].file != "c" {
		t.Errorf("got %+v, expected three tokens with the last one at c:9", ts)
	}
}

func TestParse(t *testing.T) {
	p, err := Parse("a.metal", source)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.KernelNames(); got != "scale_half, plain" {
		t.Errorf("kernels: got %s", got)
	}
	scale, plain := p.Kernel("scale_half"), p.Kernel("plain")
	want := []Argument{
		{Name: "p", Type: "constant ScaleParams &", Constant: true, ReadOnly: true,
			Reference: true},
		{Name: "x", Type: "device const T *", Index: 1, ReadOnly: true},
		{Name: "out", Type: "device T *", Index: 2},
		{Name: "bias", Type: "device const float *", Index: 4, ReadOnly: true, Optional: "add"},
		{Name: "scratch", Type: "threadgroup float4 *", Kind: ThreadgroupArgument},
		{Name: "at", Type: "uint2", Kind: PositionArgument, Index: -1,
			Attribute: "thread_position_in_grid"},
	}
	if !reflect.DeepEqual(scale.Arguments, want) {
		t.Errorf("arguments: got %+v, expected %+v", scale.Arguments, want)
	}
	if scale.Expression != "scale< half >" && scale.Expression != "scale<half>" ||
		scale.MaxThreads != 1024 || plain.MaxThreads != 128 {
		t.Errorf("got %q, threadgroups of %d and %d threads, expected scale<half>, 1024 and 128",
			scale.Expression, scale.MaxThreads, plain.MaxThreads)
	}
	if a := plain.Buffer(30); a == nil || !a.Reference || !a.ReadOnly || a.Constant ||
		plain.Buffer(0) != nil || plain.Threadgroup(0) != nil {
		t.Errorf("plain: %+v", plain.Arguments)
	}
	if len(p.Constants) != 1 || p.Constants[0] != (Constant{"add", "bool", 2}) {
		t.Errorf("constants: got %+v", p.Constants)
	}
}

// TestOpenCL checks that the translation keeps line numbers, drops attributes, and uses macros for
// the parts that a device defines.
func TestOpenCL(t *testing.T) {
	p, err := Parse("a.metal", source)
	if err != nil {
		t.Fatal(err)
	}
	text := p.OpenCL()
	if strings.Contains(text, "[[") || strings.Contains(text, "kernel ") {
		t.Errorf("attributes or keywords are left in:\n%s", text)
	}
	for _, part := range []string{
		"#line 1 \"a.metal\"\n", "MSL_FUNCTION_CONSTANT(bool, add, 2)", "if (msl_constant_add())",
		"MSL_THREADGROUP(0, own, [ WIDTH ] [ 2 ], vec < float , 4 >);",
		"msl::construct<float4>(1, 2, 3, 4)", "T(p.by)",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
	if got, want := strings.Count(text, "\n"), strings.Count(source, "\n")+1; got != want {
		t.Errorf("%d lines, expected %d", got, want)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"kernel void k(device float* x [[buffer(0)]]) {}", ""},
		{"kernel void k(device float* x [[buffer(0)]]) {}\nkernel void k(device float* x " +
			"[[buffer(0)]]) {}", "a.metal:2: kernel k is declared twice"},
		{"kernel void k(device float* x [[buffer(N)]]) {}", "expected a literal index"},
		{"kernel void k(device float* x [[buffer(0)) {}", "[[ without ]]"},
		{"kernel void k(device float* x [[buffer(1)]], device float* y [[buffer(1)]]) {}",
			"buffer(1) is taken by x"},
		{"kernel void (", "expected a kernel's name"},
		{"kernel", "expected a kernel's name"},
		{"constant half h [[function_constant(0)]];", "expected bool, int, uint or float"},
		{"constant bool h [[function_constant(0)]]", "expected constant T name"},
		{"template [[host_name(\"h\")]] [[kernel]] void f<half>(device half* x [[buffer(0)]]);",
			"no such kernel template before it"},
		{"template [[host_name(\"a b\")]] [[kernel]] void f<half>();", "no such kernel"},
		{"kernel void k(device float* x [[buffer(0)]]) { if (true) { threadgroup float s[2]; } }",
			"at the kernel's outermost level"},
		{"kernel void k(device float* x [[buffer(0)]]) { threadgroup float s[2], r[2]; }",
			"write one each"},
		{"kernel void k(device float* x [[buffer(0)]]) { threadgroup float s[2]",
			"without a semicolon"},
		{"int f(int n);\nint g(int n) { return f(n); }\nint f(int n) { return g(n - 1); }",
			"a.metal:1: f calls itself"},
		{"float f(float v) { return v; }\nfloat4 f(float4 v) { return f(v.x); }", ""},
		{"\n#line 7 \"b.h\"\n\nkernel int k() {}", "b.h:8: kernel k returns int"},
		{"/* kernel int k() {} */ // kernel int j() {}", ""},
	} {
		_, err := Parse("a.metal", c.text)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, expected %q", c.text, err, c.want)
		}
	}
}

func TestCheckStruct(t *testing.T) {
	p, err := Parse("a.metal", source)
	if err != nil {
		t.Fatal(err)
	}
	scale, plain := p.Kernel("scale_half"), p.Kernel("plain")
	type right struct {
		RowCount uint32
		From     int32
		By       float32
	}
	if err := p.CheckStruct(scale, 0, reflect.TypeFor[right]()); err != nil {
		t.Error(err)
	}
	if n, ok := p.StructBytes(scale.Buffer(0)); n != 12 || !ok {
		t.Errorf("the struct has %d bytes, known %t, expected 12", n, ok)
	}
	for _, c := range []struct {
		kernel *Kernel
		index  int
		value  any
		want   string
	}{
		{scale, 0, struct {
			RowCount uint32
			By       float32
			From     int32
		}{}, "field 1 is By float32 in Go's"},
		{scale, 0, struct {
			RowCount uint64
			From     int32
			By       float32
		}{}, "field 0 is RowCount uint64"},
		{scale, 0, struct{ RowCount uint32 }{},
			"has 1 fields, ScaleParams in the source has 3: uint row_count, int from, float by"},
		{scale, 0, 3, "expected a Go struct"},
		{scale, 1, right{}, "refers to no struct"},
		{scale, 3, right{}, "no [[buffer(3)]]"},
		{plain, 30, right{}, `"half2 h" is not a plain field of four bytes`},
	} {
		err := p.CheckStruct(c.kernel, c.index, reflect.TypeOf(c.value))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, expected %q", err, c.want)
		}
	}
}

func TestConstantBits(t *testing.T) {
	for _, c := range []struct {
		kind  string
		value any
		want  uint32
		ok    bool
	}{
		{"bool", true, 1, true}, {"bool", false, 0, true}, {"int", int32(-1), 0xFFFFFFFF, true},
		{"uint", uint32(7), 7, true},
		{"float", float32(1), 0x3F800000, true}, {"float", float64(1), 0, false},
		{"uint", int32(7), 0, false}, {"bool", 1, 0, false},
	} {
		got, err := (&Constant{Name: "c", Type: c.kind}).Bits(c.value)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%v as %s: got %#x, %v", c.value, c.kind, got, err)
		}
	}
}

func TestInline(t *testing.T) {
	headers := fstest.MapFS{
		"common/a.h": {Data: []byte("#pragma once\n#include \"common/b.h\"\nint a;")},
		"common/b.h": {Data: []byte("#include \"common/a.h\"\nint b;\n")},
		"bad.h":      {Data: []byte("\xff")},
	}
	got, err := Inline(headers, "k.metal",
		"#include <metal_stdlib>\n  #include \"common/a.h\" // twice\n#include "+
			"\"common/../common/a.h\"\nint k;\n")
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, tok := range lex("", got) {
		if tok.ident && tok.text != "int" {
			places = append(places, fmt.Sprintf("%s %s:%d", tok.text, tok.file, tok.line))
		}
	}
	if want := "b common/b.h:2, a common/a.h:3, k k.metal:4"; strings.Join(places, ", ") != want {
		t.Errorf("got %s, expected %s, in:\n%s", strings.Join(places, ", "), want, got)
	}
	for text, want := range map[string]string{
		"\n#include \"c.h\"":          `k.metal:2: #include "c.h"`,
		"#include \"bad.h\"":          "bad.h: the source is not UTF-8",
		"#include \"../outside.h\"\n": "file does not exist",
		"\xfe":                        "k.metal: the source is not UTF-8",
	} {
		if _, err := Inline(headers, "k.metal", text); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, expected %q", text, err, want)
		}
	}
	if _, err := Inline(nil, "k.metal", `#include "c.h"`); err == nil {
		t.Error("an include without headers passed")
	}
}

// FuzzParse checks that no text makes Parse panic, and that translations keep the number of lines.
func FuzzParse(f *testing.F) {
	f.Add(source)
	f.Add("kernel void k(device float* x [[buffer(0)]]) { " +
		"threadgroup float s[2]; float2 v = float2(1); }")
	f.Add("template <class T> [[kernel]] void f(T<(][[ ]] constant a [[function_constant(")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("f.metal", text)
		if err == nil && strings.Count(p.OpenCL(), "\n") != strings.Count(text, "\n")+1 {
			t.Errorf("%q: lines moved: %q", text, p.OpenCL())
		}
	})
}
