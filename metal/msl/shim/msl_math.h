// Metal's math library. As in Apple's, functions are overloaded for each type, without templates,
// so that calls with mixed types are ambiguous here too. half is computed as float. bfloat has no
// functions: it is a storage type. A header of the device, included before this one, declares expf
// and the other C functions.
#pragma once

namespace metal {
#define MSL_PER_ELEMENT1(NAME, C, T, V)                                      \
    MSL_FN V NAME(V a) {                                                     \
        V r;                                                                 \
        for (int i = 0; i < msl::shape<V>::n; i++) r[i] = (T)C((float)a[i]); \
        return r;                                                            \
    }
#define MSL_UNARY(NAME, C)                                 \
    void NAME(bfloat) = delete;                            \
    MSL_FN float NAME(float a) { return C(a); }            \
    MSL_FN half NAME(half a) { return (half)C((float)a); } \
    MSL_PER_ELEMENT1(NAME, C, float, float2)               \
    MSL_PER_ELEMENT1(NAME, C, float, float3)               \
    MSL_PER_ELEMENT1(NAME, C, float, float4)               \
    MSL_PER_ELEMENT1(NAME, C, half, half2)                 \
    MSL_PER_ELEMENT1(NAME, C, half, half3)                 \
    MSL_PER_ELEMENT1(NAME, C, half, half4)

MSL_FN float msl_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
MSL_FN float msl_saturate(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); }
MSL_FN float msl_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
MSL_UNARY(exp, expf)
MSL_UNARY(exp2, exp2f)
MSL_UNARY(log, logf)
MSL_UNARY(log2, log2f)
MSL_UNARY(log10, log10f)
MSL_UNARY(sin, sinf)
MSL_UNARY(cos, cosf)
MSL_UNARY(tan, tanf)
MSL_UNARY(tanh, tanhf)
MSL_UNARY(sinh, sinhf)
MSL_UNARY(cosh, coshf)
MSL_UNARY(asin, asinf)
MSL_UNARY(acos, acosf)
MSL_UNARY(atan, atanf)
MSL_UNARY(sqrt, __builtin_sqrtf)
MSL_UNARY(rsqrt, msl_rsqrt)
MSL_UNARY(fabs, __builtin_fabsf)
MSL_UNARY(saturate, msl_saturate)
MSL_UNARY(floor, __builtin_floorf)
MSL_UNARY(ceil, __builtin_ceilf)
MSL_UNARY(rint, __builtin_rintf)
MSL_UNARY(round, __builtin_roundf)
MSL_UNARY(trunc, __builtin_truncf)
MSL_UNARY(sign, msl_sign)

#define MSL_PER_ELEMENT2(NAME, C, T, V)                                                   \
    MSL_FN V NAME(V a, V b) {                                                             \
        V r;                                                                              \
        for (int i = 0; i < msl::shape<V>::n; i++) r[i] = (T)C((float)a[i], (float)b[i]); \
        return r;                                                                         \
    }
#define MSL_BINARY(NAME, C)                                                  \
    MSL_FN float NAME(float a, float b) { return C(a, b); }                  \
    MSL_FN half NAME(half a, half b) { return (half)C((float)a, (float)b); } \
    MSL_PER_ELEMENT2(NAME, C, float, float2)                                 \
    MSL_PER_ELEMENT2(NAME, C, float, float3)                                 \
    MSL_PER_ELEMENT2(NAME, C, float, float4)                                 \
    MSL_PER_ELEMENT2(NAME, C, half, half2)                                   \
    MSL_PER_ELEMENT2(NAME, C, half, half3)                                   \
    MSL_PER_ELEMENT2(NAME, C, half, half4)
MSL_BINARY(pow, powf)
MSL_BINARY(fmod, fmodf)
MSL_BINARY(atan2, atan2f)
MSL_BINARY(copysign, __builtin_copysignf)
MSL_BINARY(fmin, __builtin_fminf)
MSL_BINARY(fmax, __builtin_fmaxf)
MSL_BINARY(min, __builtin_fminf)
MSL_BINARY(max, __builtin_fmaxf)

#define MSL_INTEGER(T)                               \
    MSL_FN T min(T a, T b) { return a < b ? a : b; } \
    MSL_FN T max(T a, T b) { return a > b ? a : b; } \
    MSL_FN T clamp(T x, T a, T b) { return min(max(x, a), b); }
