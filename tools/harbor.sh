#!/usr/bin/env bash
# harbor.sh FOLDER COMMAND...: run COMMAND in a Debian root with Harbor (HARBOR=0.25.0) at /opt/harbor, which asks this machine's
# Docker. FOLDER, below /var/tmp, keeps the root (made once, some minutes and 1.5 GB). /tmp is one and the same inside and outside,
# so that the engine finds folders by the same name. Needs root and debootstrap on Debian or Ubuntu, and Docker.
set -euo pipefail

folder=${1:?a folder below /var/tmp}; shift
suite=${SUITE:-trixie} version=${HARBOR:-0.25.0}
case $folder in /var/tmp/?*) ;; *) echo "error: $folder is not below /var/tmp" >&2; exit 2 ;; esac
[ "$(id -u)" = 0 ] || { echo "error: only root can set up a root for Harbor" >&2; exit 2; }
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
root=$folder/root

mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '$1 == "URIs:" { print $2 } $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; next } }' |
    grep -v security | head -1
}

# Folders of this machine that the root uses as they are: packages by file, certificates, settings of pip.
shared() {
  for each in /tmp /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates /etc/xdg/pip ${PIP_FIND_LINKS:-} ${HARBOR_BINDS:-}; do
    [ ! -d "$each" ] || echo "$each"
  done
}

enter() {
  shared=$(shared) root=$root unshare -m --propagation private bash -c '
    set -e
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    for each in sys dev; do mount --rbind "/$each" "$root/$each"; done
    for each in $shared; do mkdir -p "$root$each"; mount --bind "$each" "$root$each"; done
    mkdir -p "$root/run"; : >> "$root/run/docker.sock"
    mount --bind "$(readlink -f /var/run/docker.sock)" "$root/run/docker.sock"
    # Not chroot: who is in one makes no user namespace, which the native engine does.
    cd "$root"; mkdir -p old; pivot_root . old
    umount -l /old; rmdir /old
    cd /; exec "$@"' bash "$@"
}

mkdir -p "$folder"; chmod 700 "$folder"
if [ ! -e "$folder/ready-$version" ]; then
  rm -rf "$root"
  scripts=/usr/share/debootstrap/scripts
  [ -e "$scripts/$suite" ] || ln -s sid "$scripts/$suite"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$(mirror)" > "$folder/debootstrap.log"
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"; chmod +x "$root/usr/sbin/policy-rc.d"
  echo 'Acquire::Check-Valid-Until "false";' > "$root/etc/apt/apt.conf.d/90-old-release"
  cp /etc/resolv.conf "$root/etc/"
  chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
    apt-get update -q && apt-get install -qy --no-install-recommends docker-cli docker-compose python3-venv git' >> "$folder/debootstrap.log"
  # The newest certifi that there is will do.
  echo certifi > "$root/overrides"
  enter sh -c "python3 -P -m venv /opt/harbor && /opt/harbor/bin/pip install -q uv &&
    /opt/harbor/bin/uv pip install -q --python /opt/harbor/bin/python --override /overrides harbor==$version" >> "$folder/debootstrap.log"
  touch "$folder/ready-$version"
fi
enter "$@"
