/* Devices: names, what is said where there is none, and, where there is one, memory and streams. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "device/device.h"

static void names_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",       "cud",     "cuda:", "cuda:-1",
                                        "cuda:x", "cuda:1 ", "cpu",   "cuda:99999999999999999999"};
    int index = -1;
    assert_int_equal(di_device_parse("cuda", &index), DI_OK);
    assert_int_equal(index, 0);
    assert_int_equal(di_device_parse("cuda:12", &index), DI_OK);
    assert_int_equal(index, 12);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(di_device_parse(wrong[i], &index), DI_ERR_ARGUMENT);
        assert_non_null(strstr(di_last_error(), "wanted cuda or cuda:N"));
    }
}

/* A line of text and an error, whatever this build and machine have. */
static void a_missing_device_is_an_error(void **state)
{
    (void)state;
    di_device *device = NULL;
    di_device_info info;
    assert_int_equal(di_device_open(60000, 0, &device), DI_ERR_UNSUPPORTED);
    assert_null(device);
    assert_true(strlen(di_last_error()) > 10);
    assert_int_equal(di_device_describe(-1, &info), DI_ERR_UNSUPPORTED);
    di_device_close(NULL);
}

static void memory_is_copied(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    di_device *device;
    if (di_device_open(0, BYTES, &device) != DI_OK)
        skip();
    di_region there, pinned, more;
    di_stream stream;
    di_event before, after;
    double seconds = -1;
    assert_int_equal(di_region_create(device, DI_MEMORY_DEVICE, BYTES, "a test", &there), DI_OK);
    assert_int_equal(di_region_create(device, DI_MEMORY_PINNED, BYTES, "a test", &pinned), DI_OK);
    assert_int_equal(di_region_create(device, DI_MEMORY_DEVICE, (size_t)1 << 50, "too much", &more),
                     DI_ERR_MEMORY);
    assert_non_null(strstr(di_last_error(), "too much"));
    assert_int_equal(di_stream_create(device, &stream), DI_OK);
    assert_int_equal(di_event_create(device, &before), DI_OK);
    assert_int_equal(di_event_create(device, &after), DI_OK);
    for (int i = 0; i < BYTES; i++)
        pinned.data[i] = (unsigned char)(i * 7);
    assert_int_equal(di_event_record(before, stream), DI_OK);
    assert_int_equal(di_stream_copy(stream, there.data, pinned.data, BYTES), DI_OK);
    assert_int_equal(di_stream_fill(stream, there.data, 9, 10), DI_OK);
    assert_int_equal(di_stream_copy(stream, pinned.data, there.data, BYTES), DI_OK);
    assert_int_equal(di_event_record(after, stream), DI_OK);
    assert_int_equal(di_stream_wait(stream), DI_OK);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(pinned.data[i], i < 10 ? 9 : (unsigned char)(i * 7));
    assert_int_equal(di_event_seconds(before, after, &seconds), DI_OK);
    assert_true(seconds >= 0);
    di_event_destroy(before);
    di_event_destroy(after);
    di_stream_destroy(stream);
    di_region_free(&there);
    di_region_free(&pinned);
    di_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(a_missing_device_is_an_error),
        cmocka_unit_test(memory_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
