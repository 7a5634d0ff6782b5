// Normalizes each head of a row with RMSNorm, then applies rotary embedding to the pairs of
// dimensions i and i + half. The cosines and sines of a row are computed once for all its heads.
// The sum of squares uses sixteen lanes, as in norm/rms_norm.c.
#include "norm_rope.h"
#ifdef ISA

// Rounds to the nearest integer, ties to even, for |x| < 2^51. The intermediate sum is so large
// that a double has no bits left for a fraction. Compilers vectorize additions, but not rint and
// floor.
#define nearest KERNEL(nearest)
SIMD double nearest(double x) { return x + 0x1.8p52 - 0x1.8p52; }

// Computes scale * cos(pos * freq[i]) and scale * sin(pos * freq[i]), rounded to float32 once. The
// product pos * freq[i] is exact in double (24 + 29 bits). Subtracting k * pi/2, where pi/2 = p1 +
// p2, with fused multiply-adds has an error near 1e-16 for all k below 2^31. The polynomials are
// those of fdlibm's k_sin.c and k_cos.c (Sun Microsystems 1993), accurate to 2^-57 on [-pi/4,
// pi/4]. Every operation is correctly rounded, so the bits are the same everywhere.
#define angles KERNEL(angles)
static void angles(double pos, const float *restrict freq, int64_t n, double scale,
    float *restrict cosines, float *restrict sines) {
    const double p1 = 0x1.921fb54442d18p+0, p2 = 0x1.1a62633145c07p-54,
                 two_over_pi = 0x1.45f306dc9c883p-1;
    for (int64_t i = 0; i < n; i++) {
        double x = pos * (double)freq[i];
        double k = nearest(x * two_over_pi);
        double r = __builtin_fma(-k, p2, __builtin_fma(-k, p1, x));
        double z = r * r;
        double s = 1.58969099521155010221e-10;
        s = __builtin_fma(s, z, -2.50507602534068634195e-08);
        s = __builtin_fma(s, z, 2.75573137070700676789e-06);
        s = __builtin_fma(s, z, -1.98412698298579493134e-04);
        s = __builtin_fma(s, z, 8.33333333332248946124e-03);
        s = __builtin_fma(s, z, -1.66666666666666324348e-01);
        s = __builtin_fma(s, z * r, r);
        double c = -1.13596475577881948265e-11;
        c = __builtin_fma(c, z, 2.08757232129817482790e-09);
        c = __builtin_fma(c, z, -2.75573143513906633035e-07);
        c = __builtin_fma(c, z, 2.48015872894767294178e-05);
        c = __builtin_fma(c, z, -1.38888888888741095749e-03);
        c = __builtin_fma(c, z, 4.16666666666666019037e-02);
        c = __builtin_fma(c, z * z, __builtin_fma(-0.5, z, 1.0));
        // An odd k swaps sine and cosine. The sine is negated if k mod 4 is 2 or 3, the cosine if k
        // mod 4 is 1 or 2. The arithmetic is exact and avoids an unpredictable branch. k/2 - 0.25
        // rounded to nearest is k/2 rounded down.
        double pairs = nearest(k * 0.5 - 0.25), odd = k - 2 * pairs, next = nearest(k * 0.5 + 0.25);
        double sine = __builtin_fma(odd, c, (1 - odd) * s),
               cosine = __builtin_fma(odd, s, (1 - odd) * c);
        sine *= 1 - 2 * (pairs - 2 * nearest(pairs * 0.5 - 0.25));
        cosine *= 1 - 2 * (next - 2 * nearest(next * 0.5 - 0.25));
        cosines[i] = (float)(cosine * scale);
        sines[i] = (float)(sine * scale);
    }
}

// Returns 1 / sqrt(mean(x^2) + eps) of the d values of x.
#define inverse_rms KERNEL(inverse_rms)
SIMD float inverse_rms(const float *x, float eps, int64_t d) {
    f32x16 squares = v_zero();
    int64_t i = 0;
    for (; i + 16 <= d; i += 16) {
        f32x16 v = v_load(x + i);
        squares = v_fma(v, v, squares);
    }
    if (i < d) {
        f32x16 v = v_load_n(x + i, (int)(d - i));
        squares = v_fma(v, v, squares);
    }
    return 1.0f / sqrtf(v_sum(squares) / (float)d + eps);
}

