// Codes of 4 bits and pairs of bfloat16 parameters, unpacked into a panel by shuffles of 32 bits.
// Included by int8_panel.h where PANEL_SPLIT is not 0.
#undef HAS_PAIRED_PARAMS
#define HAS_PAIRED_PARAMS 1

// Unpacks a chunk of 4-bit codes in the order of split activations (int8_pack.h): a unit's even
// codes, then its odd ones. Codes are transposed while they are packed, which moves half as much,
// and then split by a mask and a shift. A chunk goes to `first`; its second unit of 32 to `second`.
SIMD void KERNEL(split_chunk)(const uint8_t *const *rows, int64_t at, const int mode,
                              const int unit, uint8_t *first, uint8_t *second) {
    lanes x[8], even, odd;
    KERNEL(p_columns)(rows, at, x);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        uint8_t *to =
            (unit == 64 || i < 4 ? first : second) + (unit == 64 ? i : i % 4) * PANEL_ROWS * 4;
        KERNEL(p_apart)(x[i], mode, &even, &odd);
        KERNEL(p_store)(to, even);
        KERNEL(p_store)(to + unit / 2 * PANEL_ROWS, odd);
    }
}
// Does for codes of 4 bits what `unpack` does for others.
SIMD void KERNEL(unpack_split)(const matmul_weight *w, const pack_order *o, int64_t n,
                               const int mode, const int unit, uint8_t *codes) {
    const int64_t per = 64 / unit, unit_bytes = unit * PANEL_ROWS;
    for (int first = 0; first < PANEL_ROWS; first += LANES) {
        const uint8_t *rows[LANES];
        for (int i = 0; i < LANES; i++)
            rows[i] = w->data + (first + i < n ? first + i : n - 1) * w->data_stride;
        uint8_t *to = codes + first * 4;
        int64_t chunk = 0;
        for (; chunk < w->k / 64; chunk++)
            KERNEL(split_chunk)(rows, chunk * 32, mode, unit,
                                to + pack_place(o, chunk * per) * unit_bytes,
                                to + pack_place(o, chunk * per + 1) * unit_bytes);
        if (w->k % 64) {
            uint8_t half[LANES][32] = {{0}};
            for (int i = 0; i < LANES; i++)
                memcpy(half[i], rows[i] + chunk * 32, 16), rows[i] = half[i];
            KERNEL(split_chunk)(rows, 0, mode, unit, to + pack_place(o, chunk * per) * unit_bytes,
                                to + pack_place(o, chunk * per + 1) * unit_bytes);
        }
    }
}

SIMD void KERNEL(unpack_nibbles)(const matmul_weight *w, const pack_order *o, int64_t n,
                                 const int mode, uint8_t *codes) {
    if (mode == MODE_AFFINE && o->unit == 64) // MXFP4's units have 32 elements
        KERNEL(unpack_split)(w, o, n, mode, 64, codes);
    else KERNEL(unpack_split)(w, o, n, mode, 32, codes);
}

// Transposes the bfloat16 scales or biases of units [u, u+16) of LANES rows, in pairs. Those of
// unit u+i are stored at to[i].
SIMD void KERNEL(params_bf16)(const uint8_t *const *rows, int64_t u, float *const *to) {
    lanes x[8];
    KERNEL(p_columns)(rows, 2 * u, x);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        KERNEL(p_store)((uint8_t *)to[2 * i], MM(slli_epi32)(x[i], 16));
        KERNEL(p_store)((uint8_t *)to[2 * i + 1], MMI(and)(x[i], MM(set1_epi32)(-65536)));
    }
}
