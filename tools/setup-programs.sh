#!/usr/bin/env bash
# Install programs that tests need: `ip` and `nsenter` for workers with a network of their own, `newuidmap` for a user who is
# not root, Chromium, in which tests open report.html: the one without windows where the system has it, since a page costs
# it a quarter of the time.
set -euo pipefail
has() { command -v "$1" >/dev/null; }
missing=()
for wanted in ip:iproute2 nsenter:util-linux newuidmap:uidmap; do
  has "${wanted%:*}" || missing+=("${wanted#*:}")
done
if has chromium-headless-shell || has chromium || has chromium-browser || has google-chrome; then browser=any; else browser=; fi
[ "${#missing[@]}" -gt 0 ] || [ -z "$browser" ] || { ! has chromium-headless-shell && has apt-get && [ "$(id -u)" = 0 ]; } || exit 0

if ! has apt-get || [ "$(id -u)" != 0 ]; then
  [ -n "$browser" ] || missing+=(chromium)
  echo "error: programs are missing: sudo apt-get install ${missing[*]}" >&2
  exit 3
fi
apt-get update -qq || [ -n "$browser" ]
if apt-cache show chromium-headless-shell >/dev/null 2>&1; then
  missing+=(chromium-headless-shell fonts-dejavu-core)
elif [ -z "$browser" ]; then
  missing+=(chromium fonts-dejavu-core)
fi
[ "${#missing[@]}" -gt 0 ] || exit 0
echo "installing ${missing[*]}"
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
