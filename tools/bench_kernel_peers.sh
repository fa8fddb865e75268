#!/usr/bin/env bash
# bench_kernel_peers GGML [THREADS [SECONDS]]: this engine's linears beside ggml's MXFP4 and OpenBLAS's
# sgemm, in one process, their calls in turn, SECONDS for each shape and number of rows.
#
# GGML is a checkout of ggml (or the folder ggml of one of llama.cpp). It and the program are built in
# build-peers/kernels, against build/libdeepinfer.a. OpenBLAS is the system's (libopenblas-dev; without
# it its rows are missing), its core type forced to the AVX-512 kernels, since old versions do not know
# newer CPUs. Nothing else needs the two. docs/benchmarks.md has a table.
. "$(dirname "$0")/check_lib.sh"

ggml=${1:-}
[[ -e $ggml/include/ggml-cpu.h ]] || cannot_run "found '$ggml', wanted the path of a ggml checkout"
threads=${2:-$(nproc)}
seconds=${3:-2}
work=build-peers/kernels
need_program cmake
[[ -e build/libdeepinfer.a ]] || make -s >/dev/null || cannot_run "make fails"
cmake -S "$ggml" -B "$work" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_OPENMP=ON \
    -DBUILD_SHARED_LIBS=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF -DGGML_CCACHE=OFF \
    >/dev/null || cannot_run "ggml cannot be set up"
cmake --build "$work" -j "$(nproc)" --target ggml ggml-cpu ggml-base >/dev/null 2>&1 ||
    cannot_run "ggml does not build"
c++ -std=c++17 -O2 -Isrc -Iinclude -I"$ggml/include" tools/kernel_peers/peers.cpp -o "$work/peers" \
    "$work"/src/libggml.a "$work"/src/libggml-cpu.a "$work"/src/libggml-base.a \
    build/libdeepinfer.a -ljansson -lutf8proc -lpcre2-8 -lgomp -lpthread -ldl -lm ||
    cannot_run "peers.cpp does not build"
export OMP_PROC_BIND=close OMP_PLACES=cores OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE-Cooperlake}
exec "$work/peers" "$threads" "$seconds"
