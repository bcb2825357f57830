#!/usr/bin/env python3
"""Proves on a real cluster that the chart and the plain manifests do the main job.

    check.py helm        installs by helm with default values, on a kubelet whose certificate the cluster signed
    check.py manifests   installs by kubectl apply -f k8s/, on a kubelet with a certificate of its own

Runs inside the cluster's namespaces: run.sh starts it. Each result is one line; the counts go to CLUSTER_DIR/results."""
import calendar
import json
import os
import re
import subprocess
import sys
import time
import traceback

import kubernetes as k8s
from kubernetes import Failed, get, helm, kubectl, pods, probes, status, wait_until

CAPABILITIES = 1 << 2 | 1 << 19 | 1 << 38 | 1 << 39  # DAC_READ_SEARCH, SYS_PTRACE, PERFMON, BPF
AGENT = "app.kubernetes.io/name=spoor,app.kubernetes.io/component=agent"
CHART = k8s.ROOT / "helm/spoor"
# Part of the path of every request, so that nothing of an earlier run is counted.
RUN = f"{os.getpid()}-{int(time.time())}"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def expect(what, wanted, got):
    if wanted != got:
        raise Failed(f"{what}: wanted {wanted!r}, got {got!r}")


def expect_in(what, wanted, got):
    if wanted not in got:
        raise Failed(f"{what}: {wanted!r} is not in {got!r}"[:1500])


def agent():
    found = pods("spoor", AGENT)
    expect("agents", 1, len(found))
    return found[0]


def agent_url(path):
    return f"http://{agent().ip}:9464{path}"


def agent_status():
    """/status, asked for from within the pod's network."""
    return json.loads(k8s.run("nsenter", "--target", agent().pid(), "--net", "curl", "-sf", "http://127.0.0.1:9464/status"))


def metrics():
    """Family and labels -> value, of the agent's own page."""
    lines = get(agent_url("/metrics"))[2].splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def counts(selector):
    """Probes in each pod; an empty list is no answer."""
    found = [probes(p.pid()) for p in pods("shop", selector)]
    if not found:
        raise Failed(f"no pod of {selector}")
    return found


def all_probed():
    return all(counts("app=cart"))


def none_probed(selector):
    return not any(counts(selector))


def spans_of(run):
    return [s for s in k8s.spans() if s.path and s.path.startswith(f"/hello/{run}-{RUN}-")]


def ask(run, selector, count):
    """count requests to each pod under paths that no other run has; the paths by pod."""
    asked = {}
    for pod in pods("shop", selector):
        asked[pod.name] = [f"/hello/{run}-{RUN}-{pod.name}-{i}" for i in range(count)]
        for path in asked[pod.name]:
            expect(path, 200, get(f"http://{pod.ip}:8080{path}")[0])
    return asked


def arrive(run, selector="app=cart", count=20):
    """Sends requests and waits until each has its span: one, of its pod."""
    asked = ask(run, selector, count)
    total = sum(map(len, asked.values()))
    wait_until(f"{total} spans of {run}", 20, lambda: len(spans_of(run)) >= total)
    time.sleep(2)  # more than that would be as wrong
    wanted = {path: [pod] for pod, paths in asked.items() for path in paths}
    got = {}
    for span in spans_of(run):
        got.setdefault(span.path, []).append(span.resource.get("k8s.pod.name"))
    expect("requests with other pods than asked", {}, {p: got.get(p) for p in wanted if got.get(p) != wanted[p]})
    expect("spans of no request", set(), set(got) - set(wanted))


# --- checks of both ways to install

def the_daemonset_is_ready():
    kubectl("-n", "spoor", "rollout", "status", "daemonset/spoor", "--timeout=90s")
    state = json.loads(kubectl("-n", "spoor", "get", "daemonset", "spoor", "-o", "json"))["status"]
    expect("desired, ready", (1, 1), (state["desiredNumberScheduled"], state["numberReady"]))
    expect("/readyz", 200, get(agent_url("/readyz"))[0])
    expect("/healthz", 200, get(agent_url("/healthz"))[0])


