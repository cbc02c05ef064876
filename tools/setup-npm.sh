#!/usr/bin/env bash
# Install AgentV itself and bun, with which tests compare, what reads the examples for CI systems as those systems do,
# TypeScript, which checks the scripts of report.html, and axe, which checks that pages can be read by everybody, in
# $1/agentv, as tools/locks/npm pins them, with the npm of the virtual environment $1.
set -euo pipefail
venv=${1:?usage: setup-npm.sh VENV}
home=$venv/agentv
locks=$(cd "$(dirname "$0")" && pwd)/locks/npm

cmp -s "$locks/package-lock.json" "$home/installed.json" && exit 0
echo "installing AgentV, with which tests compare, TypeScript and axe into $home"
mkdir -p "$home"
# New files, not new contents: a copy of an environment may share them by hard links.
cp --remove-destination "$locks/package.json" "$locks/package-lock.json" "$home"
rm -f "$home/node_modules/.package-lock.json"
# Not `npm ci`: it refuses a lock without the programs of other platforms, which not every registry carries.
PATH=$(cd "$venv" && pwd)/bin:$PATH npm install --no-save --prefix "$home" --no-audit --no-fund --loglevel=error >/dev/null
"$home/node_modules/.bin/bun" "$home/node_modules/agentv/dist/cli.js" --version >/dev/null ||
  { echo "error: AgentV does not start; remove $home and try again" >&2; exit 3; }
cp --remove-destination "$locks/package-lock.json" "$home/installed.json"
