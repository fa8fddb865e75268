#include "bench/memory.h"

#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

enum { LARGE_PAGE = 2 << 20 };

di_status di_bench_memory_new(int64_t bytes, di_bench_pages pages, di_bench_memory *out)
{
    const int64_t mapping_bytes =
        di_ceil_div(di_max_i64(bytes, 1), LARGE_PAGE) * LARGE_PAGE + LARGE_PAGE;
    void *mapping = mmap(NULL, (size_t)mapping_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return di_fail_memory(mapping_bytes, "a benchmark's weights");
    /* Advice: a kernel without such pages is not an error. */
    (void)madvise(mapping, (size_t)mapping_bytes,
                  pages == DI_PAGES_LARGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const uintptr_t start = (uintptr_t)mapping;
    const uintptr_t aligned = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    *out = (di_bench_memory){.data = (uint8_t *)mapping + (aligned - start),
                             .bytes = bytes,
                             .mapping = mapping,
                             .mapping_bytes = mapping_bytes};
    return DI_OK;
}

void di_bench_memory_free(di_bench_memory *memory)
{
    if (memory->mapping)
        munmap(memory->mapping, (size_t)memory->mapping_bytes);
    *memory = (di_bench_memory){.data = NULL};
}

/* xorshift64*: fast, and good enough that no value repeats in a pattern. */
typedef struct stream {
    uint64_t state;
} stream;

static inline uint64_t next(stream *s)
{
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    return s->state * UINT64_C(0x2545f4914f6cdd1d);
}

/* (random & keep) | set, byte by byte. */
static void fill(uint8_t *out, int64_t bytes, uint64_t seed, uint64_t keep, uint64_t set)
{
    stream s = {(seed + 1) * UINT64_C(0x9e3779b97f4a7c15)}; /* not 0 */
    for (int64_t i = 0; i < bytes; i += 8) {
        const uint64_t x = (next(&s) & keep) | set;
        memcpy(out + i, &x, (size_t)di_min_i64(8, bytes - i));
    }
}

void di_bench_fill_weights(uint8_t *out, int64_t bytes, uint64_t seed)
{
    /* Even bytes: sign, exponents 0x20 to 0x3f; odd ones, the upper halves of bf16 and fp32: sign,
     * 0x38 to 0x3f. */
    fill(out, bytes, seed, UINT64_C(0x879f879f879f879f), UINT64_C(0x3820382038203820));
}

void di_bench_fill_scales(uint8_t *out, int64_t bytes, uint64_t seed)
{
    fill(out, bytes, seed, UINT64_C(0x0101010101010101), UINT64_C(0x7878787878787878));
}

void di_bench_fill_codes(uint8_t *out, int64_t bytes, uint64_t seed)
{
    fill(out, bytes, seed, UINT64_MAX, 0);
}

void di_bench_fill_e4m3(uint8_t *out, int64_t bytes, uint64_t seed)
{
    fill(out, bytes, seed, UINT64_C(0x0f0f0f0f0f0f0f0f), UINT64_C(0x3030303030303030));
}