def the_agent_has_four_capabilities_and_no_more():
    pid = agent().pid()
    state = status(pid)
    for kind in "CapEff", "CapPrm", "CapBnd":
        expect(kind, f"{CAPABILITIES:016x}", state[kind])
    expect("CapAmb", f"{0:016x}", state["CapAmb"])
    expect("NoNewPrivs", "1", state["NoNewPrivs"])
    expect("program", "spoor", state["Name"])


def the_agents_root_is_read_only_and_nothing_of_the_host_is_mounted():
    pod = agent()
    expect("hostPath", [], [v for v in pod.item["spec"]["volumes"] if "hostPath" in v])
    mounts = [line.split() for line in open(f"/proc/{pod.pid()}/mounts")]
    (root,) = [m for m in mounts if m[1] == "/"]
    expect_in("options of /", "ro", root[3].split(","))
    if os.stat(f"/proc/{pod.pid()}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
        raise Failed("the agent is on the node's network")


def annotated_pods_get_probes():
    wait_until("probes in both pods of cart", 60, all_probed)


def each_request_becomes_one_span():
    arrive("first")


def the_spans_say_where_they_come_from():
    node = json.loads(kubectl("get", "node", k8s.NODE_NAME, "-o", "json"))
    expect("node", k8s.NODE_NAME, node["metadata"]["name"])
    by_name = {p.name: p for p in pods("shop", "app=cart")}
    seen = set()
    for span in spans_of("first"):
        pod, have = by_name[span.resource["k8s.pod.name"]], span.resource
        seen.add(pod.name)
        wanted = {
            "service.name": "cart", "service.namespace": "shop", "service.instance.id": f"shop.{pod.name}.server",
            "k8s.namespace.name": "shop", "k8s.deployment.name": "cart", "k8s.container.name": "server",
            "k8s.pod.uid": pod.uid, "k8s.node.name": k8s.NODE_NAME, "container.id": pod.container_id,
            "container.image.name": "cluster.test/demo", "container.image.tags": ["1"],
            "deployment.environment.name": "test", "telemetry.sdk.language": "go",
        }
        expect("resource", wanted, {key: have.get(key) for key in wanted})
        wanted = {"http.request.method": "GET", "http.response.status_code": 200, "http.route": "/hello/{name}",
                  "url.path": span.path, "url.scheme": "http", "server.address": pod.ip, "server.port": 8080}
        expect("attributes", wanted, {key: span.attributes.get(key) for key in wanted})
        expect("name and kind", ("GET /hello/{name}", 2), (span.name, span.kind))
    expect("pods", set(by_name), seen)


def health_probes_become_no_spans():
    expect("spans of the kubelet's probes", 0, len([s for s in k8s.spans() if s.path == "/hello/probe"]))


def a_pod_that_did_not_ask_is_untouched():
    ask("plain", "app=plain", 20)
    time.sleep(3)
    expect("spans", 0, len(spans_of("plain")))
    if not none_probed("app=plain"):
        raise Failed("its code was changed")


def every_process_is_decided_about():
    """Also the pods' sandboxes, whose containers the kubelet never names."""
    def pending():
        # The machine may have others that look like a pod's and are in none.
        return [p for p in agent_status()["processes"] if p["state"] == "pending" and "pod" in p]

    wait_until("no process of a pod to be pending", 120, lambda: not pending())


# --- every kind of workload

# Pod -> (port of each container that is traced, resource attributes beside those of every pod).
ZOO = {
    "stateful": ({"server": 8080}, {"service.name": "stateful", "k8s.statefulset.name": "stateful"}),
    "daemon": ({"server": 8080}, {"service.name": "daemon", "k8s.daemonset.name": "daemon"}),
    "once": ({"server": 8080}, {"service.name": "once", "k8s.job.name": "once"}),
    "tick": ({"server": 8080}, {"service.name": "tick", "k8s.cronjob.name": "tick", "k8s.job.name": "tick-29000000"}),
    "pair": ({"second": 8082}, {"service.name": "pair"}),
    "shared": ({"first": 8081, "second": 8082, "debugger": 8083}, {"service.name": "shared"}),
    "on-the-node": ({"server": 18081}, {"service.name": "on-the-node"}),
    "with-sidecar": ({"sidecar": 8081, "main": 8080}, {"service.name": "with-sidecar"}),
    # The kubelet lists it by the hash of its file, not by the uid that the API server knows: no uid is better than that.
    "static": ({"server": 8080}, {"service.name": "static-node1", "k8s.pod.uid": None}),
}


def zoo_pod(app):
    found = pods("zoo", f"app={app}")
    return found[0] if len(found) == 1 else None


def make_the_zoo():
    kubectl("apply", "-f", k8s.HERE / "manifests/zoo.yaml")
    if not zoo_pod("tick"):
        kubectl("-n", "zoo", "create", "job", "tick-29000000", "--from=cronjob/tick")
    (k8s.RUN / "static-pods/static.yaml").write_text((k8s.HERE / "manifests/static.yaml").read_text())
    wait_until("every pod", 30, lambda: all(zoo_pod(app) for app in ZOO))
    kubectl("-n", "zoo", "wait", "--for=condition=Ready", "pod", "-l", "zoo=animal", "--timeout=60s")
    if "debugger" not in zoo_pod("shared").containers():
        kubectl("-n", "zoo", "debug", "shared", "--image=cluster.test/demo:1", "--container=debugger", "--env=PORT=8083")
    wait_until("every container", 30, lambda: all(set(ports) <= set(zoo_pod(app).containers()) for app, (ports, _) in ZOO.items()))


def zoo_traced(app):
    """Whether each container that asked has probes, and none other has."""
    pod, (ports, _) = zoo_pod(app), ZOO[app]
    return all((probes(pod.pid(name)) > 0) == (name in ports) for name in pod.containers())


def spans_of_container(app, name, port):
    """Asks a container and waits for its spans."""
    path = f"/hello/{app}-{name}-{RUN}-{time.monotonic_ns()}-"
    pod = zoo_pod(app)
    for i in range(3):
        expect(path, 200, get(f"http://{pod.ip}:{port}{path}{i}")[0])
    find = lambda: [s for s in k8s.spans() if (s.path or "").startswith(path)]
    wait_until(f"spans of {app}/{name}", 20, lambda: len(find()) >= 3)
    return pod, find()


def every_kind_of_workload_and_container_is_traced_under_its_name():
    make_the_zoo()
    for app in ZOO:
        wait_until(f"probes in {app} as asked", 60, lambda: zoo_traced(app))
    for app, (ports, attributes) in ZOO.items():
        for name, port in ports.items():
            pod, found = spans_of_container(app, name, port)
            wanted = {"k8s.pod.uid": pod.uid, **attributes, "k8s.pod.name": pod.name, "k8s.namespace.name": "zoo",
                      "k8s.container.name": name, "container.id": pod.containers()[name]}
            for span in found:
                expect(f"resource of {app}/{name}", wanted, {key: span.resource.get(key) for key in wanted})
            expect(f"spans of {app}/{name}", 3, len(found))
    expect("spans of the pod that refuses", [], [s for s in k8s.spans() if s.resource.get("k8s.pod.name") == "refuses"])


def a_container_that_crashes_is_traced_again():
    before = zoo_pod("stateful")
    os.kill(before.pid(), 9)
    wait_until("the restart", 40, lambda: zoo_pod("stateful").containers().get("server") not in (None, before.container_id))
    wait_until("probes", 40, lambda: zoo_traced("stateful"))
    pod, found = spans_of_container("stateful", "server", 8080)
    expect("container", {pod.container_id}, {s.resource["container.id"] for s in found})


def selectors_select_and_a_refusal_wins():
    helm("upgrade", "spoor", CHART, "-n", "spoor", "--reuse-values", "--wait", "--timeout", "90s",
         "--set", "config.discovery.mode=selector", "--set", "config.discovery.namespaces={sh*,zoo}")
    the_daemonset_is_ready()
    wait_until("probes in plain", 40, lambda: all(counts("app=plain")))
    arrive("selected", "app=plain", 5)
    wait_until("probes in pair", 40, lambda: zoo_traced("pair"))
    expect("probes of the pod that refuses", 0, probes(zoo_pod("refuses").pid()))


def the_agent_never_restarted_and_has_nothing_to_complain_of():
    state = agent().item["status"]["containerStatuses"][0]
    expect("restarts", 0, state["restartCount"])
    lines = [json.loads(line) for line in kubectl("-n", "spoor", "logs", agent().name).splitlines()]
    expect("warnings and errors", [], [line for line in lines if line["level"] in ("warn", "error")])
    m = metrics()
    # A process may end while it is looked at, and each container begins as runc, a Go program with nothing to trace.
    usual = 'reason="process_gone"', 'reason="nothing_to_trace"'
    bad = {k: v for k, v in m.items() if v and not any(u in k for u in usual) and k.startswith((
        "spoor_attach_failures", "spoor_bpf_lost", "spoor_operations_skipped", "spoor_kubelet_failed", "spoor_otlp_failed"))}
    expect("counters of what went wrong", {}, bad)


# --- by helm

def the_clusters_authority_is_trusted():
    expect("TLS mode", "ca", agent_status()["kubelet"]["tls_mode"])


def the_kubelets_certificate_is_the_clusters():
    expect("verified by the cluster's CA", True, k8s.kubelet_certificate_is_signed_by_the_cluster())


def helm_installs_with_default_values():
    helm("install", "spoor", CHART, "-n", "spoor", "--create-namespace", "--wait", "--timeout", "90s")


def the_metrics_page_is_what_prometheus_wants():
    code, headers, body = get(agent_url("/metrics"))
    expect("status and type", (200, METRICS_TYPE), (code, headers["Content-Type"]))
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"promtool: {done.stdout}{done.stderr}")
    m = metrics()
    expect("attaches that were timed", m["spoor_attach_total"], m["spoor_attach_duration_seconds_count"])


