// The gated delta rule, as GatedDelta in gated_delta.go and recurrent.h describe it. For a value
// row s [dk] of the state, a token takes two dot products and one update:
//
//     d   = (v - g * (s.k)) * beta
//     out = g * (s.q) + d * (q.k)          which is (g s + d k).q
//     s   = g * s + d * k
//
// Both dot products read the row before it changes. So one pass over a row does the update of one
// token and the dot products of the next. Value rows are independent. Blocks of sixteen rows stay
// in the L1 cache for all tokens, and their sums become the lanes of one vector. Two such blocks
// alternate, because d depends on the complete sums. Lane i of a dot product adds columns i, i+16,
// ..., and the lanes are added in the order of v_sum.
//
// A unit of work is all tokens of a span for value rows of one key head, in windows of tokens. q,
// k, v and out of a window are gathered in the thread's scratch memory, because in the operands
// their rows are several KB apart. A preceding convolution (conv.c) writes q, k and v there.
#include "recurrent.h"

#define MAX_KEY_DIM 256 // as in gated_delta.go
#define SIXTEENS 2      // blocks of sixteen value rows that alternate

#ifdef ISA

#include "state.h"
#include "softplus.h"

// Tokens to prefetch. Rows of tokens are too far apart for the hardware prefetcher. Prefetching
// past the last token is harmless.
#define TOKENS_AHEAD 4

// out [padded] = x [dk] / sqrt(sum(x^2) + eps) * scale, then zeros.
SIMD void KERNEL(normalize)(float *out, const float *x, int64_t dk, float eps, float scale) {
    f32x16 squares = v_zero();
    for (int64_t c = 0; c < dk; c += 16) {
        f32x16 v = dk - c < 16 ? v_load_n(x + c, (int)(dk - c)) : v_load(x + c);
        squares = v_fma(v, v, squares);
    }
    f32x16 s = v_set1(scale / sqrtf(v_sum(squares) + eps));
    for (int64_t c = 0; c < dk; c += 16)
        v_store(out + c, v_mul(dk - c < 16 ? v_load_n(x + c, (int)(dk - c)) : v_load(x + c), s));
}

// The tokens of a window for one head, in the thread's scratch memory: q and k [tokens, 2, padded],
// v and out [tokens, columns] for `columns` value rows, and g, beta and q.k [tokens].
typedef struct {
    float *keys, *v, *out, *g, *beta, *qk;
    int64_t padded, columns, tokens;
} KERNEL(head_tokens);

SIMD KERNEL(head_tokens)
    KERNEL(head_tokens_in)(float *scratch, headroom_gated_delta d, int64_t window) {
    KERNEL(head_tokens) h = {.padded = (d.dk + 15) / 16 * 16};
    h.keys = scratch, h.v = h.keys + window * 2 * h.padded, h.out = h.v + window * d.dv;
    h.g = h.out + window * d.dv, h.beta = h.g + window, h.qk = h.beta + window;
    return h;
}

// Prefetches the lines of n floats.
SIMD void KERNEL(fetch)(const float *p, int64_t n) {
    for (int64_t c = 0; c < n; c += 16) __builtin_prefetch(p + c);
}

// Computes normalized q and k, and q.k, of a key head. q_in and k_in may be in their destination.
SIMD void KERNEL(take_keys)(KERNEL(head_tokens) h, int64_t dk, float eps, const float *q_in,
    const float *k_in, ptrdiff_t stride) {
    const float q_scale = 1.0f / sqrtf((float)dk);
    for (int64_t t = 0; t < h.tokens; t++, q_in += stride, k_in += stride) {
        float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        KERNEL(fetch)(q_in + TOKENS_AHEAD * stride, dk);
        KERNEL(fetch)(k_in + TOKENS_AHEAD * stride, dk);
        KERNEL(normalize)(q, q_in, dk, eps, q_scale);
        KERNEL(normalize)(k, k_in, dk, eps, 1.0f);
        f32x16 dot = v_zero();
        for (int64_t c = 0; c < h.padded; c += 16) dot = v_fma(v_load(q + c), v_load(k + c), dot);
        h.qk[t] = v_sum(dot);
    }
}

