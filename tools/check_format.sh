#!/usr/bin/env bash
# check_format: C sources and headers are as clang-format 14 writes them (.clang-format). `make format`
# repairs.
. "$(dirname "$0")/check_lib.sh"

need_program clang-format-14
mapfile -t files < <(tree_files '*.c' '*.h' '*.cpp')
[[ ${#files[@]} -gt 0 ]] || cannot_run "no C files"
while IFS= read -r line; do
    finding "${line%%:[0-9]*}:$(cut -d: -f2 <<<"${line#"${line%%:[0-9]*}"}")" \
        "not as clang-format writes it (make format)"
done < <(clang-format-14 --dry-run --ferror-limit=1 "${files[@]}" 2>&1 |
    grep -E ': (warning|error):' || true)
report check_format "${#files[@]} files"
