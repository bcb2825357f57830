"""The agent beside other processes: who is left alone, PID namespaces, two agents, restarts, churn, memory."""
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from harness import truth
from harness.load import Request, count, send
from harness.node import server
from harness.otlp import CLIENT, SERVER
from harness.pods import ANNOTATION, Container, Pod
from harness.process import cpu, rss
from harness.wait import until


def text_of(pid, path):
    """The bytes of the executable mappings of that file in that process."""
    found = b""
    with open(f"/proc/{pid}/mem", "rb") as mem:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if "x" in words[1] and len(words) > 5 and words[5] == str(path):
                low, high = (int(x, 16) for x in words[0].split("-"))
                mem.seek(low)
                found += mem.read(high - low)
    assert found
    return found


def changes(a, b):
    return [i for i, (x, y) in enumerate(zip(a, b)) if x != y]


def test_a_process_that_has_not_opted_in_keeps_its_text_unchanged(node):
    """Field case 17: also when an opted-in pod runs the same file."""
    sink = node.sink()
    program = server()
    yes, no = node.run(program), node.run(program, pod=Pod.of_deployment(opted_in=False))
    assert yes.port and no.port
    before = text_of(no.pid, program)
    assert text_of(yes.pid, program) == before
    agent = node.agent(sink)
    agent.wait_traced(yes.pid)
    send(yes.port, [Request("/fast") for _ in range(20)])
    send(no.port, [Request("/fast") for _ in range(20)])
    probes = agent.process_state(yes.pid)["probes"]
    patched = changes(text_of(yes.pid, program), before)
    assert len(patched) == probes > 0, f"{probes} probes are {len(patched)} changed bytes"
    assert text_of(no.pid, program) == before
    # Opted out again: back to what it was.
    yes.pod.annotations[ANNOTATION] = "false"
    agent.wait_untraced(yes.pid)
    until(lambda: text_of(yes.pid, program) == before, 5, "the text is as it was")


def test_the_agent_touches_no_text_before_it_knows_the_pod(node):
    node.kubelet.mode = "500"
    program = server()
    target = node.run(program)
    assert target.port
    before = text_of(target.pid, program)
    node.agent(node.sink(), ready=False)
    time.sleep(2)
    assert text_of(target.pid, program) == before
    node.kubelet.mode = "ok"


def test_an_agent_in_a_pid_namespace_of_its_own(node):
    """As on kind: BPF sees other pids than the agent."""
    sink = node.sink()
    pod = Pod.of_deployment()
    folders = node.cgroups.make(pod, pod.main)
    node.kubelet.set(pod)
    agent = node.agent(sink, wrap=node.alone([folders, server(), "-truth"], [folders, server("1.19")]))
    until(lambda: sum(1 for p in agent.status()["processes"] if p["state"] == "traced") == 2, 20,
          lambda: f"both are traced: {agent.status()['processes']}")
    requests = []
    for i in range(2):
        requests.append(send(node.said_alone(i)["ports"]["h1"], [Request("/fast") for _ in range(50)]))
    sink.wait(100)
    for i, sent in enumerate(requests):
        rids = {r.rid for r in sent}
        truth.check([s for s in sink.spans if s.rid in rids], sent, routes=i == 0)
    truth.check_pod(sink.spans, pod)
    assert all(p["pid"] < 1000 for p in agent.status()["processes"] if p["state"] == "traced"), "pids as it sees them"


def test_two_agents_on_one_node_do_not_disturb_each_other(node):
    sinks = [node.sink(), node.sink()]
    target = node.run()
    agents = [node.agent(s) for s in sinks]
    for agent in agents:
        agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast") for _ in range(200)], workers=8)
    for sink in sinks:
        truth.check(sink.wait(200), requests)
    agents[0].stop()
    more = send(target.port, [Request("/fast") for _ in range(50)])
    sinks[1].wait(250)
    truth.check(sinks[1].spans, requests + more)


@pytest.mark.slow
def test_fifty_restarts_of_the_agent_leave_nothing_behind(node):
    """Field case 20."""
    sink = node.sink()
    program = server()
    target = node.run(program)
    assert target.port
    before = text_of(target.pid, program)
    agent, total = node.agent(sink, start=False), []
    for i in range(50):
        agent.start()
        agent.wait_traced(target.pid)
        total += send(target.port, [Request("/fast")])
        agent.stop(signal.SIGKILL if i % 5 == 4 else signal.SIGTERM, code=None if i % 5 == 4 else 0)
    until(lambda: text_of(target.pid, program) == before, 5, "the text is as it was")
    # A killed agent may take the last spans along; one that was asked to end may not.
    sure = [r for i, r in enumerate(total) if i % 5 != 4]
    assert {r.rid for r in sure} <= {s.rid for s in sink.spans}
    assert len({s.rid for s in sink.spans}) == len(sink.spans)


