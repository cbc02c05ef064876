#!/usr/bin/env bash
# What checks of report.html need, beside the virtual environment $1: Chromium from Debian or Ubuntu, where there is none
# yet or only one with windows, and TypeScript, which checks the types of its scripts, in $1/page.
set -euo pipefail
venv=${1:?usage: setup-page.sh VENV}
home=$venv/page
wanted="typescript@7.0.2"

has() { command -v "$1" >/dev/null; }
shell=chromium-headless-shell # the same browser without windows: a page costs it a quarter of the time
any=$(command -v chromium chromium-browser google-chrome || true)
if ! has $shell && has apt-get && [ "$(id -u)" = 0 ]; then
  apt-get update -qq || [ -n "$any" ]
  browser=$(apt-cache show $shell >/dev/null 2>&1 && echo $shell || echo chromium)
  if [ "$browser" = $shell ] || [ -z "$any" ]; then
    echo "installing $browser, in which tests open report.html"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$browser" fonts-dejavu-core >/dev/null || [ -n "$any" ]
  fi
elif ! has $shell && [ -z "$any" ]; then
  has apt-get || { echo "error: install Chromium and try again" >&2; exit 3; }
  echo "error: Chromium is needed: sudo apt-get install chromium" >&2; exit 3
fi
[ "$(cat "$home/.installed" 2>/dev/null)" != "$wanted" ] || exit 0
echo "installing TypeScript, which checks the scripts of report.html, into $home"
mkdir -p "$home"
PATH=$(cd "$venv" && pwd)/bin:$PATH npm install --prefix "$home" --no-audit --no-fund --loglevel=error $wanted >/dev/null
echo "$wanted" > "$home/.installed"
