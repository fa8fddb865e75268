/* base/numa.h: parts of tensors of any size over workers on two nodes, and where pages are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/numa.h"

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Parts cover all bytes in order; only borders between nodes are moved, by half a page at most. */
static void check_split(const di_numa_split *s)
{
    const int64_t end = s->n_rows * s->row_bytes;
    assert_int_equal(di_numa_part_begin(s, 0), 0);
    assert_int_equal(di_numa_part_begin(s, s->n_workers), end);
    for (int w = 1; w < s->n_workers; w++) {
        const int64_t begin = di_numa_part_begin(s, w);
        const int64_t plain = s->n_rows * w / s->n_workers * s->row_bytes;
        assert_true(begin >= di_numa_part_begin(s, w - 1) && begin <= end);
        if (!s->nodes)
            assert_int_equal(begin, plain);
        assert_true(distance(begin, plain) <= s->page / 2);
        if (s->nodes && s->nodes[w] != s->nodes[w - 1] && begin != 0 && begin != end)
            assert_int_equal((s->at + begin) % s->page, 0);
    }
}

static void parts_of_every_shape(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 0, 1, 1, 1}, three[] = {0, 1, 1, 4, 4};
    /* codes and scales of F8 and F4 linears, bf16, the head, and sizes that divide by nothing */
    static const int64_t shapes[][2] = {{4608, 5120}, {144, 160},    {2304, 2560},    {2304, 160},
                                        {256, 10240}, {32768, 1280}, {129280, 10240}, {1, 7},
                                        {7, 4097},    {5, 1},        {6, 1 << 20},    {1, 5 << 20}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int64_t at = 0; at < 6 << 20; at += 777 * 64)
            for (int kind = 0; kind < 3; kind++) {
                const di_numa_split split = {.nodes = kind == 0   ? NULL
                                                      : kind == 1 ? two
                                                                  : three,
                                             .n_workers = kind == 2 ? 5 : 6,
                                             .at = at,
                                             .page = DI_LARGE_PAGE,
                                             .n_rows = shapes[i][0],
                                             .row_bytes = shapes[i][1]};
                check_split(&split);
            }
}

static void a_border_by_hand(void **state)
{
    (void)state;
    static const int nodes[] = {0, 0, 1, 1};
    di_numa_split s = {
        .nodes = nodes, .n_workers = 4, .at = 100, .page = 4096, .n_rows = 100, .row_bytes = 100};
    static const int64_t wanted[] = {0, 2500, 4096 - 100, 7500, 10000};
    for (int w = 0; w <= 4; w++)
        assert_int_equal(di_numa_part_begin(&s, w), wanted[w]);
}

static void large_memory(void **state)
{
    (void)state;
    di_large_memory m;
    const int64_t bytes = 3 * (int64_t)DI_LARGE_PAGE + 5;
    assert_int_equal(di_large_new(bytes, &m), DI_OK);
    assert_int_equal((uintptr_t)m.data % DI_LARGE_PAGE, 0);
    assert_int_equal(m.data[0] | m.data[bytes - 1], 0);
    memset(m.data, 1, (size_t)bytes);
    di_large_free(&m);
    assert_null(m.data);
    di_large_free(&m);
}

/* Either the page is where it was wanted, or the system says that it cannot be told. */
static void pages_are_where_they_are_wanted(void **state)
{
    (void)state;
    di_large_memory m;
    int node = -1;
    assert_int_equal(di_large_new(DI_LARGE_PAGE, &m), DI_OK);
    const di_status status = di_numa_prefer(0);
    m.data[0] = 1;
    if (status != DI_OK) {
        assert_int_equal(status, DI_ERR_UNSUPPORTED);
        assert_non_null(strstr(di_last_error(), "memory cannot be placed on node 0 here: "));
    } else if (di_numa_find(m.data, &node) == DI_OK) {
        assert_int_equal(node, 0);
    } else {
        assert_non_null(strstr(di_last_error(), "does not tell where a page is: "));
    }
    assert_true(status != DI_OK || di_numa_prefer(-1) == DI_OK);
    assert_int_equal(di_numa_prefer(1 << 20), DI_ERR_ARGUMENT);
    di_large_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_every_shape), cmocka_unit_test(a_border_by_hand),
        cmocka_unit_test(large_memory), cmocka_unit_test(pages_are_where_they_are_wanted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
