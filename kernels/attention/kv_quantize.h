// Quantizes groups of keys or values by the rules in quantized.go. It computes the range of each
// group, then the scales of all groups, then the codes. Included once per instruction set, after
// kv_format.h.

#define MAX_GROUP 128
#define BATCH 16 // groups quantized together, so that their scales fill a vector

#define in_range KERNEL(in_range)
// Clamps x to the range of float16. This order of operands preserves NaN.
SIMD f32x16 in_range(f32x16 x) { return v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), x)); }

// Computes the scales and biases of n groups. The elements of group i are finite and in [lo[i],
// hi[i]]. scale16 and bias16 are the float16 values to store, and scale and bias the float32 values
// to compute codes with.
#define choose KERNEL(choose)
static void choose(const struct kv_format *f, const float *const *x, int n, const float *lo,
    const float *hi, float *scale, float *bias, uint16_t *scale16, uint16_t *bias16) {
    float edge[BATCH], q0[BATCH];
    if (f->zero) {
        for (int i = 0; i < n; i++) {
            // The largest magnitude. For q4_0, with the sign of the first element that has it.
            float m = hi[i] > -lo[i] ? hi[i] : -lo[i];
            if (f->zero == 8 && m > 0)
                for (int64_t j = 0;; j++)
                    if (x[i][j] >= m || x[i][j] <= -m) {
                        m = x[i][j] > 0 ? m : -m;
                        break;
                    }
            scale[i] = (f->zero == 8 ? m / -8 : m / 127) + 0.0f; // turns -0 into 0
        }
        v_store_f16(scale16, v_load(scale)); // codes are computed with the unrounded scale
        return;
    }
    const float top = (float)((1 << f->bits) - 1);
    for (int i = 0; i < BATCH; i++) { // all lanes, without branches, so that compilers vectorize it
        const float s = (hi[i] - lo[i]) / top, least = s < 1e-7f ? 1e-7f : s;
        const int low = fabsf(lo[i]) > fabsf(hi[i]);
        edge[i] = low ? lo[i] : hi[i];
        scale[i] = low ? least : -least;
        q0[i] = edge[i] / scale[i];
    }
    v_store(q0, v_round(v_load(q0)));
    for (int i = 0; i < BATCH; i++) {
        const float s = edge[i] / q0[i];
        scale[i] = q0[i] != 0 ? s : scale[i];
        bias[i] = q0[i] != 0 ? edge[i] : 0;
    }
    v_store_f16(scale16, v_load(scale));
    v_store_f16(bias16, v_load(bias));
    v_store(scale, v_load_f16(scale16));
    v_store(bias, v_load_f16(bias16));
}

// Quantizes n groups, at most BATCH. The codes of consecutive groups are MAX_GROUP bytes apart. A
// group with a NaN gets NaN as its scale and bias.
#define quantize KERNEL(quantize)
static void quantize(const struct kv_format *f, int n, const float *const *x, uint8_t *codes,
    uint16_t *scale16, uint16_t *bias16) {
    float lo[BATCH] = {0}, hi[BATCH] = {0}, bad[BATCH], scale[BATCH] = {0}, bias[BATCH] = {0};
    for (int g = 0; g < n; g++) {
        f32x16 least = v_set1(65504.0f), most = v_set1(-65504.0f), nan = v_zero();
        for (int64_t i = 0; i < f->group; i += 16) {
            const f32x16 y = in_range(v_load(x[g] + i));
            least = v_min(least, y);
            most = v_max(most, y);
            nan = v_fma(y, v_zero(), nan);
        }
        bad[g] = v_sum(nan);
        lo[g] = bad[g] != 0 ? 0 : -v_hmax(v_sub(v_zero(), least));
        hi[g] = bad[g] != 0 ? 0 : v_hmax(most);
    }
    choose(f, x, n, lo, hi, scale, bias, scale16, bias16);
    const f32x16 top = v_set1((float)((1 << f->bits) - 1));
    for (int g = 0; g < n; g++, codes += MAX_GROUP) {
        if (bad[g] != 0) scale16[g] = bias16[g] = 0x7e00;
        if (bad[g] != 0 || (f->zero && scale[g] == 0)) {
            memset(codes, bad[g] != 0 ? 0 : (int)f->zero, (size_t)f->group);
            continue;
        }
        // Not 0: affine scales have magnitudes of at least 5e-8 before they are rounded to float16.
        const f32x16 s = v_set1(scale[g]), b = v_set1(bias[g]), inverse = v_set1(1.0f / scale[g]);
        for (int64_t i = 0; i < f->group; i += 16) {
            f32x16 q = in_range(v_load(x[g] + i));
            switch (f->zero) {
            case 128: q = v_add(v_round(v_div(q, s)), v_set1(128.0f)); break;
            // store_codes truncates, so 8.5 also rounds
            case 8: q = v_min(v_add(v_div(q, s), v_set1(8.5f)), top); break;
            default: q = v_max(v_zero(), v_min(top, v_round(v_quotient(v_sub(q, b), s, inverse))));
            }
            store_codes(codes + i, q);
        }
    }
}
