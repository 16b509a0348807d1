#!/usr/bin/env bash
# Installs what Troupe needs to build and test, from the distribution's own packages (Debian 12, Ubuntu 24.04).
# Safe to run again: it asks dpkg first and does nothing, without root, when everything is there.
#   cmake/install-deps.sh           install what is missing
#   cmake/install-deps.sh --check   only say what is missing; exit 1 if anything is
# TROUPE_SKIP_DEPS=1 skips it (another distribution, or packages from elsewhere).
set -euo pipefail

packages=(
  g++ cmake ninja-build make ccache pkg-config   # the build
  libcaf-dev                                      # actors (runtime/shell only)
  libcapnp-dev capnproto                          # messages
  liburing-dev                                    # disk mover
  libspdlog-dev                                   # log
  catch2                                          # tests
  libtomlplusplus-dev libcli11-dev                # configuration, command line
  libhwy-dev                                      # portable SIMD
  libxxhash-dev libzstd-dev zstd                  # payload checksums, lanes, traces
  prometheus-cpp-dev                              # metrics
  libssl-dev                                      # keyed block keys
  fio strace                                      # disk benches and tests
)

if [[ "${TROUPE_SKIP_DEPS:-0}" == 1 ]]; then
  exit 0
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "install-deps: no dpkg on this machine: only Debian 12 and Ubuntu 24.04 are set up by this script." >&2
  echo "  Install the equivalents of: ${packages[*]}" >&2
  echo "  and set TROUPE_SKIP_DEPS=1." >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state="$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)"
  if [[ "$state" != *installed* || "$state" == *not-installed* ]]; then
    missing+=("$package")
  fi
done

if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi
echo "install-deps: missing: ${missing[*]}" >&2
if [[ "${1:-}" == --check ]]; then
  exit 1
fi

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
  if command -v sudo >/dev/null 2>&1 && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "install-deps: neither root nor usable sudo. Run as root:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