// Computes g and beta of a value head, sixteen tokens at a time.
SIMD void KERNEL(take_gates)(
    KERNEL(head_tokens) h, const headroom_gated_delta_inputs *in, int64_t first, int64_t head) {
    const f32x16 bias = v_set1(in->dt_bias[head]), scale = v_exp(v_set1(in->a_log[head]));
    for (int64_t t = 0; t < h.tokens; t += 16) {
        const int n = h.tokens - t < 16 ? (int)(h.tokens - t) : 16;
        float a[16] = {0}, b[16] = {0};
        for (int i = 0; i < n; i++)
            a[i] = in->a[(first + t + i) * in->a_stride + head],
            b[i] = in->b[(first + t + i) * in->b_stride + head];
        const f32x16 rate = v_mul(scale, KERNEL(softplus)(v_add(v_load(a), bias)));
        v_store_n(h.g + t, v_exp(v_sub(v_zero(), rate)), n);
        v_store_n(h.beta + t, v_sigmoid(v_load(b)), n);
    }
}

// Copies columns of rows that are from_stride apart to rows that are to_stride apart.
SIMD void KERNEL(copy_columns)(float *to, ptrdiff_t to_stride, const float *from,
    ptrdiff_t from_stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++, to += to_stride, from += from_stride) {
        KERNEL(fetch)(from + TOKENS_AHEAD * from_stride, columns);
        memcpy(to, from, (size_t)columns * 4);
    }
}

// Value rows [dk] of a slot: the first row, and its scale if the type is int8.
typedef struct {
    void *rows;
    float *scales;
} KERNEL(state_rows);

SIMD KERNEL(state_rows)
    KERNEL(rows_at)(const int dtype, headroom_gated_delta d, void *slot, int64_t row) {
    char *p = slot;
    switch (dtype) {
    case STATE_BF16: return (KERNEL(state_rows)){p + row * d.dk * 2, NULL};
    case STATE_I8: return (KERNEL(state_rows)){p + d.hv * d.dv * 4 + row * d.dk, (float *)p + row};
    }
    return (KERNEL(state_rows)){p + row * d.dk * 4, NULL};
}

// Returns the same rows without the first `row` rows.
SIMD KERNEL(state_rows)
    KERNEL(rows_after)(const int dtype, KERNEL(state_rows) state, int64_t row, int64_t dk) {
    int64_t bytes = dtype == STATE_F32 ? 4 : dtype == STATE_BF16 ? 2 : 1;
    return (KERNEL(state_rows)){
        (char *)state.rows + row * dk * bytes, state.scales ? state.scales + row : NULL};
}

// Sets n rows of a slot to zeros.
static void KERNEL(rows_clear)(const int dtype, KERNEL(state_rows) state, int64_t n, int64_t dk) {
    memset(
        state.rows, 0, (size_t)(n * dk * (dtype == STATE_F32 ? 4 : dtype == STATE_BF16 ? 2 : 1)));
    if (dtype == STATE_I8) memset(state.scales, 0, (size_t)n * 4);
}

// A block of sixteen value rows. Between tokens the rows are floats in the L1 cache, rounded to the
// type of the state. They are in the slot itself, or in a copy that the first token reads from the
// slot and the last one writes back. For int8 the floats are codes, and the scales one vector.
typedef struct {
    KERNEL(state_rows) state;
    float *rows;                // [16, width]
    float decay[16], step[16];  // g and d of the next update; decay is the same for all rows,
                                // except for int8
    float recode[16];           // int8: factors that turn the updated rows into codes
    f32x16 scale;
} KERNEL(sixteen);

#if FLOAT_PASS_WIDTH
#include "float_pass.h"
#endif