def every_span_is_accounted_for():
    def balance():
        m = metrics()
        total = lambda family: sum(v for k, v in m.items() if k.split("{")[0] == "spoor_" + family)
        made, queued = total("spans_produced_total"), total("export_queue_items")
        out = total("spans_exported_total") + total("spans_dropped_total") + total("spans_sampled_out_total")
        return made >= 40 and made == out + queued

    wait_until("produced = exported + dropped + sampled out + queued", 15, balance)


# Debian's Prometheus is built without service discovery by Kubernetes.
PROMETHEUS = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%(rules)s]
scrape_configs:
  - job_name: pods
    static_configs: [{targets: ["%(ip)s:9464"], labels: {namespace: spoor, pod: %(pod)s}}]
"""


def a_real_prometheus_scrapes_the_agent_and_evaluates_the_alerts():
    folder, base = k8s.RUN / "prometheus", "http://127.0.0.1:9090/api/v1"
    folder.mkdir(exist_ok=True)
    pod = agent()
    (folder / "prometheus.yml").write_text(PROMETHEUS % {
        "rules": CHART / "files/rules.yaml", "ip": pod.ip, "pod": pod.name})

    def ask_prometheus(path):
        try:
            return json.loads(get(base + path)[2])["data"]
        except (OSError, ValueError):
            return {}  # it starts

    def scraped():
        targets = ask_prometheus("/targets").get("activeTargets", [])
        return targets if [t["health"] for t in targets] == ["up"] else None

    def evaluated():
        groups = ask_prometheus("/rules").get("groups", [])
        health = {r["name"]: r["health"] for g in groups for r in g["rules"]}
        return health if health and "unknown" not in health.values() else None

    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            ["prometheus", "--config.file", folder / "prometheus.yml", "--storage.tsdb.path", folder / "data",
             "--web.listen-address", "127.0.0.1:9090"], stdout=log, stderr=log)
    try:
        wait_until("a target that is up", 30, scraped)
        result = wait_until("spoor_ready", 10, lambda: ask_prometheus("/query?query=spoor_ready").get("result"))
        expect("spoor_ready", "1", result[0]["value"][1])
        health = wait_until("rules", 90, evaluated)
        expect("rules that fail", {}, {name: h for name, h in health.items() if h != "ok"})
        known = set(ask_prometheus("/label/__name__/values"))
        used = {f"spoor_{m}" for m in re.findall(r"\bspoor_(\w+)", (CHART / "files/rules.yaml").read_text())}
        expect("metrics of the rules that the agent lacks", set(), used - known)
    finally:
        server.terminate()
        server.wait(10)


def helms_own_test_passes():
    helm("test", "spoor", "-n", "spoor", "--timeout", "60s")


def the_agent_checks_itself_in_its_pod():
    found = json.loads(kubectl("-n", "spoor", "exec", "daemonset/spoor", "--", "spoor", "check", "--json"))
    expect("checks that are not ok", [], [c for c in found["checks"] if c["state"] != "ok" and not c["found"].startswith("off (")])


def a_changed_value_rolls_the_agent():
    before = agent()
    helm("upgrade", "spoor", CHART, "-n", "spoor", "--reuse-values", "--set", "config.kubelet.refresh=2s",
         "--set", "config.metrics.interval=2s", "--set", "config.metrics.exporters={otlp,prometheus}", "--wait", "--timeout", "90s")
    the_daemonset_is_ready()
    if agent().uid == before.uid:
        raise Failed("the pod is the old one")
    the_agent_has_four_capabilities_and_no_more()
    wait_until("probes of the new agent", 60, all_probed)
    arrive("second", count=5)


def requests_are_measured_for_the_collector_and_for_prometheus():
    """By the new agent, which has seen those of the run before alone: five to each pod, and no probe of the kubelet's."""
    names = [p.name for p in pods("shop", "app=cart")]
    since = calendar.timegm(time.strptime(agent().item["status"]["startTime"], "%Y-%m-%dT%H:%M:%SZ"))

    def sent():
        last = {}
        for resource, count, start, at in k8s.histograms("http.server.request.duration"):
            pod = resource.get("k8s.pod.name")
            if pod in names and start / 1e9 >= since:
                last[pod, start] = max(last.get((pod, start), (0, 0)), (at, count))
        return {pod: sum(c for (p, _), (_, c) in last.items() if p == pod) for pod in names}

    def scraped():
        page = get(f"http://{agent().ip}:9465/metrics")[2]
        lines = [line for line in page.splitlines() if line.startswith("http_server_request_duration_seconds_count{")]
        return {pod: sum(float(line.rsplit(" ", 1)[1]) for line in lines if f'k8s_pod_name="{pod}"' in line) for pod in names}

    wait_until("five requests of each pod in the collector's metrics", 20, lambda: sent() == dict.fromkeys(names, 5))
    expect("the same on the page for Prometheus", dict.fromkeys(names, 5.0), scraped())


