"""Which pod a process is of, when it is traced, and what its spans say about it."""
import os
import shutil
import signal
import time

import pytest

from harness import truth
from harness.cgroup import LAYOUTS, Cgroups
from harness.load import Request, send
from harness.node import server
from harness.pods import ANNOTATION, Container, Pod, new_container_id
from harness.wait import stays, until


def spans_of(sink, target):
    return [s for s in sink.spans if s.resource.get("container.id") == target.container.id]


def check_traced(sink, target, n=3):
    """n requests are n spans of that very container."""
    before = len(spans_of(sink, target))
    requests = send(target.port, [Request("/fast") for _ in range(n)])
    until(lambda: len(spans_of(sink, target)) >= before + n, 10, "its spans arrive")
    mine = [s for s in spans_of(sink, target) if s.rid in {r.rid for r in requests}]
    truth.check(mine, requests)
    truth.check_pod(mine, target.pod, target.container)
    return mine


def check_untraced(sink, target, n=3, quiet=1.0):
    """n requests are no spans."""
    requests = send(target.port, [Request("/fast") for _ in range(n)])
    assert all(r.status == 200 for r in requests)
    time.sleep(quiet)
    assert not {r.rid for r in requests} & {s.rid for s in sink.spans}


# -- opt-in


def test_only_annotated_pods_are_traced(node):
    sink = node.sink()
    yes, no = node.run(), node.run(pod=Pod.of_deployment(opted_in=False))
    refused = node.run(pod=Pod.of_deployment(annotations={ANNOTATION: "false"}))
    outside = node.run_outside(server())
    agent = node.agent(sink)
    agent.wait_traced(yes.pid)
    check_traced(sink, yes)
    for other in (no, refused, outside):
        check_untraced(sink, other, quiet=0.3)
        assert not agent.traced(other.pid)


def test_the_annotation_added_and_removed_while_the_pod_runs(node):
    """Field case 31: probes come and go within one refresh."""
    sink = node.sink()
    target = node.run(pod=Pod.of_deployment(opted_in=False))
    agent = node.agent(sink)
    until(lambda: node.kubelet.asked(200) > 1, 10, "two pod lists")
    check_untraced(sink, target, quiet=0.3)
    for _ in range(3):
        target.pod.annotations[ANNOTATION] = "true"
        assert agent.wait_traced(target.pid, 5) < 3, "within a refresh (1 s)"
        check_traced(sink, target)
        target.pod.annotations[ANNOTATION] = "false"
        agent.wait_untraced(target.pid, 5)
        check_untraced(sink, target, quiet=0.3)
    assert target.process.running and agent.metric("spoor_instrumented_processes") == 0


def test_false_wins_over_every_selector(node):
    sink = node.sink()
    refused = node.run(pod=Pod.of_deployment(annotations={ANNOTATION: "false"}))
    silent = node.run(pod=Pod.of_deployment(opted_in=False))
    agent = node.agent(sink, discovery__mode="selector", discovery__namespaces=["sh*"])
    agent.wait_traced(silent.pid)
    check_traced(sink, silent)
    check_untraced(sink, refused)


def test_selectors_by_namespace_and_label_and_their_exclusions(node):
    sink = node.sink()
    chosen = node.run(pod=Pod.of_deployment(opted_in=False, labels={"tier": "web"}))
    other = node.run(pod=Pod.of_deployment(opted_in=False, labels={"tier": "db"}))
    system = node.run(pod=Pod.of_deployment(opted_in=False, namespace="kube-system", labels={"tier": "web"}))
    asked = node.run(pod=Pod.of_deployment(namespace="kube-system"))
    agent = node.agent(sink, discovery__mode="selector", discovery__labels=["tier=web"])
    for target in (chosen, asked):
        agent.wait_traced(target.pid)
        check_traced(sink, target)
    for target in (other, system):
        check_untraced(sink, target, quiet=0.3)


def test_mode_all_takes_every_go_program_of_a_pod_but_those_excluded(node):
    sink = node.sink()
    silent = node.run(pod=Pod.of_deployment(opted_in=False))
    refused = node.run(pod=Pod.of_deployment(annotations={ANNOTATION: "false"}))
    system = node.run(pod=Pod.of_deployment(opted_in=False, namespace="kube-system"))
    outside = node.run_outside(server())
    copy = node.folder / "otelcol-contrib"
    shutil.copy(server(), copy)
    excluded = node.run(copy, pod=Pod.of_deployment(opted_in=False))
    agent = node.agent(sink, discovery__mode="all")
    agent.wait_traced(silent.pid)
    check_traced(sink, silent)
    for target in (refused, system, outside, excluded):
        check_untraced(sink, target, quiet=0.2)
    reasons = {agent.process_state(t.pid)["reason"] for t in (refused, system, excluded)}
    assert len(reasons) == 3, reasons


