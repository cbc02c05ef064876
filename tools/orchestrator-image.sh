#!/usr/bin/env bash
# Build the orchestrator's image on $1, on debian:trixie-slim, or, where no registry has that, on the project's own
# bootstrapped base. Certificates that this machine's pip is told to trust (PIP_CERT) are trusted for the build too.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-debian:trixie-slim}

if ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull -q "$base" >/dev/null 2>&1; then
  echo "no registry has $base; using the project's own base"
  base=$(.venv/bin/agentv-sandbox build | tail -n 1)
fi
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp -r agentv_sandbox images pyproject.toml README.md LICENSE Dockerfile "$context"
mkdir -p "$context/examples/preprocessors"
cp -r examples/ci "$context/examples/"
cp -r examples/preprocessors/scripts "$context/examples/preprocessors/"
if [ -n "${PIP_CERT:-}" ]; then cp "$PIP_CERT" "$context/ca-bundle.crt"; fi
docker build -q --build-arg BASE="$base" -t agentv-sandbox "$context"
docker run --rm agentv-sandbox --version
