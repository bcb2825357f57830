#!/usr/bin/env bash
# Builds the Dockerfile itself, without Docker and without a registry, and writes the image where up.sh takes it from:
#     dockerfile.sh OUT.tar
# For the base image it makes a Debian of the same release out of packages. Needs buildah and mmdebstrap; about 4 minutes.
. "$(dirname "$0")/common.sh"

for tool in buildah mmdebstrap; do
	command -v "$tool" >/dev/null || die "needs $tool: apt-get install buildah mmdebstrap"
done
out=$(realpath -m "$1")
work=$(mktemp -d)
base=$(sed -n 's/^FROM \(debian:[^ ]*\) AS build$/\1/p' "$repository/Dockerfile")
suite=${base#debian:}
suite=${suite%-slim}

# Mounts are made in namespaces of its own by the isolation chroot; what is left of them goes with the folder.
finish() { umount "$work"/store/overlay 2>/dev/null || true; rm -rf "$work"; }
trap finish EXIT

# The base image has a short name, as in the Dockerfile.
echo 'unqualified-search-registries = ["docker.io"]' >"$work/registries.conf"
build() {
	buildah --storage-driver vfs --registries-conf "$work/registries.conf" --root "$work/store" --runroot "$work/run" "$@"
}

mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
	sed -nE '/security/d;s,^(URIs:|deb) *([a-z]+://[^ ]+/debian)( .*)?$,\2,p' | sort -u | sed -n 1p)
say "making $base"
mmdebstrap --quiet --variant=apt "$suite" "$work/base.tar" "deb ${mirror:?no Debian mirror is known to apt} $suite main"
container=$(build from scratch)
build add --quiet "$container" "$work/base.tar" / >/dev/null
build config --env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$container"
build commit --quiet "$container" "docker.io/library/$base" >/dev/null
build rm "$container" >/dev/null
say 'building the Dockerfile'
build build --isolation chroot --network host --pull-never \
	--build-arg "REVISION=$(git -C "$repository" rev-parse --short=9 HEAD)" --tag spoor "$repository"
rm -f "$out"
build push --quiet localhost/spoor "oci-archive:$out:docker.io/spoor/spoor:$(cat "$repository/VERSION")"
say "written: $out"