def test_another_prefix_of_the_annotations(node):
    sink = node.sink()
    ours = node.run(pod=Pod.of_deployment(opted_in=False, annotations={"acme.test/instrument": "true"}))
    other = node.run()
    agent = node.agent(sink, discovery__annotation_prefix="acme.test")
    agent.wait_traced(ours.pid)
    check_traced(sink, ours)
    check_untraced(sink, other)


@pytest.mark.parametrize("value", ("True", "yes", "1", "", "TRUE", " true", "tru"))
def test_only_the_word_true_opts_in(shared_pods, value):
    """What is no "true" is no consent; the reason says what was found."""
    node, sink, agent = shared_pods
    target = node.run(pod=Pod.of_deployment(opted_in=False, annotations={ANNOTATION: value}))
    state = until(lambda: (s := agent.process_state(target.pid)).get("state") not in (None, "pending") and s, 10, "it is decided")
    assert state["state"] == "not_selected" and state["reason"], state
    target.stop(signal.SIGKILL)


def test_the_containers_annotation_names_the_containers(node):
    sink = node.sink()
    pod = Pod.of_deployment(containers=[Container("app"), Container("helper")], annotations={"spoor.dev/containers": "app"})
    app, helper = node.run(pod=pod), node.run(pod=pod, container=pod.containers[1])
    agent = node.agent(sink)
    agent.wait_traced(app.pid)
    check_traced(sink, app)
    check_untraced(sink, helper)


def test_traces_switched_off_for_a_pod_give_no_spans(node):
    sink = node.sink()
    pod = Pod.of_deployment(annotations={"spoor.dev/traces": "false"})
    target = node.run(pod=pod)
    other = node.run()
    agent = node.agent(sink)
    agent.wait_traced(other.pid)
    check_traced(sink, other)
    check_untraced(sink, target)


def test_without_kubernetes_processes_are_chosen_by_path_or_pid(node):
    """kubelet.source none: for laptops."""
    sink = node.sink()
    program = server()
    by_path, by_pid, neither = node.run_outside(program), node.run_outside(server("1.23")), node.run_outside(server("1.22"))
    agent = node.agent(sink, kubelet__source="none", discovery__executables=[f"*/{program.name}"], discovery__pids=[by_pid.pid])
    for target in (by_path, by_pid):
        agent.wait_traced(target.pid)
        requests = send(target.port, [Request("/fast")])
        sink.wait(1)
        until(lambda: any(s.rid == requests[0].rid for s in sink.spans), 10, "its span")
    check_untraced(sink, neither, quiet=0.3)
    span = next(s for s in sink.spans)
    assert not any(key.startswith("k8s.pod") for key in span.resource)
    assert node.kubelet.asked() == 0, "nobody is asked"


# -- identity


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_container_is_found_in_every_layout_of_control_groups(shared_pods, layout):
    """Field case 27."""
    node, sink, agent = shared_pods
    runtime = "cri-o" if "crio" in layout else "docker" if layout.startswith("docker") else "containerd"
    pod = Pod.of_deployment(qos="guaranteed" if layout == "cgroupfs_guaranteed" else "burstable", containers=[Container(runtime=runtime)])
    target = node.run(pod=pod, layout=layout)
    agent.wait_traced(target.pid)
    check_traced(sink, target)


@pytest.mark.parametrize("version", (1, 2))
def test_the_container_is_found_where_only_one_kind_of_control_groups_tells_it(shared_pods, version):
    """Version 1 alone, version 2 alone; on a machine that has one kind only, the other is tried there by nobody."""
    node, sink, agent = shared_pods
    try:
        groups = Cgroups(versions=(version,))
    except RuntimeError as e:
        pytest.skip(str(e))
    try:
        target = node.run(cgroups=groups)
        agent.wait_traced(target.pid)
        check_traced(sink, target)
        target.stop(signal.SIGKILL)
    finally:
        groups.close()


@pytest.fixture(scope="module")
def shared_pods(shared):
    sink = shared.sink()
    return shared, sink, shared.agent(sink)


