// Writes keys and values into the pages of one sequence: plain K pages are [KVH][D][P], plain V pages [KVH][P][D]; quantized ones
// are described in quantized.go, which also has the rules of quantizing.
#include "kv_append.h"
#ifdef ISA

#include "kv_format.h"

#define group_params KERNEL(group_params)
struct group_params {
    float scale, bias;         // for the codes
    uint16_t scale16, bias16; // as stored
};

#define round16 KERNEL(round16)
SIMD float round16(float x, uint16_t *bits) {
    uint16_t h[16];
    float y[16];
    v_store_f16(h, v_set1(x));
    v_store(y, v_load_f16(h));
    *bits = h[0];
    return y[0];
}

#define round1 KERNEL(round1)
SIMD float round1(float x) {
    float y[16];
    v_store(y, v_round(v_set1(x)));
    return y[0];
}

// The parameters of a group of finite elements in [lo, hi].
#define choose KERNEL(choose)
static struct group_params choose(const struct kv_format *f, const float *x, float lo, float hi) {
    struct group_params p = {0, 0, 0, 0};
    if (f->zero) {
        float m = hi > -lo ? hi : -lo; // the magnitude; q4_0 takes the sign of the first element that has it
        if (f->zero == 8)
            for (int64_t i = 0;; i++)
                if (x[i] == m || x[i] == -m) {
                    m = x[i];
                    break;
                }
        p.scale = (f->zero == 8 ? m / -8 : m / 127) + 0.0f; // 0, never -0
        round16(p.scale, &p.scale16);
        return p;
    }
    float s = (hi - lo) / (float)((1 << f->bits) - 1), edge = lo, b = 0;
    if (s < 1e-7f) s = 1e-7f;
    if (!(fabsf(lo) > fabsf(hi))) {
        edge = hi;
        s = -s;
    }
    float q0 = round1(edge / s);
    if (q0 != 0) {
        s = edge / q0;
        b = edge;
    }
    p.scale = round16(s, &p.scale16);
    p.bias = round16(b, &p.bias16);
    return p;
}

// The parameters and the codes of a group.
#define quantize KERNEL(quantize)
static struct group_params quantize(const struct kv_format *f, const float *src, uint8_t *codes) {
    float x[128];
    f32x16 lo = v_set1(65504.0f), hi = v_set1(-65504.0f), bad = v_zero();
    for (int64_t i = 0; i < f->group; i += 16) {
        f32x16 y = v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), v_load(src + i))); // in this order they keep NaN
        v_store(x + i, y);
        lo = v_min(lo, y);
        hi = v_max(hi, y);
        bad = v_fma(y, v_zero(), bad);
    }
    if (v_sum(bad) != 0) {
        memset(codes, 0, (size_t)f->group);
        return (struct group_params){0, 0, 0x7e00, 0x7e00};
    }
    struct group_params p = choose(f, x, -v_hmax(v_sub(v_zero(), lo)), v_hmax(hi));
    if (f->zero && p.scale == 0) {
        memset(codes, (int)f->zero, (size_t)f->group);
        return p;
    }
    const f32x16 s = v_set1(p.scale), b = v_set1(p.bias), top = v_set1((float)((1 << f->bits) - 1));
    for (int64_t i = 0; i < f->group; i += 16) {
        f32x16 q = v_load(x + i);
        switch (f->zero) {
        case 128: q = v_add(v_round(v_div(q, s)), v_set1(128.0f)); break;
        case 8: q = v_min(v_add(v_div(q, s), v_set1(8.5f)), top); break; // the conversion cuts off
        default: q = v_max(v_zero(), v_min(top, v_round(v_div(v_sub(q, b), s))));
        }
        float t[16];
        v_store(t, q);
        for (int j = 0; j < 16; j++) codes[i + j] = (uint8_t)(int32_t)t[j];
    }
    return p;
}

// Packs width bits from bit shift on of each of 32 codes of K into a plane of a bundle, four bytes per vector of the plane.
#define pack_k KERNEL(pack_k)
SIMD void pack_k(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width;
#pragma GCC unroll 8
    for (int i = 0; i < width; i++) {
        uint32_t lane = 0;
#pragma GCC unroll 8
        for (int j = 0; j < per; j++) {
            uint32_t four;
            memcpy(&four, codes + 4 * (i * per + j), 4);
            lane |= (four >> shift & 0x01010101u * ((1u << width) - 1)) << (j * width);
        }
        memcpy(to + i * 4 * STRIP, &lane, 4);
    }
}

