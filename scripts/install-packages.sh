#!/usr/bin/env bash
# Installs the Debian packages that a part of the project needs, and only those that are missing.
# Usage: install-packages.sh build|bench|interop|deb|deb-test|lan
set -euo pipefail

build=(libopus-dev libsrtp2-dev libssl-dev libipsec-mb-dev libsqlite3-dev libcurl4-openssl-dev pkg-config python3)
interop=(chromium firefox-esr iproute2 python3-venv python3-yaml curl libfaketime binutils prometheus tshark ffmpeg)
bench=(valgrind)
deb=(dpkg-dev binutils)
deb_test=(debootstrap)
lan=(openssl iproute2)

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  bench) wanted=("${build[@]}" "${bench[@]}") ;;
  interop) wanted=("${build[@]}" "${interop[@]}") ;;
  deb) wanted=("${build[@]}" "${deb[@]}") ;;
  deb-test) wanted=("${deb_test[@]}" "${interop[@]}") ;;
  lan) wanted=("${lan[@]}") ;;
  *) echo "install-packages.sh: build, bench, interop, deb, deb-test or lan, not '$1'" >&2; exit 2 ;;
esac

# Intel's library exists on x86-64 only; elsewhere OpenSSL does its work.
if [ "$(dpkg --print-architecture)" != amd64 ]; then
  wanted=("${wanted[@]/libipsec-mb-dev/}")
fi

missing=()
for package in "${wanted[@]}"; do
  [ -n "$package" ] || continue
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "These packages are missing: ${missing[*]} (install them as root)" >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "Installed."
