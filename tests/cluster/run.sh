#!/usr/bin/env bash
# Proves the main job on a real Kubernetes of one node, as root:
#     run.sh [--dockerfile] [--keep]
# builds what is missing, installs by helm on one cluster and by kubectl on another, checks, and takes all down again.
# --dockerfile builds the agent's image by the Dockerfile (dockerfile.sh), not out of build/release/spoor.
# --keep leaves the last cluster up, for looking around with enter.sh; down.sh ends it.
. "$(dirname "$0")/common.sh"

keep=false dockerfile=false
for option in "$@"; do
	case $option in
	--keep) keep=true ;;
	--dockerfile) dockerfile=true ;;
	*) die "usage: run.sh [--dockerfile] [--keep]" ;;
	esac
done
((EUID == 0)) || die "needs root: it makes namespaces, mounts and control groups"

# With PyYAML: of ./run's virtual environment, or the system's.
python=$repository/build/venv/bin/python
[[ -x $python ]] || python=python3
results=$CLUSTER_DIR/results
broken=0

# What a cluster may change on the machine.
machine_state() {
	sysctl "${kernel_settings[@]}"
	grep -F "$CLUSTER_DIR" /proc/self/mounts || true
	find /sys/fs/cgroup -maxdepth 2 -name 'kubepods*' -o -maxdepth 2 -name cluster-test
	pgrep -af "$bin/|$here/holder.sh" || true
	ip -brief link
}

# way NAME PIDS CERTIFICATE: one cluster, with the checks of that name.
way() {
	if ! CLUSTER_PIDS=$2 CLUSTER_KUBELET_CERTIFICATE=$3 "$here/up.sh"; then
		broken=$((broken + 1))
		tail -n 5 "$log"/*.log >&2
		return
	fi
	local counts
	counts=$(wc -l <"$results")
	"$here/enter.sh" "$python" "$here/check.py" "$1" || true
	if (($(wc -l <"$results") == counts)); then
		echo "FAIL $1: the checks ended before their time"
		broken=$((broken + 1))
	fi
	if [[ -d $run/node/var/log/pods ]]; then cp -r "$run/node/var/log/pods" "$log/pods-$1"; fi
}

# Whatever happens, nothing is left, unless asked for.
finish() { if ! $keep; then "$here/down.sh" 2>/dev/null; fi; }
trap finish EXIT
trap 'exit 130' INT TERM

"$here/down.sh" 2>/dev/null
"$here/build.sh"
if $dockerfile; then "$here/dockerfile.sh" "$images/spoor.tar"; fi
rm -rf "$results" "$log"/pods-*
touch "$results"
before=$(machine_state)
way helm machine signed
"$here/down.sh"
way manifests own own
if $keep; then
	say "the cluster is up: $here/enter.sh kubectl get pods -A"
else
	"$here/down.sh"
	# What held the namespaces ends a moment after what was in them.
	for _ in {1..50}; do
		after=$(machine_state)
		if [[ $before == "$after" ]]; then break; fi
		sleep 0.1
	done
	if [[ $before == "$after" ]]; then
		echo "ok   nothing is left on the machine"
		echo 1 0 >>"$results"
	else
		echo "FAIL something is left on the machine:"
		diff <(echo "$before") <(echo "$after") || true
		echo 0 1 >>"$results"
	fi
fi
read -r passed failed < <(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$results")
failed=$((failed + broken))
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
