#!/usr/bin/env bash
# check_selftest: every check finds what it is for. Each passes on a small clean tree made here, then
# fails, with the right finding, on the same tree with one violation put in.
. "$(dirname "$0")/check_lib.sh"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tree=$tmp/tree
n_cases=0

make_tree()
{
    mkdir -p "$tree"/{src/base,src/core,src/text,src/image,apps,include/deepinfer,tests,build}
    cp -r tools .clang-format "$tree"
    cp Makefile "$tree/Makefile"
    cat >"$tree/include/deepinfer/deepinfer.h" <<'END'
#ifndef DEEPINFER_H
#define DEEPINFER_H

#define DI_API __attribute__((visibility("default")))

DI_API int di_two(void); /* 2 */

#endif
END
    cat >"$tree/src/base/two.h" <<'END'
#ifndef DI_BASE_TWO_H
#define DI_BASE_TWO_H

#include "deepinfer/deepinfer.h"

int di_one(void);

#endif
END
    cat >"$tree/src/base/two.c" <<'END'
#include "base/two.h"

/* A comment may say exit(1), and a string may hold "getenv(". */
static const char *const text = "stderr, sprintf(";

int di_one(void)
{
    return text[0] == 's';
}

int di_two(void)
{
    return 2 * di_one();
}
END
    cat >"$tree/src/core/use.h" <<'END'
#ifndef DI_CORE_USE_H
#define DI_CORE_USE_H

#include "base/two.h"

#endif
END
    printf '#include "core/use.h"\n' | tee "$tree/src/text/text.h" >"$tree/src/image/image.h"
    cat >"$tree/apps/main.c" <<'END'
#include <deepinfer/deepinfer.h>

int main(void)
{
    return di_two() - 2;
}
END
    build_library
    printf '/build/\n' >"$tree/.gitignore"
    git -C "$tree" init -q
    git -C "$tree" add -A
}

build_library()
{
    gcc -fPIC -fvisibility=hidden -I"$tree/include" -I"$tree/src" -c "$tree/src/base/two.c" \
        -o "$tree/build/two.o"
    rm -f "$tree/build/libdeepinfer.a"
    ar rc "$tree/build/libdeepinfer.a" "$tree/build/two.o"
    gcc -shared -o "$tree/build/libdeepinfer.so" "$tree/build/two.o"
}

# passes CHECK: the clean tree has no findings.
passes()
{
    local output status=0
    n_cases=$((n_cases + 1))
    output=$("$tree/tools/check_$1.sh" 2>&1) || status=$?
    [[ $status -eq 0 ]] || finding "check_$1" "fails on a clean tree: $output"
}

# fails CHECK TEXT FILE CONTENT: with CONTENT (printf escapes) appended to FILE the check exits with 1
# and TEXT is in what it prints.
fails()
{
    local check=$1 text=$2 file=$tree/$3 output status=0 had=no
    n_cases=$((n_cases + 1))
    if [[ -e $file ]]; then
        had=yes
        cp "$file" "$tmp/saved"
    fi
    mkdir -p "$(dirname "$file")"
    printf "$4" >>"$file"
    [[ $check != symbols ]] || build_library
    output=$("$tree/tools/check_$check.sh" 2>&1) || status=$?
    [[ $status -eq 1 ]] || finding "check_$check" "exit status $status, wanted 1, with '$text'"
    [[ $output == *"$text"* ]] || finding "check_$check" "found '$output', wanted '$text'"
    rm -f "$file"
    [[ $had == no ]] || mv "$tmp/saved" "$file"
    [[ $check != symbols ]] || build_library
}

repeat() # repeat N TEXT
{
    local i
    for ((i = 0; i < $1; i++)); do printf '%s' "$2"; done
}

make_tree
for check in format layers headers symbols banned functions tree text; do
    passes $check
done

fails format "src/base/two.c:15" src/base/two.c 'int  di_x;\n'

fails layers 'base includes "core/use.h", a higher layer' src/base/two.c '#include "core/use.h"\n'
fails layers 'text includes "image/image.h", a sibling' src/text/text.h '#include "image/image.h"\n'
fails layers 'climbs out' src/core/use.h '#include "../base/two.h"\n'
fails layers 'names no module' src/core/use.h '#include "misc/two.h"\n'
fails layers 'module misc is not in the list' src/misc/x.h 'int di_x;\n'
fails layers 'outside a module folder' src/x.c 'int di_x;\n'
fails layers 'wanted public headers' apps/main.c '#include "base/two.h"\n'

fails headers "does not compile alone" src/core/alone.h \
    '#ifndef A\n#define A\nsize_t di_alone(void);\n#endif\n'
