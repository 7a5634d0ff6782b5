// store_codes of round.c with NEON.

SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    int8x16_t codes[4];
    for (int j = 0; j < 4; j++) {
        int16x4_t x[4];
        // only the low bytes are used
        for (int i = 0; i < 4; i++) x[i] = vmovn_s32(vreinterpretq_s32_f32(v[j].v[i]));
        codes[j] =
            vcombine_s8(vmovn_s16(vcombine_s16(x[0], x[1])), vmovn_s16(vcombine_s16(x[2], x[3])));
        vst1q_s8(q + 16 * j, codes[j]);
    }
    for (int i = 0; i < 2; i++) {
        vst1q_s8(split + 16 * i, vuzp1q_s8(codes[2 * i], codes[2 * i + 1]));
        vst1q_s8(split + 32 + 16 * i, vuzp2q_s8(codes[2 * i], codes[2 * i + 1]));
    }
}
