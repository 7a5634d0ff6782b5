// sixteen_pass of gated_delta.c between two tokens for float32 rows of FLOAT_PASS_WIDTH on AVX2,
// which takes nearly all the time. Two rows share loads of k and q, and the two halves of the lanes
// alternate. Eight sums, three factors, three vectors of k and q and two of the rows then fill all
// registers.
SIMD void KERNEL(float_pass)(KERNEL(sixteen) * s, int64_t width, const float *last_k,
    const float *k, const float *q, KERNEL(quad) * sk, KERNEL(quad) * sq) {
    const __m256 g = _mm256_set1_ps(s->decay[0]);
    for (int quad = 0; quad < 4; quad++) {
        f32x16 ak[4], aq[4];
#pragma GCC unroll 2
        for (int r = 0; r < 4; r += 2) {
            float *row0 = s->rows + (4 * quad + r) * width, *row1 = row0 + width;
            const __m256 step0 = _mm256_set1_ps(s->step[4 * quad + r]),
                         step1 = _mm256_set1_ps(s->step[4 * quad + r + 1]);
            __m256 k0[2], k1[2], q0[2], q1[2];
            for (int half = 0; half < 2; half++)
                k0[half] = k1[half] = q0[half] = q1[half] = _mm256_setzero_ps();
#pragma GCC unroll 16
            for (int64_t c = 0; c < width; c += 8) {
                const int half = c / 8 % 2;
                const __m256 before = _mm256_loadu_ps(last_k + c), kc = _mm256_loadu_ps(k + c),
                             qc = _mm256_loadu_ps(q + c);
                const __m256 x0 = _mm256_fmadd_ps(
                    step0, before, _mm256_mul_ps(g, _mm256_loadu_ps(row0 + c)));
                const __m256 x1 = _mm256_fmadd_ps(
                    step1, before, _mm256_mul_ps(g, _mm256_loadu_ps(row1 + c)));
                _mm256_storeu_ps(row0 + c, x0), _mm256_storeu_ps(row1 + c, x1);
                k0[half] = _mm256_fmadd_ps(x0, kc, k0[half]),
                k1[half] = _mm256_fmadd_ps(x1, kc, k1[half]);
                q0[half] = _mm256_fmadd_ps(x0, qc, q0[half]),
                q1[half] = _mm256_fmadd_ps(x1, qc, q1[half]);
            }
            ak[r] = (f32x16){k0[0], k0[1]}, ak[r + 1] = (f32x16){k1[0], k1[1]};
            aq[r] = (f32x16){q0[0], q0[1]}, aq[r + 1] = (f32x16){q1[0], q1[1]};
        }
        sk[quad] = KERNEL(fold4)(0, ak), sq[quad] = KERNEL(fold4)(0, aq);
    }
}
