#!/usr/bin/env bash
# check_tree: the working tree (what git tracks or would) is under 52 MiB, by bytes and by disk blocks,
# and binary files are in tests/ and models/ only.
. "$(dirname "$0")/check_lib.sh"

max_mib=${DI_MAX_TREE_MIB:-52}

mapfile -t files < <(tree_files)
[[ ${#files[@]} -gt 0 ]] || cannot_run "no files"
bytes=$(printf '%s\0' "${files[@]}" | du -c -b --files0-from=- | tail -n 1 | cut -f1)
blocks=$(printf '%s\0' "${files[@]}" | du -c -B1 --files0-from=- | tail -n 1 | cut -f1)
largest=$((bytes > blocks ? bytes : blocks))
if [[ $largest -ge $((max_mib * 1024 * 1024)) ]]; then
    finding . "$((largest / 1048576)) MiB, wanted under $max_mib MiB; largest files:"
    printf '%s\0' "${files[@]}" | du -b --files0-from=- | sort -rn | sed -n 1,5p
fi
while IFS= read -r path; do
    case $path in
    tests/* | models/*) ;;
    *) finding "$path" "a binary file outside tests/ and models/" ;;
    esac
done < <(git ls-files --eol -co --exclude-standard | awk -F'\t' '$1 ~ /w\/-text/ {print $2}')
report check_tree "$(awk -v b="$largest" 'BEGIN {printf "%.1f MiB", b / 1048576}') in ${#files[@]} files"
