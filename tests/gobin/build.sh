#!/usr/bin/env bash
# Builds the programs that tests look into, those that are missing:   build.sh FOLDER [NAME...]
# NAME is go1.NN, with what is special about it behind: .dw (with symbols and DWARF), .pie (position independent, Go's linker), .cgo (PIE,
# linked by the system's linker), .lld (PIE, linked by lld), .static (static PIE), .relr (PIE with packed relocations), .trim (trimmed paths).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- go1.19 go1.19.pie go1.21 go1.22 go1.23 go1.23.cgo go1.26 go1.26.dw go1.26.pie go1.26.trim go1.26.lld go1.27 go1.27.pie go1.27.lld

# The distribution's compiler of that version, else the toolchain that `go` fetches.
go_for() {
	local patch
	if [ -x "/usr/lib/$1/bin/go" ]; then echo "/usr/lib/$1/bin/go"; return; fi
	case $1 in
	go-1.19) patch=13 ;; go-1.21) patch=13 ;; go-1.22) patch=12 ;; go-1.23) patch=5 ;; go-1.26) patch=8 ;; go-1.27) patch=3 ;;
	*) echo "build.sh: no Go called $1" >&2; return 1 ;;
	esac
	echo "env GOTOOLCHAIN=go${1#go-}.$patch go"
}

build() {
	local version=${1%.*} kind=${1##*.} go args=(-ldflags=-s\ -w) cgo=0
	[[ $1 == go1.*.* ]] || { version=$1 kind=; }
	go=$(go_for "go-${version#go}")
	[ ! -t 2 ] || echo "  $1" >&2
	case $kind in
	"") ;;
	dw) args=(-ldflags=) ;;
	pie) args+=(-buildmode=pie) ;;
	trim) args+=(-trimpath) ;;
	cgo) cgo=1 args=(-buildmode=pie -trimpath "-ldflags=-s -w -linkmode=external") ;;
	lld) cgo=1 args=(-buildmode=pie "-ldflags=-s -w -linkmode=external -extldflags=-fuse-ld=lld") ;;
	static) cgo=1 args=(-buildmode=pie "-ldflags=-s -w -linkmode=external -extldflags=-static-pie") ;;
	relr) cgo=1 args=(-buildmode=pie "-ldflags=-s -w -linkmode=external -extldflags=-Wl,-z,pack-relative-relocs") ;;
	*) echo "build.sh: what is $1?" >&2; return 1 ;;
	esac
	args+=(-buildvcs=false)
	# GOFLAGS must not be empty: an empty one means that of the user's settings, which old versions may not know.
	# shellcheck disable=SC2086
	(cd "$source" && GOFLAGS=-trimpath=false GOWORK=off CGO_ENABLED=$cgo $go build "${args[@]}" -o "$out/.$1.new" .) >"$out/$1.log" 2>&1 ||
		{ echo "build.sh: $1:" >&2; tail -5 "$out/$1.log" >&2; return 1; }
	mv "$out/.$1.new" "$out/$1"
}

source=${GOBIN_SOURCE:-$here/prog}
exec 9>"$out/.lock"
flock 9
for name; do
	if [ "$source/main.go" -nt "$out/$name" ] || [ ! -e "$out/$name" ]; then build "$name"; fi
done