fails headers "does not compile alone" src/core/twice.h 'struct di_twice {\n    int x;\n};\n'
fails headers "share the guard DI_BASE_TWO_H" src/core/guard.h \
    '#ifndef DI_BASE_TWO_H\n#define DI_BASE_TWO_H\n#endif\n'
fails headers "does not compile as C99" include/deepinfer/new.h \
    '#ifndef N\n#define N\nstruct di_n {\n    struct {\n        int x;\n    };\n};\n#endif\n'
fails headers "does not compile as C++11" include/deepinfer/new.h \
    '#ifndef N\n#define N\nvoid di_f(int class);\n#endif\n'

fails symbols "di_three is declared DI_API but not defined" include/deepinfer/deepinfer.h \
    'DI_API int di_three(void);\n'
fails symbols "exports di_more" src/base/two.c 'DI_API int di_more(void) { return 1; }\n'
fails symbols "global name helper" src/base/two.c 'int helper(void) { return 1; }\n'

for call in sprintf strcpy strcat atoi strtok rand; do
    fails banned "$call: a banned call" src/base/two.c "void di_f(char *s) { $call(s); }\\n"
    fails banned "$call: a banned call" apps/main.c "void f(char *s) { $call(s); }\\n"
done
for call in exit abort printf puts; do
    fails banned "$call: banned in the library" src/base/two.c "void di_f(void) { $call(0); }\\n"
done
fails banned "stderr: the library writes" src/base/two.c 'void di_f(void) { fprintf(stderr, "x"); }\n'
fails banned "getenv: the environment" src/base/two.c 'char *di_f(void) { return getenv("X"); }\n'
fails banned "getenv: the environment" apps/main.c 'char *f(void) { return getenv("X"); }\n'

fails functions "di_long has 105 lines" src/base/two.c \
    "int di_long(int x)\\n{\\n$(repeat 101 '    x++;\n')    return x;\\n}\\n"
fails functions "di_maze has complexity 31" src/base/two.c \
    "int di_maze(int x)\\n{\\n$(repeat 30 '    if (x) x++;\n')    return x;\\n}\\n"
fails functions "815 lines, wanted at most 800" src/base/two.c "$(repeat 801 '\n')"

export DI_MAX_TREE_MIB=1
fails tree "wanted under 1 MiB" tests/large.txt "$(repeat 1100 "$(printf '%01000d' 0)")"
unset DI_MAX_TREE_MIB
fails tree "a binary file outside" src/base/blob.dat '\0\1\2'

fails text "trailing blanks" src/base/two.c 'int x; \n'
fails text "tab" src/base/two.c '\tint x;\n'
fails text "carriage return" src/base/two.c 'int x;\r\n'
fails text "not UTF-8" src/base/two.c '/* \377 */\n'
fails text "no newline at the end" src/base/two.c '/* x */'
fails text "a folder of one machine" src/base/two.c '/* /ho''me/someone/x */\n'
fails text "the link to b.md leads nowhere" docs/a.md '[itself](a.md#x) [b](b.md) [c](https://c.org)\n'
fails text "bash cannot parse it" tools/broken.sh 'if true; then\n'
# A build whose program chooses one level, computes another at each, and fails a test.
mkdir -p "$tree"/{build/tests,tests/kernels,models/nano}
touch "$tree/tests/kernels/gemm_test.c"
cat >"$tree/build/deepinfer" <<'END'
#!/usr/bin/env bash
case $1 in
kernels)
    echo "* gemm    avx512 avx512 any exact lanes16 yes 20"
    echo "  gemm    avx2   avx2   any exact lanes16 yes 10"
    echo "  gemm    ref    ref    any exact lanes16 yes 0"
    echo "  topk    vnni   avx512vnni any exact - yes 30"
    ;;
score) echo "$DEEPINFER_ISA" >"${@: -1}" ;;
esac
END
for name in fp rope_table select threads gemm; do
    printf '#!/bin/sh\n[ %s != gemm ]\n' $name >"$tree/build/tests/${name}_test"
done
chmod +x "$tree"/build/deepinfer "$tree"/build/tests/*
output=$("$tree/tools/check_isa.sh" build 2>&1) && finding check_isa "passes on a wrong build"
for text in "ref: gemm: chose a kernel of level avx512" "avx512vnni: chose no kernel of this level" \
    "avx512: the small model's logits differ" "avx2: gemm exits with 1"; do
    n_cases=$((n_cases + 1))
    [[ $output == *"$text"* ]] || finding check_isa "found '$output', wanted '$text'"
done
report check_selftest "$n_cases cases"