// One pass over sixteen rows. If `update` is set, it applies the previous token's update. If `dots`
// is set, it then computes this token's dot products with k and with q, as quads. `from` is the
// type of the rows that it loads, and `to` of those that it stores. float32 rows are in s->rows.
// All arguments except pointers and sizes must be constants after inlining.
SIMD void KERNEL(sixteen_pass)(const int dtype, const int from, const int to, const int update,
    const int dots, KERNEL(sixteen) * s, int64_t width, int64_t dk, const float *last_k,
    const float *k, const float *q, KERNEL(quad) * sk, KERNEL(quad) * sq) {
#if FLOAT_PASS_WIDTH
    if (dtype == STATE_F32 && update && dots && width == FLOAT_PASS_WIDTH) {
        KERNEL(float_pass)(s, width, last_k, k, q, sk, sq);
        return;
    }
#endif
    const void *in = from == STATE_F32 ? s->rows : s->state.rows;
    void *out = to == STATE_F32 ? s->rows : s->state.rows;
    const int64_t in_stride = from == STATE_F32 ? width : dk,
                  out_stride = to == STATE_F32 ? width : dk;
    const f32x16 g = v_set1(s->decay[0]);
    for (int quad = 0; quad < 4; quad++) {
        f32x16 ak[4], aq[4];
#pragma GCC unroll 4
        for (int first = 0; first < 4; first += ROWS_AT_ONCE) {
            f32x16 by[4]; // step of each row, or recode for int8
#pragma GCC unroll 4
            for (int r = first; r < first + ROWS_AT_ONCE; r++) {
                ak[r] = aq[r] = v_zero();
                if (update)
                    by[r] = v_set1(
                        dtype == STATE_I8 ? s->recode[4 * quad + r] : s->step[4 * quad + r]);
            }
#pragma GCC unroll 8
            for (int64_t c = 0; c < width; c += 16) {
                const int n = dk - c < 16 ? (int)(dk - c) : 16;
                const int in_n = from == STATE_F32 && width - c >= 16 ? 16 : n,
                          out_n = to == STATE_F32 && width - c >= 16 ? 16 : n;
                f32x16 before = v_zero(), kc = v_zero(), qc = v_zero();
                if (update && dtype != STATE_I8) before = v_load(last_k + c);
                if (dots) kc = v_load(k + c), qc = v_load(q + c);
#pragma GCC unroll 4
                for (int r = first; r < first + ROWS_AT_ONCE; r++) {
                    f32x16 x = state_load(from, in, (4 * quad + r) * in_stride + c, in_n);
                    if (update && dtype == STATE_I8) x = v_round(v_mul(x, by[r]));
                    if (update && dtype != STATE_I8) x = v_fma(by[r], before, v_mul(g, x));
                    if (update && dtype == STATE_BF16 && to == STATE_F32) x = v_bf16(x);
                    if (update || from != to)
                        state_store(to, out, (4 * quad + r) * out_stride + c, out_n, x);
                    if (dots) ak[r] = v_fma(x, kc, ak[r]), aq[r] = v_fma(x, qc, aq[r]);
                }
            }
        }
        if (dots) sk[quad] = KERNEL(fold4)(0, ak), sq[quad] = KERNEL(fold4)(0, aq);
    }
}

// For int8: updates sixteen rows of codes to decay[r] * row r + step[r] * k, and computes the
// factors that turn them into codes again.
SIMD void KERNEL(sixteen_grow)(KERNEL(sixteen) *s, int64_t width, const float *k) {
    KERNEL(quad) quads[4];
    for (int quad = 0; quad < 4; quad++) {
        f32x16 amax[4];
        for (int r = 0; r < 4; r++) {
            float *row = s->rows + (4 * quad + r) * width;
            f32x16 d = v_set1(s->step[4 * quad + r]), g = v_set1(s->decay[4 * quad + r]);
            amax[r] = v_zero();
#pragma GCC unroll 8
            for (int64_t c = 0; c < width; c += 16) {
                f32x16 next = v_fma(d, v_load(k + c), v_mul(g, v_load(row + c)));
                amax[r] = v_max(amax[r], v_abs(next));
                v_store(row + c, next);
            }
        }
        quads[quad] = KERNEL(fold4)(1, amax);
    }
    f32x16 most = v_max(KERNEL(fold16)(1, quads), v_set1(LEAST_AMAX));
    v_store(s->recode, v_div(v_set1(LARGEST_CODE), most));
    s->scale = v_div(most, v_set1(LARGEST_CODE));
}