MSL_INTEGER(char)
MSL_INTEGER(uchar)
MSL_INTEGER(short)
MSL_INTEGER(ushort)
MSL_INTEGER(int)
MSL_INTEGER(uint)
MSL_INTEGER(long)
MSL_INTEGER(ulong)
#define MSL_ABS(T) \
    MSL_FN T abs(T a) { return a < 0 ? (T) - a : a; }
MSL_ABS(char)
MSL_ABS(short)
MSL_ABS(int)
MSL_ABS(long)
MSL_FN
float abs(float a) { return __builtin_fabsf(a); }
MSL_FN half abs(half a) { return (half)__builtin_fabsf((float)a); }
#define MSL_FLOATING(T)                                         \
    MSL_FN T clamp(T x, T a, T b) { return min(max(x, a), b); } \
    MSL_FN T mix(T x, T y, T a) { return x + (y - x) * a; }
MSL_FLOATING(float)
MSL_FLOATING(float2)
MSL_FLOATING(float3)
MSL_FLOATING(float4)
MSL_FLOATING(half)
MSL_FLOATING(half2)
MSL_FLOATING(half3)
MSL_FLOATING(half4)
void max(bfloat, bfloat) = delete;
void min(bfloat, bfloat) = delete;

MSL_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MSL_FN half fma(half a, half b, half c) {
    return (half)__builtin_fmaf((float)a, (float)b, (float)c);
}
#define MSL_FMA(V)                                                                        \
    MSL_FN V fma(V a, V b, V c) {                                                         \
        using E = msl::shape<V>::element;                                                 \
        V r;                                                                              \
        for (int i = 0; i < msl::shape<V>::n; i++) r[i] = fma((E)a[i], (E)b[i], (E)c[i]); \
        return r;                                                                         \
    }
MSL_FMA(float2)
MSL_FMA(float3)
MSL_FMA(float4)
MSL_FMA(half2)
MSL_FMA(half3)
MSL_FMA(half4)
#define MSL_DOT(T, V)                                                \
    MSL_FN T dot(V a, V b) {                                         \
        T s = (T)0;                                                  \
        for (int i = 0; i < msl::shape<V>::n; i++) s += a[i] * b[i]; \
        return s;                                                    \
    }
MSL_DOT(float, float2)
MSL_DOT(float, float3)
MSL_DOT(float, float4)
MSL_DOT(half, half2)
MSL_DOT(half, half3)
MSL_DOT(half, half4)
MSL_FN bool isnan(float x) { return __builtin_isnan(x); }
MSL_FN bool isinf(float x) { return __builtin_isinf(x); }
MSL_FN bool isfinite(float x) { return __builtin_isfinite(x); }
#define MSL_SELECT(T) \
    MSL_FN T select(T a, T b, bool c) { return c ? b : a; }
MSL_SELECT(float)
MSL_SELECT(half)
MSL_SELECT(int)
MSL_SELECT(uint)
MSL_FN uint popcount(uint x) { return __builtin_popcount(x); }
MSL_FN uint clz(uint x) { return x ? __builtin_clz(x) : 32u; }
MSL_FN uint ctz(uint x) { return x ? __builtin_ctz(x) : 32u; }
MSL_FN uint mulhi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }
MSL_FN uint rotate(uint x, uint n) {
    n &= 31;
    return n ? x << n | x >> (32 - n) : x;
}
MSL_FN uint extract_bits(uint x, uint offset, uint bits) {
    return bits == 0 ? 0u : (x >> offset) & (bits >= 32 ? ~0u : ((1u << bits) - 1u));
}
namespace fast {
using metal::clamp;
using metal::cos;
using metal::exp;
using metal::exp2;
using metal::log;
using metal::log2;
using metal::max;
using metal::min;
using metal::pow;
using metal::rsqrt;
using metal::sin;
using metal::sqrt;
using metal::tanh;
}
namespace precise {
using metal::cos;
using metal::exp;
using metal::exp2;
using metal::log;
using metal::log2;
using metal::pow;
using metal::rsqrt;
using metal::sin;
using metal::sqrt;
using metal::tanh;
}
} // namespace metal
