#!/usr/bin/env bash
# check_text: text files are UTF-8 with LF ends, a final newline, no tabs (Makefiles excepted) and no
# trailing blanks; scripts parse; links of the documents lead to files; nothing names a folder of one
# machine. Test vectors (tests/golden, tests/data, tests/cases, fuzz corpora), models/ and binary files
# are left alone.
. "$(dirname "$0")/check_lib.sh"

mapfile -t files < <(tree_files | grep -vE \
    '^(models|tests/(golden|data|cases|fuzz/corpus))/|\.(xz|safetensors|png|jpe?g|webp|bin)$')
binary=$(git ls-files --eol -co --exclude-standard | awk -F'\t' '$1 ~ /w\/-text/ {print $2}')
tab=$(printf '\t')
cr=$(printf '\r')
machine='(^|[^A-Za-z0-9_.}-])/(home|Users|work|root|mnt)/[A-Za-z0-9._-]+|[A-Z]:\\\\Users'

# search FILE PATTERN TEXT
search()
{
    local line
    while IFS= read -r line; do
        finding "$1:$line" "$3"
    done < <(grep -naE "$2" "$1" | head -n 3 | cut -d: -f1)
}

# links FILE: relative links of a document that lead nowhere.
links()
{
    local target
    while IFS= read -r target; do
        target=${target%%#*}
        [[ -z $target || $target == *:* || -e $(dirname "$1")/$target ]] ||
            finding "$1" "the link to $target leads nowhere"
    done < <(grep -oE '\]\([^) ]+\)' "$1" | sed 's/^](//; s/)$//')
}

n_files=0
for file in "${files[@]}"; do
    [[ -f $file && ! -L $file && -s $file ]] || continue
    grep -qxF -- "$file" <<<"$binary" && continue
    n_files=$((n_files + 1))
    iconv -f UTF-8 -t UTF-8 "$file" >/dev/null 2>&1 || finding "$file" "not UTF-8"
    [[ -z $(tail -c 1 "$file") ]] || finding "$file" "no newline at the end"
    search "$file" "$cr" "carriage return"
    search "$file" "[ $tab]+$" "trailing blanks"
    [[ $file == *Makefile || $file == *.mk ]] || search "$file" "$tab" "tab"
    search "$file" "$machine" "a folder of one machine"
    case $file in
    *.md) links "$file" ;;
    *.sh | .ci/run) bash -n "$file" 2>/dev/null || finding "$file" "bash cannot parse it" ;;
    esac
done
report check_text "$n_files files"