// Computes all tokens for `sixteens` blocks of sixteen value rows. `row` is the index of their
// first row, and also of its column in v and out. The blocks alternate: the sums of one are added
// while the rows of the other are processed. dtype and dk must be constants after inlining.
SIMD void KERNEL(rows_pass)(const int dtype, KERNEL(head_tokens) h, int64_t row,
    KERNEL(state_rows) state, int64_t dk, int sixteens) {
    KERNEL(sixteen) all[SIXTEENS];
    float copy[SIXTEENS][16 * MAX_KEY_DIM];
    const int in_place = dtype == STATE_F32;
    const int64_t width = in_place ? dk : (dk + 15) / 16 * 16;
    for (int i = 0; i < sixteens; i++) {
        all[i].state = KERNEL(rows_after)(dtype, state, 16 * i, dk);
        all[i].rows = in_place ? all[i].state.rows : copy[i];
        all[i].scale = dtype == STATE_I8 ? v_load(all[i].state.scales) : v_set1(1.0f);
    }
    for (int64_t t = 0; t <= h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded, *last_k = k - 2 * h.padded;
        for (int i = 0; i < sixteens; i++) {
            KERNEL(sixteen) *s = &all[i];
            KERNEL(quad) sk[4], sq[4];
            if (dtype == STATE_I8 && t > 0) KERNEL(sixteen_grow)(s, width, last_k);
            if (t == h.tokens) {
                KERNEL(sixteen_pass)(
                    dtype, STATE_F32, dtype, 1, 0, s, width, dk, last_k, k, q, sk, sq);
                continue;
            }
            if (t == 0)
                KERNEL(sixteen_pass)(
                    dtype, dtype, STATE_F32, 0, 1, s, width, dk, last_k, k, q, sk, sq);
            else
                KERNEL(sixteen_pass)(
                    dtype, STATE_F32, STATE_F32, 1, 1, s, width, dk, last_k, k, q, sk, sq);
            const int64_t at = t * h.columns + row + 16 * i;
            f32x16 g = v_set1(h.g[t]);
            if (dtype == STATE_I8) g = v_mul(g, s->scale);
            f32x16 d = v_mul(v_fnma(g, KERNEL(fold16)(0, sk), v_load(h.v + at)), v_set1(h.beta[t]));
            v_store(h.out + at, v_fma(d, v_set1(h.qk[t]), v_mul(g, KERNEL(fold16)(0, sq))));
            v_store(s->step, d);
            v_store(s->decay, g);
        }
    }
    if (dtype == STATE_I8)
        for (int i = 0; i < sixteens; i++) v_store(all[i].state.scales, all[i].scale);
}

// Loads a row of dk elements as floats, which are codes for int8, padded with zeros.
SIMD void KERNEL(row_load)(const int dtype, float *s, KERNEL(state_rows) state, int64_t dk) {
    for (int64_t c = 0; c < dk; c += 16)
        v_store(s + c, state_load(dtype, state.rows, c, dk - c < 16 ? (int)(dk - c) : 16));
}
// Stores a row of dk elements.
SIMD void KERNEL(row_store)(const int dtype, const float *s, KERNEL(state_rows) state, int64_t dk) {
    for (int64_t c = 0; c < dk; c += 16)
        state_store(dtype, state.rows, c, dk - c < 16 ? (int)(dk - c) : 16, v_load(s + c));
}

