#!/usr/bin/env bash
# collect_deps DIR CMOCKA: fills DIR with include/ and lib/ of the static libraries that
# cmake -DDEEPINFER_DEPS=DIR builds with (jansson, utf8proc, pcre2, liblzma, cmocka), for a machine that
# has a compiler, CMake, Ninja and perhaps nvcc, and nothing else. They come from this system's
# development packages (tools/setup.sh); cmocka, whose package has no static library, is compiled from
# the source tree CMOCKA (1.1.5 or later).
. "$(dirname "$0")/check_lib.sh"

[[ $# -eq 2 ]] || cannot_run "found $# arguments, wanted the folder to fill and cmocka's source tree"
dir=$1
cmocka=$2
[[ -r $cmocka/src/cmocka.c ]] || cannot_run "found no src/cmocka.c in $cmocka"
mkdir -p "$dir"/{include,lib}

for header in jansson.h jansson_config.h utf8proc.h pcre2.h lzma.h cmocka.h; do
    path=$(printf '#include <stdarg.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <stddef.h>\n#include <%s>\n' $header |
        gcc -DPCRE2_CODE_UNIT_WIDTH=8 -E - | sed -n "s|^# 1 \"\(.*/$header\)\".*|\1|p" | head -n 1)
    [[ -n $path ]] || cannot_run "$header is not installed: tools/setup.sh"
    cp "$path" "$dir/include/"
    [[ $header != lzma.h ]] || cp -r "${path%.h}" "$dir/include/"
done
for library in jansson utf8proc pcre2-8 lzma; do
    path=$(gcc -print-file-name=lib$library.a)
    [[ $path == /* ]] || cannot_run "lib$library.a is not installed: tools/setup.sh"
    cp "$path" "$dir/lib/"
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
touch "$tmp/cmocka_version.h"
for name in ASSERT_H INTTYPES_H MALLOC_H MEMORY_H SETJMP_H SIGNAL_H STDARG_H STDDEF_H STDINT_H STDIO_H \
    STDLIB_H STRINGS_H STRING_H TIME_H UNISTD_H CALLOC EXIT FPRINTF FREE LONGJMP MALLOC PRINTF SETJMP \
    SIGNAL STRCMP STRCPY SNPRINTF VSNPRINTF STRUCT_TIMESPEC CLOCK_GETTIME CLOCK_REALTIME \
    GCC_THREAD_LOCAL_STORAGE; do
    echo "#define HAVE_$name 1"
done >"$tmp/config.h"
gcc -O2 -fPIC -w -DHAVE_CONFIG_H -I"$tmp" -I"$cmocka/include" -c "$cmocka/src/cmocka.c" -o "$tmp/cmocka.o"
rm -f "$dir/lib/libcmocka.a"
ar rcs "$dir/lib/libcmocka.a" "$tmp/cmocka.o"
echo "collect_deps: $dir: $(du -sh "$dir" | cut -f 1), $(ls "$dir/lib" | tr '\n' ' ')"
