// What both kernels share: loading a group as floats, rounding to the type of scales, and packing
// codes. Included once per instruction set.

#ifndef QUANTIZE_GROUP
#define QUANTIZE_GROUP
// Numbers of headroom/kernels.DType.
#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2
#define GROUP_MOST 128 // elements of a group

// Packs 8 codes, one in each byte of v, into the low 8*bits bits.
static inline __attribute__((always_inline)) uint64_t pack8(uint64_t v, int bits) {
    v = (v & 0x00ff00ff00ff00ffu) | (v & 0xff00ff00ff00ff00u) >> (8 - bits);
    v = (v & 0x0000ffff0000ffffu) | (v & 0xffff0000ffff0000u) >> (16 - 2 * bits);
    return (v & 0x00000000ffffffffu) | (v & 0xffffffff00000000u) >> (32 - 4 * bits);
}

static inline __attribute__((always_inline)) void pack_bits(
    uint8_t *to, const uint8_t *codes, int n, int bits) {
    for (int i = 0; i < n; i += 8) {
        uint64_t v;
        memcpy(&v, codes + i, 8);
        v = pack8(v, bits);
        memcpy(to, &v, (size_t)bits);
        to += bits;
    }
}

// Stores the codes of a group, at most one in a byte, as a stream of bits.
static inline void pack_codes(uint8_t *to, const uint8_t *codes, int n, int bits) {
    switch (bits) {
    case 2: pack_bits(to, codes, n, 2); break;
    case 3: pack_bits(to, codes, n, 3); break;
    case 4: pack_bits(to, codes, n, 4); break;
    case 5: pack_bits(to, codes, n, 5); break;
    case 6: pack_bits(to, codes, n, 6); break;
    default: memcpy(to, codes, (size_t)n);
    }
}
#endif

#define load_group KERNEL(load_group)
#define store_float KERNEL(store_float)

// Loads n floats from element at on; n is a multiple of 16.
SIMD void load_group(float *to, const void *data, int dtype, int64_t at, int n) {
    if (dtype == DTYPE_F32) memcpy(to, (const float *)data + at, (size_t)n * 4);
    else if (dtype == DTYPE_BF16)
        for (int i = 0; i < n; i += 16)
            v_store(to + i, v_load_bf16((const uint16_t *)data + at + i));
    else
        for (int i = 0; i < n; i += 16)
            v_store(to + i, v_load_f16((const uint16_t *)data + at + i));
}

// Stores x as element i of to, rounded to nearest even.
SIMD void store_float(void *to, int dtype, int64_t i, float x) {
    if (dtype == DTYPE_F32) {
        ((float *)to)[i] = x;
        return;
    }
    uint16_t lanes[16];
    if (dtype == DTYPE_BF16) v_store_bf16(lanes, v_set1(x));
    else v_store_f16(lanes, v_set1(x));
    ((uint16_t *)to)[i] = lanes[0];
}