def test_the_container_is_found_from_a_control_group_namespace_of_the_agents_own(node):
    """/proc/PID/cgroup then says /../..: as a container with cgroup v2 sees it."""
    sink = node.sink()
    own = node.cgroups.make(Pod(), Container("agent"))
    agent = node.agent(sink, wrap=["unshare", "--cgroup", "--"], folders=own)
    target = node.run()
    agent.wait_traced(target.pid)
    check_traced(sink, target)


def test_two_containers_of_a_pod_have_names_and_instance_ids_of_their_own(shared_pods):
    node, sink, agent = shared_pods
    pod = Pod.of_deployment("pair", containers=[Container("one", "r.test/one:1"), Container("two", "r.test/two:2")])
    targets = [node.run(pod=pod, container=c) for c in pod.containers]
    for target in targets:
        agent.wait_traced(target.pid)
    ids = {check_traced(sink, t)[0].resource["service.instance.id"] for t in targets}
    assert len(ids) == 2


def test_host_network_host_pid_and_shared_process_namespaces_are_never_mixed_up(shared_pods):
    """Field case 28."""
    node, sink, agent = shared_pods
    pods = [Pod.of_deployment("a", host_network=True, ip="127.0.0.1"), Pod.of_deployment("b", host_network=True, ip="127.0.0.1"),
            Pod.of_deployment("c", host_pid=True), Pod.of_deployment("d", host_pid=True),
            Pod.of_deployment("e", share_pid=True, containers=[Container("x"), Container("y")])]
    targets = [node.run(pod=p, container=c) for p in pods for c in p.containers]
    for target in targets:
        agent.wait_traced(target.pid)
    for target in targets:
        check_traced(sink, target)


@pytest.mark.parametrize("kind", ("sidecar", "init", "ephemeral"))
def test_sidecars_init_and_ephemeral_containers_count(shared_pods, kind):
    node, sink, agent = shared_pods
    pod = Pod.of_deployment(containers=[Container("app"), Container("extra", kind=kind)])
    target = node.run(pod=pod, container=pod.containers[1])
    agent.wait_traced(target.pid)
    check_traced(sink, target)


def test_a_static_pod_is_found_by_its_hash_and_told_by_its_mirrors_uid(shared_pods):
    node, sink, agent = shared_pods
    pod = Pod.of_deployment("static", static_hash="0f" * 16, annotations={"kubernetes.io/config.mirror": "0f" * 16})
    target = node.run(pod=pod)
    agent.wait_traced(target.pid)
    check_traced(sink, target)


def owner_case(owner, labels=None, **want):
    return pytest.param(owner, labels or {}, want, id=f"{owner[0] if owner else 'none'}-{owner[1] if owner else 'bare'}")


@pytest.mark.parametrize("owner, labels, want", [
    owner_case(("ReplicaSet", "web-5d4f8c7b9"), {"pod-template-hash": "5d4f8c7b9"}, deployment="web", replicaset="web-5d4f8c7b9"),
    owner_case(("ReplicaSet", "stand-alone"), {"pod-template-hash": "5d4f8c7b9"}, replicaset="stand-alone"),
    owner_case(("ReplicaSet", "no-label-5d4f8c7b9"), replicaset="no-label-5d4f8c7b9"),
    owner_case(("StatefulSet", "db"), statefulset="db"),
    owner_case(("DaemonSet", "logs"), daemonset="logs"),
    owner_case(("Job", "backup-29051234"), cronjob="backup", job="backup-29051234"),
    owner_case(("Job", "once"), job="once"),
    owner_case(("Job", "migrate-42"), job="migrate-42"),
    owner_case(()),
])
def test_owners_are_named_as_far_as_they_are_known_and_no_further(shared_pods, owner, labels, want):
    """Field case 29."""
    node, sink, agent = shared_pods
    pod = Pod(owner=owner, labels=dict(labels), annotations={ANNOTATION: "true"})
    target = node.run(pod=pod)
    agent.wait_traced(target.pid)
    resource = check_traced(sink, target, 1)[0].resource
    kinds = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob")
    assert {k: resource.get(f"k8s.{k}.name") for k in kinds} == {k: want.get(k) for k in kinds}
    order = ("deployment", "replicaset", "statefulset", "daemonset", "cronjob", "job")
    assert resource["service.name"] == next((want[k] for k in order if k in want), pod.name)


