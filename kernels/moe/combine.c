// out = sum over j of weights[j] * experts[j] + sigmoid(gate) * shared, for units [from, to) of
// block_cols columns of a token. Unit u is block u % blocks of token u / blocks. Experts are added
// in order, so an element is one chain of fused multiply-adds. shared and gate may be NULL. If bias
// is not NULL, row ids[..] of it is added to each row of experts first.
#ifdef ISA

#define load_cols KERNEL(load_cols)
SIMD f32x16 load_cols(const float *x, int n) { return n == 16 ? v_load(x) : v_load_n(x, n); }

// The case with biases. It is a function of its own, so that the other keeps its registers.
static __attribute__((noinline)) void KERNEL(combine_biased)(
    const float *experts, ptrdiff_t experts_stride, const float *weights, int64_t k,
    const float *bias, const int32_t *ids, int64_t biases, const float *shared,
    ptrdiff_t shared_stride, const float *gate, ptrdiff_t gate_stride, float *out,
    ptrdiff_t out_stride, int64_t cols, int64_t block_cols, int64_t from, int64_t to) {
    int64_t blocks = (cols + block_cols - 1) / block_cols;
    for (int64_t u = from; u < to; u++) {
        int64_t r = u / blocks, first = u % blocks * block_cols,
                end = first + block_cols < cols ? first + block_cols : cols;
        const float *e = experts + r * k * experts_stride, *w = weights + r * k;
        f32x16 g = gate ? v_sigmoid(v_set1(gate[r * gate_stride])) : v_set1(1.0f);
        for (int64_t i = first; i < end; i += 16) {
            int n = end - i < 16 ? (int)(end - i) : 16;
            f32x16 sum = v_zero();
            for (int64_t j = 0; j < k; j++) {
                const int64_t id = ids[r * k + j];
                f32x16 x = load_cols(e + j * experts_stride + i, n);
                if (id >= 0 && id < biases) x = v_add(x, load_cols(bias + id * cols + i, n));
                sum = v_fma(v_set1(w[j]), x, sum);
            }
            if (shared) sum = v_fma(g, load_cols(shared + r * shared_stride + i, n), sum);
            if (n == 16) v_store(out + r * out_stride + i, sum);
            else v_store_n(out + r * out_stride + i, sum, n);
        }
    }
}

static void KERNEL(combine)(const float *experts, ptrdiff_t experts_stride, const float *weights,
                            int64_t k, const float *bias, const int32_t *ids, int64_t biases,
                            const float *shared, ptrdiff_t shared_stride, const float *gate,
                            ptrdiff_t gate_stride, float *out, ptrdiff_t out_stride, int64_t cols,
                            int64_t block_cols, int64_t from, int64_t to) {
    if (bias) {
        KERNEL(combine_biased)(experts, experts_stride, weights, k, bias, ids, biases, shared,
                               shared_stride, gate, gate_stride, out, out_stride, cols, block_cols,
                               from, to);
        return;
    }
    int64_t blocks = (cols + block_cols - 1) / block_cols;
    for (int64_t u = from; u < to; u++) {
        int64_t r = u / blocks, first = u % blocks * block_cols,
                end = first + block_cols < cols ? first + block_cols : cols;
        const float *e = experts + r * k * experts_stride, *w = weights + r * k;
        f32x16 g = gate ? v_sigmoid(v_set1(gate[r * gate_stride])) : v_set1(1.0f);
        for (int64_t i = first; i < end; i += 16) {
            int n = end - i < 16 ? (int)(end - i) : 16;
            f32x16 sum = v_zero();
            if (n == 16) {
                for (int64_t j = 0; j < k; j++)
                    sum = v_fma(v_set1(w[j]), v_load(e + j * experts_stride + i), sum);
                if (shared) sum = v_fma(g, v_load(shared + r * shared_stride + i), sum);
                v_store(out + r * out_stride + i, sum);
            } else {
                for (int64_t j = 0; j < k; j++)
                    sum = v_fma(v_set1(w[j]), v_load_n(e + j * experts_stride + i, n), sum);
                if (shared) sum = v_fma(g, v_load_n(shared + r * shared_stride + i, n), sum);
                v_store_n(out + r * out_stride + i, sum, n);
            }
        }
    }
}

#else

#define KERNEL_SOURCE "combine.c"
#include "../common/foreach_isa.h"

void headroom_combine(int isa, const float *experts, ptrdiff_t experts_stride, const float *weights,
                      int64_t k, const float *bias, const int32_t *ids, int64_t biases,
                      const float *shared, ptrdiff_t shared_stride, const float *gate,
                      ptrdiff_t gate_stride, float *out, ptrdiff_t out_stride, int64_t cols,
                      int64_t block_cols, int64_t from, int64_t to) {
    DISPATCH(isa, combine,
             (experts, experts_stride, weights, k, bias, ids, biases, shared, shared_stride, gate,
              gate_stride, out, out_stride, cols, block_cols, from, to));
}

#endif
