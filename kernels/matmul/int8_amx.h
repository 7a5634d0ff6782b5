// Many rows of activations on the matrix unit of Intel's servers (AMX). Two instructions multiply a
// panel with sixteen rows of activations, a unit of elements at a time. The sums are the same
// integers as without the unit, and so is all arithmetic after them. Included after int8_panel.h,
// for VNNI.
//
// Tiles: 0 and 1 are sums [inputs][16] of the panel's halves, 2 the activations [inputs][unit], 3
// and 4 codes [unit/4][16][4].

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")

// Configures the shapes of the tiles, which stay until the tiles are released.
static void KERNEL(amx_configure)(int inputs, int unit) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int sums = 0; sums < 2; sums++)
        config.rows[sums] = (uint8_t)inputs, config.row_bytes[sums] = 64;
    config.rows[2] = (uint8_t)inputs, config.row_bytes[2] = (uint16_t)unit;
    for (int codes = 3; codes < 5; codes++)
        config.rows[codes] = (uint8_t)(unit / 4), config.row_bytes[codes] = 64;
    // The compiler does not know that the instruction reads all of config.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

// Sets sums to a unit's products.
SIMD void KERNEL(amx_unit)(const uint8_t *codes, const int8_t *q, const int unit,
                           lanes (*sums)[2]) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, q, unit);
    _tile_loadd(3, codes, PANEL_ROWS * 4);
    _tile_loadd(4, codes + 64, PANEL_ROWS * 4);
    _tile_dpbsud(0, 2, 3); // signed activations times unsigned codes
    _tile_dpbsud(1, 2, 4);
    _tile_stored(0, sums, 2 * sizeof(lanes));
    _tile_stored(1, &sums[0][1], 2 * sizeof(lanes));
}

// Multiplies the whole panel with a block of activations.
static void KERNEL(amx_tile)(const panel *p, const inputs *x) {
    const int unit = (int)p->order->unit;
    tile t;
    // The compiler does not know that loading tiles reads the unpacked panel.
    __asm__ volatile("" ::: "memory");
    for (batch b = KERNEL(first_batch)(p->order); b.remainder < 4;
         b = KERNEL(next_batch)(p->order, b)) {
        for (int j = 0; j < b.k; j++) {
            KERNEL(prefetch_step)(x->next);
            KERNEL(amx_unit)(p->codes + (b.at + j) * unit * PANEL_ROWS,
                             x->q + (b.at + j) * unit * PACK_ROWS, unit, t.sums[j]);
        }
        KERNEL(fold_batch)(&t, p, x, &b, t.sums);
    }
    KERNEL(tile_out)(&t, p, x);
}

// Does what panel_rows does, on the matrix unit.
static void KERNEL(amx_rows)(const matmul_weight *w, int64_t from, int64_t to, const void *packed,
                             const matmul_rows *r, void *scratch) {
    const pack_order order = pack_order_of(w->k, matmul_unit(w));
    int shape = 0;
    for (int64_t n = from; n < to; n += PANEL_ROWS) {
        const panel p = KERNEL(panel_from)(w, &order, n, to, scratch);
        prefetcher next = KERNEL(prefetch_from)(w, &order, n + PANEL_ROWS, r->count);
        for (int64_t m = 0; m < r->count; m += PACK_ROWS) {
            inputs x = {.next = &next};
            KERNEL(inputs_from)(&x, &order, packed, r, m, n, &p);
            if (x.count != shape) KERNEL(amx_configure)(shape = x.count, (int)order.unit);
            KERNEL(amx_tile)(&p, &x);
        }
    }
    _tile_release(); // otherwise every context switch saves the tiles
}

#pragma GCC pop_options
