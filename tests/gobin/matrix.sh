#!/usr/bin/env bash
# Programs of every Go version and linker, each field of each struct compared with the DWARF of the unstripped twin.   matrix.sh [FOLDER [VERSION...]]
# About five minutes the first time, seconds after that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
out=${1:-$root/build/go-bins}
shift || true
[ $# -gt 0 ] || set -- go1.19 go1.21 go1.22 go1.23 go1.26 go1.27
mkdir -p "$out"
out=$(cd "$out" && pwd)

${CC:-cc} -O2 -g -D_GNU_SOURCE -I"$root" -I"$root/agent" -o "$out/ask" "$here/ask.c" "$root"/agent/gobin/*.c "$root"/agent/runtime/{plan,layout}.c -lZydis -ldw -lelf
for tool in check layouts; do
	(cd "$here/$tool" && GOFLAGS=-trimpath=false GOWORK=off go build -buildvcs=false -o "$out/$tool" .)
done

failed=0
bad() { echo "FAILED $*"; failed=1; }
is() { # PROGRAM WANTED: what the program is said to be begins so
	local got
	got=$("$out/ask" "$1" what 2>/dev/null)
	[[ $got == "$2"* ]] || bad "$1: '$got', not '$2'"
}

same() { # PROGRAM: each field of each struct is where the twin's DWARF has it
	local line name=${1##*/} twin
	twin=$out/$(cut -d. -f1,2 <<<"$name").dw
	if line=$("$out/check" "$twin" "$1" "$out/ask" 2>&1); then echo "$name: $line"; else bad "$name: $line"; fi
}

runtime() { # PROGRAM: Go's runtime is where its own symbols and DWARF say
	local wrong
	if wrong=$(diff <("$out/layouts" "$1") <("$out/ask" "$1" runtime)); then echo "${1##*/}: Go's runtime is found"; else bad "$1: $wrong"; fi
}

for version; do
	"$here/build.sh" "$out" "$version" "$version.dw" "$version.pie" "$version.cgo" "$version.trim"
	said=$("$out/ask" "$out/$version" what 2>"$out/cost")
	[[ $said == "ok $version"* && $said == *"places 0 0 modules 3" ]] || bad "$version: $said"
	echo "$version: $(cat "$out/cost")"
	same "$out/$version"
	runtime "$out/$version.dw"
	for kind in dw pie cgo trim; do is "$out/$version.$kind" "${said%modules*}"; done
	# Types lie elsewhere in a PIE: all fields once more, with the twin of the executable.
	same "$out/$version.cgo"
done

for version in go1.23 go1.26 go1.27; do
	"$here/build.sh" "$out" "$version" "$version.dw" "$version.lld" "$version.static" "$version.relr"
	said=$("$out/ask" "$out/$version" what 2>/dev/null)
	for kind in lld static relr; do
		is "$out/$version.$kind" "${said%modules*}"
		same "$out/$version.$kind"
	done
done

# What is refused, built for real. (A Go that is too old: tests/e2e, a program of Go 1.17.)
for arch in 386 arm64 s390x; do
	(cd "$here/prog" && GOFLAGS=-trimpath=false GOWORK=off CGO_ENABLED=0 GOARCH=$arch go build -buildvcs=false -ldflags="-s -w" -o "$out/$arch" .)
done
is "$out/386" 32_bit
[ "$(uname -m)" = aarch64 ] || is "$out/arm64" machine
is "$out/s390x" machine
[ "$failed" = 0 ] && echo "the matrix is right"
exit "$failed"
