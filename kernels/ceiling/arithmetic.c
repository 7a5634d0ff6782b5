// Multiply-adds in registers. A compiler that can prove two sums equal computes one of them, so
// accumulators load their zeros from memory and operands pass through an empty assembler statement
// (HIDE).
#ifdef ISA

// EACH(F) expands F for each accumulator. There are enough accumulators that no addition waits for
// the previous one, and few enough that all stay in registers.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
typedef __m512i KERNEL(bytes);
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#define LOAD(p) _mm512_loadu_si512(p)
#define SUM32(v) _mm512_reduce_add_epi32(v)
#if ISA == ISA_VNNI
#define DOT(a, c, q) _mm512_dpbusd_epi32(a, c, q)
#else
#define MUL(c, q) _mm512_maddubs_epi16(c, q)
#define ADD16(a, b) _mm512_add_epi16(a, b)
#define WIDEN(a, w) _mm512_add_epi32(a, _mm512_madd_epi16(w, _mm512_set1_epi16(1)))
#define ZERO _mm512_setzero_si512()
#endif
#elif ISA == ISA_AVX2
typedef __m256i KERNEL(bytes);
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define HIDE(v) __asm__ volatile("" : "+x"(v))
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
SIMD int32_t KERNEL(sum32)(__m256i v) {
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    q = _mm_add_epi32(q, _mm_unpackhi_epi64(q, q));
    return _mm_cvtsi128_si32(q) + _mm_extract_epi32(q, 1);
}
#define SUM32(v) KERNEL(sum32)(v)
#define MUL(c, q) _mm256_maddubs_epi16(c, q)
#define ADD16(a, b) _mm256_add_epi16(a, b)
#define WIDEN(a, w) _mm256_add_epi32(a, _mm256_madd_epi16(w, _mm256_set1_epi16(1)))
#define ZERO _mm256_setzero_si256()
#elif ISA == ISA_NEON
typedef int8x16_t KERNEL(bytes);
#define EACH(F) \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#define LOAD(p) vld1q_s8((const int8_t *)(p))
#define SUM32(v) vaddvq_s32(v)
#define DOT(a, c, q) vdotq_s32(a, c, q)
#endif

// Runs blocks of eight rounds. A round adds the products of a vector of codes and one of
// activations to every accumulator.
static void KERNEL(int8)(const uint8_t *codes, const int8_t *activations, const void *zeros,
                         int64_t blocks, int32_t *out) {
    KERNEL(bytes) c = LOAD(codes), q = LOAD(activations);
#if ISA == ISA_NEON
#define START(i) int32x4_t a##i = vld1q_s32(zeros); HIDE(a##i);
#else
#define START(i) KERNEL(bytes) a##i = LOAD(zeros); HIDE(a##i);
#endif
    EACH(START)
    for (int64_t b = 0; b < blocks; b++) {
#ifdef DOT
#define STEP(i) a##i = DOT(a##i, c, q);
        for (int r = 0; r < 8; r++) { EACH(STEP) }
#else
        // Two products of codes below 16 are at most 3,810, so eight of their sums fit 16 bits.
#define CLEAR(i) KERNEL(bytes) w##i = ZERO;
// HIDE orders the steps: GCC would compute all products first, and spill.
#define STEP(i) HIDE(c); w##i = ADD16(w##i, MUL(c, q)); HIDE(w##i);
#define ADD32(i) a##i = WIDEN(a##i, w##i);
        EACH(CLEAR)
        for (int r = 0; r < 8; r++) { EACH(STEP) }
        EACH(ADD32)
#endif
    }
    int32_t sum = 0;
#define FINISH(i) sum += SUM32(a##i);
    EACH(FINISH)
    *out = sum;
}

#undef EACH
#undef START
#undef STEP
#undef FINISH
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#elif ISA == ISA_AVX2
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5)
#else
#define EACH(F) F(0) F(1) F(2) F(3) F(4)
#endif

static void KERNEL(float32)(const float *x, const float *y, const void *zeros, int64_t blocks,
                            float *out) {
    f32x16 u = v_load(x), v = v_load(y);
#define START(i) f32x16 a##i = v_load((const float *)zeros + 16 * i);
    EACH(START)
    for (int64_t b = 0; b < blocks; b++) {
#define STEP(i) a##i = v_fma(u, v, a##i);
        for (int r = 0; r < 8; r++) { EACH(STEP) }
    }
    float sum = 0;
#define FINISH(i) sum += v_sum(a##i);
    EACH(FINISH)
    *out = sum;
}

#undef EACH
#undef START
#undef STEP
#undef FINISH
#undef HIDE
#undef LOAD
#undef SUM32
#undef DOT
#undef MUL
#undef ADD16
#undef WIDEN
#undef ZERO
#undef CLEAR
#undef ADD32

#else

#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "arithmetic.c"
#include "../common/foreach_isa.h"

void headroom_int8_ops(int isa, const uint8_t *codes, const int8_t *activations, const void *zeros,
                       int64_t blocks, int32_t *sum) {
    DISPATCH(isa, int8, (codes, activations, zeros, blocks, sum));
}

void headroom_float32_ops(int isa, const float *x, const float *y, const void *zeros,
                          int64_t blocks, float *sum) {
    DISPATCH(isa, float32, (x, y, zeros, blocks, sum));
}

#endif
