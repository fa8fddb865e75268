#!/usr/bin/env bash
# check_headers: every header compiles alone and has an include guard of its own; public ones also as
# strict C99 and as C++.
. "$(dirname "$0")/check_lib.sh"

need_program gcc
need_program g++
mapfile -t headers < <(tree_files 'src/*.h' 'apps/*.h' 'include/*.h' 'tests/support/*.h')
[[ ${#headers[@]} -gt 0 ]] || cannot_run "no headers"
read -ra packages < <(pkg-config --cflags jansson libutf8proc libpcre2-8 libcurl libcrypto cmocka liblzma) || true
paths=(-Iinclude -Isrc -Iapps -Itests/support -Ibuild/generated "${packages[@]}")
warnings=(-Wall -Wextra -Werror -Wno-unused-function -Wno-unused-const-variable)

# compile HEADER WHAT COMPILER...: the header twice, then a use of the translation unit.
compile()
{
    local header=$1 what=$2 errors
    shift 2
    if ! errors=$(printf '#include "%s"\n#include "%s"\nextern int di_header_is_alone;\n' \
        "$PWD/$header" "$PWD/$header" | "$@" -fsyntax-only - 2>&1); then
        finding "$header" "$what: $(grep -m 1 -E 'error' <<<"$errors" | sed "s|$PWD/||g")"
    fi
}

# level_flags HEADER: what lets the compiler read a header of kernels for an instruction set.
avx2=(-mavx2 -mfma)
avx512=("${avx2[@]}" -mavx512f -mavx512bw -mavx512dq -mavx512vl)
amx=("${avx512[@]}" -mavx512vbmi -mamx-tile -mamx-bf16)
level_flags()
{
    case $1 in
    *amx*) printf '%s\n' "${amx[@]}" ;;
    *avx512* | *_vec.h | */vec.h | */vec_math.h) printf '%s\n' "${avx512[@]}" ;;
    *avx2*) printf '%s\n' "${avx2[@]}" ;;
    esac
}

machine=$(uname -m)
cuda=/usr/local/cuda/include
[[ -d $cuda ]] && paths+=(-isystem "$cuda")
for header in "${headers[@]}"; do
    case $header in
    src/device/cuda/*) [[ -r $cuda/cuda_runtime_api.h ]] || continue ;;
    src/kernels/*neon*) [[ $machine == aarch64 ]] || continue ;;
    src/kernels/*avx* | src/kernels/*amx* | src/kernels/*_vec.h | src/kernels/vec*.h) [[ $machine == x86_64 ]] || continue ;;
    esac
    flags=()
    [[ $header == src/kernels/* ]] && mapfile -t flags < <(level_flags "$header")
    compile "$header" "does not compile alone" gcc "${flags[@]}" -x c -std=gnu17 "${warnings[@]}" "${paths[@]}"
    if [[ $header == include/* ]]; then
        compile "$header" "does not compile as C99" \
            gcc -x c -std=c99 -pedantic-errors -Wall -Wextra -Werror -Iinclude
        compile "$header" "does not compile as C++11" \
            g++ -x c++ -std=c++11 -pedantic-errors -Wall -Wextra -Werror -Iinclude
    fi
done
while IFS= read -r twice; do
    finding "$(grep -lxF "#ifndef $twice" "${headers[@]}" | paste -sd ' ')" "share the guard $twice"
done < <(for header in "${headers[@]}"; do
    sed -n '/^#ifndef /{s/^#ifndef //p;q}' "$header"
done | sort | uniq -d)
report check_headers "${#headers[@]} headers"
