// Simdgroup functions for each type that has them. A header of the device, included before this
// one, defines:
//
//   MSL_REDUCE(NAME, T, EXPRESSION)  a reduction; EXPRESSION combines a and b
//   MSL_PREFIX(NAME, T, UPTO)        the sum over lanes 0 to UPTO - 1
//   MSL_SHUFFLES(T)                  broadcasts and shuffles
//   MSL_PLACE                        the place of a call in the source, or 0
#pragma once

namespace metal {
#define MSL_SUMS(T)                                          \
    MSL_REDUCE(simd_sum, T, a + b)                           \
    MSL_REDUCE(simd_product, T, (a * b))                     \
    MSL_PREFIX(simd_prefix_inclusive_sum, T, msl_lane() + 1) \
    MSL_PREFIX(simd_prefix_exclusive_sum, T, msl_lane())
#define MSL_EXTREMES(T)                    \
    MSL_REDUCE(simd_max, T, a > b ? a : b) \
    MSL_REDUCE(simd_min, T, a < b ? a : b)
MSL_SUMS(float)
MSL_SUMS(half)
MSL_SUMS(int)
MSL_SUMS(uint)
MSL_SUMS(short)
MSL_SUMS(ushort)
MSL_SUMS(float2)
MSL_SUMS(float4)
MSL_SUMS(half2)
MSL_SUMS(half4)
MSL_EXTREMES(float)
MSL_EXTREMES(half)
MSL_EXTREMES(int)
MSL_EXTREMES(uint)
MSL_EXTREMES(short)
MSL_EXTREMES(ushort)
MSL_REDUCE(simd_and, uint, (a & b))
MSL_REDUCE(simd_or, uint, a | b)
MSL_REDUCE(simd_xor, uint, a ^ b)
MSL_FN bool simd_all(bool x, uint place = MSL_PLACE) { return simd_and((uint)x, place) != 0; }
MSL_FN bool simd_any(bool x, uint place = MSL_PLACE) { return simd_or((uint)x, place) != 0; }
void simd_sum(bfloat) = delete;
void simd_max(bfloat) = delete;
void simd_sum(bool) = delete;

MSL_SHUFFLES(float)
MSL_SHUFFLES(half)
MSL_SHUFFLES(int)
MSL_SHUFFLES(uint)
MSL_SHUFFLES(short)
MSL_SHUFFLES(ushort)
MSL_SHUFFLES(float2)
MSL_SHUFFLES(float4)
MSL_SHUFFLES(half2)
MSL_SHUFFLES(half4)
MSL_SHUFFLES(uint2)
MSL_SHUFFLES(uint4)
} // namespace metal
