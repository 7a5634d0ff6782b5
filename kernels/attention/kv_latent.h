// Values that are the first elements of the keys (multi-head latent attention). The pages hold them
// as keys, a vector along the positions, and the sums need them along the dimensions. Every query
// head shares them, so they are transposed once per tile. Included once per instruction set, after
// kv_tile.h.

// dst [16 positions][16 dimensions] = the transpose of src [16 dimensions][16 positions].
#define turn_block KERNEL(turn_block)
SIMD void turn_block(const float *src, int64_t src_stride, float *dst, int64_t dst_stride) {
    for (int p = 0; p < 16; p++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) dst[p * dst_stride + i] = src[i * src_stride + p];
}

#define LATENT_DIMS 32 // dimensions at a time, the smallest group of a format

// Reads dimensions [at, at + n) of a strip of K, n up to LATENT_DIMS, as float32 [n][STRIP].
#define read_latent KERNEL(read_latent)
SIMD void read_latent(const struct job *j, const struct kv_format *f, const char *strip,
    int64_t at, int64_t n, float *out) {
    const int64_t p = j->u->page_tokens;
    kv_read((int)f->dtype, out, STRIP, strip + at * p * kv_element_bytes((int)f->dtype), p, n,
        STRIP);
}

// tile [positions][value_dim] = the values of positions [from, to) of the tile at t, and of those
// around them that share a strip.
#define read_latents KERNEL(read_latents)
static void read_latents(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->k;
    const int64_t d = u->head_dim, n = u->value_dim, p = u->page_tokens;
    const int64_t step = f->bits ? kv_row_bytes(f, d) : kv_element_bytes((int)f->dtype);
    float block[LATENT_DIMS * STRIP];
    for (int64_t i = from & ~15; i < to; i += STRIP) {
        const char *strip = head_page(j, f, j->k_pages, t + i) + (t + i) % p * step;
        float *tile = j->tile + i * n;
        for (int64_t at = 0, count; at < n; at += count) {
            count = n - at < LATENT_DIMS ? n - at : LATENT_DIMS;
            if (f->bits)
                k_read(f, block, STRIP, (const uint8_t *)strip, d, at, at + count);
            else
                read_latent(j, f, strip, at, count, block);
            for (int64_t c = 0; c < count; c += 16)
                turn_block(block + c * STRIP, STRIP, tile + at + c, n);
        }
    }
}
