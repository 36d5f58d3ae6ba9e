# shellcheck shell=bash
# Sourced by ./run and ./test: installs what is missing, and builds.
#
# A fresh Debian 12 needs the network once, for the packages and for llama.cpp (tools/fetch_llama.sh);
# afterwards nothing is fetched.

# So that a clone in another folder finds what this one compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf 'lares: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Everything that building and testing use. npm fetches llama.cpp, node runs the clients' tests; they are
# checked by themselves, for they often come from elsewhere than Debian.
packages=(g++ cmake ninja-build ccache git openssl ca-certificates python3 clang-format
  libboost1.81-dev libfmt-dev libexpected-dev libtomlplusplus-dev libsqlite3-dev libsodium-dev libgtest-dev
  libgmock-dev librapidcheck-dev libpng-dev libssl-dev libseccomp-dev dpkg-dev)

missing_packages() {
  local package status
  for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [[ $status == 'install ok installed' ]] || echo "$package"
  done
  command -v npm >/dev/null || echo npm
  command -v node >/dev/null || echo nodejs
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing packages needs root or sudo; as root: apt-get install ${missing[*]}"
  fi
}

retried() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    say "failed (attempt $attempt of 3): $*"
    sleep $((attempt * 5))
  done
  return 1
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -eq 0 ]] && return 0
  command -v apt-get >/dev/null ||
    die "not a Debian system; install what these Debian packages hold: ${missing[*]}"
  say "installing ${missing[*]}"
  retried as_root apt-get -q update || die "the package lists cannot be fetched; is there a network?"
  retried as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}" ||
    die "the packages cannot be installed; see the lines above"
}

# configure FOLDER OPTION... : once; ninja runs CMake again by itself when a CMakeLists.txt changes.
configure() {
  local folder=$1
  shift
  [[ -f $folder/build.ninja ]] && return 0
  say "configuring $folder"
  cmake -S . -B "$folder" -G Ninja "$@" >/dev/null || die "CMake failed; see the lines above"
}

# build FOLDER TARGET...
build() {
  local folder=$1
  shift
  say "building $folder"
  ninja -C "$folder" "$@" || die "the build failed; see the lines above"
}

set_up() {
  install_packages
  [[ -f build/build.ninja ]] || tools/fetch_llama.sh >/dev/null ||
    die "llama.cpp could not be fetched; see the lines above"
  configure build -DCMAKE_BUILD_TYPE=RelWithDebInfo
}
