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

#define MAX_KEY_DIM 256 // as in gated_delta.go

#ifdef ISA

#include "kept.h"

// Value rows whose dot products are under way at once, as measured (PERF.md).
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define ROWS_AT_ONCE 4
#else
#define ROWS_AT_ONCE 2
#endif

#define TOKENS_AHEAD 4 // that are fetched; those behind the last do no harm

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

// Lane i of the result is v_sum(a[i]), or v_hmax(a[i]), bit for bit: halves of two vectors meet in one addition, as the lanes of each
// would alone. largest is a constant where it is inlined.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
SIMD f32x16 KERNEL(meet)(const int largest, f32x16 x, f32x16 y) { return largest ? v_max(x, y) : v_add(x, y); }

SIMD f32x16 KERNEL(fold)(const int largest, const f32x16 *a) {
    f32x16 b[8], c[4], d[2];
    // A vector goes to the place whose sum ends in its lane: lane 4i+j sums what the tree takes in as number 4j+i.
    for (int i = 0; i < 8; i++) {
        f32x16 x = a[i / 2 + i % 2 * 8], y = a[i / 2 + i % 2 * 8 + 4]; // numbers 2i and 2i+1
        b[i] = KERNEL(meet)(largest, _mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    for (int i = 0; i < 4; i++)
        c[i] = KERNEL(meet)(largest, _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88), _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd));
    for (int i = 0; i < 2; i++) {
        __m512d x = _mm512_castps_pd(c[2 * i]), y = _mm512_castps_pd(c[2 * i + 1]);
        d[i] = KERNEL(meet)(largest, _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    return KERNEL(meet)(largest, _mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
}
#elif ISA == ISA_AVX2
SIMD __m256 KERNEL(meet)(const int largest, __m256 x, __m256 y) { return largest ? _mm256_max_ps(x, y) : _mm256_add_ps(x, y); }

SIMD f32x16 KERNEL(fold)(const int largest, const f32x16 *a) {
    __m256 half[2];
    for (int h = 0; h < 2; h++) { // eight sums, lane 4i+j from vector 8h+4i+j
        __m256 b[4], c[2];
        for (int j = 0; j < 4; j++) {
            f32x16 x = a[8 * h + j], y = a[8 * h + 4 + j];
            __m256 u = KERNEL(meet)(largest, x.a, x.b), v = KERNEL(meet)(largest, y.a, y.b);
            b[j] = KERNEL(meet)(largest, _mm256_permute2f128_ps(u, v, 0x20), _mm256_permute2f128_ps(u, v, 0x31));
        }
        for (int i = 0; i < 2; i++) {
            __m256d x = _mm256_castps_pd(b[2 * i]), y = _mm256_castps_pd(b[2 * i + 1]);
            c[i] = KERNEL(meet)(largest, _mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
        }
        half[h] = KERNEL(meet)(largest, _mm256_shuffle_ps(c[0], c[1], 0x88), _mm256_shuffle_ps(c[0], c[1], 0xdd));
    }
    return (f32x16){half[0], half[1]};
}
#else
SIMD float32x4_t KERNEL(meet)(const int largest, float32x4_t x, float32x4_t y) { return largest ? vmaxq_f32(x, y) : vaddq_f32(x, y); }

SIMD f32x16 KERNEL(fold)(const int largest, const f32x16 *a) {
    f32x16 all;
    for (int i = 0; i < 4; i++) {
        float32x4_t q[4];
        for (int j = 0; j < 4; j++) {
            const float32x4_t *v = a[4 * i + j].v;
            q[j] = KERNEL(meet)(largest, KERNEL(meet)(largest, v[0], v[2]), KERNEL(meet)(largest, v[1], v[3]));
        }
        float32x4_t x = KERNEL(meet)(largest, vcombine_f32(vget_low_f32(q[0]), vget_low_f32(q[1])), vcombine_f32(vget_high_f32(q[0]), vget_high_f32(q[1])));
        float32x4_t y = KERNEL(meet)(largest, vcombine_f32(vget_low_f32(q[2]), vget_low_f32(q[3])), vcombine_f32(vget_high_f32(q[2]), vget_high_f32(q[3])));
        all.v[i] = largest ? vpmaxq_f32(x, y) : vpaddq_f32(x, y);
    }
    return all;
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

// Value rows [dk] of a slot: the first of them, and of its scale where the form has scales.
typedef struct {
    void *rows;
    float *scales;
} KERNEL(kept_rows);

SIMD KERNEL(kept_rows) KERNEL(rows_at)(const int form, headroom_gated_delta d, void *slot, int64_t row) {
    char *p = slot;
    switch (form) {
    case KEPT_BF16: return (KERNEL(kept_rows)){p + row * d.dk * 2, NULL};
    case KEPT_I8: return (KERNEL(kept_rows)){p + d.hv * d.dv * 4 + row * d.dk, (float *)p + row};
    }
    return (KERNEL(kept_rows)){p + row * d.dk * 4, NULL};
}

// Sets n rows of a slot to zeros.
static void KERNEL(rows_clear)(const int form, KERNEL(kept_rows) kept, int64_t n, int64_t dk) {
    memset(kept.rows, 0, (size_t)(n * dk * (form == KEPT_F32 ? 4 : form == KEPT_BF16 ? 2 : 1)));
    if (form == KEPT_I8) memset(kept.scales, 0, (size_t)n * 4);
}

// sk[r] and sq[r] = lane sums of row r times k and times q, for sixteen rows of width elements in a form; int8 ones count as their
// codes. Rows in a form other than float32 are copied to copy [16, padded], as floats.
SIMD void KERNEL(sixteen_dots)(const int form, const void *rows, int64_t width, float *copy, int64_t padded, const float *k, const float *q,
                               f32x16 *sk, f32x16 *sq) {
    for (int r0 = 0; r0 < 16; r0 += ROWS_AT_ONCE) {
        f32x16 ak[ROWS_AT_ONCE], aq[ROWS_AT_ONCE];
        for (int r = 0; r < ROWS_AT_ONCE; r++) ak[r] = aq[r] = v_zero();
        for (int64_t c = 0; c < width; c += 16) {
            f32x16 kc = v_load(k + c), qc = v_load(q + c);
            for (int r = 0; r < ROWS_AT_ONCE; r++) {
                f32x16 s = kept_load(form, rows, (r0 + r) * width + c, width - c < 16 ? (int)(width - c) : 16);
                ak[r] = v_fma(s, kc, ak[r]);
                aq[r] = v_fma(s, qc, aq[r]);
                if (form != KEPT_F32) v_store(copy + (r0 + r) * padded + c, s);
            }
        }
        for (int r = 0; r < ROWS_AT_ONCE; r++) sk[r0 + r] = ak[r], sq[r0 + r] = aq[r];
    }
}

// Sixteen rows s [16, width] become decay[r] * row r + step[r] * k, in the form to; decay is one number where it is not int8's.
SIMD void KERNEL(sixteen_steps)(const int form, const int to, const float *s, int64_t width, void *rows, int64_t dk, const float *k,
                                const float *decay, const float *step) {
    f32x16 g = v_set1(decay[0]);
    for (int64_t c = 0; c < width; c += 16) {
        f32x16 kc = v_load(k + c);
        int n = dk - c < 16 ? (int)(dk - c) : 16;
        for (int r = 0; r < 16; r++) {
            f32x16 next = v_fma(v_set1(step[r]), kc, v_mul(g, kept_load(KEPT_F32, s, r * width + c, width - c < 16 ? (int)(width - c) : 16)));
            kept_store(to, rows, r * dk + c, n, form == KEPT_BF16 && to == KEPT_F32 ? v_bf16(next) : next);
        }
    }
}

// The same for int8: codes s [16, width] of the scales in decay become codes of the returned scales, in the form to.
SIMD f32x16 KERNEL(sixteen_recoded)(const int to, float *s, int64_t width, void *rows, int64_t dk, const float *k, const float *decay,
                                    const float *step) {
    f32x16 amax[16];
    for (int r = 0; r < 16; r++) {
        f32x16 d = v_set1(step[r]), g = v_set1(decay[r]);
        amax[r] = v_zero();
        for (int64_t c = 0; c < width; c += 16) {
            f32x16 next = v_fma(d, v_load(k + c), v_mul(g, v_load(s + r * width + c)));
            amax[r] = v_max(amax[r], v_abs(next));
            v_store(s + r * width + c, next);
        }
    }
    f32x16 most = v_max(KERNEL(fold)(1, amax), v_set1(LEAST_AMAX));
    float factor[16];
    v_store(factor, v_div(v_set1(LARGEST_CODE), most));
    for (int r = 0; r < 16; r++) {
        f32x16 f = v_set1(factor[r]);
        for (int64_t c = 0; c < width; c += 16)
            kept_store(to, rows, r * dk + c, dk - c < 16 ? (int)(dk - c) : 16, v_round(v_mul(v_load(s + r * width + c), f)));
    }
    return v_div(most, v_set1(LARGEST_CODE));
}

// Passes the tokens through sixteen value rows. dk and form are constants where it is inlined. Between tokens the rows are floats in
// the first-level cache that have the precision of the form: in the slot itself, or in a copy that the first token makes and the last
// one puts back; int8 ones are codes, and their scales one vector.
SIMD void KERNEL(sixteen_rows)(const int form, KERNEL(head_tokens) h, KERNEL(kept_rows) kept, int64_t dk) {
    float copy[16 * MAX_KEY_DIM];
    const int in_place = form == KEPT_F32;
    int64_t width = in_place ? dk : (dk + 15) / 16 * 16;
    float *rows = in_place ? kept.rows : copy;
    f32x16 scale = v_set1(1.0f);
    if (form == KEPT_I8) scale = v_load(kept.scales);
    for (int64_t t = 0; t < h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        // A token's v and out are a line each, a stride apart that no hardware follows.
        __builtin_prefetch(h.v + (t + TOKENS_AHEAD) * h.v_stride);
        __builtin_prefetch(h.out + (t + TOKENS_AHEAD) * h.out_stride, 1);
        f32x16 sk[16], sq[16];
        if (!in_place && t == 0) KERNEL(sixteen_dots)(form, kept.rows, dk, copy, width, k, q, sk, sq);
        else KERNEL(sixteen_dots)(KEPT_F32, rows, width, NULL, 0, k, q, sk, sq);
        f32x16 g = v_set1(h.g[t * h.hv]);
        if (form == KEPT_I8) g = v_mul(g, scale);
        f32x16 d = v_mul(v_fnma(g, KERNEL(fold)(0, sk), v_load(h.v + t * h.v_stride)), v_set1(h.beta[t * h.hv]));
        v_store(h.out + t * h.out_stride, v_fma(d, v_set1(h.qk[t * h.hv]), v_mul(g, KERNEL(fold)(0, sq))));
        float step[16], decay[16];
        v_store(step, d);
        v_store(decay, g);
        int last = !in_place && t + 1 == h.tokens;
        if (form == KEPT_I8) {
            if (last) scale = KERNEL(sixteen_recoded)(form, rows, width, kept.rows, dk, k, decay, step);
            else scale = KERNEL(sixteen_recoded)(KEPT_F32, rows, width, rows, width, k, decay, step);
        } else if (last) KERNEL(sixteen_steps)(form, form, rows, width, kept.rows, dk, k, decay, step);
        else KERNEL(sixteen_steps)(form, KEPT_F32, rows, width, rows, width, k, decay, step);
    }
    if (form == KEPT_I8) v_store(kept.scales, scale);
}

// A row of dk elements as floats, codes where the form is int8, padded with zeros; and back.
SIMD void KERNEL(row_load)(const int form, float *s, KERNEL(kept_rows) kept, int64_t dk) {
    for (int64_t c = 0; c < dk; c += 16) v_store(s + c, kept_load(form, kept.rows, c, dk - c < 16 ? (int)(dk - c) : 16));
}
SIMD void KERNEL(row_store)(const int form, const float *s, KERNEL(kept_rows) kept, int64_t dk) {
    for (int64_t c = 0; c < dk; c += 16) kept_store(form, kept.rows, c, dk - c < 16 ? (int)(dk - c) : 16, v_load(s + c));
}

// The same for one value row: what is left of a head after the sixteens.
SIMD void KERNEL(one_row)(const int form, KERNEL(head_tokens) h, KERNEL(kept_rows) kept, int64_t dk) {
    float s[MAX_KEY_DIM], scale = form == KEPT_I8 ? *kept.scales : 1.0f;
    KERNEL(row_load)(form, s, kept, dk);
    for (int64_t t = 0; t < h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        f32x16 ak = v_zero(), aq = v_zero(), amax = v_zero();
        for (int64_t c = 0; c < h.padded; c += 16) {
            ak = v_fma(v_load(s + c), v_load(k + c), ak);
            aq = v_fma(v_load(s + c), v_load(q + c), aq);
        }
        f32x16 g = v_set1(form == KEPT_I8 ? h.g[t * h.hv] * scale : h.g[t * h.hv]);
        f32x16 d = v_mul(v_fnma(g, v_set1(v_sum(ak)), v_set1(h.v[t * h.v_stride])), v_set1(h.beta[t * h.hv]));
        v_store_n(h.out + t * h.out_stride, v_fma(d, v_set1(h.qk[t * h.hv]), v_mul(g, v_set1(v_sum(aq)))), 1);
        for (int64_t c = 0; c < h.padded; c += 16) {
            f32x16 next = v_fma(d, v_load(k + c), v_mul(g, v_load(s + c)));
            amax = v_max(amax, v_abs(next));
            v_store(s + c, form == KEPT_BF16 ? v_bf16(next) : next);
        }
        if (form == KEPT_I8) {
            f32x16 most = v_max(v_set1(v_hmax(amax)), v_set1(LEAST_AMAX));
            f32x16 factor = v_div(v_set1(LARGEST_CODE), most);
            for (int64_t c = 0; c < h.padded; c += 16) v_store(s + c, v_round(v_mul(v_load(s + c), factor)));
            v_store_n(&scale, v_div(most, v_set1(LARGEST_CODE)), 1);
        }
    }
    KERNEL(row_store)(form, s, kept, dk);
    if (form == KEPT_I8) *kept.scales = scale;
}

// Units [from, to) of a state of one form.
SIMD void KERNEL(update_as)(const int form, headroom_gated_delta d, const float *v, ptrdiff_t v_stride, void *slot, int start, float *out,
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
        if (start) KERNEL(rows_clear)(form, KERNEL(rows_at)(form, d, slot, head * d.dv + row), last - row, d.dk);
        while (row < last) {
            KERNEL(kept_rows) kept = KERNEL(rows_at)(form, d, slot, head * d.dv + row);
            h.v = v + head * d.dv + row, h.out = out + head * d.dv + row;
            if (last - row < 16) KERNEL(one_row)(form, h, kept, d.dk), row++;
            else if (d.dk == 128) KERNEL(sixteen_rows)(form, h, kept, 128), row += 16;
            else KERNEL(sixteen_rows)(form, h, kept, d.dk), row += 16;
        }
    }
}

static void KERNEL(gated_delta_update)(headroom_gated_delta d, const float *v, ptrdiff_t v_stride, headroom_kept state, int start, float *out,
                                       ptrdiff_t out_stride, int64_t first, int64_t end, int64_t unit_rows, int64_t from, int64_t to) {
    switch (state.form) {
    case KEPT_BF16: KERNEL(update_as)(KEPT_BF16, d, v, v_stride, state.slot, start, out, out_stride, first, end, unit_rows, from, to); break;
    case KEPT_I8: KERNEL(update_as)(KEPT_I8, d, v, v_stride, state.slot, start, out, out_stride, first, end, unit_rows, from, to); break;
    default: KERNEL(update_as)(KEPT_F32, d, v, v_stride, state.slot, start, out, out_stride, first, end, unit_rows, from, to);
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

void headroom_gated_delta_update(int isa, headroom_gated_delta d, const float *v, ptrdiff_t v_stride, headroom_kept state, int start, float *out,
                                 ptrdiff_t out_stride, int64_t first, int64_t end, int64_t unit_rows, int64_t from, int64_t to) {
    DISPATCH(isa, gated_delta_update, (d, v, v_stride, state, start, out, out_stride, first, end, unit_rows, from, to));
}

#endif