def the_runtime_of_go_is_read_with_the_rights_that_the_agent_has():
    names = {p.name for p in pods("shop", "app=cart")}

    def counted():
        return {r.get("k8s.pod.name"): int(p["asInt"]) for r, p in k8s.points("go.goroutine.count", "sum")}

    wait_until("the goroutines of each pod in the collector's metrics", 20, lambda: names <= set(counted()))
    expect("pods without goroutines", [], [pod for pod in names if counted()[pod] < 3])
    page = get(f"http://{agent().ip}:9465/metrics")[2]
    for pod in names:
        expect_in("the page for Prometheus", f'k8s_pod_name="{pod}"', "".join(re.findall(r"^go_goroutine_count\{.*$", page, re.M)))


def the_status_page_is_for_port_forwards_only():
    expect("/status from elsewhere", 403, get(agent_url("/status"))[0])
    forward = subprocess.Popen(["kubectl", "-n", "spoor", "port-forward", "daemonset/spoor", "19464:9464"],
                               stdout=subprocess.PIPE, text=True)
    try:
        expect_in("port-forward", "Forwarding from 127.0.0.1:19464", forward.stdout.readline())
        code, _, body = get("http://127.0.0.1:19464/status")
        expect("/status", 200, code)
        json.loads(body)
        for pod in pods("shop", "app=cart"):
            expect_in("/status", pod.name, body)
    finally:
        forward.terminate()
        forward.wait(10)


