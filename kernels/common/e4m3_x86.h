// The part of mxfp8.h that AVX-512 and AVX2 share.

// Returns the bits of sixteen float16.
SIMD __m256i KERNEL(e4m3_half)(const uint8_t *p) {
    const __m256i high_bytes =
        _mm256_setr_epi8(-1, 0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, //
                         -1, 8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15);
    __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    x = _mm256_srai_epi16(_mm256_shuffle_epi8(x, high_bytes), 1);
    return _mm256_xor_si256(x, _mm256_and_si256(_mm256_add_epi16(x, _mm256_set1_epi16(E4M3_ONE)),
                                                _mm256_set1_epi16(E4M3_GAP)));
}
