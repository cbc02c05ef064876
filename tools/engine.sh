#!/usr/bin/env bash
# Find a container engine that answers, or, as root on Debian and Ubuntu, install and start Docker Engine.
# Quick when one is there; may be called as often as you like. With --or-native PYTHON, containers without an engine do
# as well where none answers: then an OCI runtime is all that is installed.
set -euo pipefail

native_python=
if [ "${1:-}" = --or-native ]; then native_python=${2:?the Python that has agentv_sandbox}; fi

socket=/var/run/docker.sock
pidfile=/var/run/docker.pid
log=${AGENTV_SANDBOX_ENGINE_LOG:-/var/log/agentv-sandbox-dockerd.log}
start_timeout_s=90

say() { printf 'engine: %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 3; }

# Whether an engine answers on a socket: the API's own ping, so that no client is needed.
answers() {
  [ -S "$1" ] || return 1
  python3 -I - "$1" <<'PY' 2>/dev/null
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect(sys.argv[1])
s.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
sys.exit(b" 200 " not in s.recv(200))
PY
}

if [ -n "${DOCKER_HOST:-}" ]; then
  case $DOCKER_HOST in
    unix://*) answers "${DOCKER_HOST#unix://}" || fail "DOCKER_HOST is $DOCKER_HOST and nothing answers there; start that engine or unset DOCKER_HOST" ;;
  esac
  say "using DOCKER_HOST=$DOCKER_HOST"
  exit 0
fi

runtime_dir=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
for candidate in "$socket" "$runtime_dir/docker.sock" "${HOME:-/root}/.docker/run/docker.sock" \
                 /run/podman/podman.sock "$runtime_dir/podman/podman.sock"; do
  if answers "$candidate"; then
    say "ready at $candidate"
    exit 0
  fi
done

# Whether containers can be run without an engine, by the program's own judgement; its complaint where not.
native_works() {
  "$native_python" -I - <<'PY'
import os
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.base.errors import NeedsNamespace, SandboxError
try:
    find_engine(os.environ, "native")
except NeedsNamespace:
    pass
except SandboxError as error:
    raise SystemExit(error.message)
PY
}

native_lacks=
if [ -n "$native_python" ] && [ "$(uname -s)" = Linux ]; then
  if [ "$(id -u)" = 0 ] && ! native_works 2>/dev/null && ! command -v dockerd >/dev/null && command -v apt-get >/dev/null; then
    say "installing an OCI runtime from the distribution"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends runc >/dev/null || true
  fi
  if native_lacks=$(native_works 2>&1); then
    say "none answers, and none is needed: containers run natively"
    exit 0
  fi
fi

[ "$(uname -s)" = Linux ] || fail "no container engine answers; start Docker Desktop (or Podman machine) and try again"
if [ "$(id -u)" != 0 ]; then
  if [ -S "$socket" ] && [ ! -w "$socket" ]; then
    fail "Docker runs and you may not use it: add yourself to its group (sudo usermod -aG docker $USER, then log in again)"
  fi
  [ -z "$native_lacks" ] || say "$native_lacks"
  fail "no container engine answers; install Docker Engine (sudo apt-get install docker.io) and start it (sudo systemctl start docker), or run this as root"
fi

if ! command -v dockerd >/dev/null; then
  command -v apt-get >/dev/null || fail "no container engine answers, and this is not Debian or Ubuntu; install Docker Engine or Podman with your package manager"
  say "installing Docker Engine from the distribution"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables >/dev/null
fi

# A daemon that is only just starting (or that hangs) is given its time before another one is tried.
# A killed one that nobody has reaped yet (a zombie) is none.
running() {
  [ -f "$pidfile" ] || return 1
  local status
  status=/proc/$(cat "$pidfile")/status
  grep -q '^Name:[[:space:]]*dockerd$' "$status" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "$status"
}

wait_for() {
  local i
  for ((i = 0; i < start_timeout_s * 2; i++)); do
    answers "$socket" && return 0
    [ "$1" = any ] || kill -0 "$1" 2>/dev/null || return 1
    sleep 0.5
  done
  return 1
}

if running; then
  say "a daemon is there and does not answer yet; waiting"
  wait_for any && { say "ready at $socket"; exit 0; }
  fail "dockerd (pid $(cat "$pidfile")) runs and does not answer; stop it (kill $(cat "$pidfile")) and try again"
fi

if [ -f "$pidfile" ]; then
  say "removing the stale $pidfile"
  rm -f "$pidfile"
fi
rm -f "$socket" /var/run/docker/containerd/containerd.pid

if [ -d /run/systemd/system ] && systemctl start docker 2>/dev/null && wait_for any; then
  say "started the docker service"
  exit 0
fi

say "starting dockerd (log: $log)"
setsid nohup dockerd >>"$log" 2>&1 </dev/null &
daemon=$!
if ! wait_for "$daemon"; then
  tail -n 15 "$log" >&2
  fail "dockerd did not start; its log is $log"
fi
say "ready at $socket"
