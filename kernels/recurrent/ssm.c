// The recurrence of Mamba-2, as SSM in ssm.go and recurrent.h describe it. For a row s [n] of the
// state of a head, a token takes one pass:
//
//     s   = decay * s + (dt * x) * B
//     out = s.C + D * x
//
// and then s is rounded to the type of the state. Rows are independent. Blocks of up to sixteen
// rows stay in the L1 cache for a window of tokens, and their sums are the lanes of one vector.
// Lane i of a dot product adds columns i, i+16, ..., and v_sum adds the lanes. Blocks and windows
// do not change the bits, because every row is rounded after every token.
#include "recurrent.h"

#define MAX_COLUMNS 256 // MaxKeyDim in gated_delta.go
#define WINDOW 64       // tokens
#define BLOCK 16        // rows

#ifdef ISA

#include "state.h"
#include "softplus.h"

// The tokens of a window for one head: x [dim], B and C [n] of a token are `stride` floats after
// those of the token before.
typedef struct {
    const float *x, *b, *c;
    float *out;
    ptrdiff_t stride, out_stride;
    int64_t tokens;
    float d, decay[WINDOW], dt[WINDOW];
} KERNEL(ssm_window);

// Computes decay and dt of a window, sixteen tokens at a time.
SIMD void KERNEL(ssm_steps)(KERNEL(ssm_window) * w, const headroom_ssm *s,
    const headroom_ssm_span *in, int64_t first, int64_t head) {
    const f32x16 bias = v_set1(in->dt_bias[head]), rate = v_exp(v_set1(in->a_log[head]));
    for (int64_t t = 0; t < w->tokens; t += 16) {
        float raw[16] = {0};
        for (int i = 0; i < 16 && t + i < w->tokens; i++)
            raw[i] = in->dt[(first + t + i) * in->dt_stride + head];
        const f32x16 soft = KERNEL(softplus)(v_add(v_load(raw), bias));
        const f32x16 dt = v_min(v_max(soft, v_set1(s->dt_min)), v_set1(s->dt_max));
        v_store(w->dt + t, dt);
        v_store(w->decay + t, v_exp(v_sub(v_zero(), v_mul(rate, dt))));
    }
}

// The rows of a block between tokens: floats, which are codes for int8. width is at least n.
typedef struct {
    float *rows, scale[BLOCK];
    int64_t width;
    int count;
} KERNEL(ssm_block);

// Updates a row for one token and returns s.C in *sum. For int8 the row is not rounded yet, and its
// largest magnitude is in *most. dtype must be a constant after inlining, here and below.
SIMD void KERNEL(ssm_row)(const int dtype, float *row, int64_t width, int64_t n, float decay,
    float step, const float *b, const float *c, float *sum, float *most) {
    const f32x16 g = v_set1(decay), by = v_set1(step);
    f32x16 dot = v_zero(), amax = v_zero();
#pragma GCC unroll 8
    for (int64_t at = 0; at < width; at += 16) {
        const int left = n - at < 16 ? (int)(n - at) : 16, mine = width - at < 16 ? left : 16;
        const f32x16 bc = left == 16 ? v_load(b + at) : v_load_n(b + at, left),
                     cc = left == 16 ? v_load(c + at) : v_load_n(c + at, left),
                     old = mine == 16 ? v_load(row + at) : v_load_n(row + at, mine);
        f32x16 next = v_fma(by, bc, v_mul(g, old));
        dot = v_fma(next, cc, dot);
        if (dtype == STATE_I8) amax = v_max(amax, v_abs(next));
        if (dtype == STATE_BF16) next = v_bf16(next);
        if (mine == 16) v_store(row + at, next);
        else v_store_n(row + at, next, mine);
    }
    *sum = v_sum(dot);
    if (dtype == STATE_I8) *most = v_hmax(amax);
}

// Computes the tokens of a window for a block of rows, of which the first is row `first` of the
// head.
SIMD void KERNEL(ssm_tokens)(const int dtype, KERNEL(ssm_block) * s, const KERNEL(ssm_window) * w,
    int64_t first, int64_t n) {
    for (int64_t t = 0; t < w->tokens; t++) {
        const float *b = w->b + t * w->stride, *c = w->c + t * w->stride;
        const f32x16 x = v_load_n(w->x + t * w->stride + first, s->count);
        float step[BLOCK], decay[BLOCK], sum[BLOCK] = {0}, most[BLOCK] = {0}, recode[BLOCK];
        v_store(step, v_mul(v_set1(w->dt[t]), x));
        v_store(decay, v_mul(v_set1(w->decay[t]), v_load(s->scale)));
        for (int r = 0; r < s->count; r++)
            KERNEL(ssm_row)(dtype, s->rows + r * s->width, s->width, n, decay[r], step[r], b, c,
                sum + r, most + r);
        v_store_n(w->out + t * w->out_stride + first, v_fma(v_set1(w->d), x, v_load(sum)),
            s->count);
        if (dtype != STATE_I8) continue;
        const f32x16 amax = v_max(v_load(most), v_set1(LEAST_AMAX));
        v_store(recode, v_div(v_set1(LARGEST_CODE), amax));
        v_store(s->scale, v_div(amax, v_set1(LARGEST_CODE)));
        for (int r = 0; r < s->count; r++) {
            float *row = s->rows + r * s->width;
            for (int64_t at = 0; at < s->width; at += 16)
                v_store(row + at, v_round(v_mul(v_load(row + at), v_set1(recode[r]))));
        }
    }
}

