// The gated delta rule, in the form that recurrent.h and GatedDelta in gated_delta.go describe. A token passes a value row s [dk]
// of the state with two dot products and one update,
//
//     d   = (v - g * (s.k)) * beta
//     out = g * (s.q) + d * (q.k)          which is (g s + d k).q
//     s   = g * s + d * k
//
// so both dot products read the row once, before it changes. Value rows are independent: sixteen at a time stay in the
// first-level cache while the tokens pass, and their sums end in the lanes of one vector. Lane i of a dot product adds up
// columns i, i+16, ...; then the lanes add up in the order of v_sum.
#include "recurrent.h"

#ifdef ISA

// Value rows whose dot products are under way at once, as measured (PERF.md).
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define ROWS_AT_ONCE 4
#else
#define ROWS_AT_ONCE 2
#endif

// log(1 + u) for u in [0, 1]: 2 atanh(z) with z = u / (2 + u) <= 1/3, nine terms of its series (the next is under 1e-10).
SIMD f32x16 KERNEL(log1p_unit)(f32x16 u) {
    f32x16 z = v_div(u, v_add(v_set1(2.0f), u)), z2 = v_mul(z, z);
    f32x16 p = v_set1(1.0f / 17);
    p = v_fma(p, z2, v_set1(1.0f / 15));
    p = v_fma(p, z2, v_set1(1.0f / 13));
    p = v_fma(p, z2, v_set1(1.0f / 11));
    p = v_fma(p, z2, v_set1(1.0f / 9));
    p = v_fma(p, z2, v_set1(1.0f / 7));
    p = v_fma(p, z2, v_set1(1.0f / 5));
    p = v_fma(p, z2, v_set1(1.0f / 3));
    z = v_add(z, z);
    return v_fma(v_mul(p, z2), z, z);
}

// log(1 + e^x) without overflow.
SIMD f32x16 KERNEL(softplus)(f32x16 x) {
    f32x16 zero = v_zero();
    return v_add(v_max(x, zero), KERNEL(log1p_unit)(v_exp(v_min(x, v_sub(zero, x)))));
}

// out [padded] = x [dk] / sqrt(mean(x^2) + 1e-6) * scale, then zeros.
SIMD void KERNEL(normalize)(float *out, const float *x, int64_t dk, float scale) {
    f32x16 squares = v_zero();
    for (int64_t c = 0; c < dk; c += 16) {
        f32x16 v = dk - c < 16 ? v_load_n(x + c, (int)(dk - c)) : v_load(x + c);
        squares = v_fma(v, v, squares);
    }
    f32x16 s = v_set1(scale / sqrtf(v_sum(squares) / (float)dk + 1e-6f));
    for (int64_t c = 0; c < dk; c += 16)
        v_store(out + c, v_mul(dk - c < 16 ? v_load_n(x + c, (int)(dk - c)) : v_load(x + c), s));
}

static void KERNEL(gated_delta_prepare)(headroom_gated_delta d, const float *qkv, ptrdiff_t qkv_stride, const float *a, ptrdiff_t a_stride,
                                        const float *b, ptrdiff_t b_stride, const float *a_log, const float *dt_bias, int64_t from, int64_t to) {
    float *g = d.scratch + d.hk * d.tokens * 2 * d.padded, *beta = g + d.tokens * d.hv, *qk = beta + d.tokens * d.hv;
    float q_scale = 1.0f / (float)d.dk, k_scale = 1.0f / sqrtf((float)d.dk);
    int64_t group = d.hv / d.hk;
    for (int64_t t = from; t < to; t++, qkv += qkv_stride, a += a_stride, b += b_stride) {
        for (int64_t h = 0; h < d.hk; h++) {
            float *q = d.scratch + (h * d.tokens + t) * 2 * d.padded, *k = q + d.padded;
            KERNEL(normalize)(q, qkv + h * d.dk, d.dk, q_scale);
            KERNEL(normalize)(k, qkv + (d.hk + h) * d.dk, d.dk, k_scale);
            f32x16 dot = v_zero();
            for (int64_t c = 0; c < d.padded; c += 16) dot = v_fma(v_load(q + c), v_load(k + c), dot);
            float sum = v_sum(dot);
            for (int64_t i = 0; i < group; i++) qk[t * d.hv + h * group + i] = sum;
        }
        for (int64_t h = 0; h < d.hv; h += 16) {
            int n = d.hv - h < 16 ? (int)(d.hv - h) : 16;
            f32x16 soft = KERNEL(softplus)(v_add(v_load_n(a + h, n), v_load_n(dt_bias + h, n)));
            f32x16 rate = v_mul(v_exp(v_load_n(a_log + h, n)), soft);
            v_store_n(g + t * d.hv + h, v_exp(v_sub(v_zero(), rate)), n);
            v_store_n(beta + t * d.hv + h, v_sigmoid(v_load_n(b + h, n)), n);
        }
    }
}

