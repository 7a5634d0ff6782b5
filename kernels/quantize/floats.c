// Groups of MXFP4, MXFP8 and NVFP4; floats.go has the definition. The compiler makes vectors of the
// loops: each element is computed alone.
#ifdef ISA
#include "group.h"

#define to_e2m1 KERNEL(to_e2m1)
#define to_e4m3 KERNEL(to_e4m3)
#define from_bits KERNEL(from_bits)
#define to_bits KERNEL(to_bits)

SIMD uint32_t to_bits(float x) {
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}
SIMD float from_bits(uint32_t b) {
    float x;
    memcpy(&x, &b, 4);
    return x;
}

SIMD uint32_t to_e2m1(float x) {
    const float v = fabsf(x);
    return (uint32_t)(v > 0.25f) + (v >= 0.75f) + (v > 1.25f) + (v >= 1.75f) + (v > 2.5f) +
        (v >= 3.5f) + (v > 5.0f) + (to_bits(x) >> 31 << 3);
}

SIMD uint32_t to_e4m3(float x) {
    const float v = fabsf(x);
    const uint32_t sign = to_bits(x) >> 24 & 0x80;
    uint32_t b = to_bits(v);
    const uint32_t small = to_bits(v + 0x1p14f) - to_bits(0x1p14f);
    b = (b + (b >> 20 & 1) + 0x7ffff - ((127u - 7) << 23)) >> 20;
    b = v < 0x1p-6f ? small : b;
    return sign | (v >= 448 ? 0x7e : b);
}

static void KERNEL(quantize_floats)(const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, uint8_t *scales) {
    float w[GROUP_MOST];
    uint8_t c[GROUP_MOST];
    for (int64_t g = 0; g < groups; g++) {
        load_group(w, data, dtype, g * group, group);
        uint32_t most = 0; // the bits of positive floats are ordered as they are
        for (int i = 0; i < group; i++) {
            const uint32_t b = to_bits(w[i]) & 0x7fffffff;
            most = b > most ? b : most;
        }
        const float x = from_bits(most) / (bits == 8 ? 448.0f : 6.0f);
        float factor;
        if (group == 16) { // NVFP4
            const uint32_t s = to_e4m3(x);
            scales[g] = (uint8_t)s;
            const float scale =
                s < 8 ? (float)s * 0x1p-9f : from_bits((s << 20) + ((127u - 7) << 23));
            factor = s ? 1 / scale : 0;
        } else {
            const uint32_t b = to_bits(x), e = b >> 23, fraction = b & 0x7fffff;
            const uint32_t s = e == 0 ? fraction > 0x400000 : e + (fraction && e < 254);
            scales[g] = (uint8_t)s;
            factor = 1 / from_bits(s ? s << 23 : 1u << 22);
        }
        if (bits == 8)
            for (int i = 0; i < group; i++) c[i] = (uint8_t)to_e4m3(w[i] * factor);
        else
            for (int i = 0; i < group; i++) c[i] = (uint8_t)to_e2m1(w[i] * factor);
        pack_codes(codes + g * group / 8 * bits, c, group, bits);
    }
}

#else

#define KERNEL_SOURCE "floats.c"
#include "../common/foreach_isa.h"

void headroom_quantize_floats(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, uint8_t *scales) {
    DISPATCH(isa, quantize_floats, (data, dtype, bits, group, groups, codes, scales));
}

#endif
