#!/usr/bin/env bash
# check_cuda: where nvcc is installed, every .cu file of src/ compiles and the objects link into one
# program without a GPU. Without nvcc, or without .cu files, it says what it skipped.
. "$(dirname "$0")/check_lib.sh"

mapfile -t files < <(tree_files 'src/*.cu')
if [[ ${#files[@]} -eq 0 ]]; then
    echo "check_cuda: skipped, there are no .cu files"
    exit 0
fi
nvcc=$(command -v nvcc || true)
[[ -n $nvcc || ! -x /usr/local/cuda/bin/nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
if [[ -z $nvcc ]]; then
    echo "check_cuda: skipped, nvcc is not installed (${#files[@]} .cu files not compiled)"
    exit 0
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
objects=()
for file in "${files[@]}"; do
    case $file in
    *_sm90.cu) arch=sm_90a ;;
    *_sm100.cu) arch=sm_100a ;;
    *) arch=sm_80 ;;
    esac
    object=$tmp/$(tr / _ <<<"$file").o
    if errors=$("$nvcc" -arch="$arch" -std=c++17 -Xcompiler=-Wall,-fPIC,-fno-exceptions \
        -Xcompiler=-fno-threadsafe-statics -Iinclude -Isrc -c "$file" -o "$object" 2>&1); then
        objects+=("$object")
    else
        finding "$file" "$(grep -m 1 error <<<"$errors" || echo "nvcc fails")"
    fi
done
if [[ $n_findings -eq 0 ]]; then
    "$nvcc" -shared -o "$tmp/cuda.so" "${objects[@]}" || finding src "the CUDA objects do not link"
fi
report check_cuda "${#files[@]} .cu files, $("$nvcc" --version | grep -o 'release [0-9.]*')"
