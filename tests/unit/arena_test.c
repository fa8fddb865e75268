/* base/arena.h */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "random.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

static void memory_is_aligned_and_separate(void **state)
{
    (void)state;
    enum { N = 300 };
    di_rng rng = di_rng_named("arena");
    di_arena arena = {.chunk_bytes = 1000};
    unsigned char *parts[N];
    size_t sizes[N];
    for (int i = 0; i < N; i++) {
        sizes[i] = (size_t)di_rng_below(&rng, i % 10 ? 90 : 5000);
        require(DI_ARENA_NEW(&arena, sizes[i], &parts[i]));
        assert_int_equal((uintptr_t)parts[i] % 64, 0);
        memset(parts[i], i & 0xff, sizes[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(parts[i][j], i & 0xff);
    di_arena_free(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_null(arena.first);
}

static void zalloc_zeroes_used_memory(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned char *a;
    require(DI_ARENA_NEW(&arena, 1000, &a));
    memset(a, 0xff, 1000);
    di_arena_reset(&arena);
    unsigned char *b;
    require(DI_ARENA_ZNEW(&arena, 1000, &b));
    assert_ptr_equal(a, b);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(b[i], 0);
    di_arena_free(&arena);
}

static void too_large_is_an_error(void **state)
{
    (void)state;
    di_arena arena = {0};
    void *p = &arena;
    assert_int_equal(di_arena_alloc(&arena, SIZE_MAX / 2, 8, &p), DI_ERR_MEMORY);
    assert_int_equal(di_arena_alloc(&arena, SIZE_MAX, 1, &p), DI_ERR_MEMORY);
    assert_ptr_equal(p, &arena); /* outputs are set on success only */
    assert_int_equal(arena.used_bytes, 0);
    di_arena_free(&arena);
}

/* A warm arena gives the same addresses again: nothing new is allocated. */
static void reset_keeps_the_chunks(void **state)
{
    (void)state;
    enum { N = 40 };
    di_arena arena = {.chunk_bytes = 512};
    char *first[N], *again;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            require(DI_ARENA_NEW(&arena, (size_t)(i * 37 + 1), &again));
            if (round == 0)
                first[i] = again;
            assert_ptr_equal(first[i], again);
        }
        di_arena_reset(&arena);
        assert_int_equal(arena.used_bytes, 0);
    }
    di_arena_free(&arena);
}

static void marks_nest(void **state)
{
    (void)state;
    di_arena arena = {.chunk_bytes = 256};
    char *a, *b, *c;
    const di_arena_mark empty = di_arena_save(&arena);
    require(DI_ARENA_NEW(&arena, 100, &a));
    memset(a, 'a', 100);
    const di_arena_mark outer = di_arena_save(&arena);
    require(DI_ARENA_NEW(&arena, 300, &b)); /* another chunk */
    const di_arena_mark inner = di_arena_save(&arena);
    const size_t used = arena.used_bytes;
    require(DI_ARENA_NEW(&arena, 5000, &c));
    di_arena_rewind(&arena, inner);
    assert_int_equal(arena.used_bytes, used);
    require(DI_ARENA_NEW(&arena, 5000, &b));
    assert_ptr_equal(b, c);
    di_arena_rewind(&arena, outer);
    assert_int_equal(arena.used_bytes, 128);
    require(DI_ARENA_NEW(&arena, 100, &b));
    memset(b, 'b', 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(a[i], 'a');
    di_arena_rewind(&arena, empty);
    assert_int_equal(arena.used_bytes, 0);
    require(DI_ARENA_NEW(&arena, 100, &b));
    assert_ptr_equal(a, b);
    assert_true(arena.peak_bytes >= 5000);
    di_arena_free(&arena);
}

static void peak_is_the_largest_use(void **state)
{
    (void)state;
    di_arena arena = {0};
    char *p;
    require(DI_ARENA_NEW(&arena, 640, &p));
    di_arena_reset(&arena);
    require(DI_ARENA_NEW(&arena, 64, &p));
    assert_int_equal(arena.peak_bytes, 640);
    assert_int_equal(arena.used_bytes, 64);
    di_arena_free(&arena);
}

static void strdup_copies(void **state)
{
    (void)state;
    di_arena arena = {0};
    char text[] = "layers.0.attn", *copy;
    require(di_arena_strdup(&arena, text, &copy));
    text[0] = 'X';
    assert_string_equal(copy, "layers.0.attn");
    di_arena_free(&arena);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_separate),
        cmocka_unit_test(zalloc_zeroes_used_memory),
        cmocka_unit_test(too_large_is_an_error),
        cmocka_unit_test(reset_keeps_the_chunks),
        cmocka_unit_test(marks_nest),
        cmocka_unit_test(peak_is_the_largest_use),
        cmocka_unit_test(strdup_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
