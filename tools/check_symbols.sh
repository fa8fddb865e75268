#!/usr/bin/env bash
# check_symbols [BUILD]: libdeepinfer.so exports exactly the functions marked DI_API, and every global
# name of libdeepinfer.a starts with di_. BUILD is the build folder (default: build).
. "$(dirname "$0")/check_lib.sh"

build=${1:-build}
for library in libdeepinfer.so libdeepinfer.a; do
    [[ -e $build/$library ]] || cannot_run "$build/$library is missing: make"
done

# Names declared with DI_API: comments out, one declaration a line, the word before the first '('.
declared=$(for header in $(tree_files 'include/*.h'); do
    gcc -fpreprocessed -dD -E -P -w "$header" 2>/dev/null | sed '/^#/d' | tr '\n' ' ' | tr ';{}' '\n\n\n'
done | sed -n 's/.*DI_API[^(]*[ *]\([A-Za-z0-9_]*\) *(.*/\1/p' | sort -u)
exported=$(nm -D --defined-only "$build/libdeepinfer.so" |
    awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)

while IFS= read -r name; do
    finding "$build/libdeepinfer.so" "$name is declared DI_API but not defined"
done < <(comm -23 <(echo "$declared") <(echo "$exported"))
while IFS= read -r name; do
    finding "$build/libdeepinfer.so" "exports $name, which no public header declares"
done < <(comm -13 <(echo "$declared") <(echo "$exported"))
while IFS= read -r name; do
    finding "$build/libdeepinfer.a" "global name $name, wanted a di_ name or static"
done < <(nm -g --defined-only "$build/libdeepinfer.a" 2>/dev/null |
    awk 'NF == 3 && $3 !~ /^di_/ {print $3}' | sort -u)
report check_symbols "$(count_lines <<<"$exported") exported names"