// Lane i of the result is v_sum(a[i]), bit for bit: halves of two vectors meet in one addition, as the lanes of each would alone.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
SIMD f32x16 KERNEL(sums)(const f32x16 *a) {
    f32x16 b[8], c[4], d[2];
    // A vector goes to the place whose sum ends in its lane: lane 4i+j sums what the tree takes in as number 4j+i.
    for (int i = 0; i < 8; i++) {
        f32x16 x = a[i / 2 + i % 2 * 8], y = a[i / 2 + i % 2 * 8 + 4]; // numbers 2i and 2i+1
        b[i] = v_add(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    for (int i = 0; i < 4; i++)
        c[i] = v_add(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88), _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd));
    for (int i = 0; i < 2; i++) {
        __m512d x = _mm512_castps_pd(c[2 * i]), y = _mm512_castps_pd(c[2 * i + 1]);
        d[i] = v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    return v_add(_mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
}
#elif ISA == ISA_AVX2
SIMD f32x16 KERNEL(sums)(const f32x16 *a) {
    __m256 half[2];
    for (int h = 0; h < 2; h++) { // eight sums, lane 4i+j from vector 8h+4i+j
        __m256 b[4], c[2];
        for (int j = 0; j < 4; j++) {
            f32x16 x = a[8 * h + j], y = a[8 * h + 4 + j];
            __m256 u = _mm256_add_ps(x.a, x.b), v = _mm256_add_ps(y.a, y.b);
            b[j] = _mm256_add_ps(_mm256_permute2f128_ps(u, v, 0x20), _mm256_permute2f128_ps(u, v, 0x31));
        }
        for (int i = 0; i < 2; i++) {
            __m256d x = _mm256_castps_pd(b[2 * i]), y = _mm256_castps_pd(b[2 * i + 1]);
            c[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
        }
        half[h] = _mm256_add_ps(_mm256_shuffle_ps(c[0], c[1], 0x88), _mm256_shuffle_ps(c[0], c[1], 0xdd));
    }
    return (f32x16){half[0], half[1]};
}
#else
SIMD f32x16 KERNEL(sums)(const f32x16 *a) {
    f32x16 sums;
    for (int i = 0; i < 4; i++) {
        float32x4_t q[4];
        for (int j = 0; j < 4; j++) {
            const float32x4_t *v = a[4 * i + j].v;
            q[j] = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
        }
        float32x4_t x = vaddq_f32(vcombine_f32(vget_low_f32(q[0]), vget_low_f32(q[1])), vcombine_f32(vget_high_f32(q[0]), vget_high_f32(q[1])));
        float32x4_t y = vaddq_f32(vcombine_f32(vget_low_f32(q[2]), vget_low_f32(q[3])), vcombine_f32(vget_high_f32(q[2]), vget_high_f32(q[3])));
        sums.v[i] = vpaddq_f32(x, y);
    }
    return sums;
}
#endif

// One head's tokens as a unit sees them: token t's q and k at keys + t * 2 * padded, its v and out at their strides, its g, beta
// and q.k at gates + t * hv.
typedef struct {
    const float *keys, *g, *beta, *qk, *v;
    float *out;
    ptrdiff_t v_stride, out_stride;
    int64_t hv, padded, tokens;
} KERNEL(head_tokens);

SIMD f32x16 KERNEL(row_load)(const float *s, int64_t c, int64_t dk) { return dk - c < 16 ? v_load_n(s + c, (int)(dk - c)) : v_load(s + c); }

// Passes the tokens through sixteen value rows, state [16, dk]. dk is a constant where it is inlined.
SIMD void KERNEL(sixteen_rows)(KERNEL(head_tokens) h, float *state, int64_t dk) {
    for (int64_t t = 0; t < h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        f32x16 sk[16], sq[16];
        for (int r0 = 0; r0 < 16; r0 += ROWS_AT_ONCE) {
            f32x16 ak[ROWS_AT_ONCE], aq[ROWS_AT_ONCE];
            for (int r = 0; r < ROWS_AT_ONCE; r++) ak[r] = aq[r] = v_zero();
            for (int64_t c = 0; c < dk; c += 16) {
                f32x16 kc = v_load(k + c), qc = v_load(q + c);
                for (int r = 0; r < ROWS_AT_ONCE; r++) {
                    f32x16 s = KERNEL(row_load)(state + (r0 + r) * dk, c, dk);
                    ak[r] = v_fma(s, kc, ak[r]);
                    aq[r] = v_fma(s, qc, aq[r]);
                }
            }
            for (int r = 0; r < ROWS_AT_ONCE; r++) sk[r0 + r] = ak[r], sq[r0 + r] = aq[r];
        }
        f32x16 g = v_set1(h.g[t * h.hv]);
        f32x16 d = v_mul(v_fnma(g, KERNEL(sums)(sk), v_load(h.v + t * h.v_stride)), v_set1(h.beta[t * h.hv]));
        v_store(h.out + t * h.out_stride, v_fma(d, v_set1(h.qk[t * h.hv]), v_mul(g, KERNEL(sums)(sq))));
        float step[16];
        v_store(step, d);
        for (int64_t c = 0; c < dk; c += 16) {
            f32x16 kc = v_load(k + c);
            for (int r = 0; r < 16; r++) {
                float *s = state + r * dk;
                f32x16 next = v_fma(v_set1(step[r]), kc, v_mul(g, KERNEL(row_load)(s, c, dk)));
                if (dk - c < 16) v_store_n(s + c, next, (int)(dk - c));
                else v_store(s + c, next);
            }
        }
    }
}

// The same for one value row: what is left of a head after the sixteens.
static void KERNEL(one_row)(KERNEL(head_tokens) h, float *s, int64_t dk) {
    for (int64_t t = 0; t < h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        f32x16 ak = v_zero(), aq = v_zero();
        for (int64_t c = 0; c < dk; c += 16) {
            f32x16 x = KERNEL(row_load)(s, c, dk);
            ak = v_fma(x, v_load(k + c), ak);
            aq = v_fma(x, v_load(q + c), aq);
        }
        f32x16 g = v_set1(h.g[t * h.hv]);
        f32x16 d = v_mul(v_fnma(g, v_set1(v_sum(ak)), v_set1(h.v[t * h.v_stride])), v_set1(h.beta[t * h.hv]));
        v_store_n(h.out + t * h.out_stride, v_fma(d, v_set1(h.qk[t * h.hv]), v_mul(g, v_set1(v_sum(aq)))), 1);
        for (int64_t c = 0; c < dk; c += 16)
            v_store_n(s + c, v_fma(d, v_load(k + c), v_mul(g, KERNEL(row_load)(s, c, dk))), dk - c < 16 ? (int)(dk - c) : 16);
    }
}

static void KERNEL(gated_delta_update)(headroom_gated_delta d, const float *v, ptrdiff_t v_stride, float *state, int start, float *out,
                                       ptrdiff_t out_stride, int64_t first, int64_t end, int64_t unit_rows, int64_t from, int64_t to) {
    const float *gates = d.scratch + d.hk * d.tokens * 2 * d.padded;
    int64_t per_head = (d.dv + unit_rows - 1) / unit_rows;
    for (int64_t u = from; u < to; u++) {
        int64_t head = u / per_head, row = u % per_head * unit_rows, last = row + unit_rows < d.dv ? row + unit_rows : d.dv;
        KERNEL(head_tokens) h = {
            .keys = d.scratch + (head / (d.hv / d.hk) * d.tokens + first) * 2 * d.padded,
            .g = gates + first * d.hv + head, .beta = gates + (d.tokens + first) * d.hv + head, .qk = gates + (2 * d.tokens + first) * d.hv + head,
            .v_stride = v_stride, .out_stride = out_stride, .hv = d.hv, .padded = d.padded, .tokens = end - first,
        };
        if (start) memset(state + (head * d.dv + row) * d.dk, 0, (size_t)((last - row) * d.dk) * 4);
        while (row < last) {
            float *s = state + (head * d.dv + row) * d.dk;
            h.v = v + head * d.dv + row, h.out = out + head * d.dv + row;
            if (last - row < 16) KERNEL(one_row)(h, s, d.dk), row++;
            else if (d.dk == 128) KERNEL(sixteen_rows)(h, s, 128), row += 16;
            else KERNEL(sixteen_rows)(h, s, d.dk), row += 16;
        }
    }
}

#undef ROWS_AT_ONCE

#else

#define KERNEL_SOURCE "gated_delta.c"
#include "foreach_isa.h"

void headroom_gated_delta_prepare(int isa, headroom_gated_delta d, const float *qkv, ptrdiff_t qkv_stride, const float *a, ptrdiff_t a_stride,
                                  const float *b, ptrdiff_t b_stride, const float *a_log, const float *dt_bias, int64_t from, int64_t to) {
    DISPATCH(isa, gated_delta_prepare, (d, qkv, qkv_stride, a, a_stride, b, b_stride, a_log, dt_bias, from, to));
}

void headroom_gated_delta_update(int isa, headroom_gated_delta d, const float *v, ptrdiff_t v_stride, float *state, int start, float *out,
                                 ptrdiff_t out_stride, int64_t first, int64_t end, int64_t unit_rows, int64_t from, int64_t to) {
    DISPATCH(isa, gated_delta_update, (d, v, v_stride, state, start, out, out_stride, first, end, unit_rows, from, to));
}

#endif
