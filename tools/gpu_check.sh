#!/usr/bin/env bash
# gpu_check [BUILD] [DEPS]: on a machine with an NVIDIA GPU and nvcc, builds for that GPU, checks every
# GPU kernel against the CPU's reference with fresh random inputs, runs compute-sanitizer once over a
# reduced set, then times the kernels at the model's shapes, each checked against the CPU's result there.
# BUILD is the build folder (default: build-gpu), DEPS a folder of static libraries (docs/cuda.md) where
# the system has none. GPU_CHECK_SECONDS: for a row of the table (default 0.05). Without a GPU or without
# nvcc it says so and skips.
. "$(dirname "$0")/check_lib.sh"

build=${1:-build-gpu}
deps=${2:-}
nvcc=$(command -v nvcc || true)
[[ -n $nvcc || ! -x /usr/local/cuda/bin/nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
if [[ -z $nvcc ]]; then
    echo "gpu_check: skipped: nvcc is not installed"
    exit 0
fi
if ! gpu=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || [[ -z $gpu ]]; then
    echo "gpu_check: skipped: there is no NVIDIA GPU"
    exit 0
fi

export CUDACXX=$nvcc
begun=$SECONDS
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDEEPINFER_CUDA=ON \
    -DDEEPINFER_CUDA_ARCHITECTURES="${gpu/./}-real" -DDEEPINFER_DEPS="$deps" >"$build.log" 2>&1 ||
    { tail -n 20 "$build.log"; cannot_run "cmake failed"; }
cmake --build "$build" --target deepinfer cuda_test device_test >>"$build.log" 2>&1 ||
    { grep -A 5 -E 'FAILED|error' "$build.log" | head -n 60; cannot_run "the build failed"; }
echo "built for compute capability $gpu in $((SECONDS - begun)) s"
rm -f "$build.log"
"$build/deepinfer" devices

echo "--- kernels against the reference"
"$build/tests/device_test" >/dev/null || finding device_test "failed"
"$build/tests/cuda_test" fresh || finding cuda_test "failed"

sanitizer=$(command -v compute-sanitizer || true)
[[ -n $sanitizer || ! -x ${nvcc%/*}/compute-sanitizer ]] || sanitizer=${nvcc%/*}/compute-sanitizer
if [[ -z $sanitizer ]]; then
    echo "compute-sanitizer: skipped, it is not installed"
else
    for tool in memcheck racecheck; do
        echo "--- compute-sanitizer $tool"
        log=$(mktemp)
        "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/tests/cuda_test" exact >"$log" 2>&1 ||
            { finding "compute-sanitizer $tool" "failed"; grep -E '=========|\[  FAILED' "$log" | head -n 40; }
        tail -n 1 "$log"
        rm -f "$log"
    done
fi

echo "--- times"
"$build/deepinfer" bench kernels --device cuda:0 --seconds "${GPU_CHECK_SECONDS:-0.05}" ||
    finding "bench kernels" "failed"
report gpu_check "a GPU of compute capability $gpu"
