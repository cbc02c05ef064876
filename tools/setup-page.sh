#!/usr/bin/env bash
# What checks of report.html need, beside the virtual environment $1: Chromium from Debian or Ubuntu, where there is none
# yet, and TypeScript, which checks the types of its scripts, in $1/page.
set -euo pipefail
venv=${1:?usage: setup-page.sh VENV}
home=$venv/page
wanted="typescript@7.0.2"

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
  command -v apt-get >/dev/null || { echo "error: install Chromium and try again" >&2; exit 3; }
  [ "$(id -u)" = 0 ] || { echo "error: Chromium is needed: sudo apt-get install chromium" >&2; exit 3; }
  echo "installing chromium, in which tests open report.html"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
[ "$(cat "$home/.installed" 2>/dev/null)" != "$wanted" ] || exit 0
echo "installing TypeScript, which checks the scripts of report.html, into $home"
mkdir -p "$home"
PATH=$(cd "$venv" && pwd)/bin:$PATH npm install --prefix "$home" --no-audit --no-fund --loglevel=error $wanted >/dev/null
echo "$wanted" > "$home/.installed"
