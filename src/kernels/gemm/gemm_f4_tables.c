#include "kernels/gemm/gemm_f4_tables.h"

/* Bits of a value times 2^(e - 127): both are normal. */
#define V(bits, e) ((bits) + (((uint32_t)(e)-127u) << 23))
#define HALF(sign, e)                                                                              \
    0u, V(0x3f000000u, e) | (sign), V(0x3f800000u, e) | (sign), V(0x3fc00000u, e) | (sign),        \
        V(0x40000000u, e) | (sign), V(0x40400000u, e) | (sign), V(0x40800000u, e) | (sign),        \
        V(0x40c00000u, e) | (sign)
#define ROW(e)                                                                                     \
    {                                                                                              \
        HALF(0u, e), HALF(0x80000000u, e)                                                          \
    }
#define ROWS4(e)  ROW(e), ROW((e) + 1), ROW((e) + 2), ROW((e) + 3)
#define ROWS16(e) ROWS4(e), ROWS4((e) + 4), ROWS4((e) + 8), ROWS4((e) + 12)
#define ROWS64(e) ROWS16(e), ROWS16((e) + 16), ROWS16((e) + 32), ROWS16((e) + 48)
/* Rows near the ends, by the bits of the magnitudes. */
#define ENDS(a, b, c, d, e, f, g)                                                                  \
    {                                                                                              \
        0u, a, b, c, d, e, f, g, 0u, (a) | 0x80000000u, (b) | 0x80000000u, (c) | 0x80000000u,      \
            (d) | 0x80000000u, (e) | 0x80000000u, (f) | 0x80000000u, (g) | 0x80000000u             \
    }
#define NAN1 0x7fc00000u
#define INF  0x7f800000u

const uint32_t di_f4_tables[256][16] __attribute__((aligned(64))) = {
    ENDS(0x00200000u, 0x00400000u, 0x00600000u, 0x00800000u, 0x00c00000u, 0x01000000u, 0x01400000u),
    ENDS(0x00400000u, 0x00800000u, 0x00c00000u, 0x01000000u, 0x01400000u, 0x01800000u, 0x01c00000u),
    ROW(2),
    ROW(3),
    ROWS4(4),
    ROWS4(8),
    ROWS4(12),
    ROWS16(16),
    ROWS16(32),
    ROWS16(48),
    ROWS64(64),
    ROWS64(128),
    ROWS16(192),
    ROWS16(208),
    ROWS16(224),
    ROWS4(240),
    ROWS4(244),
    ROWS4(248),
    ROW(252),
    ENDS(0x7e000000u, 0x7e800000u, 0x7ec00000u, 0x7f000000u, 0x7f400000u, INF, INF),
    ENDS(0x7e800000u, 0x7f000000u, 0x7f400000u, INF, INF, INF, INF),
    {NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1, NAN1,
     NAN1},
};
