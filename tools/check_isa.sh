#!/usr/bin/env bash
# check_isa [BUILD]: every level of kernels that this CPU has, and AVX2 on a machine without AVX-512.
#
# With BUILD (default: build, which is built first) and DEEPINFER_ISA set to each level in turn: the
# program chooses no kernel above it and, where an operation has one of just that level, that one; the
# kernel tests pass; the small model's logits have the reference level's bits. Then the same on an
# emulated Haswell (qemu-x86_64 -cpu Haswell), which has AVX2 and stops a program at an instruction it
# lacks: without a word from the environment the program must choose AVX2. If qemu-user is missing and
# cannot be installed, one line says so and the rest counts.
. "$(dirname "$0")/check_lib.sh"

build=${1:-build}
tokens=24
# Tests of the kernels and of what chooses them. The emulator takes tens of times as long as this CPU,
# which is minutes for gemm: there op_check and the logits stand for the linears.
tests="$(for f in tests/kernels/*_test.c; do basename "$f" _test.c; done | paste -sd'|')"
tests+="|fp|rope_table|select|threads"
emulated=${tests//gemm|/}

[[ $# -ne 0 ]] || make -s >/dev/null || cannot_run "make fails"
[[ -x $build/deepinfer ]] || cannot_run "$build/deepinfer is missing"
build=$(cd "$build" && pwd)
model=$PWD/models/nano
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
seq 5 $((4 + tokens)) | paste -sd, | sed 's/.*/[&]/' >"$tmp/ids.json"

# check_choice LEVEL COMMAND...: the starred rows of `deepinfer kernels` are those of the level.
check_choice()
{
    local level=$1 table
    shift
    table=$("$@" kernels 2>/dev/null) || {
        finding "$level" "deepinfer kernels fails"
        return 0
    }
    while IFS= read -r line; do
        finding "$level" "$line"
    done < <(awk -v level="$level" '
        BEGIN { n = split("ref neon avx2 avx512 avx512vnni avx512bf16 amx", names); for (i = 1; i <= n; i++) rank[names[i]] = i }
        { at = NF - 7; isa = $(at + 2) } # operation, kernel, isa, rows, ...
        $1 != "*" && isa == level && $(at + 3) == "any" { other[$at] = 1 }
        $1 == "*" && isa == level { own[$at] = 1; n_own++ }
        $1 == "*" && rank[isa] > rank[level] { printf "%s: chose a kernel of level %s\n", $at, isa }
        END {
            for (op in other)
                if (!own[op])
                    printf "%s: has a kernel of this level, but chose another\n", op
            if (!n_own)
                printf "chose no kernel of this level\n"
        }' <<<"$table")
}

# check_logits LEVEL COMMAND...: prefill and decode have the bits that the first caller had.
check_logits()
{
    local level=$1 wanted=$tmp/wanted.safetensors
    shift
    if ! "$@" score -m "$model" --token-ids "$tmp/ids.json" --prefill $((tokens - 4)) \
        -o "$tmp/logits.safetensors" >"$tmp/log" 2>&1; then
        finding "$level" "deepinfer score fails: $(tail -n 1 "$tmp/log")"
    elif [[ ! -e $wanted ]]; then
        mv "$tmp/logits.safetensors" "$wanted"
    else
        cmp -s "$tmp/logits.safetensors" "$wanted" ||
            finding "$level" "the small model's logits differ from the reference level's"
    fi
}

# check_tests LEVEL TESTS COMMAND...: each test as an argument of the command, as many as there are CPUs
# at a time, the longest first.
check_tests()
{
    local level=$1 names=${2//|/ } name status
    shift 2
    export DI_CHECK_TMP=$tmp DI_CHECK_BUILD=$build
    for name in $names; do echo "$name"; done |
        awk '{print (/^(gemm|sparse_attention|op_check|index_logits)$/ ? 0 : 1), NR, $0}' | sort -n |
        cut -d' ' -f3 | xargs -P "$(nproc)" -I{} bash -c '
            "${@:2}" "$DI_CHECK_BUILD/tests/$1_test" >"$DI_CHECK_TMP/$1.log" 2>&1
            echo $? >"$DI_CHECK_TMP/$1.status"' check {} "$@"
    for name in $names; do
        status=$(cat "$tmp/$name.status")
        [[ $status -eq 0 ]] || finding "$level" "$name exits with $status: $(
            grep -m 1 -E 'Illegal|ERROR|signal' "$tmp/$name.log" || tail -n 1 "$tmp/$name.log")"
    done
}

levels=
for level in ref neon avx2 avx512 avx512vnni avx512bf16 amx; do
    "$build/deepinfer" kernels --isa $level >/dev/null 2>&1 || continue
    levels+=" $level"
    export DEEPINFER_ISA=$level
    # A level may have no kernel of its own yet; then the one before is what the program chooses.
    if "$build/deepinfer" kernels | awk -v level=$level '$(NF - 5) == level {f = 1} END {exit !f}'; then
        check_choice $level "$build/deepinfer"
    fi
    check_logits $level "$build/deepinfer"
    check_tests $level "$tests" env
done
unset DEEPINFER_ISA
[[ -n $levels ]] || finding "$build/deepinfer" "accepts no level"

emulation=
if [[ $(uname -m) == x86_64 ]]; then
    if tools/setup.sh qemu >"$tmp/log" 2>&1 && command -v qemu-x86_64 >/dev/null; then
        emulation=" and an emulated Haswell"
        check_choice avx2 qemu-x86_64 -cpu Haswell "$build/deepinfer"
        check_logits "emulated avx2" qemu-x86_64 -cpu Haswell "$build/deepinfer"
        check_tests "emulated avx2" "$emulated" qemu-x86_64 -cpu Haswell
    else
        echo "check_isa: skipped: AVX2 alone: no qemu-user, and it could not be installed"
    fi
fi
report check_isa "levels$levels$emulation"
