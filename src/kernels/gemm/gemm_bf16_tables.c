#include "kernels/gemm/gemm_bf16_tables.h"

#define HALF(sign, e)                                                                              \
    0, (sign) + ((e)-1) * 128, (sign) + (e)*128, (sign) + (e)*128 + 64, (sign) + ((e) + 1) * 128,  \
        (sign) + ((e) + 1) * 128 + 64, (sign) + ((e) + 2) * 128, (sign) + ((e) + 2) * 128 + 64
#define ROW(e)                                                                                     \
    {                                                                                              \
        HALF(0, e), HALF(0x8000, e), HALF(0, e), HALF(0x8000, e)                                   \
    }
#define ROWS4(e)  ROW(e), ROW((e) + 1), ROW((e) + 2), ROW((e) + 3)
#define ROWS16(e) ROWS4(e), ROWS4((e) + 4), ROWS4((e) + 8), ROWS4((e) + 12)
#define ROWS64(e) ROWS16(e), ROWS16((e) + 16), ROWS16((e) + 32), ROWS16((e) + 48)

const uint16_t di_f4_bf16_tables[256][32] __attribute__((aligned(64))) = {
    {0},         {0},        ROW(2),     ROW(3),     ROWS4(4),    ROWS4(8),    ROWS4(12),
    ROWS16(16),  ROWS16(32), ROWS16(48), ROWS64(64), ROWS64(128), ROWS16(192), ROWS16(208),
    ROWS16(224), ROWS4(240), ROWS4(244), ROWS4(248), ROW(252),
};

/* Eight codes of one exponent field e, 120 more as bf16; e = 0 are multiples of 2^-9, the last of
 * e = 15 is NaN. */
#define LOW(e)                                                                                     \
    ((e)&1) * 128, ((e)&1) * 128 + 16, ((e)&1) * 128 + 32, ((e)&1) * 128 + 48, ((e)&1) * 128 + 64, \
        ((e)&1) * 128 + 80, ((e)&1) * 128 + 96, ((e)&1) * 128 + 112
#define HIGH(e)                                                                                    \
    60 + (e) / 2, 60 + (e) / 2, 60 + (e) / 2, 60 + (e) / 2, 60 + (e) / 2, 60 + (e) / 2,            \
        60 + (e) / 2, 60 + (e) / 2

const uint8_t di_e4m3_bf16_bytes[2][128] __attribute__((aligned(64))) = {
    {0x00,    0x00,    0x80,   0xc0,   0x00,   0x20,   0x40,   0x60,    LOW(1),  LOW(2),
     LOW(3),  LOW(4),  LOW(5), LOW(6), LOW(7), LOW(8), LOW(9), LOW(10), LOW(11), LOW(12),
     LOW(13), LOW(14), 0x80,   0x90,   0xa0,   0xb0,   0xc0,   0xd0,    0xe0,    0xc0},
    {0x00,     0x3b,     0x3b,    0x3b,    0x3c,    0x3c,    0x3c,    0x3c,     HIGH(1),  HIGH(2),
     HIGH(3),  HIGH(4),  HIGH(5), HIGH(6), HIGH(7), HIGH(8), HIGH(9), HIGH(10), HIGH(11), HIGH(12),
     HIGH(13), HIGH(14), 67,      67,      67,      67,      67,      67,       67,       0x7f},
};
