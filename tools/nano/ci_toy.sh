#!/bin/sh
# The toy setting of the training script, end to end: train, export, load in the engine.
# Needs torch; installs it into build/nano-venv where that is quick, and says so where it is not.
#   tools/nano/ci_toy.sh [build folder]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
venv=$build/nano-venv
out=$build/nano-toy

has_torch() { "$1" -c 'import torch, numpy, tokenizers' >/dev/null 2>&1; }

python=
for p in "$venv/bin/python" python3; do
    if has_torch "$p"; then
        python=$p
        break
    fi
done
if [ -z "$python" ]; then
    free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if [ "$free_kb" -gt 12000000 ] && python3 -m venv "$venv" >/dev/null 2>&1 &&
        timeout 240 "$venv/bin/pip" install -q torch numpy tokenizers >/dev/null 2>&1 &&
        has_torch "$venv/bin/python"; then
        python=$venv/bin/python
    else
        rm -rf "$venv"
        echo "nano toy: SKIPPED, torch is not installed and pip could not install it in 240 s"
        exit 0
    fi
fi
rm -rf "$out"
if ! OMP_NUM_THREADS=2 timeout 600 "$python" tools/nano/train.py --toy --out "$out"; then
    echo "nano toy: FAILED in training"
    exit 1
fi
if [ -x "$build/deepinfer" ]; then
    "$build/deepinfer" inspect "$out/nano" >"$out/inspect.txt" || {
        tail -5 "$out/inspect.txt"
        echo "nano toy: FAILED, the engine does not accept the checkpoint"
        exit 1
    }
    "$build/deepinfer" run -m "$out/nano" -p "the cat" --max-tokens 8 --ignore-eos >"$out/run.txt" || {
        echo "nano toy: FAILED, the engine does not run the checkpoint"
        exit 1
    }
fi
echo "nano toy: trained, exported and loaded"
