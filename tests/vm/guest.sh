#!/bin/sh
# guest.sh - in the guest: senders that are traced, a receiver that is not and looks at every byte of what they send.
#
#   guest.sh bytes KINDS N     the same bytes as without an agent, but for one traceparent
#   guest.sh all KINDS N       that; by an agent that is killed half-way; by one that samples nothing
#   guest.sh tree KINDS N      the server's span is the caller's child
#   guest.sh refused WHY [-]   the kernel refuses it; with -: the agent is run without CAP_SYS_ADMIN
#
# KINDS: h1 (HTTP/1 over TLS), h2, xnet (HTTP/2 of net/http and of golang.org/x/net), grpc. Prints PASS or FAIL last.
# shellcheck disable=SC2086,SC2317 # one word a kind; functions are called by name
rc=0 home=/tmp
cp /opt/traffic /opt/peer # the same program where nobody traces it
mount -t securityfs security /sys/kernel/security 2>/dev/null

port() { sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" "$1"; }
wrong() { echo "WRONG: $*"; rc=1; }

until_there() { # FILE TEXT
	for _ in $(seq 600); do
		grep -q "$2" "$1" 2>/dev/null && return 0
		sleep 0.1
	done
	wrong "no $2 in $1"
	tail -c 2000 "$1"
	return 1
}

status() { wget -qO- http://127.0.0.1:9464/status 2>/dev/null; }

agent_up() { # OPTIONS...
	spoor agent --discovery-executables /opt/traffic --exporters stdout --stdout-format json --propagation write "$@" \
		>>$home/spans 2>>$home/agent.log &
	agent=$!
	for _ in $(seq 900); do
		status >$home/status && grep -q '"ready": *true' $home/status && return 0
		kill -0 $agent 2>/dev/null || break
		sleep 0.1
	done
	wrong "the agent is not ready"
	tail -c 3000 $home/agent.log
	return 1
}

agent_down() { # SIGNAL
	kill "$1" $agent
	wait $agent
}

traced() { # PID
	for _ in $(seq 900); do
		status | tr -d ' \n' | grep -q "\"pid\":$1,[^{]*\"state\":\"traced\"" && return 0
		sleep 0.1
	done
	wrong "$1 is not traced"
	status | tail -c 1500
	return 1
}

counts() { # what came of it, by the agent's own count
	status | tr -d '\n' | sed 's/.*"inserted":/inserted:/; s/ "[a-z_]*": 0,\{0,1\}//g; s/}.*/}/; s/  */ /g'
	echo
}

sender() { # KIND PORTS OUT OPTIONS...: PID in $sender; begins when $home/go is there
	kind=$1 to=$(port "$2" "$1") file=$3
	shift 3
	rm -f $home/go
	traffic send -kind "$kind" -address "127.0.0.1:$to" -n "$n" -out "$file" -wait $home/go "$@" &
	sender=$!
}

run() { # the sender is traced, then sends all
	traced $sender || { kill $sender; return 1; }
	touch $home/go
	wait $sender || wrong "the sender failed"
}

receive() {
	peer serve >$home/ports &
	until_there $home/ports grpc || return
	for kind in $kinds; do # what arrives without an agent
		peer send -kind "$kind" -address "127.0.0.1:$(port $home/ports "$kind")" -n "$n" -out "$home/$kind.without"
	done
}

bytes() {
	receive
	agent_up || return
	for kind in $kinds; do
		echo "== $kind"
		sender "$kind" $home/ports "$home/$kind.with"
		run && { peer compare "$home/$kind.without" "$home/$kind.with" || wrong "$kind"; }
		counts
	done
	agent_down -TERM
}

all() {
	bytes
	agent_up || return
	for kind in $kinds; do
		echo "== $kind, the agent is killed"
		sender "$kind" $home/ports "$home/$kind.killed" -pace 20000
		traced $sender || continue
		touch $home/go
		sleep 1
		agent_down -9
		wait $sender || wrong "the sender failed"
		peer compare -want some "$home/$kind.without" "$home/$kind.killed" || wrong "$kind"
		agent_up || return
	done
	agent_down -TERM
	agent_up --traces-sampler always_off || return
	for kind in $kinds; do
		echo "== $kind, unsampled"
		sender "$kind" $home/ports "$home/$kind.off"
		run && { peer compare -flags 00 "$home/$kind.without" "$home/$kind.off" || wrong "$kind"; }
	done
	agent_down -TERM
}

tree() {
	agent_up || return
	traffic web >$home/web &
	web=$!
	until_there $home/web grpc && traced $web || return
	for kind in $kinds; do
		sender "$kind" $home/web /dev/null -plain
		run
	done
	sleep 1
	counts
	agent_down -TERM
	kill $web
	set -- $kinds
	peer joined -n $((n * $#)) $home/spans || wrong "the tree"
}

refused() { # WHY [-]
	: >$home/agent.log
	if [ "${2:-}" = - ]; then
		/opt/setpriv --bounding-set -sys_admin --inh-caps -sys_admin spoor check --propagation write
	else
		spoor check --propagation write
	fi >$home/check 2>&1
	grep -A2 "propagation" $home/check
	grep "degraded *propagation_write" $home/check | grep -q "$1" || wrong "not the reason"
	grep -q "ok *propagation " $home/check || wrong "headers do not work"
	[ $rc = 0 ] || cat $home/check
}

what=$1
shift
case $what in
refused) refused "$@" ;;
*)
	kinds=$1 n=$2
	$what
	;;
esac
if [ $rc = 0 ]; then
	echo PASS
else
	tail -c 3000 $home/agent.log
	echo FAIL
fi
exit $rc
