// Many rows of activations by the matrix unit of Intel's servers (AMX): a panel is multiplied as it
// lies, sixteen rows of activations and a unit of elements at a time, by two instructions. The sums
// are the same integers, so everything after them is the same too. Included after int8_panel.h, in
// the half for VNNI.
//
// Tiles: 0 and 1 are sums [inputs][16] of the panel's halves, 2 the activations [inputs][unit], 3
// and 4 codes [unit/4][16][4].

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")

// The shapes of the tiles, as the instruction that sets them wants them. Tiles keep them until they
// are released.
static void KERNEL(amx_begin)(int inputs, int unit) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int sums = 0; sums < 2; sums++) config.rows[sums] = (uint8_t)inputs, config.row_bytes[sums] = 64;
    config.rows[2] = (uint8_t)inputs, config.row_bytes[2] = (uint16_t)unit;
    for (int codes = 3; codes < 5; codes++) config.rows[codes] = (uint8_t)(unit / 4), config.row_bytes[codes] = 64;
    // the compiler does not know that it is read, all of it
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

// The sums of a unit's products.
SIMD void KERNEL(amx_unit)(const uint8_t *codes, const int8_t *q, const int unit, lanes (*sums)[2]) {
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

// The whole panel times a block of activations.
static void KERNEL(amx_tile)(const panel *p, const inputs *x) {
    const int unit = (int)p->order->unit;
    tile t;
    // nor that loading tiles reads what the panel was unpacked to
    __asm__ volatile("" ::: "memory");
    for (batch b = KERNEL(first_batch)(p->order); b.remainder < 4; b = KERNEL(next_batch)(p->order, b)) {
        for (int j = 0; j < b.k; j++) {
            KERNEL(fetch_step)(x->next);
            KERNEL(amx_unit)(p->codes + (b.at + j) * unit * PANEL_ROWS, x->q + (b.at + j) * unit * PACK_ROWS, unit, t.sums[j]);
        }
        KERNEL(fold_batch)(&t, p, x, &b, t.sums);
    }
    KERNEL(tile_out)(&t, p, x);
}

// As panel_rows.
static void KERNEL(amx_rows)(const matmul_weight *w, int64_t from, int64_t to, const void *packed, const matmul_rows *r, void *scratch) {
    const pack_order order = pack_order_of(w->k, matmul_unit(w));
    int shape = 0;
    for (int64_t n = from; n < to; n += PANEL_ROWS) {
        const panel p = KERNEL(panel_from)(w, &order, n, to, scratch);
        fetch next = KERNEL(fetch_from)(w, &order, n + PANEL_ROWS, r->count);
        for (int64_t m = 0; m < r->count; m += PACK_ROWS) {
            inputs x = {.next = &next};
            KERNEL(inputs_from)(&x, &order, packed, r, m, n, &p);
            if (x.count != shape) KERNEL(amx_begin)(shape = x.count, (int)order.unit);
            KERNEL(amx_tile)(&p, &x);
        }
    }
    _tile_release(); // or the system saves the tiles with every switch of threads
}

#pragma GCC pop_options
