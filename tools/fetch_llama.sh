#!/usr/bin/env bash
# Fetches the pinned llama.cpp release (sources and prebuilt libraries) into the dependency cache and
# prints its folder. Nothing is fetched when it is there already.
#
#   FOLDER/src   llama.cpp's sources (headers, gguf-py, vocabulary-only models, templates)
#   FOLDER/lib   the shared libraries, one CPU backend per processor family
set -euo pipefail

version=3.21.1
release=v0.4.0
sources_sha512='E3N0Ev2Va0wzydvXYFwM9Hvyo07PoWjt8T/9GMc43Cvt8YkV/NU/tYUgEMC1grTPv2o9PRjQi0G3Wb5P/awiMg=='
binaries_sha512='Totj6RTDMGo3FoK2yNUaz/oGmZD0olAqTrRluFUWmu0kW2i9TOzHSW0OWCAiGkzRCVX0WsU2CyUQo/W2NYtdPA=='

cache="${XDG_CACHE_HOME:-$HOME/.cache}/lares"
folder="$cache/llama-$release-$version"
if [[ -f "$folder/complete" ]]; then
  echo "$folder"
  exit 0
fi

say() { echo "lares: $*" >&2; }

# fetch PACKAGE SHA512 -> prints the archive's path
fetch() {
  local package=$1 want=$2 file have
  for attempt in 1 2 3 4; do
    if file=$(cd "$work" && npm pack --silent "$package@$version" 2>"$work/npm.log" | tail -n 1) &&
      [[ -f "$work/$file" ]]; then
      have=$(openssl dgst -sha512 -binary "$work/$file" | base64 -w0)
      if [[ "$have" == "$want" ]]; then
        echo "$work/$file"
        return 0
      fi
      say "$package@$version has another checksum than the pinned one; refusing it"
      return 1
    fi
    say "fetching $package failed (attempt $attempt of 4): $(tail -n 1 "$work/npm.log" 2>/dev/null)"
    sleep $((attempt * 3))
  done
  return 1
}

mkdir -p "$cache"
exec 9>"$cache/llama.lock"
flock 9  # Two builds at once fetch once.
if [[ -f "$folder/complete" ]]; then
  echo "$folder"
  exit 0
fi
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching llama.cpp $release (45 MB, once)"
sources=$(fetch node-llama-cpp "$sources_sha512")
binaries=$(fetch @node-llama-cpp/linux-x64 "$binaries_sha512")

say "unpacking"
mkdir -p "$work/out/lib" "$work/unpack"
tar -xzf "$sources" -C "$work/unpack" package/llama/gitRelease.bundle
git -c advice.detachedHead=false clone --quiet "$work/unpack/package/llama/gitRelease.bundle" "$work/out/src"
rm -rf "$work/out/src/.git"
tar -xzf "$binaries" -C "$work/unpack" package/bins package/LICENSE
cp "$work"/unpack/package/bins/linux-x64/*.so "$work/out/lib/"
touch "$work/out/complete"
rm -rf "$folder"
mv "$work/out" "$folder"
echo "$folder"
