package peer

// MLX's text for package msl. Its headers are inlined, those that need types which no measured
// kernel has are replaced, and what Metal leaves to the compiler is written out: the indices of
// buffers. One kernel is instantiated.

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing/fstest"

	"headroom/metal/msl"
)

// folder has MLX's kernels, in its repository.
const folder = "mlx/backend/metal/kernels/"

// replaced has the headers of MLX that are not read: what they define for types that no measured
// kernel has is left out, and instantiations are ours.
var replaced = fstest.MapFS{
	folder + "utils.h":   {Data: []byte(utils)},
	folder + "complex.h": {},
}

// utils stands for MLX's utils.h and for what Metal's library has and package msl's shim lacks.
const utils = `
#pragma once
#define instantiate_kernel(...)
#define MTL_CONST constant
#define MLX_MTL_PRAGMA_UNROLL _Pragma("clang loop unroll(full)")
typedef half float16_t;
typedef bfloat bfloat16_t;
static MTL_CONST constexpr int RMS_N_READS = 4;
static MTL_CONST constexpr int RMS_LOOPED_LIMIT = 4096;
struct complex64_t {
  float real, imag;
  constexpr complex64_t(float r, float i) : real(r), imag(i) {}
};
template <typename U> struct Limits {
  static constexpr U max = metal::numeric_limits<U>::infinity();
  static constexpr U min = -metal::numeric_limits<U>::infinity();
  static constexpr U finite_max = metal::numeric_limits<U>::max();
  static constexpr U finite_min = -metal::numeric_limits<U>::max();
};
namespace metal {
template <class T> struct remove_cv { using type = T; };
template <class T> struct remove_cv<const T> { using type = T; };
template <class T> struct remove_cv<volatile T> { using type = T; };
template <class T> struct remove_cv<const volatile T> { using type = T; };
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> struct remove_addrspace { using type = T; };
template <class T> struct remove_addrspace<device T> { using type = T; };
template <class T> struct remove_addrspace<threadgroup T> { using type = T; };
template <class T> struct remove_addrspace<thread T> { using type = T; };
template <class T> using remove_addrspace_t = remove_cv_t<typename remove_addrspace<T>::type>;
template <class T> struct is_integral : bool_constant<__is_integral(T)> {};
template <> struct numeric_limits<bfloat> {
  static constexpr bfloat max() { return (bfloat)3.38953139e38f; }
  static constexpr bfloat infinity() { return (bfloat)__builtin_inff(); }
};
template <class T> T quad_sum(T v) {
  v += simd_shuffle_xor(v, (ushort)1);
  return v + simd_shuffle_xor(v, (ushort)2);
}
template <class T> using uniform = T;
template <class T> constexpr T make_uniform(T v) { return v; }
} // namespace metal
template <bool B, class T, class U> using ConditionalType = metal::conditional<B, T, U>;
// The offset of an element in an array with strides. Measured arrays have one dimension more than
// a matrix, for which MLX's kernels do not call it.
template <class I = int64_t>
I elem_to_loc(uint at, constant const int* shape, constant const int64_t* strides, int n) {
  I offset = 0;
  while (n-- > 0) {
    offset += I(at % shape[n]) * I(strides[n]);
    at /= shape[n];
  }
  return offset;
}
using namespace metal;
#pragma clang fp contract(fast)
`

// headers is MLX's repository with the replaced headers.
type headers struct{ mlx fs.FS }

// Open implements fs.FS.
func (h headers) Open(name string) (fs.File, error) {
	if f, err := replaced.Open(name); err == nil {
		return f, nil
	}
	return h.mlx.Open(name)
}

// source returns the text of files of MLX's kernels, which package msl can read, with one kernel:
// the instance of a template, under the name "peer".
func source(mlx fs.FS, instance string, files ...string) (string, error) {
	var includes strings.Builder
	for _, file := range append([]string{"utils.h"}, files...) {
		includes.WriteString(`#include "` + folder + file + "\"\n")
	}
	text, err := msl.Inline(headers{mlx}, "peer.metal", includes.String())
	if err != nil {
		return "", err
	}
	return bind(text) + ";\ntemplate [[host_name(\"peer\")]] [[kernel]] decltype(" + instance +
		") " + instance + ";\n", nil
}

var (
	kernelHead = regexp.MustCompile(`\[\[kernel[^\]]*\]\] void \w+\(`)
	array      = regexp.MustCompile(`(\w+)\[\d+\]$`)
	names      = strings.NewReplacer(
		// constructors of one address space, which a member of another class cannot call
		"MMATile() thread {}", "MMATile() {}",
		// the lanes' elements of a matrix, which are NVIDIA's (nv_matrix.h) and not Apple's
		"(qid & 4) + ((simd_lane_id / 2) % 4)", "qid", "(qid & 2) * 2 + (simd_lane_id % 2) * 2",
		"simd_lane_id % 4 * 2",
		// positions that package msl does not have, of kernels that are not measured
		"[[quadgroup_index_in_threadgroup]]",
		"[[simdgroup_index_in_threadgroup]]", "[[thread_index_in_quadgroup]]",
		"[[thread_index_in_simdgroup]]")
	// A local variable that has the name and the value of a function constant.
	blocks = regexp.MustCompile(`const int blocks = tpg\.z;`)
	// The translation is within a namespace of its own, which these leave.
	std = regexp.MustCompile(`(?s)namespace metal \{(.*?)\} // namespace metal`)
)

// bind writes the indices of buffer arguments that have none, as Metal counts them, and arrays as
// pointers.
func bind(text string) string {
	text = blocks.ReplaceAllString(names.Replace(text), "")
	text = std.ReplaceAllString(text, "} namespace metal {$1} namespace {")
	var b strings.Builder
	for {
		at := kernelHead.FindStringIndex(text)
		if at == nil {
			break
		}
		b.WriteString(text[:at[1]])
		arguments, rest := splitArguments(text[at[1]:])
		next := 0
		for i, a := range arguments {
			if !strings.Contains(a, "[[") {
				trimmed := strings.TrimSpace(a)
				lines := a[:len(a)-len(strings.TrimLeft(a, " \n"))]
				if m := array.FindStringSubmatch(trimmed); m != nil {
					trimmed = strings.TrimSuffix(trimmed, m[0]) + "*" + m[1]
				}
				a = lines + trimmed + " [[buffer(" + strconv.Itoa(next) + ")]]"
			}
			if !strings.Contains(a, "threadgroup(") {
				next++
			}
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(a)
		}
		text = rest
	}
	b.WriteString(text)
	return b.String()
}

// splitArguments splits a list of arguments at its commas. rest begins with the bracket behind it.
func splitArguments(text string) (arguments []string, rest string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '<':
			depth++
		case ']', '>':
			depth--
		case ')':
			if depth == 0 {
				return append(arguments, text[from:i]), text[i:]
			}
			depth--
		case ',':
			if depth == 0 {
				arguments = append(arguments, text[from:i])
				from = i + 1
			}
		}
	}
	return nil, text
}