// Computes y = x * inverse * weight.
#define normalize KERNEL(normalize)
SIMD void normalize(const float *x, const float *weight, float inverse, float *y, int64_t d) {
    const f32x16 scale = v_set1(inverse);
    int64_t i = 0;
    for (; i + 16 <= d; i += 16)
        v_store(y + i, v_mul(v_mul(v_load(x + i), scale), v_load(weight + i)));
    if (i < d) {
        int n = (int)(d - i);
        v_store_n(y + i, v_mul(v_mul(v_load_n(x + i, n), scale), v_load_n(weight + i, n)), n);
    }
}

// Writes the first elements of all pairs of x to y, and then the second ones.
#define separate KERNEL(separate)
static void separate(const float *restrict x, float *restrict y, int64_t half) {
    for (int64_t i = 0; i < half; i++) {
        y[i] = x[2 * i];
        y[i + half] = x[2 * i + 1];
    }
}

// Rotates the pairs y[i], y[i + half].
#define rotate KERNEL(rotate)
SIMD void rotate(
    const float *y, const float *cosines, const float *sines, float *out, int64_t half) {
    int64_t i = 0;
    for (; i + 16 <= half; i += 16) {
        f32x16 a = v_load(y + i), b = v_load(y + i + half), c = v_load(cosines + i),
               s = v_load(sines + i);
        v_store(out + i, v_fnma(b, s, v_mul(a, c)));
        v_store(out + i + half, v_fma(a, s, v_mul(b, c)));
    }
    if (i < half) {
        int n = (int)(half - i);
        f32x16 a = v_load_n(y + i, n), b = v_load_n(y + i + half, n), c = v_load_n(cosines + i, n),
               s = v_load_n(sines + i, n);
        v_store_n(out + i, v_fnma(b, s, v_mul(a, c)), n);
        v_store_n(out + i + half, v_fma(a, s, v_mul(b, c)), n);
    }
}

// Returns the factor of the row at a position.
#define position_scale KERNEL(position_scale)
static double position_scale(
    const struct norm_rope_shape *s, const float *pos_scale, int64_t pos) {
    if (s->pos_scales == 0)
        return 1;
    const int64_t i = pos / s->pos_step, last = s->pos_scales - 1;
    return pos_scale[i < last ? i : last];
}

// The number of heads whose inverse RMS is computed together, so that the latencies of the sums,
// square roots and divisions overlap.
#undef HEADS
#define HEADS 8

static void KERNEL(norm_rope)(const struct norm_rope_shape *s, const float *x, const float *weight,
    const float *inv_freq, const float *pos_scale, float *out, float *scratch) {
    const int64_t d = s->head_dim, half = s->half;
    float *cosines = scratch, *sines = cosines + half, *y = sines + half, inverse[HEADS];
    for (int64_t r = 0; r < s->rows; r++) {
        const double factor = position_scale(s, pos_scale, s->pos + r);
        angles((double)(s->pos + r), inv_freq, half, (double)s->scale * factor, cosines, sines);
        for (int64_t h = 0; h < s->heads; h++, x += s->x_stride, out += s->out_stride) {
            if (weight && h % HEADS == 0)
                for (int64_t i = 0; i < HEADS && h + i < s->heads; i++)
                    inverse[i] = inverse_rms(x + i * s->x_stride, s->eps, d);
            if (weight)
                normalize(x, weight, inverse[h % HEADS], y, d);
            else
                memcpy(y, x, (size_t)d * 4);
            if (s->interleaved) {
                separate(y, y + d, half);
                rotate(y + d, cosines, sines, out, half);
            } else {
                rotate(y, cosines, sines, out, half);
            }
            for (int64_t i = 2 * half; i < d; i++)
                out[i] = y[i] * (float)factor;
        }
    }
}

#else

#define KERNEL_SOURCE "norm_rope.c"
#include "../common/foreach_isa.h"

void headroom_norm_rope(int isa, const struct norm_rope_shape *s, const float *x,
    const float *weight, const float *inv_freq, const float *pos_scale, float *out,
    float *scratch) {
    DISPATCH(isa, norm_rope, (s, x, weight, inv_freq, pos_scale, out, scratch));
}

#endif
