#!/usr/bin/env bash
# Installs what Orrery is built with, on Debian 12 or Ubuntu 22.04 and newer. Asks nothing; does nothing, at
# once, when nothing is missing. Further packages may be named as arguments.
#   ORRERY_INSTALL=no   never installs: for machines whose compilers and libraries come from elsewhere
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config
  openmpi-bin libopenmpi-dev libucx-dev libfabric-dev
  libprotobuf-dev protobuf-compiler
  libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev libtbb-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  "$@"
)

if [[ "${ORRERY_INSTALL:-yes}" == no ]]; then
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install-dependencies: this is neither Debian nor Ubuntu. Install what these packages hold," \
       "then set ORRERY_INSTALL=no: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "install-dependencies: packages are missing and this user may not install them. Run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    echo "install-dependencies: '$*' failed" >&2
    exit 1
  fi
}
echo "installing ${missing[*]}" >&2
quietly apt-get -o DPkg::Lock::Timeout=300 update
quietly apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
