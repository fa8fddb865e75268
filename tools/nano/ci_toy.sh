#!/bin/sh
# The toy setting of the training script, end to end: train (the loss must fall), export, load in the engine,
# compare the engine's logits with the training code's in the engine's order.
# Needs torch; installs it into BUILD/nano-venv where that is quick, and says so where it is not.
#   tools/nano/ci_toy.sh [build folder]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
venv=$build/nano-venv
out=$build/nano-toy
cpu_index=https://download.pytorch.org/whl/cpu

has_torch() { "$1" -c 'import torch, numpy, tokenizers' >/dev/null 2>&1; }

# The build for CPUs is small; the one of the default index brings 5 GB of GPU libraries.
install_torch()
{
    python3 -m venv "$venv" >/dev/null 2>&1 || return 1
    pip="$venv/bin/pip install -q --disable-pip-version-check --retries 0"
    timeout 120 $pip --index-url "$cpu_index" torch >/dev/null 2>&1 ||
        { [ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -gt 12000000 ] &&
            timeout 180 $pip torch >/dev/null 2>&1; } || return 1
    timeout 60 $pip numpy tokenizers >/dev/null 2>&1 && has_torch "$venv/bin/python"
}

failed()
{
    echo "nano toy: FAILED, $1"
    exit 1
}

python=
for p in "$venv/bin/python" python3; do
    if has_torch "$p"; then
        python=$p
        break
    fi
done
if [ -z "$python" ]; then
    if ! install_torch; then
        rm -rf "$venv"
        echo "nano toy: skipped: torch is not there and pip could not install it in 5 minutes"
        exit 0
    fi
    python=$venv/bin/python
fi
[ -x "$build/deepinfer" ] || failed "no $build/deepinfer; build first"
rm -rf "$out"
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
timeout 600 "$python" tools/nano/train.py --toy --out "$out" || failed "in training"
"$build/deepinfer" inspect "$out/nano" >"$out/inspect.txt" || {
    tail -5 "$out/inspect.txt"
    failed "the engine does not accept the checkpoint"
}
timeout 300 "$python" tools/nano/engine_check.py --engine "$build/deepinfer" --model "$out/nano" ||
    failed "the engine computes something else"
echo "nano toy: trained, exported, and the engine agrees with the training code"