// The same for V, a byte per lane of the plane.
#define pack_v KERNEL(pack_v)
SIMD void pack_v(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width, lanes = 4 * width;
    for (int i = 0; i < lanes; i++) {
        int byte = 0;
#pragma GCC unroll 8
        for (int j = 0; j < per; j++) byte |= (codes[i + j * lanes] >> shift & ((1 << width) - 1)) << (j * width);
        to[4 * i] = (uint8_t)byte;
    }
}

#define PACK(pack, bits, to, per_bit, codes) \
    switch (bits) { \
    case 2: pack(2, 0, to, codes); break; \
    case 3: pack(2, 0, to, codes); pack(1, 2, (to) + 2 * (per_bit), codes); break; \
    case 4: pack(4, 0, to, codes); break; \
    case 5: pack(4, 0, to, codes); pack(1, 4, (to) + 4 * (per_bit), codes); break; \
    case 6: pack(4, 0, to, codes); pack(2, 4, (to) + 4 * (per_bit), codes); break; \
    default: pack(8, 0, to, codes); \
    }

// Writes a position into its strip.
#define append_quantized KERNEL(append_quantized)
static void append_quantized(const struct kv_format *f, int keys, uint8_t *strip, int64_t lane, const float *x, int64_t d) {
    static const int byte_of[4] = V_BYTE_OF_POSITION;
    const int64_t groups = kv_groups(f, d), bits = f->bits;
    uint8_t *to = strip + kv_param_bytes(f, d) + (keys ? 4 * lane : lane / 4 * 16 * bits + byte_of[lane % 4]);
    for (int64_t g = 0; g < groups; g++) {
        uint8_t codes[128];
        struct group_params p = quantize(f, x + g * f->group, codes);
        memcpy(strip + 2 * (g * STRIP + lane), &p.scale16, 2);
        if (!f->zero) memcpy(strip + 2 * ((groups + g) * STRIP + lane), &p.bias16, 2);
        for (int64_t i = 0; i < f->group; i += 32, to += 64 * bits)
            if (keys)
                PACK(pack_k, bits, to, 64, codes + i)
            else
                PACK(pack_v, bits, to, 16, codes + i)
    }
}

// Writes a position of a head: into [D][P] for keys, [P][D] for values, or its strip.
#define append_row KERNEL(append_row)
SIMD void append_row(const struct kv_format *f, const int keys, char *page, int64_t at, int64_t p, const float *x, int64_t d) {
    if (f->bits) {
        append_quantized(f, keys, (uint8_t *)page + at / STRIP * STRIP * kv_row_bytes(f, d), at % STRIP, x, d);
        return;
    }
    const int64_t bytes = kv_element_bytes((int)f->dtype);
    for (int64_t i = 0; i < d; i += 16) {
        unsigned char column[64];
        if (!keys) {
            kv_store((int)f->dtype, page + (at * d + i) * bytes, v_load(x + i));
            continue;
        }
        kv_store((int)f->dtype, column, v_load(x + i));
        char *to = page + (i * p + at) * bytes;
        if (bytes == 2)
            for (int j = 0; j < 16; j++) memcpy(to + j * p * 2, column + 2 * j, 2);
        else
            for (int j = 0; j < 16; j++) memcpy(to + j * p * 4, column + 4 * j, 4);
    }
}

static void KERNEL(kv_append)(const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    const int64_t d = s->head_dim, p = s->page_tokens;
    const int64_t k_page = p * kv_row_bytes(&s->k, d), v_page = p * kv_row_bytes(&s->v, d);
    for (int64_t h = 0; h < s->kv_heads; h++) { // one head's page stays in the first-level cache while its columns fill
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t pos = s->pos + r, head = pages[pos / p] * s->kv_heads + h;
            append_row(&s->k, 1, (char *)k_pages + head * k_page, pos % p, p, k + r * s->k_stride + h * d, d);
            append_row(&s->v, 0, (char *)v_pages + head * v_page, pos % p, p, v + r * s->v_stride + h * d, d);
        }
    }
}

#else

#define KERNEL_SOURCE "kv_append.c"
#include "foreach_isa.h"

void headroom_kv_append(int isa, const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    DISPATCH(isa, kv_append, (s, k, v, k_pages, v_pages, pages));
}

#endif
