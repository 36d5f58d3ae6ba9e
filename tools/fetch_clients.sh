#!/usr/bin/env bash
# Installs the npm packages that tests/clients drives into the dependency cache and prints the folder.
# Nothing is fetched when they are there already; what is fetched is held against the lock's checksums.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/clients" && pwd)

say() { echo "lares: $*" >&2; }

lock=$(sha256sum "$here/package.json" "$here/package-lock.json" | cut -d' ' -f1 | sha256sum | cut -c1-16)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/lares"
folder="$cache/clients-$lock"
mkdir -p "$cache"
exec 9>"$cache/clients.lock"
flock 9  # Two test runs at once fetch once.
if [[ ! -f "$folder/complete" ]]; then
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$work/"
  say "fetching the npm packages of the client tests (once)"
  for attempt in 1 2 3 4; do
    (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund) >&2 && break
    say "npm failed (attempt $attempt of 4)"
    [[ $attempt == 4 ]] && exit 1
    sleep $((attempt * 3))
  done
  touch "$work/complete"
  rm -rf "$folder"
  mv "$work" "$folder"
fi
echo "$folder"
