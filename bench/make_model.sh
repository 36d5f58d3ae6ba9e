#!/usr/bin/env bash
# Makes a random-weight model of a real shape in Q8_0 and prints its path; needs python3-numpy.
#
#   bench/make_model.sh qwen2-0.1b
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shape=${1:-qwen2-0.1b}
llama=$("$here/../tools/fetch_llama.sh")
models="$llama/models"
out="$models/$shape-q8_0.gguf"
if [[ ! -f $out ]]; then
  bin=$("$here/build_llama_server.sh")
  mkdir -p "$models"
  /usr/bin/python3 "$here/synth_gguf.py" --gguf-py "$llama/src/gguf-py" \
    --vocab "$llama/src/models/ggml-vocab-qwen2.gguf" --shape "$shape" "$models/$shape.tmp.gguf" >&2
  "$bin/llama-quantize" "$models/$shape.tmp.gguf" "$out.part" Q8_0 >"$models/quantize.log" 2>&1
  rm "$models/$shape.tmp.gguf"
  mv "$out.part" "$out"
fi
echo "$out"
