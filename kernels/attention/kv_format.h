// The formats of a cache's elements, the only place in C that knows them. Reading gives tiles of float32, whatever the format,
// so the loops of attention do not change when one is added. Included once per instruction set (so no include guard).

// Numbers of headroom/kernels.DType.
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2

#define kv_read KERNEL(kv_read)
#define kv_store KERNEL(kv_store)
#define kv_element_bytes KERNEL(kv_element_bytes)

SIMD int64_t kv_element_bytes(int dtype) { return dtype == KV_F32 ? 4 : 2; }

#define KV_READ(type, load) \
    for (int64_t r = 0; r < rows; r++) { \
        const type *in = (const type *)src + at + r * src_stride; \
        for (int64_t c = 0; c < cols; c += 16) v_store(dst + r * dst_stride + c, load(in + c)); \
    }

// dst [rows, cols] = the elements of src from number at on, rows src_stride apart. cols is a multiple of 16.
SIMD void kv_read(int dtype, float *dst, int64_t dst_stride, const void *src, int64_t at, int64_t src_stride, int64_t rows, int64_t cols) {
    switch (dtype) {
    case KV_F16: KV_READ(uint16_t, v_load_f16) break;
    case KV_BF16: KV_READ(uint16_t, v_load_bf16) break;
    default: KV_READ(float, v_load)
    }
}
#undef KV_READ

// Sixteen elements, rounded to nearest even; float16 saturates, so that no infinity gets into the cache, and keeps NaN.
SIMD void kv_store(int dtype, void *dst, f32x16 x) {
    switch (dtype) {
    case KV_F16: v_store_f16((uint16_t *)dst, v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), x))); break;
    case KV_BF16: v_store_bf16((uint16_t *)dst, x); break;
    default: v_store((float *)dst, x);
    }
}