def the_annotation_taken_away_removes_the_probes():
    kubectl("-n", "shop", "annotate", "pod", "-l", "app=cart", "spoor.dev/instrument-")
    wait_until("probes to be gone", 30, lambda: none_probed("app=cart"))
    ask("off", "app=cart", 5)
    time.sleep(3)
    expect("spans", 0, len(spans_of("off")))


def the_annotation_given_again_brings_them_back():
    kubectl("-n", "shop", "annotate", "pod", "-l", "app=cart", "spoor.dev/instrument=true")
    wait_until("probes", 30, all_probed)
    arrive("again", count=5)


def a_new_pod_is_traced_as_it_comes():
    old = {p.name for p in pods("shop", "app=cart")}
    kubectl("-n", "shop", "rollout", "restart", "deployment/cart")
    kubectl("-n", "shop", "rollout", "status", "deployment/cart", "--timeout=60s")
    wait_until("old pods to be gone", 30, lambda: not old & {p.name for p in pods("shop", "app=cart")})
    wait_until("probes in the new pods", 30, all_probed)
    arrive(f"restarted-{time.monotonic_ns()}", count=5)


def the_charts_tests_render_what_helm_renders():
    done = subprocess.run([sys.executable, k8s.ROOT / "tests/chart/generate.py", "--check"], capture_output=True,
                          text=True, env={**os.environ, "HELM": "helm"})
    if done.returncode:
        raise Failed(done.stdout + done.stderr)


