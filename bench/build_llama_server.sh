#!/usr/bin/env bash
# Builds llama-server, llama-bench and llama-quantize from the pinned sources into the dependency cache,
# as the benchmarks compare with them, and prints the folder of the programs. Takes about 20 minutes on
# two cores, once.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
llama=$("$here/../tools/fetch_llama.sh")
build="$llama/build"
if [[ ! -x $build/bin/llama-server || ! -x $build/bin/llama-bench || ! -x $build/bin/llama-quantize ]]; then
  echo "lares: building llama-server (20 minutes on two cores, once)" >&2
  cmake -S "$llama/src" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_BACKEND_DL=ON \
    -DGGML_CPU_ALL_VARIANTS=ON -DGGML_OPENMP=OFF -DGGML_NATIVE=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >&2
  ninja -C "$build" llama-server llama-bench llama-quantize >&2
fi
echo "$build/bin"
