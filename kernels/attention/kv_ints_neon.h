// The primitives of kv_ints.h for NEON.

#define V_FOUR(q) (q)
#define STORE_PAIRS 1
#define QUERY_BYTES 1

SIMD int16x8_t KERNEL(shorts)(f32x16 x, int half) {
    return vcombine_s16(
        vqmovn_s32(vcvtnq_s32_f32(x.v[2 * half])), vqmovn_s32(vcvtnq_s32_f32(x.v[2 * half + 1])));
}
SIMD void store_query(uint8_t *q, f32x16 x) {
    vst1q_s8(
        (int8_t *)q, vcombine_s8(vmovn_s16(KERNEL(shorts)(x, 0)), vmovn_s16(KERNEL(shorts)(x, 1))));
}

SIMD void KERNEL(store_limbs)(uint8_t *weights, int64_t i, f32x16 x) {
    static const uint8_t order[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
#define WORDS(i) vmovn_u32(vreinterpretq_u32_f32(x.v[i]))
    const int16x8_t a = vreinterpretq_s16_u16(vcombine_u16(WORDS(0), WORDS(1))),
                    b = vreinterpretq_s16_u16(vcombine_u16(WORDS(2), WORDS(3)));
#undef WORDS
    // The high byte compensates for the sign of the low byte.
    const int8x8_t low_a = vmovn_s16(a), low_b = vmovn_s16(b);
    const int8x8_t high_a = vshrn_n_s16(vsubq_s16(a, vmovl_s8(low_a)), 8),
                   high_b = vshrn_n_s16(vsubq_s16(b, vmovl_s8(low_b)), 8);
    const uint8x16_t to = vld1q_u8(order);
    vst1q_s8((int8_t *)weights + i, vqtbl1q_s8(vcombine_s8(high_a, high_b), to));
    vst1q_s8((int8_t *)weights + TILE + i, vqtbl1q_s8(vcombine_s8(low_a, low_b), to));
}
SIMD void store_weights(uint8_t *weights, int64_t i, f32x16 x, f32x16 y) {
    KERNEL(store_limbs)(weights, i, x);
    KERNEL(store_limbs)(weights, i + 16, y);
}

SIMD f32x16 store_tile(uint8_t *weights, const f32x16 *y) {
    return (void)weights, (void)y, v_zero(); // NEON has no matrix unit
}

// Returns the sum of weights [from, to) of a tile.
SIMD int32_t weights_sum(const uint8_t *weights, int64_t from, int64_t to) {
    int32_t high = 0, low = 0;
    for (int64_t i = from; i < to; i += 16) {
        high += vaddlvq_s8(vld1q_s8((const int8_t *)weights + i));
        low += vaddlvq_s8(vld1q_s8((const int8_t *)weights + TILE + i));
    }
    return high * 256 + low;
}

// The products are signed, so codes of eight bits become code-128. k_start and v_total add the
// difference.
typedef int8x16_t k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) {
    uint8x16_t b = vreinterpretq_u8_u32(x);
    return vreinterpretq_s8_u8(bits == 8 ? veorq_u8(b, vdupq_n_u8(128)) : b);
}
SIMD lanes_i k_start(const int bits, int32_t sum) {
    return vdupq_n_u32(bits == 8 ? (uint32_t)(128 * sum) : 0);
}
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    int32_t four;
    memcpy(&four, q, 4);
    return vreinterpretq_u32_s32(
        vdotq_s32(vreinterpretq_s32_u32(acc), k, vreinterpretq_s8_s32(vdupq_n_s32(four))));
}

typedef k_operand v_operand;
SIMD v_operand v_open(lanes_i x, const int bits) { return k_open(x, bits); }
typedef struct { lanes_i high, low; } v_sums;
SIMD void v_dot(v_sums *s, v_operand v, const uint8_t *weights, int64_t at, const int apart) {
    (void)apart;
    s->high = k_dot(s->high, v, weights + at);
    s->low = k_dot(s->low, v, weights + TILE + at);
}
SIMD lanes_i v_total(
    v_sums s, const int bits, const uint8_t *weights, int64_t from, int64_t to) {
    lanes_i total = vaddq_u32(vshlq_n_u32(s.high, 8), s.low);
    if (bits == 8)
        total = vaddq_u32(total, vdupq_n_u32((uint32_t)weights_sum(weights, from, to) * 128));
    return total;
}
