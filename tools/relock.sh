#!/usr/bin/env bash
# Write the lock files in tools/locks anew: what the virtual environment and the npm packages of tests and development
# are made of, by version and hash, for Python 3.11 to 3.13. No file names an index: the user's own settings do.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: relock.sh VENV}
locks=tools/locks

compile() { # FILE ARGUMENT...: without what an earlier lock says, so that newer versions are taken
  local file=$1
  shift
  echo "locking $file"
  rm -f "$file"
  "$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --output-file "$file" pyproject.toml "$locks/build.in" "$@"
}

compile "$locks/run.txt"
compile "$locks/dev.txt" --extra dev --extra dask --extra model --extra pytest --constraint "$locks/run.txt"
compile "$locks/inspect.txt" "$locks/inspect.in" --extra inspect

cd "$locks/npm"
echo "locking $locks/npm/package-lock.json"
rm -f package-lock.json
npm install --package-lock-only --no-audit --no-fund --loglevel=error >/dev/null
# Without addresses, by hand: npm's own option for it forgets what a package is called that is installed as another.
sed -i '/^ *"resolved": /d' package-lock.json
