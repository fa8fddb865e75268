#!/usr/bin/env bash
# check_functions: no function over 100 lines or over 25 in cyclomatic complexity (a switch counts
# once) outside src/kernels, and no C file over 800 lines. What to aim at is less: 60, 15, 600.
. "$(dirname "$0")/check_lib.sh"

max_lines=100
max_complexity=25
max_file_lines=800

need_program pmccabe
mapfile -t files < <(tree_files '*.c' '*.h' '*.cpp')
[[ ${#files[@]} -gt 0 ]] || cannot_run "no C files"
for file in "${files[@]}"; do
    n=$(count_lines <"$file")
    [[ $n -le $max_file_lines ]] || finding "$file" "$n lines, wanted at most $max_file_lines"
done

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
# pmccabe: modified complexity, traditional, statements, first line, lines, "file(line): function".
n_functions=0
while IFS=$'\t' read -r complexity _ _ line n place; do
    n_functions=$((n_functions + 1))
    file=${place%%(*}
    name=${place##*: }
    [[ $file == src/kernels/* ]] && continue
    [[ $n -le $max_lines ]] ||
        finding "$file:$line" "$name has $n lines, wanted at most $max_lines"
    [[ $complexity -le $max_complexity ]] ||
        finding "$file:$line" "$name has complexity $complexity, wanted at most $max_complexity"
done < <(printf '%s\n' "${files[@]}" | grep '\.c' | xargs pmccabe 2>"$errors")
while IFS= read -r line; do
    finding "${line%%:*}" "pmccabe cannot read it: ${line#*:}"
done <"$errors"
report check_functions "$n_functions functions, ${#files[@]} files"
