#!/usr/bin/env bash
# Makes the image that the Dockerfile describes, where there is no Docker: the same root file system, laid out by the
# same script, and the Dockerfile's entry point, command and user, as an OCI archive that containerd can import.
#     image.sh PROGRAM NAME:TAG OUT.tar
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
program=$1 name=$2 out=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# The words of a JSON array of the Dockerfile's last stage.
words() { sed -n "s/^$1 \\[\\(.*\\)\\]/\\1/p" "$repository/Dockerfile" | tr -d '",'; }

"$repository/image/rootfs.sh" "$program" "$root"
options=(--user "$(sed -n 's/^USER //p' "$repository/Dockerfile")")
for word in $(words ENTRYPOINT); do options+=(--entrypoint "$word"); done
for word in $(words CMD); do options+=(--cmd "$word"); done
"$repository/tests/cluster/image.py" "$name" "$out" "${options[@]}" "$root:/"
