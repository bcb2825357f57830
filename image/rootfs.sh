#!/bin/sh
# Lays out the root of the image: the agent, the shared libraries that it needs, their licences, and the authorities
# that sign collectors' certificates. No shell, no package manager, nothing else.
#     image/rootfs.sh BUILD/spoor FOLDER
# Run by the Dockerfile, and by the cluster tests where there is no Docker.
set -eu

program=$1
root=$2

# put MODE FILE [PATH]: copies what FILE links to, at the same path unless another is given.
put() {
	mode=$1 from=$2 to=$root${3:-$2}
	[ -e "$to" ] || install -D -m "$mode" "$(readlink -f "$from")" "$to"
}

mkdir -p "$root"
put 0755 "$program" /usr/bin/spoor
strip --strip-all "$root/usr/bin/spoor"

# libgcc_s is not linked to, but loaded by glibc when a thread ends early.
libraries=$(ldd "$program" | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x[0-9a-f]*)$/\1/p')
if ldd "$program" | grep -q 'not found'; then
	ldd "$program" >&2
	exit 1
fi
libgcc=$(ldconfig -p | sed -n 's/.*libgcc_s\.so\.1 .*x86-64.* => //p;s/.*libgcc_s\.so\.1 .*AArch64.* => //p' | head -n 1)
names=
for library in $libraries $libgcc; do
	put 0755 "$library"
	# The package may know it by any of these.
	names="$names $library /usr$library $(readlink -f "$library")"
done
# shellcheck disable=SC2086 # a list of paths
for package in $(dpkg-query -S $names 2>/dev/null | sed -n '/^diversion /d;s/^\([^: ]*\).*/\1/p' | sort -u); do
	put 0644 "/usr/share/doc/$package/copyright"
done

put 0644 /etc/ssl/certs/ca-certificates.crt
mkdir -p "$root/etc" "$root/proc" "$root/sys" "$root/tmp"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'root:x:0:0:root:/:/sbin/nologin' >"$root/etc/passwd"
