#!/usr/bin/env bash
# Install what tests of a worker with a network of its own need: `ip`, and `nsenter` of util-linux.
set -euo pipefail
if ! command -v ip >/dev/null || ! command -v nsenter >/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "error: ip and nsenter are needed: sudo apt-get install iproute2 util-linux" >&2; exit 3; }
  echo "installing iproute2 and util-linux"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 util-linux >/dev/null
fi
