# The orchestrator as an image. It talks to an engine through a mounted socket:
#
#   docker build -t agentv-sandbox .
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock -v "$PWD":"$PWD" -w "$PWD" \
#     agentv-sandbox run examples/quarterly-report
#
# Whoever may use the engine's socket is root on its machine: run this image only where that is acceptable.
# BASE may be any Debian or Ubuntu with Python 3.11 or later; `make image` falls back to the project's own base.
ARG BASE=debian:trixie-slim
FROM ${BASE}

# The project's bootstrapped base names no package source, so that none of the host's gets into it.
RUN if [ ! -s /etc/apt/sources.list ] && [ -z "$(ls /etc/apt/sources.list.d)" ]; then \
      . /etc/os-release && echo "deb http://deb.debian.org/debian $VERSION_CODENAME main" > /etc/apt/sources.list; \
    fi \
 && apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates git \
 && rm -rf /var/lib/apt/lists/*

# A file ca-bundle.crt beside this one, if there is one, is trusted while packages are fetched.
COPY pyproject.toml README.md LICENSE ca-bundle.cr[t] /src/
COPY agentv_sandbox /src/agentv_sandbox
COPY images /src/images
COPY examples/ci /src/examples/ci
COPY examples/preprocessors/scripts /src/examples/preprocessors/scripts
RUN if [ -f /src/ca-bundle.crt ]; then export PIP_CERT=/src/ca-bundle.crt; fi \
 && python3 -I -m venv /opt/agentv-sandbox \
 && /opt/agentv-sandbox/bin/pip install --no-cache-dir --disable-pip-version-check --quiet /src \
 && ln -s /opt/agentv-sandbox/bin/agentv-sandbox /usr/local/bin/agentv-sandbox \
 && rm -rf /src

ENTRYPOINT ["agentv-sandbox"]
CMD ["--help"]
