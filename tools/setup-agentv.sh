#!/usr/bin/env bash
# Install AgentV itself and bun in $1/agentv, with the npm of the virtual environment $1: tests compare with it.
# Beside it what reads the examples for CI systems as those systems do.
set -euo pipefail
venv=${1:?usage: setup-agentv.sh VENV}
home=$venv/agentv
wanted="agentv@4.42.4 bun@1 gitlab-ci-local@4.75.1 @actions/workflow-parser@0.3.61"

[ "$(cat "$home/.installed" 2>/dev/null)" != "$wanted" ] || exit 0
echo "installing AgentV, with which tests compare, into $home"
mkdir -p "$home"
PATH=$(cd "$venv" && pwd)/bin:$PATH npm install --prefix "$home" --no-audit --no-fund --loglevel=error $wanted >/dev/null
"$home/node_modules/.bin/bun" "$home/node_modules/agentv/dist/cli.js" --version >/dev/null ||
  { echo "error: AgentV does not start; remove $home and try again" >&2; exit 3; }
echo "$wanted" > "$home/.installed"
