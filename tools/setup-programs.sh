#!/usr/bin/env bash
# Install programs that tests need: `ip` and `nsenter` for workers with a network of their own, `newuidmap` for a user who is
# not root, Chromium, in which tests open report.html, where there is no browser of its kind.
set -euo pipefail
missing=()
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
  missing+=(chromium fonts-dejavu-core)
fi
for wanted in ip:iproute2 nsenter:util-linux newuidmap:uidmap; do
  command -v "${wanted%:*}" >/dev/null || missing+=("${wanted#*:}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "error: programs are missing: sudo apt-get install ${missing[*]}" >&2; exit 3; }
echo "installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
