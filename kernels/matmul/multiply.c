// Go's entry to the kernels. Go may not pass C the address of a struct with pointers, so it passes
// a shape and the pointers one by one; the structs with pointers are built here.
#include "int8_pack.h"

void headroom_matmul_pack(const struct matmul_packing *p, int64_t k, int64_t count, int64_t from,
                          int64_t to, const int8_t *q, const float *params, void *packed) {
    const matmul_rows r = {NULL, count, 1, NULL, 0};
    pack_rows(k, p, &r, from, to, q, params, packed);
}

void headroom_matmul(int isa, const struct matmul_shape *s, const void *data, const void *scales,
                     const void *biases, const float *x, const int8_t *q, const float *params,
                     const void *packed, void *room, const int32_t *list, float *out, void *tile) {
    const matmul_weight w = {
        data, scales,       biases,       s->data_stride, s->scales_stride, s->biases_stride,
        s->k, (int)s->mode, (int)s->bits, (int)s->group,  (int)s->dtype};
    const matmul_rows r = {list, s->count, s->per_input, out, s->out_stride};
    if (!q) {
        const matmul_tile t = {tile, s->tile_rows};
        matmul_float(isa, &w, s->from, s->to, x, s->x_stride, &r, &t);
        return;
    }
    if (room) {
        const int64_t blocks = (s->count + PACK_ROWS - 1) / PACK_ROWS;
        pack_rows(s->k, &s->packing, &r, 0, blocks, q, params, room);
        packed = room;
    }
    matmul_int8(isa, &w, s->from, s->to, q, params, packed, &r, tile);
}
