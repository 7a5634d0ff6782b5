// The primitives of integer products (kv_round.h, kv_dot.h). The file of each instruction set
// (kv_ints_avx512.h, kv_ints_avx2.h, kv_ints_neon.h) defines them under the same names. Included
// once per set, by kv_round.h.
//
// Queries are bytes, or 16 bits if products of bytes would saturate. 16-bit queries have dimensions
// 0, 2, 1, 3 of each four, to match the even and the odd bytes of a lane. Weights are 16 bits. NEON
// multiplies only bytes, so it has the high bytes of a tile and then the (signed) low bytes, with
// each four positions in the order of V_BYTE_OF_POSITION. AVX2 keeps the order that the pack
// instructions produce.
//
// QUERY_BYTES            bytes of a rounded element of a query
// V_FOUR(q)              the index of the q-th four weights of a strip
// store_query(q, x)      stores sixteen integral values
// STORE_PAIRS            1 if store_weights stores weights as they are computed, 0 if store_tile
//                        stores them. With the matrix unit it is always store_tile.
// store_weights(weights, i, x, y)
//                        stores weights [i, i+32) of a tile from x and y, to which V_ROUNDER was
//                        added
// store_tile(weights, y) stores the weights of a tile from y, to which V_ROUNDER was added. Returns
//                        the sum of the tile's four f32x16 of weights, which is exact.
// k_open(x, bits)        a k_operand from a register of codes of K
// k_start(bits, sum)     the sums to begin with. sum is the sum of the query's codes.
// k_dot(acc, k, q)       acc + products of codes with the four numbers at q
// v_open(x, bits)        a v_operand from a register of codes of V
// v_dot(sums, v, weights, at, apart)
//                        adds products of codes with weights [at, at+4) to v_sums, in two chains of
//                        sums if `apart` is set, for less latency
// v_total(sums, bits, weights, from, to)
//                        the products of all positions [from, to) of the tile
#undef V_FOUR
#undef QUERY_BYTES
#undef STORE_PAIRS

#define WEIGHT_BYTES 2
#define WEIGHT_TOP 32512.0f // 127 * 256, so that the high byte of a weight is at most 127

#define store_query KERNEL(store_query)
#define store_weights KERNEL(store_weights)
#define store_tile KERNEL(store_tile)
#define quad_operand KERNEL(quad_operand)
#define quad_open KERNEL(quad_open)
#define int_pair KERNEL(int_pair)
#define k_operand KERNEL(k_operand)
#define k_open KERNEL(k_open)
#define k_start KERNEL(k_start)
#define k_dot KERNEL(k_dot)
#define v_operand KERNEL(v_operand)
#define v_open KERNEL(v_open)
#define v_sums KERNEL(v_sums)
#define v_dot KERNEL(v_dot)
#define v_total KERNEL(v_total)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "kv_ints_avx512.h"
#elif ISA == ISA_AVX2
#include "kv_ints_avx2.h"
#elif ISA == ISA_NEON
#include "kv_ints_neon.h"
#endif