// Computes all tokens for one value row. It handles the rows of a head after the blocks of sixteen.
SIMD void KERNEL(one_row)(
    const int dtype, KERNEL(head_tokens) h, int64_t row, KERNEL(state_rows) state, int64_t dk) {
    float s[MAX_KEY_DIM], scale = dtype == STATE_I8 ? *state.scales : 1.0f;
    KERNEL(row_load)(dtype, s, state, dk);
    for (int64_t t = 0; t < h.tokens; t++) {
        const float *q = h.keys + t * 2 * h.padded, *k = q + h.padded;
        f32x16 ak = v_zero(), aq = v_zero(), amax = v_zero();
        for (int64_t c = 0; c < h.padded; c += 16) {
            ak = v_fma(v_load(s + c), v_load(k + c), ak);
            aq = v_fma(v_load(s + c), v_load(q + c), aq);
        }
        f32x16 g = v_set1(dtype == STATE_I8 ? h.g[t] * scale : h.g[t]);
        f32x16 d = v_mul(
            v_fnma(g, v_set1(v_sum(ak)), v_set1(h.v[t * h.columns + row])), v_set1(h.beta[t]));
        v_store_n(
            h.out + t * h.columns + row, v_fma(d, v_set1(h.qk[t]), v_mul(g, v_set1(v_sum(aq)))), 1);
        for (int64_t c = 0; c < h.padded; c += 16) {
            f32x16 next = v_fma(d, v_load(k + c), v_mul(g, v_load(s + c)));
            amax = v_max(amax, v_abs(next));
            v_store(s + c, dtype == STATE_BF16 ? v_bf16(next) : next);
        }
        if (dtype == STATE_I8) {
            f32x16 most = v_max(v_set1(v_hmax(amax)), v_set1(LEAST_AMAX));
            f32x16 factor = v_div(v_set1(LARGEST_CODE), most);
            for (int64_t c = 0; c < h.padded; c += 16)
                v_store(s + c, v_round(v_mul(v_load(s + c), factor)));
            v_store_n(&scale, v_div(most, v_set1(LARGEST_CODE)), 1);
        }
    }
    KERNEL(row_store)(dtype, s, state, dk);
    if (dtype == STATE_I8) *state.scales = scale;
}

// Computes all tokens for the first h.columns rows of state.
SIMD void KERNEL(head_rows)(
    const int dtype, KERNEL(head_tokens) h, KERNEL(state_rows) state, int64_t dk) {
    // One block is enough for int8, which has more work between a token's sums and its rows.
    const int64_t most = dtype == STATE_I8 ? 1 : SIXTEENS;
    for (int64_t row = 0; row < h.columns;) {
        const int64_t sixteens = (h.columns - row) / 16 < most ? (h.columns - row) / 16 : most;
        const KERNEL(state_rows) rows = KERNEL(rows_after)(dtype, state, row, dk);
        if (sixteens == 0) KERNEL(one_row)(dtype, h, row, rows, dk), row++;
        else if (dk == 128)
            KERNEL(rows_pass)(dtype, h, row, rows, 128, (int)sixteens), row += 16 * sixteens;
        else KERNEL(rows_pass)(dtype, h, row, rows, dk, (int)sixteens), row += 16 * sixteens;
    }
}

void KERNEL(headroom_conv_rows)(const headroom_conv_span *span, int64_t c, int64_t to_c,
    int64_t from, int64_t to, int update, float *out,
    ptrdiff_t out_stride); // conv.c

// Computes q and k of the window that begins with token `first`. If `update` is set, the last
// window of a span also updates the convolution's state of these channels.
SIMD void KERNEL(window_keys)(KERNEL(head_tokens) h, headroom_gated_delta d,
    const headroom_conv_span *in, int64_t first, int64_t key_head, int update) {
    const int64_t q = key_head * d.dk, k = q + d.hk * d.dk, end = first + h.tokens;
    if (!in->weight) {
        const float *x = in->x + first * in->x_stride;
        KERNEL(take_keys)(h, d.dk, d.l2_eps, x + q, x + k, in->x_stride);
        return;
    }
    KERNEL(headroom_conv_rows)(
        in, q, q + d.dk, first, end, update && end == in->rows, h.keys, 2 * h.padded);
    KERNEL(headroom_conv_rows)(
        in, k, k + d.dk, first, end, update && end == in->rows, h.keys + h.padded, 2 * h.padded);
    KERNEL(take_keys)(h, d.dk, d.l2_eps, h.keys, h.keys + h.padded, 2 * h.padded);
}

