// Writes keys and values into the pages of one sequence: plain K pages are [KVH][D][P], plain V pages [KVH][P][D]; quantized ones
// are described in quantized.go, which also has the rules of quantizing.
#include "kv_append.h"
#ifdef ISA

#include "kv_format.h"

#define MAX_GROUP 128

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

// Sixteen values of 0 to 255, cut off to integers, as bytes.
#define store_codes KERNEL(store_codes)
SIMD void store_codes(uint8_t *codes, f32x16 x) {
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
    _mm_storeu_si128((__m128i *)codes, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x)));
#elif ISA == ISA_AVX2
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)), 0xd8);
    _mm_storeu_si128((__m128i *)codes, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#else
    uint16x8_t words[2];
    for (int i = 0; i < 2; i++) words[i] = vcombine_u16(vmovn_u32(vcvtq_u32_f32(x.v[2 * i])), vmovn_u32(vcvtq_u32_f32(x.v[2 * i + 1])));
    vst1q_u8(codes, vcombine_u8(vmovn_u16(words[0]), vmovn_u16(words[1])));
#endif
}

// The parameters and the codes of a group.
#define quantize KERNEL(quantize)
static struct group_params quantize(const struct kv_format *f, const float *src, uint8_t *codes) {
    float x[MAX_GROUP];
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
        store_codes(codes + i, q);
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

// The same for all four positions of a bundle of V, whose codes lie MAX_GROUP apart.
#define pack_v4 KERNEL(pack_v4)
SIMD void pack_v4(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width, lanes = 4 * width;
    uint8_t bytes[4][32];
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < lanes; i++) {
            int byte = 0;
#pragma GCC unroll 8
            for (int j = 0; j < per; j++) byte |= (codes[n * MAX_GROUP + i + j * lanes] >> shift & ((1 << width) - 1)) << (j * width);
            bytes[n][i] = (uint8_t)byte;
        }
    for (int i = 0; i < lanes; i++) { // V_BYTE_OF_POSITION
        const uint32_t lane = bytes[0][i] | (uint32_t)bytes[2][i] << 8 | (uint32_t)bytes[1][i] << 16 | (uint32_t)bytes[3][i] << 24;
        memcpy(to + 4 * i, &lane, 4);
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

// Writes n positions from lane on into their strip: one, or of values the four of a bundle, whose rows lie stride apart.
#define append_quantized KERNEL(append_quantized)
static void append_quantized(const struct kv_format *f, int keys, int n, uint8_t *strip, int64_t lane, const float *x, int64_t stride, int64_t d) {
    static const int byte_of[4] = V_BYTE_OF_POSITION;
    const int64_t groups = kv_groups(f, d), bits = f->bits;
    uint8_t *to = strip + kv_param_bytes(f, d) + (keys ? 4 * lane : lane / 4 * 16 * bits + byte_of[lane % 4]);
    for (int64_t g = 0; g < groups; g++) {
        uint8_t codes[4 * MAX_GROUP];
        for (int i = 0; i < n; i++) {
            const struct group_params p = quantize(f, x + i * stride + g * f->group, codes + i * MAX_GROUP);
            memcpy(strip + 2 * (g * STRIP + lane + i), &p.scale16, 2);
            if (!f->zero) memcpy(strip + 2 * ((groups + g) * STRIP + lane + i), &p.bias16, 2);
        }
        for (int64_t i = 0; i < f->group; i += 32, to += 64 * bits)
            if (keys)
                PACK(pack_k, bits, to, 64, codes + i)
            else if (n == 4)
                PACK(pack_v4, bits, to, 16, codes + i)
            else
                PACK(pack_v, bits, to, 16, codes + i)
    }
}

// Writes a position of a head into a plain page: into [D][P] for keys, [P][D] for values.
#define append_plain KERNEL(append_plain)
SIMD void append_plain(const struct kv_format *f, const int keys, char *page, int64_t at, int64_t p, const float *x, int64_t d) {
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

// Writes the rows of a head, x and those that follow it stride apart.
#define append_head KERNEL(append_head)
SIMD void append_head(const struct kv_append_shape *s, const struct kv_format *f, const int keys, int64_t head, const float *x, int64_t stride, char *pages,
                      const int32_t *table) {
    const int64_t d = s->head_dim, p = s->page_tokens, row = kv_row_bytes(f, d);
    for (int64_t r = 0, n; r < s->rows; r += n, x += n * stride) {
        const int64_t pos = s->pos + r, at = pos % p;
        char *page = pages + (table[pos / p] * s->kv_heads + head) * p * row;
        n = 1;
        if (!f->bits) {
            append_plain(f, keys, page, at, p, x, d);
            continue;
        }
        if (!keys && at % 4 == 0 && s->rows - r >= 4) n = 4;
        append_quantized(f, keys, (int)n, (uint8_t *)page + at / STRIP * STRIP * row, at % STRIP, x, stride, d);
    }
}

static void KERNEL(kv_append)(const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    for (int64_t h = s->first_head; h < s->end_head; h++) { // one head's page stays in the first-level cache while its columns fill
        append_head(s, &s->k, 1, h, k + h * s->head_dim, s->k_stride, k_pages, pages);
        append_head(s, &s->v, 0, h, v + h * s->head_dim, s->v_stride, v_pages, pages);
    }
}

#else

#define KERNEL_SOURCE "kv_append.c"
#include "foreach_isa.h"

void headroom_kv_append(int isa, const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    DISPATCH(isa, kv_append, (s, k, v, k_pages, v_pages, pages));
}

#endif
