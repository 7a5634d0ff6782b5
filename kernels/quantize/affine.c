// Affine groups; affine.go has the definition.
#ifdef ISA
#include "group.h"

#define code_lanes KERNEL(code_lanes)

// Stores the codes of 16 quotients: rounded to nearest, ties away from zero, at most steps. A
// quotient is above -0.5, so adding the largest float below 0.5 and cutting the fraction rounds it.
// One that is not a number becomes steps.
SIMD void code_lanes(uint8_t *to, f32x16 x, float steps) {
    x = v_add(x, v_set1(0x1.fffffep-2f));
#if ISA == ISA_NEON
    uint16x4_t n[4];
    for (int i = 0; i < 4; i++)
        n[i] = vmovn_u32(vcvtq_u32_f32(vminnmq_f32(x.v[i], vdupq_n_f32(steps))));
    vst1q_u8(to, vcombine_u8(vmovn_u16(vcombine_u16(n[0], n[1])),
                     vmovn_u16(vcombine_u16(n[2], n[3]))));
#elif ISA == ISA_AVX2
    float lanes[16];
    v_store(lanes, x);
    const __m256 most = _mm256_set1_ps(steps);
    const __m256i a = _mm256_cvttps_epi32(_mm256_min_ps(_mm256_loadu_ps(lanes), most)),
                  b = _mm256_cvttps_epi32(_mm256_min_ps(_mm256_loadu_ps(lanes + 8), most)),
                  w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)to,
        _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
#else
    _mm_storeu_si128((__m128i *)to,
        _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_min_ps(x, _mm512_set1_ps(steps)))));
#endif
}

static void KERNEL(quantize_affine)(const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, void *scales, void *biases) {
    const float steps = (float)((1 << bits) - 1);
    float w[GROUP_MOST];
    uint8_t c[GROUP_MOST];
    for (int64_t g = 0; g < groups; g++) {
        load_group(w, data, dtype, g * group, group);
        f32x16 high = v_zero(), low = v_zero(); // the largest element, and the negative smallest
        low = v_sub(low, v_load(w));
        for (int i = 0; i < group; i += 16) {
            const f32x16 x = v_load(w + i);
            high = v_max(high, x);
            low = v_max(low, v_sub(v_zero(), x));
        }
        const float most = v_hmax(high), least = -v_hmax(low);
        const float step = (most - least) / steps, size = step > 1e-7f ? step : 1e-7f;
        const int side = fabsf(least) > fabsf(most);
        const float edge = side ? least : most;
        float scale = side ? size : -size, bias = 0;
        const float q = roundf(edge / scale);
        if (q != 0) scale = edge / q, bias = edge;
        store_float(scales, dtype, g, scale);
        store_float(biases, dtype, g, bias);
        const f32x16 s = v_set1(scale), b = v_set1(bias);
        for (int i = 0; i < group; i += 16)
            code_lanes(c + i, v_div(v_sub(v_load(w + i), b), s), steps);
        pack_codes(codes + g * group / 8 * bits, c, group, bits);
    }
}

#else

#define KERNEL_SOURCE "affine.c"
#include "../common/foreach_isa.h"

void headroom_quantize_affine(int isa, const void *data, int dtype, int bits, int group,
    int64_t groups, uint8_t *codes, void *scales, void *biases) {
    DISPATCH(isa, quantize_affine, (data, dtype, bits, group, groups, codes, scales, biases));
}

#endif