// Computes columns [v, v + h.columns) of the window's tokens.
SIMD void KERNEL(window_values)(
    KERNEL(head_tokens) h, const headroom_conv_span *in, int64_t first, int64_t v) {
    const int64_t end = first + h.tokens;
    if (in->weight)
        KERNEL(headroom_conv_rows)(
            in, v, v + h.columns, first, end, end == in->rows, h.v, h.columns);
    else
        KERNEL(copy_columns)(
            h.v, h.columns, in->x + first * in->x_stride + v, in->x_stride, h.tokens, h.columns);
}

// Computes units [from, to) for one type of state.
SIMD void KERNEL(units_as)(const int dtype, headroom_gated_delta d,
    const headroom_gated_delta_inputs *in, void *slot, float *out, ptrdiff_t out_stride,
    int64_t window, int64_t parts, int64_t part_rows, int64_t from, int64_t to, float *scratch) {
    const int64_t group = d.hv / d.hk, tokens = in->conv.rows;
    KERNEL(head_tokens) h = KERNEL(head_tokens_in)(scratch, d, window);
    for (int64_t u = from; u < to; u++) {
        // Value rows of the key head, numbered across its value heads.
        const int64_t key_head = u / parts, begin = u % parts * part_rows,
                      end = begin + part_rows < group * d.dv ? begin + part_rows : group * d.dv;
        for (int64_t first = 0; first < tokens; first += window) {
            h.tokens = tokens - first < window ? tokens - first : window;
            KERNEL(window_keys)(h, d, &in->conv, first, key_head, parts == 1);
            for (int64_t at = begin; at < end; at += h.columns) { // to the end of a value head
                const int64_t row = at % d.dv, head = key_head * group + at / d.dv;
                h.columns = end - at < d.dv - row ? end - at : d.dv - row;
                const KERNEL(state_rows) state = KERNEL(rows_at)(dtype, d, slot, head * d.dv + row);
                if (in->conv.start && first == 0) KERNEL(rows_clear)(dtype, state, h.columns, d.dk);
                KERNEL(take_gates)(h, in, first, head);
                KERNEL(window_values)(h, &in->conv, first, 2 * d.hk * d.dk + head * d.dv + row);
                KERNEL(head_rows)(dtype, h, state, d.dk);
                KERNEL(copy_columns)(out + first * out_stride + head * d.dv + row, out_stride,
                    h.out, h.columns, h.tokens, h.columns);
            }
        }
    }
}

static void KERNEL(gated_delta)(headroom_gated_delta d, headroom_gated_delta_inputs in,
    headroom_state state, float *out, ptrdiff_t out_stride, int64_t window, int64_t parts,
    int64_t part_rows, int64_t from, int64_t to, float *scratch) {
    switch (state.dtype) {
    case STATE_BF16:
        KERNEL(units_as)(STATE_BF16, d, &in, state.slot, out, out_stride, window, parts, part_rows,
            from, to, scratch);
        break;
    case STATE_I8:
        KERNEL(units_as)(STATE_I8, d, &in, state.slot, out, out_stride, window, parts, part_rows,
            from, to, scratch);
        break;
    default:
        KERNEL(units_as)(STATE_F32, d, &in, state.slot, out, out_stride, window, parts, part_rows,
            from, to, scratch);
    }
}

#else

#define KERNEL_SOURCE "gated_delta.c"
#include "../common/foreach_isa.h"

void headroom_gated_delta_run(int isa, headroom_gated_delta d, headroom_gated_delta_inputs in,
    headroom_state state, float *out, ptrdiff_t out_stride, int64_t window, int64_t parts,
    int64_t part_rows, int64_t from, int64_t to, float *scratch) {
    DISPATCH(isa, gated_delta,
        (d, in, state, out, out_stride, window, parts, part_rows, from, to, scratch));
}

#endif
