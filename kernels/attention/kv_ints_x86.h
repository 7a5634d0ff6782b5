// The primitives of kv_ints.h that AVX-512 and AVX2 share. VNNI has instructions for them.

// Adds to acc the products of the 16-bit lanes of x with the two numbers at p, each pair of
// neighbours added.
SIMD lanes_i int_pair(lanes_i acc, lanes_i x, const uint8_t *p) {
    int32_t two;
    memcpy(&two, p, 4);
#if ISA == ISA_VNNI
    return _mm512_dpwssd_epi32(acc, x, _mm512_set1_epi32(two));
#else
    acc = MM(add_epi32)(acc, MM(madd_epi16)(x, MM(set1_epi32)(two)));
    __asm__("" : "+v"(acc)); // otherwise GCC builds trees of sums and runs out of registers
    return acc;
#endif
}

typedef struct { lanes_i even, odd; } quad_operand;
SIMD quad_operand quad_open(lanes_i x) {
    return (quad_operand){MMI(and)(x, MM(set1_epi16)(255)), MM(srli_epi16)(x, 8)};
}

SIMD lanes_i k_start(const int bits, int32_t sum) { return (void)bits, (void)sum, l_zero(); }
#if ISA == ISA_VNNI
typedef lanes_i k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) { return (void)bits, x; }
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    int32_t four;
    memcpy(&four, q, 4);
    return _mm512_dpbusd_epi32(acc, k, _mm512_set1_epi32(four));
}
#else
typedef quad_operand k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) { return (void)bits, quad_open(x); }
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    return int_pair(int_pair(acc, k.even, q), k.odd, q + 4);
}
#endif

typedef quad_operand v_operand;
SIMD v_operand v_open(lanes_i x, const int bits) { return (void)bits, quad_open(x); }
typedef struct { lanes_i a, b; } v_sums;
SIMD void v_dot(v_sums *s, v_operand v, const uint8_t *weights, int64_t at, const int apart) {
    s->a = int_pair(s->a, v.even, weights + WEIGHT_BYTES * at);
    if (apart)
        s->b = int_pair(s->b, v.odd, weights + WEIGHT_BYTES * at + 4);
    else
        s->a = int_pair(s->a, v.odd, weights + WEIGHT_BYTES * at + 4);
}
SIMD lanes_i v_total(
    v_sums s, const int bits, const uint8_t *weights, int64_t from, int64_t to) {
    (void)bits, (void)weights, (void)from, (void)to;
    return MM(add_epi32)(s.a, s.b);
}
