// f32x16, sixteen floats, and its operations, the same on every instruction set. The file of each
// set (simd_avx512.h, simd_avx2.h, simd_neon.h) defines the primitives, and v_exp and the functions
// after it are built from them. Included once per set by foreach_isa.h, so it has no include guard;
// each name gets the set's suffix.
//
// Reductions have one order everywhere: lane i is combined with lane i+8, then i+4, i+2, i+1. With
// explicit fused multiply-adds a kernel gives the same bits on AVX2, AVX-512 and NEON.
//
// v_zero, v_set1           zeros; sixteen times x
// v_load, v_store          sixteen floats in memory, of any alignment
// v_load_n, v_store_n      the first n of 16 lanes, 0 <= n <= 16. No other memory is read or
//                          written, and other loaded lanes are zero.
// v_load_bf16, v_load_f16  conversions from memory
// v_store_bf16, v_store_f16
//                          conversions to memory, rounded to nearest even; NaN stays NaN
// v_add, v_sub, v_mul, v_div, v_abs, v_max, v_min
// v_fma(a, b, c)           a*b + c, rounded once
// v_fnma(a, b, c)          c - a*b, rounded once
// v_round                  rounds to the nearest integer, ties to even
// v_scale2(x, t)           x * 2^n, where the low bits of t hold the integer n (V_ROUNDER). Neither
//                          x nor the product may be zero, subnormal or infinite.
// v_sum, v_hmax            the sum and the largest of the lanes

#define SIMD static inline __attribute__((always_inline, unused))

#define f32x16 KERNEL(f32x16)
#define v_zero KERNEL(v_zero)
#define v_set1 KERNEL(v_set1)
#define v_load KERNEL(v_load)
#define v_load_n KERNEL(v_load_n)
#define v_store KERNEL(v_store)
#define v_store_n KERNEL(v_store_n)
#define v_load_bf16 KERNEL(v_load_bf16)
#define v_load_f16 KERNEL(v_load_f16)
#define v_store_f16 KERNEL(v_store_f16)
#define v_store_bf16 KERNEL(v_store_bf16)
#define v_add KERNEL(v_add)
#define v_sub KERNEL(v_sub)
#define v_mul KERNEL(v_mul)
#define v_div KERNEL(v_div)
#define v_fma KERNEL(v_fma)
#define v_fnma KERNEL(v_fnma)
#define v_abs KERNEL(v_abs)
#define v_max KERNEL(v_max)
#define v_min KERNEL(v_min)
#define v_round KERNEL(v_round)
#define v_scale2 KERNEL(v_scale2)
#define v_sum KERNEL(v_sum)
#define v_hmax KERNEL(v_hmax)
#define v_exp KERNEL(v_exp)
#define v_sigmoid KERNEL(v_sigmoid)
#define v_silu KERNEL(v_silu)
#define v_tanh KERNEL(v_tanh)
#define v_quotient KERNEL(v_quotient)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "simd_avx512.h"
#elif ISA == ISA_AVX2
#include "simd_avx2.h"
#elif ISA == ISA_NEON
#include "simd_neon.h"
#endif

// A number added to V_ROUNDER is rounded to an integer, which is then in the low bits of the sum.
#define V_ROUNDER 12582912.0f // 1.5 * 2^23

// Returns e^x: x = n ln2 + r, and a polynomial of degree 6 in r (Cephes) is scaled by 2^n. The
// relative error is under 2e-7 over [-87, 88]. Smaller x give e^-87 and larger e^88, so the result
// is always finite and positive.
SIMD f32x16 v_exp(f32x16 x) {
    x = v_min(v_max(x, v_set1(-87.0f)), v_set1(88.0f));
    const f32x16 t = v_add(v_mul(x, v_set1(1.44269504f)), v_set1(V_ROUNDER)),
                 n = v_sub(t, v_set1(V_ROUNDER));
    f32x16 r = v_fnma(n, v_set1(0.693359375f), x);
    r = v_fnma(n, v_set1(-2.12194440e-4f), r);
    f32x16 p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_fma(v_mul(p, r), r, v_add(r, v_set1(1.0f)));
    return v_scale2(p, t);
}
SIMD f32x16 v_sigmoid(f32x16 x) {
    return v_div(v_set1(1.0f), v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), x))));
}
SIMD f32x16 v_silu(f32x16 x) { return v_mul(x, v_sigmoid(x)); }
// Returns tanh x as x P(x^2) / Q(x^2), fitted to the smallest relative error over [-9, 9]. All
// coefficients are positive, so no sum cancels. The relative error is under 4e-7 for every normal
// number, of which all were checked. The result is at most 1 + 2^-22; NaN gives NaN.
SIMD f32x16 v_tanh(f32x16 x) {
    x = v_min(v_set1(9.0f), v_max(v_set1(-9.0f), x)); // in this order a NaN passes through
    const f32x16 t = v_mul(x, x);
    f32x16 p = v_set1(1.3336853467e-8f), q = v_set1(7.7692867147e-7f);
    p = v_fma(p, t, v_set1(2.0596282892e-5f));
    q = v_fma(q, t, v_set1(3.2843643242e-4f));
    p = v_fma(p, t, v_set1(3.4948118139e-3f));
    q = v_fma(q, t, v_set1(2.5874029872e-2f));
    p = v_fma(p, t, v_set1(1.3380372309e-1f));
    q = v_fma(q, t, v_set1(4.6713687730e-1f));
    p = v_fma(p, t, v_set1(1.0f));
    q = v_fma(q, t, v_set1(1.0f));
    return v_div(v_mul(x, p), q);
}
// Returns x / s in three operations, where y is 1 / s rounded. It is the correctly rounded quotient
// (Markstein 1990, "Computation of elementary functions on the IBM RISC System/6000 processor")
// unless the remainder underflows, so s must be at least V_LEAST_QUOTIENT. Checked for every
// mantissa of s, with quotients next to every tie between two integers up to 255.
#define V_LEAST_QUOTIENT 0x1p-90f
SIMD f32x16 v_quotient(f32x16 x, f32x16 s, f32x16 y) {
    const f32x16 q = v_mul(x, y);
    return v_fma(v_fnma(q, s, x), y, q);
}