def the_api_server_takes_every_golden_render():
    for file in sorted((k8s.ROOT / "tests/chart/golden").glob("*.yaml")):
        documents = [d for d in re.split(r"(?m)^---\n", file.read_text()) if "apiVersion: monitoring.coreos.com" not in d]
        taken = kubectl("apply", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", stdin="---\n".join(documents))
        expect_in(file.name, "daemonset.apps/", taken)


def nothing_is_left(namespace_goes):
    kinds = ["daemonset", "pod", "configmap", "serviceaccount", "service", "clusterrole", "clusterrolebinding",
             "networkpolicy", "secret"]
    label = "app.kubernetes.io/name=spoor"
    wait_until("objects to be gone", 40, lambda: not kubectl(
        "get", ",".join(kinds), "-A", "-l", label, "-o", "name"))
    if namespace_goes:
        expect("namespace", "", kubectl("get", "namespace", "spoor", "--ignore-not-found"))
    wait_until("the probes to be gone", 10, lambda: none_probed("app=cart"))
    for pod in pods("shop", "app=cart"):
        expect("the program goes on", 200, get(f"http://{pod.ip}:8080/hello/after")[0])


def uninstalling_leaves_nothing():
    pid = agent().pid()
    helm("uninstall", "spoor", "-n", "spoor", "--wait", "--timeout", "60s")
    wait_until("the agent's process to end", 40, lambda: not os.path.exists(f"/proc/{pid}"))
    nothing_is_left(namespace_goes=False)


# --- by kubectl

def the_kubelets_certificate_is_its_own():
    expect("verified by the cluster's CA", False, k8s.kubelet_certificate_is_signed_by_the_cluster())


def the_nodes_certificate_is_pinned():
    """Read from the node's file system by way of process 1."""
    expect("TLS mode", "node-cert", agent_status()["kubelet"]["tls_mode"])


def kubectl_applies_the_plain_manifests():
    kubectl("apply", "-f", k8s.ROOT / "k8s")


def traces_go_on_while_the_kubelet_changes_its_certificate():
    with k8s.stopped_kubelet(own_certificate=False):
        arrive("outage", count=5)
    expect("verified by the cluster's CA", True, wait_until(
        "the kubelet", 30, k8s.kubelet_certificate_is_signed_by_the_cluster))
    wait_until("TLS mode ca", 60, lambda: agent_status()["kubelet"]["tls_mode"] == "ca")
    a_new_pod_is_traced_as_it_comes()
    with k8s.stopped_kubelet(own_certificate=True):
        pass
    wait_until("TLS mode node-cert", 60, lambda: agent_status()["kubelet"]["tls_mode"] == "node-cert")
    the_daemonset_is_ready()


def deleting_the_manifests_leaves_nothing():
    kubectl("delete", "-f", k8s.ROOT / "k8s", "--timeout=90s")
    nothing_is_left(namespace_goes=True)


INSTALLED = [
    the_daemonset_is_ready, the_agent_has_four_capabilities_and_no_more,
    the_agents_root_is_read_only_and_nothing_of_the_host_is_mounted, annotated_pods_get_probes,
    each_request_becomes_one_span, the_spans_say_where_they_come_from, health_probes_become_no_spans,
    a_pod_that_did_not_ask_is_untouched, every_process_is_decided_about,
]
WAYS = {
    "helm": [
        the_kubelets_certificate_is_the_clusters, the_charts_tests_render_what_helm_renders,
        helm_installs_with_default_values, *INSTALLED, the_clusters_authority_is_trusted, the_metrics_page_is_what_prometheus_wants,
        every_span_is_accounted_for, a_real_prometheus_scrapes_the_agent_and_evaluates_the_alerts, helms_own_test_passes,
        the_agent_checks_itself_in_its_pod, the_api_server_takes_every_golden_render, a_changed_value_rolls_the_agent,
        requests_are_measured_for_the_collector_and_for_prometheus, the_runtime_of_go_is_read_with_the_rights_that_the_agent_has,
        the_status_page_is_for_port_forwards_only,
        the_annotation_taken_away_removes_the_probes, the_annotation_given_again_brings_them_back,
        a_new_pod_is_traced_as_it_comes, every_kind_of_workload_and_container_is_traced_under_its_name,
        a_container_that_crashes_is_traced_again, the_agent_never_restarted_and_has_nothing_to_complain_of,
        selectors_select_and_a_refusal_wins, uninstalling_leaves_nothing,
    ],
    "manifests": [
        the_kubelets_certificate_is_its_own, kubectl_applies_the_plain_manifests, *INSTALLED, the_nodes_certificate_is_pinned,
        a_new_pod_is_traced_as_it_comes, every_kind_of_workload_and_container_is_traced_under_its_name,
        a_container_that_crashes_is_traced_again, the_agent_never_restarted_and_has_nothing_to_complain_of,
        traces_go_on_while_the_kubelet_changes_its_certificate, deleting_the_manifests_leaves_nothing,
    ],
}


def main():
    way = sys.argv[1]
    wanted = sys.argv[2:]  # names of checks, for work on one of them
    k8s.apply_collector()
    k8s.apply_shop()
    passed = failed = 0
    for check in WAYS[way]:
        if wanted and check.__name__ not in wanted:
            continue
        begin = time.monotonic()
        try:
            check()
            passed += 1
            verdict = "ok  "
        except Exception as error:  # a check that breaks has failed, and the others go on
            failed += 1
            verdict = "FAIL"
            reason = str(error) if isinstance(error, Failed) else traceback.format_exc()
        print(f"{verdict} {way}: {check.__name__.replace('_', ' ')} ({time.monotonic() - begin:.1f} s)", flush=True)
        if verdict == "FAIL":
            print("     " + reason.replace("\n", "\n     "), flush=True)
    with open(k8s.RUN.parent / "results", "a") as results:
        results.write(f"{passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
