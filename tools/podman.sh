#!/usr/bin/env bash
# podman.sh FOLDER COMMAND...: run COMMAND with a Podman of its own, whatever this machine has. FOLDER, below /tmp, keeps its
# Debian root (made once, a minute and 700 MB) and its images. Needs root and debootstrap on Debian or Ubuntu.
#
# The service runs in that root, in mount and network namespaces of its own, where it disturbs no other engine. /tmp is one and the
# same folder inside and outside, so that sockets, folders and filters of ours have one name. COMMAND finds it by CONTAINER_HOST, and
# packages in FOLDER/cache.
set -euo pipefail

folder=${1:?a folder below /tmp}; shift
suite=${SUITE:-sid}
case $folder in /tmp/?*) ;; *) echo "error: $folder is not below /tmp" >&2; exit 2 ;; esac
[ "$(id -u)" = 0 ] || { echo "error: only root can set up a root for Podman" >&2; exit 2; }
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null

mkdir -p "$folder"; chmod 700 "$folder"
root=$folder/root socket=$folder/podman.sock log=$folder/podman.log

# The mirror that this machine takes its own packages from: `URIs:` of the newer form, the address of the older one.
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '$1 == "URIs:" { print $2 } $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; next } }' |
    grep -v security | head -1
}

if [ ! -e "$folder/ready" ]; then
  rm -rf "$root"
  scripts=/usr/share/debootstrap/scripts
  [ -e "$scripts/$suite" ] || ln -s sid "$scripts/$suite"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$(mirror)" > "$folder/debootstrap.log"
  # No service of it is to start, and a release file may be older than apt likes.
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"; chmod +x "$root/usr/sbin/policy-rc.d"
  echo 'Acquire::Check-Valid-Until "false";' > "$root/etc/apt/apt.conf.d/90-old-release"
  chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
    apt-get update -q && apt-get install -qy --no-install-recommends podman crun conmon netavark' >> "$folder/debootstrap.log"
  touch "$folder/ready"
fi

serve() {
  set -e
  ip link set lo up
  mount --bind "$root" "$root"
  for each in proc sys dev; do mount --rbind "/$each" "$root/$each"; done
  mount -t tmpfs tmpfs "$root/run"
  mount --bind /tmp "$root/tmp"
  # crun refuses a machine that has both versions of control groups, unless it sees one of them alone.
  if mountpoint -q "$root/sys/fs/cgroup/unified"; then umount "$root/sys/fs/cgroup/unified"; fi
  mkdir -p "$root/mnt/old"
  cd "$root"
  pivot_root . mnt/old
  umount -l /mnt/old
  cd /
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root podman --root "$folder/storage" --runroot /run/storage \
    --cgroup-manager cgroupfs --events-backend file system service --time 0 "unix://$socket"
}
export -f serve
export folder root socket

rm -f "$socket"
unshare -n -m --propagation private bash -c serve > "$log" 2>&1 < /dev/null &
service=$!
trap 'kill "$service" 2>/dev/null; wait "$service" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  [ -S "$socket" ] && break
  kill -0 "$service" 2>/dev/null || break
  sleep 0.1
done
[ -S "$socket" ] || { echo "error: Podman did not start:" >&2; tail -20 "$log" >&2; exit 3; }

mkdir -p "$folder/cache"
CONTAINER_HOST=unix://$socket AGENTV_SANDBOX_ENGINE=podman XDG_CACHE_HOME=$folder/cache "$@"
