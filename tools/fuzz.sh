#!/usr/bin/env bash
# fuzz BUILD SECONDS [NAME]: runs every libFuzzer target of a fuzz build (or those whose name holds
# NAME) for SECONDS each, from the corpus in tests/fuzz/corpus. New inputs stay in BUILD/corpus. An
# input that fails is left in BUILD/failures; put it, minimised, into tests/fuzz/corpus with the repair.
. "$(dirname "$0")/check_lib.sh"

build=${1:-build-fuzz}
seconds=${2:-60}
name=${3:-}
[[ $seconds =~ ^[0-9]+$ ]] || cannot_run "found '$seconds', wanted a number of seconds"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
n_targets=0
mkdir -p "$build/failures"
for source in $(tree_files 'tests/fuzz/*_fuzz.c'); do
    target=$(basename "$source" .c)
    [[ $target == *"$name"* ]] || continue
    [[ -x $build/tests/$target ]] || cannot_run "$build/tests/$target is missing: make PRESET=fuzz"
    n_targets=$((n_targets + 1))
    mkdir -p "$build/corpus/$target" "tests/fuzz/corpus/$target"
    dictionary=()
    [[ ! -e tests/fuzz/$target.dict ]] || dictionary=(-dict="tests/fuzz/$target.dict")
    echo "fuzz: $target, $seconds s"
    "$build/tests/$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$build/failures/$target-" "${dictionary[@]}" \
        "$build/corpus/$target" "tests/fuzz/corpus/$target" >"$build/$target.log" 2>&1 || {
        tail -n 60 "$build/$target.log"
        finding "$source" "failed; the input is in $build/failures"
    }
    grep -E '^(stat::number_of_executed_units|DONE|Done)|DONE' "$build/$target.log" | sed 's/^/    /' || true
done
report fuzz "$n_targets targets"