def open_files(agent):
    """What kinds of fds the agent holds, without the connections of the moment."""
    kinds = Counter()
    for fd in os.listdir(f"/proc/{agent.real_pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{agent.real_pid}/fd/{fd}").split(":[")[0]] += 1
        except OSError:
            pass
    del kinds["socket"]
    return kinds


def churn(node, agent, seconds):
    """Programs start, serve one request each, and end, some of them killed at once; others are no Go at all."""
    n, end = 0, time.monotonic() + seconds
    programs = [server("1.26"), server("1.19"), server("1.27", "pie")]
    while time.monotonic() < end:
        pod = Pod.of_deployment()
        target = node.run(programs[n % 3], pod=pod)
        for _ in range(20):
            subprocess.run(["/bin/true"], check=True)
        if n % 3:
            agent.wait_traced(target.pid)
            send(target.port, [Request("/fast")])
        target.stop(signal.SIGKILL)
        node.kubelet.remove(pod)
        node.targets.remove(target)
        n += 1
    return n


def test_process_churn_returns_to_the_base_line(node):
    """Field case 20 (some 30 seconds here; CHURN_SECONDS=600 makes it ten minutes)."""
    seconds = float(os.environ.get("CHURN_SECONDS", 30))
    sink = node.sink()
    agent = node.agent(sink)
    churn(node, agent, 8)  # caches and pools are warm now
    until(lambda: agent.metric("spoor_instrumented_processes") == 0, 10, "all are gone")
    files, memory = open_files(agent), rss(agent.real_pid)
    n = churn(node, agent, seconds)
    until(lambda: agent.metric("spoor_instrumented_processes") == 0, 10, "all are gone")
    until(lambda: not open_files(agent) - files, 15, lambda: f"after {n} programs these fds are left over: {open_files(agent) - files}")
    after = rss(agent.real_pid)
    assert after <= memory + (2 << 20), f"{memory >> 10} KB before, {after >> 10} KB after {n} programs"
    assert agent.conservation()["open"] == 0
    known = [p for p in agent.status()["processes"] if p["state"] == "traced"]
    assert not known, "no ghosts on the status page"


def test_twenty_traced_programs_cost_little_memory_and_it_comes_back(node):
    """Field case 19, the first half."""
    sink = node.sink()
    agent = node.agent(sink)
    first = node.run()
    agent.wait_traced(first.pid)
    one = rss(agent.real_pid)
    targets = [node.run() for _ in range(19)]
    for target in targets:
        agent.wait_traced(target.pid, 30)
    twenty = rss(agent.real_pid)
    assert twenty - one < 6 << 20, f"{one >> 10} KB with one, {twenty >> 10} KB with twenty"
    for target in targets:
        target.stop()
    until(lambda: agent.metric("spoor_instrumented_processes") == 1, 20, "one is left")
    time.sleep(1)
    assert rss(agent.real_pid) < twenty + (1 << 20)


def test_twenty_large_programs_cost_little_memory_and_time(node, pretend):
    """Field case 19: 20 files of 30-40 MB, none the same, one after the other through the analysis."""
    import thirdparty
    program = thirdparty.debian_program("caddy")
    agent = node.agent(node.sink())
    first = node.run(pretend, program)
    agent.wait_traced(first.pid, 40)
    one, used = rss(agent.real_pid), cpu(agent.real_pid)
    targets = []
    for i in range(20):
        copy = node.folder / f"large-{i}"
        shutil.copy(program, copy)
        targets.append(node.run(pretend, copy, pod=Pod.of_deployment(opted_in=False)))
        targets[-1].process.record("pretending")
    for target in targets:
        target.pod.annotations[ANNOTATION] = "true"
    for target in targets:
        agent.wait_traced(target.pid, 30)
        Path(target.process.argv[-1]).unlink()
    assert rss(agent.real_pid) - one < 6 << 20, f"{one >> 10} KB with one, {rss(agent.real_pid) >> 10} KB with 21"
    assert cpu(agent.real_pid) - used < 3, "some 50 ms each"


def test_a_full_target_table_is_told_and_room_is_used_again(node):
    sink = node.sink()
    agent = node.agent(sink, targets__max=2)
    targets = [node.run() for _ in range(2)]
    for target in targets:
        agent.wait_traced(target.pid)
    third = node.run()
    until(lambda: agent.metrics()['spoor_attach_failures_total{reason="no_slot"}'] >= 1, 10, "it is counted")
    state = agent.process_state(third.pid)
    assert state["state"] != "traced" and "targets.max" in state["reason"], state
    targets[0].stop(signal.SIGKILL)
    agent.wait_traced(third.pid, 40)


