#!/usr/bin/env bash
# coverage [BUILD]: line coverage of src/ and apps/ after the tests of a cov build ran (make cov), by
# file, worst first, and in all. Uses gcov alone.
. "$(dirname "$0")/check_lib.sh"

build=$(realpath "${1:-build-cov}")
if ! command -v gcov >/dev/null; then
    echo "coverage: skipped, gcov is not installed"
    exit 0
fi
# From the .gcno files: a source that no test linked has no .gcda, and counts as not executed.
mapfile -t data < <(find "$build" -name '*.gcno' -path '*.dir/*' ! -path '*/tests/*')
[[ ${#data[@]} -gt 0 ]] || cannot_run "no .gcno files under $build: make cov"

root=$PWD
gcov -n -r -s "$root" "${data[@]}" 2>/dev/null | awk '
    /^File / { file = $2; gsub(/\047/, "", file); next }
    /^Lines executed:/ && file ~ /^(src|apps)\/[^ ]*\.c$/ {
        split($2, part, /[:%]/); n = $NF; hit = part[2] * n / 100
        if (!(file in lines)) { lines[file] = n; hits[file] = hit }
        else if (hit > hits[file]) hits[file] = hit
        file = ""
    }
    END {
        for (f in lines) {
            printf "%6.1f%% %5d  %s\n", lines[f] ? 100 * hits[f] / lines[f] : 100, lines[f], f
            all += lines[f]; all_hits += hits[f]
        }
        if (all) printf "999 coverage: %.1f%% of %d lines\n", 100 * all_hits / all, all
    }' | sort -n | sed 's/^999 //'
