// Metal's types on clang's C++ for OpenCL 2021: address spaces stay address spaces, so mixing them
// up is a compile error here too.
#pragma once
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define __METAL__ 1
#define __METAL_VERSION__ 310
#define device __global
#define threadgroup __local
#define constant __constant
#define thread __private
#undef kernel
#define kernel
#define METAL_FUNC inline __attribute__((always_inline))
// Attributes of the functions in these headers. Inlining them lets the checker attribute their
// memory accesses to the kernel.
#define MSL_FN __attribute__((always_inline, no_sanitize("thread"))) inline

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef __bf16 bfloat;

#undef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.19209290e-07f
#define HALF_MAX 65504.0h
#define M_PI_F 3.14159274101257f

template <typename T, int N> using vec = T __attribute__((ext_vector_type(N)));
#define MSL_VECTORS(T)                                  \
    typedef T T##2 __attribute__((ext_vector_type(2))); \
    typedef T T##3 __attribute__((ext_vector_type(3))); \
    typedef T T##4 __attribute__((ext_vector_type(4)));
MSL_VECTORS(char)
MSL_VECTORS(uchar)
MSL_VECTORS(short)
MSL_VECTORS(ushort)
MSL_VECTORS(int)
MSL_VECTORS(uint)
MSL_VECTORS(long)
MSL_VECTORS(ulong)
MSL_VECTORS(half)
MSL_VECTORS(float)
MSL_VECTORS(bfloat)

namespace msl {
template <class A, class B> struct same {
    static constexpr bool value = false;
};
template <class A> struct same<A, A> {
    static constexpr bool value = true;
};

// Element type and number of elements of a scalar or vector.
template <class T> struct shape {
    using element = T;
    static constexpr int n = 1;
};
template <class T> struct shape<vec<T, 2>> {
    using element = T;
    static constexpr int n = 2;
};
template <class T> struct shape<vec<T, 3>> {
    using element = T;
    static constexpr int n = 3;
};
template <class T> struct shape<vec<T, 4>> {
    using element = T;
    static constexpr int n = 4;
};

// construct<float4>(...): Metal's vector constructors. One scalar fills all elements. Otherwise the
// arguments must have as many elements as the vector.
template <class V, int K> MSL_FN void fill(__private V &) {
    static_assert(K == shape<V>::n, "vector constructor: wrong number of elements");
}
template <class V, int K, class A, class... Rest>
MSL_FN void fill(__private V &v, A a, Rest... rest) {
    using E = typename shape<V>::element;
    static_assert(K + shape<A>::n <= shape<V>::n, "vector constructor: too many elements");
    if constexpr (shape<A>::n == 1) {
        v[K] = (E)a;
    } else {
        for (int i = 0; i < shape<A>::n; i++) v[K + i] = (E)a[i];
    }
    fill<V, K + shape<A>::n>(v, rest...);
}
template <class V> MSL_FN V construct() {
    V v = {};
    return v;
}
template <class V, class A> MSL_FN V construct(A a) {
    if constexpr (shape<V>::n == 1)
        return (V)a;
    else if constexpr (shape<A>::n == 1)
        return (V)(typename shape<V>::element)a;
    else {
        static_assert(
            shape<A>::n == shape<V>::n, "vector constructor: from a vector of another length");
        return __builtin_convertvector(a, V);
    }
}
template <class V, class A, class B, class... Rest> MSL_FN V construct(A a, B b, Rest... rest) {
    V v;
    fill<V, 0>(v, a, b, rest...);
    return v;
}
} // namespace msl

namespace metal {
using ::vec;

template <class T> struct is_floating_point {
    static constexpr bool value =
        msl::same<T, float>::value || msl::same<T, half>::value || msl::same<T, bfloat>::value;
};
template <class A, class B> struct is_same {
    static constexpr bool value = msl::same<A, B>::value;
};
template <class A, class B> constexpr constant bool is_same_v = msl::same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
    using type = T;
};
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional {
    using type = T;
};
template <class T, class F> struct conditional<false, T, F> {
    using type = F;
};
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T, T V> struct integral_constant {
    static constexpr T value = V;
    using value_type = T;
    using type = integral_constant;
    constexpr operator T() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class T> struct numeric_limits;
#define MSL_LIMITS(T, MIN, MAX, LOWEST, EPSILON, INF)    \
    template <> struct numeric_limits<T> {               \
        static constexpr T min() { return MIN; }         \
        static constexpr T max() { return MAX; }         \
        static constexpr T lowest() { return LOWEST; }   \
        static constexpr T epsilon() { return EPSILON; } \
        static constexpr T infinity() { return INF; }    \
    };
MSL_LIMITS(
    float, 1.175494351e-38f, 3.402823466e+38f, -3.402823466e+38f, 1.19209290e-07f, __builtin_inff())
MSL_LIMITS(half, 6.103515625e-05h, 65504.0h, -65504.0h, 9.765625e-04h, (half)__builtin_inff())
MSL_LIMITS(uchar, 0, 255, 0, 0, 0)
MSL_LIMITS(char, -128, 127, -128, 0, 0)
MSL_LIMITS(ushort, 0, 65535, 0, 0, 0)
MSL_LIMITS(short, -32768, 32767, -32768, 0, 0)
MSL_LIMITS(uint, 0, 4294967295u, 0, 0, 0)
MSL_LIMITS(int, -2147483647 - 1, 2147483647, -2147483647 - 1, 0, 0)
MSL_LIMITS(ulong, 0, 18446744073709551615ul, 0, 0, 0)
MSL_LIMITS(long, -9223372036854775807l - 1, 9223372036854775807l, -9223372036854775807l - 1, 0, 0)

template <class To, class From> MSL_FN To as_type_bits(From f) {
    static_assert(sizeof(To) == sizeof(From), "as_type: the types have different sizes");
    return __builtin_bit_cast(To, f);
}

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }

// Atomics have relaxed order only, as before Metal 4. OpenCL's types of the same names differ.
#define atomic_uint msl_atomic_uint
#define atomic_int msl_atomic_int
enum memory_order { memory_order_relaxed = 0 };
struct atomic_uint {
    uint v;
};
struct atomic_int {
    int v;
};
} // namespace metal
#define as_type ::metal::as_type_bits
