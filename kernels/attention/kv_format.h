// The formats of a cache's elements, the only place in C that knows them. kv_read gives tiles of float32, whatever the format,
// so the loops of attention do not change when one is added; a format whose elements are cheap to convert also has a kv_load,
// and decode multiplies straight from its pages. Included once per instruction set (so no include guard).

// Numbers of headroom/kernels.DType.
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2

#define kv_load KERNEL(kv_load)
#define kv_read_as KERNEL(kv_read_as)
#define kv_read KERNEL(kv_read)
#define kv_store KERNEL(kv_store)
#define kv_element_bytes KERNEL(kv_element_bytes)

SIMD int64_t kv_element_bytes(int dtype) { return dtype == KV_F32 ? 4 : 2; }

// Elements i to i+15 of p. dtype is a constant where it is inlined.
SIMD f32x16 kv_load(const int dtype, const void *p, int64_t i) {
    switch (dtype) {
    case KV_F16: return v_load_f16((const uint16_t *)p + i);
    case KV_BF16: return v_load_bf16((const uint16_t *)p + i);
    default: return v_load((const float *)p + i);
    }
}

SIMD void kv_read_as(const int dtype, float *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += 16) v_store(dst + r * dst_stride + c, kv_load(dtype, src, r * src_stride + c));
}

// dst [rows, cols] = src, whose rows lie src_stride elements apart, as float32. cols is a multiple of 16.
SIMD void kv_read(int dtype, float *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows, int64_t cols) {
    switch (dtype) {
    case KV_F16: kv_read_as(KV_F16, dst, dst_stride, src, src_stride, rows, cols); break;
    case KV_BF16: kv_read_as(KV_BF16, dst, dst_stride, src, src_stride, rows, cols); break;
    default: kv_read_as(KV_F32, dst, dst_stride, src, src_stride, rows, cols);
    }
}

// Sixteen elements, rounded to nearest even; float16 saturates, so that no infinity gets into the cache, and keeps NaN.
SIMD void kv_store(int dtype, void *dst, f32x16 x) {
    switch (dtype) {
    case KV_F16: v_store_f16((uint16_t *)dst, v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), x))); break;
    case KV_BF16: v_store_bf16((uint16_t *)dst, x); break;
    default: v_store((float *)dst, x);
    }
}