def test_annotations_name_the_service_before_everything_else(shared_pods):
    """Field case 30."""
    node, sink, agent = shared_pods
    pod = Pod.of_deployment("web", labels={"app.kubernetes.io/name": "ignored-by-default"}, annotations={
        "resource.opentelemetry.io/service.name": "checkout", "resource.opentelemetry.io/service.namespace": "payments",
        "resource.opentelemetry.io/service.version": "9.9", "resource.opentelemetry.io/service.instance.id": "i-1",
        "resource.opentelemetry.io/team": "blue"})
    target = node.run(pod=pod)
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast")])
    until(lambda: spans_of(sink, target), 10, "its span")
    r = spans_of(sink, target)[0].resource
    assert (r["service.name"], r["service.namespace"], r["service.version"], r["service.instance.id"], r["team"]) == \
        ("checkout", "payments", "9.9", "i-1", "blue")
    assert len(requests) == 1


def test_version_and_image_come_from_the_container(shared_pods):
    node, sink, agent = shared_pods
    digest = "sha256:" + "1f" * 32
    target = node.run(pod=Pod.of_deployment(containers=[Container("app", "registry.test:5000/shop/web:1.4.2", digest)]))
    agent.wait_traced(target.pid)
    r = check_traced(sink, target, 1)[0].resource
    assert r["service.version"] == f"1.4.2@{digest}"
    assert r["container.image.name"] == "registry.test:5000/shop/web" and r["container.image.tags"] == ["1.4.2"]
    assert r["container.image.repo_digests"] == [f"registry.test:5000/shop/web@{digest}"]
    assert r["process.runtime.name"] == "go" and r["process.runtime.version"].startswith("go1.26")
    assert r["telemetry.sdk.name"] == "spoor" and r["process.pid"] == target.pid
    assert r["process.executable.name"] == os.path.basename(target.process.argv[0])


# -- time


def test_a_process_is_traced_within_a_tenth_of_a_second_of_its_exec(node):
    """The pod is known before: no refresh is waited for."""
    sink = node.sink()
    agent = node.agent(sink, kubelet__refresh="1m")
    pod = Pod.of_deployment(containers=[Container("app"), Container("later", known=True)])
    first = node.run(pod=pod)
    agent.wait_traced(first.pid)
    times = []
    for _ in range(5):
        begin = time.monotonic()
        again = node.run(pod=pod, container=pod.containers[1])
        until(lambda: agent.traced(again.pid), 5, "traced", every=0.002)
        times.append(time.monotonic() - begin)
        again.stop()
    # What is measured here includes the start of the program and the status page's own time.
    assert sorted(times)[2] < 0.3, times


def test_a_container_id_that_the_kubelet_learns_late(node):
    """Field case 25."""
    sink = node.sink()
    agent = node.agent(sink)
    target = node.run(known=False)
    stays(lambda: not agent.traced(target.pid), 1.5)
    assert agent.process_state(target.pid).get("state") in ("pending", None), agent.process_state(target.pid)
    target.container.known = True
    assert agent.wait_traced(target.pid, 6) < 4
    check_traced(sink, target)


def test_a_kubelet_that_answers_500_for_a_while(node):
    """Field case 25."""
    sink = node.sink()
    agent = node.agent(sink)
    node.kubelet.mode = "500"
    target = node.run()
    stays(lambda: not agent.traced(target.pid), 4)
    node.kubelet.mode = "ok"
    agent.wait_traced(target.pid, 35)
    check_traced(sink, target)


def test_a_process_that_moves_into_its_control_group_late(node):
    """Field case 25. First one that the agent saw start, with seconds between two lists; then one that was there before it, moved
    when a list is due."""
    sink = node.sink()
    before = node.run(enter=False)
    agent = node.agent(sink, kubelet__refresh="1m")
    target = node.run(enter=False)
    stays(lambda: not agent.traced(target.pid), 4)
    node.cgroups.move(target.pid, target.folders)
    agent.wait_traced(target.pid, 9)
    check_traced(sink, target)
    agent.stop()
    agent = node.agent(sink, kubelet__refresh="2s")
    stays(lambda: not agent.traced(before.pid), 1)
    node.cgroups.move(before.pid, before.folders)
    agent.wait_traced(before.pid, 5)
    check_traced(sink, before)


def test_a_container_that_restarts_is_traced_again_with_its_new_id_and_count(node):
    """Field case 26."""
    sink = node.sink()
    agent = node.agent(sink)
    pod = Pod.of_deployment()
    first = node.run(pod=pod)
    agent.wait_traced(first.pid)
    check_traced(sink, first)
    for restarts in (1, 2):
        first.stop(signal.SIGKILL)
        pod.containers = [Container(restarts=restarts)]
        first = node.run(pod=pod)
        agent.wait_traced(first.pid)
        check_traced(sink, first)


