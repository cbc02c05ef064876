#!/usr/bin/env bash
# Make (or refresh) the virtual environment in $1 from the lock file $2 of tools/locks: run (the default) or dev. On
# Debian and Ubuntu, as root, installs what Python lacks.
set -euo pipefail
venv=${1:?usage: setup-python.sh DIRECTORY [LOCK]}
lock=tools/locks/${2:-run}.txt
umask 022 # nothing in it is secret, and tests start the command as other users

fail() { printf 'error: %s\n' "$*" >&2; exit 3; }

find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null && "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
}

install_packages() {
  command -v apt-get >/dev/null || fail "Python 3.11 or later with venv is needed; install it and try again"
  [ "$(id -u)" = 0 ] || fail "Python 3.11 or later with venv is needed: sudo apt-get install python3 python3-venv"
  echo "installing python3 and python3-venv"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates >/dev/null
}

python=$(find_python)
[ -n "$python" ] || { install_packages; python=$(find_python); }
[ -n "$python" ] || fail "this system's Python is older than 3.11"
"$python" -I -c 'import ensurepip, venv' 2>/dev/null || install_packages

[ -x "$venv/bin/python" ] || "$python" -I -m venv "$venv"
echo "installing the project into $venv"
pip() { "$venv/bin/python" -I -m pip --disable-pip-version-check "$@" 2>&1 | { grep -v '^WARNING' || true; }; }
pip install --quiet --require-hashes --no-deps --requirement "$lock"
pip install --quiet --no-deps --no-build-isolation --editable .
"$venv/bin/python" -I -c 'import agentv_sandbox.cli' || fail "the installation into $venv is not usable; remove it and try again"
