#!/usr/bin/env bash
# Build the orchestrator's image on $1, on debian:trixie-slim, or, where no registry has that, on the project's own
# bootstrapped base. Certificates that this machine's pip is told to trust (PIP_CERT) are trusted for the build too.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-debian:trixie-slim}

if ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull -q "$base" >/dev/null 2>&1; then
  echo "no registry has $base; using the project's own base"
  base=$(.venv/bin/python - <<'PY'
import os
from agentv_sandbox.build import ensure_image
from agentv_sandbox.cli.common import cache_dir
from agentv_sandbox.engines.docker import find_engine
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.pipeline.images import tool_plan
image = ensure_image(find_engine(os.environ), tool_plan(ImageConfig()), cache_dir=cache_dir(),
                     on_event=lambda *_: None, cancelled=lambda: False)
print(image.tag)
PY
)
fi
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp -r agentv_sandbox pyproject.toml README.md LICENSE Dockerfile "$context"
mkdir -p "$context/examples/preprocessors"
cp -r examples/preprocessors/scripts "$context/examples/preprocessors/"
if [ -n "${PIP_CERT:-}" ]; then cp "$PIP_CERT" "$context/ca-bundle.crt"; fi
docker build -q --build-arg BASE="$base" -t agentv-sandbox "$context"
docker run --rm agentv-sandbox --version