def test_a_pid_used_again_by_another_pod_within_a_second_is_that_other_pod(node):
    """Field case 26. The kernel is told which pid comes next."""
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        pytest.fail("this kernel has no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)")
    sink = node.sink()
    agent = node.agent(sink)
    first = node.run()
    agent.wait_traced(first.pid)
    check_traced(sink, first)
    for _ in range(30):
        first.stop(signal.SIGKILL)
        pod = Pod.of_deployment("other")
        node.kubelet.set(pod)
        with open("/proc/sys/kernel/ns_last_pid", "w") as f:
            f.write(str(first.pid - 1))
        second = node.run(pod=pod)
        if second.pid == first.pid:
            break
        first = second
        agent.wait_traced(first.pid)
    assert second.pid == first.pid, "another process was faster, 30 times"
    agent.wait_traced(second.pid)
    until(lambda: agent.process_state(second.pid).get("pod") == second.pod.name, 5, "the second pod's name")
    check_traced(sink, second)


def test_a_shell_that_execs_the_program_and_a_program_that_execs_another(node):
    sink = node.sink()
    agent = node.agent(sink)
    target = node.run("/bin/sh", "-c", f"sleep 0.7; exec {server()} -truth")
    agent.wait_traced(target.pid)
    check_traced(sink, target)


def test_several_go_programs_in_one_container(node):
    sink = node.sink()
    agent = node.agent(sink)
    pod = Pod.of_deployment()
    targets = [node.run(server(v), pod=pod) for v in ("1.26", "1.23", "1.19")]
    rids = set()
    for target in targets:
        agent.wait_traced(target.pid)
        rids |= {r.rid for r in send(target.port, [Request("/fast")])}
    until(lambda: rids <= {s.rid for s in sink.spans}, 10, "one span of each")
    assert {s.resource["process.pid"] for s in sink.spans} == {t.pid for t in targets}


def test_five_pods_of_one_image_each_traced_and_the_first_ones_end_stops_nobody(node):
    """Field case 16."""
    sink = node.sink()
    agent = node.agent(sink)
    targets = [node.run() for _ in range(5)]
    for target in targets:
        agent.wait_traced(target.pid)
    for i, target in enumerate(targets):
        for other in targets[i:]:
            check_traced(sink, other, 1)
        target.stop(signal.SIGKILL)


@pytest.mark.parametrize("what", ("deleted", "replaced"))
def test_a_binary_deleted_or_replaced_while_it_runs(node, what):
    """Field case 16."""
    sink = node.sink()
    program = node.folder / "program"
    shutil.copy(server(), program)
    pod = Pod.of_deployment(opted_in=False)
    target = node.run(program, pod=pod)
    assert target.port
    program.unlink()
    if what == "replaced":
        shutil.copy(server("1.19"), program)
    agent = node.agent(sink)
    pod.annotations[ANNOTATION] = "true"
    agent.wait_traced(target.pid)
    check_traced(sink, target)


def test_health_probes_of_the_kubelet_and_of_the_pod_are_left_out(node):
    """Field case 23."""
    sink = node.sink()
    pod = Pod.of_deployment(containers=[Container(probe_paths={"livenessProbe": "/healthz"})])
    target = node.run(pod=pod)
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    probes = [Request("/fast", headers=[("User-Agent", "kube-probe/1.33")]), Request("/healthz", tag=False, trace=None)]
    real = [Request("/fast"), Request("/slow", headers=[("User-Agent", "not-kube-probe/1")])]
    send(target.port, probes + real, workers=1)
    sink.wait(2)
    time.sleep(0.5)
    truth.one_each(sink.spans, real)
    assert agent.dropped() == {"filtered": 2} and agent.conservation()["open"] == 0


def test_health_probes_are_kept_when_asked_for(node):
    sink = node.sink()
    pod = Pod.of_deployment(containers=[Container(probe_paths={"livenessProbe": "/healthz"})])
    target = node.run(pod=pod)
    agent = node.agent(sink, traces__health_probes=True)
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast", headers=[("User-Agent", "kube-probe/1.33")]), Request("/healthz")], workers=1)
    sink.wait(2)


def test_no_container_id_is_invented(node):
    """A pod whose container ids belong to others is never given this process."""
    sink = node.sink()
    agent = node.agent(sink)
    pod = Pod.of_deployment()
    stranger = Container(id=new_container_id())
    target = node.run(pod=pod, container=stranger)  # in a group of the pod, but of no container of it
    stays(lambda: not agent.traced(target.pid), 2)
    check_untraced(sink, target, quiet=0.3)
