#include <immintrin.h>

#include "bench/ceiling.h"

/* Palette 1: eight tiles of 16 rows of 64 bytes. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} tile_config;

static void configure(void)
{
    tile_config config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
}

static void finish(const di_ceiling_args *a, int worker)
{
    int32_t result[16 * 16] __attribute__((aligned(64)));
    _tile_stored(0, result, 64);
    _tile_release();
    a->sink[worker * 8] += (uint64_t)result[0];
}

void di_ceiling_bf16_amx(const void *args, int64_t begin, int64_t end, int worker)
{
    configure();
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    finish(args, worker);
}

void di_ceiling_int8_amx(const void *args, int64_t begin, int64_t end, int worker)
{
    configure();
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    finish(args, worker);
}