def test_in_flight_requests_of_an_ended_program_leave_nothing(node):
    """Requests that never end: process exit, opt-out. They are counted."""
    sink = node.sink()
    agent = node.agent(sink)
    target = node.run()
    agent.wait_traced(target.pid)
    slow = subprocess.Popen(["sh", "-c", f"for i in 1 2 3 4 5; do curl -s -m 4 'http://127.0.0.1:{target.port}/slow?ms=3000' & done; wait"],
                            stdout=subprocess.DEVNULL)
    time.sleep(1)
    target.stop(signal.SIGKILL)
    slow.wait(10)
    until(lambda: agent.metrics()['spoor_operations_abandoned_total{reason="process_exit"}'] == 5, 10,
          lambda: f"five abandoned operations are counted: {[k for k in agent.metrics() if 'aband' in k]}")
    assert not sink.spans


def test_opt_out_in_the_middle_of_a_request_and_in_again(node):
    sink = node.sink()
    agent = node.agent(sink)
    target = node.run()
    agent.wait_traced(target.pid)
    import threading
    slow = [Request("/slow?ms=3000") for _ in range(5)]
    thread = threading.Thread(target=send, args=(target.port, slow), kwargs={"workers": 5})
    thread.start()
    time.sleep(0.5)
    target.pod.annotations[ANNOTATION] = "false"
    agent.wait_untraced(target.pid)
    target.pod.annotations[ANNOTATION] = "true"
    agent.wait_traced(target.pid)
    thread.join()
    fresh = send(target.port, [Request("/fast") for _ in range(5)])
    until(lambda: {r.rid for r in fresh} <= {s.rid for s in sink.spans}, 10, "new requests are spans")
    time.sleep(0.5)
    assert not {r.rid for r in slow} & {s.rid for s in sink.spans}, "of the old ones no half is told"


def test_execve_notifications_that_have_piled_up_are_all_looked_at(node):
    """More than the control thread takes in one go, and none after them that would wake it again."""
    agent = node.agent(node.sink())
    before = agent.metric("spoor_exec_events_total")
    os.kill(agent.real_pid, signal.SIGSTOP)
    subprocess.run(["sh", "-c", "for i in $(seq 1500); do /bin/true; done"], check=True)
    os.kill(agent.real_pid, signal.SIGCONT)
    until(lambda: agent.metric("spoor_exec_events_total") >= before + 1500, 5, "all have been seen")
    assert agent.metric("spoor_exec_events_missed_total") == 0


def test_a_single_request_after_silence_is_not_late(node):
    """The agent sleeps for up to a second; a record wakes it, whenever it comes."""
    sink = node.sink()
    target = node.run()
    node.agent(sink).wait_traced(target.pid)
    late = []
    for i in range(12):
        time.sleep(0.25 + i * 0.013)
        begin = time.monotonic()
        rid = send(target.port, [Request("/fast")])[0].rid
        until(lambda: any(s.rid == rid for s in sink.spans), 5, "it arrives")
        late.append(time.monotonic() - begin)
    assert sorted(late)[-3] < 0.5, f"batch.delay is 0.1 s: {late}"


def test_programs_that_are_only_a_client_are_traced(node):
    """Field case 10: each library stands alone. The server's probes stay away or idle, the client's tell its calls."""
    from harness import gobuild
    from harness.node import NET_HTTP
    sink = node.sink()
    backend = node.run()
    agent = node.agent(sink)
    agent.wait_traced(backend.pid)
    client = node.run(gobuild.build(NET_HTTP / "client"), f"http://127.0.0.1:{backend.port}/fast?rid=from-client")
    until(lambda: any(s.rid == "from-client" and s.kind == SERVER for s in sink.spans), 10, "its calls are the server's spans")
    agent.wait_traced(client.pid)
    mine = until(lambda: [s for s in sink.spans if s.resource.get("container.id") == client.container.id], 10, "its calls are its own spans")
    assert {(s.kind, s.name, s.attrs["server.port"]) for s in mine} == {(CLIENT, "GET", backend.port)}
    assert client.process.running


def test_health_stays_good_under_load_and_idle(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    count(target.port, 3, workers=8)
    assert agent.get("/healthz")[0] == 200
    time.sleep(2)
    begin = cpu(agent.real_pid)
    time.sleep(5)
    assert cpu(agent.real_pid) - begin < 0.15, "an idle agent costs next to nothing"
    assert agent.get("/healthz")[0] == 200


def test_containers_of_one_pod_come_and_go_by_name(node):
    sink = node.sink()
    agent = node.agent(sink)
    pod = Pod.of_deployment(containers=[Container("a"), Container("b")])
    a, b = node.run(pod=pod), node.run(pod=pod, container=pod.containers[1])
    for t in (a, b):
        agent.wait_traced(t.pid)
    pod.annotations["spoor.dev/containers"] = "b"
    agent.wait_untraced(a.pid)
    assert agent.traced(b.pid)