// Computes the tokens of a window for rows [first, first + count) of a head. `row` is the index of
// the first row in the slot, of `all` rows.
SIMD void KERNEL(ssm_rows)(const int dtype, void *slot, int64_t all, int64_t row, int64_t first,
    int count, int start, const KERNEL(ssm_window) * w, int64_t n) {
    float copy[BLOCK * MAX_COLUMNS];
    float *scales = (float *)slot + row;
    char *values = (char *)slot;
    values += dtype == STATE_I8 ? all * 4 + row * n : row * n * (dtype == STATE_BF16 ? 2 : 4);
    KERNEL(ssm_block) s = {.rows = copy, .width = (n + 15) / 16 * 16, .count = count};
    v_store(s.scale, dtype == STATE_I8 ? v_load_n(scales, count) : v_set1(1.0f));
    if (dtype == STATE_F32) {
        s.rows = (float *)values, s.width = n;
        if (start) memset(values, 0, (size_t)(count * n) * 4);
    } else if (start) {
        memset(copy, 0, sizeof copy);
        if (dtype == STATE_I8) v_store(s.scale, v_zero()); // the slot may have any bytes
    } else
        for (int r = 0; r < count; r++)
            for (int64_t at = 0; at < n; at += 16)
                v_store(copy + r * s.width + at,
                    state_load(dtype, values, r * n + at, n - at < 16 ? (int)(n - at) : 16));
    KERNEL(ssm_tokens)(dtype, &s, w, first, n);
    for (int r = 0; r < count && dtype != STATE_F32; r++)
        for (int64_t at = 0; at < n; at += 16)
            state_store(dtype, values, r * n + at, n - at < 16 ? (int)(n - at) : 16,
                v_load(copy + r * s.width + at));
    if (dtype == STATE_I8) v_store_n(scales, v_load(s.scale), count);
}

// Computes heads [from, to) for one type of state.
SIMD void KERNEL(ssm_heads)(const int dtype, const headroom_ssm *s, const headroom_ssm_span *in,
    void *slot, float *out, ptrdiff_t out_stride, int64_t from, int64_t to) {
    const int64_t per_group = s->heads / s->groups, all = s->heads * s->dim;
    for (int64_t head = from; head < to; head++)
        for (int64_t first = 0; first < in->rows; first += WINDOW) {
            const float *x = in->x + first * in->x_stride;
            KERNEL(ssm_window)
            w = {.x = x + head * s->dim, .b = x + all + head / per_group * s->n,
                .out = out + first * out_stride + head * s->dim, .stride = in->x_stride,
                .out_stride = out_stride, .d = in->d[head],
                .tokens = in->rows - first < WINDOW ? in->rows - first : WINDOW};
            w.c = w.b + s->groups * s->n;
            KERNEL(ssm_steps)(&w, s, in, first, head);
            for (int64_t row = 0; row < s->dim; row += BLOCK) {
                const int count = s->dim - row < BLOCK ? (int)(s->dim - row) : BLOCK,
                          start = in->start && first == 0;
                if (s->n == 128)
                    KERNEL(ssm_rows)(
                        dtype, slot, all, head * s->dim + row, row, count, start, &w, 128);
                else
                    KERNEL(ssm_rows)(
                        dtype, slot, all, head * s->dim + row, row, count, start, &w, s->n);
            }
        }
}

static void KERNEL(ssm)(headroom_ssm s, headroom_ssm_span in, headroom_state state, float *out,
    ptrdiff_t out_stride, int64_t from, int64_t to) {
    switch (state.dtype) {
    case STATE_BF16:
        KERNEL(ssm_heads)(STATE_BF16, &s, &in, state.slot, out, out_stride, from, to);
        break;
    case STATE_I8:
        KERNEL(ssm_heads)(STATE_I8, &s, &in, state.slot, out, out_stride, from, to);
        break;
    default: KERNEL(ssm_heads)(STATE_F32, &s, &in, state.slot, out, out_stride, from, to);
    }
}

#else

#define KERNEL_SOURCE "ssm.c"
#include "../common/foreach_isa.h"

void headroom_ssm_run(int isa, headroom_ssm s, headroom_ssm_span in, headroom_state state,
    float *out, ptrdiff_t out_stride, int64_t from, int64_t to) {
    DISPATCH(isa, ssm, (s, in, state, out, out_stride, from, to));
}

#endif
