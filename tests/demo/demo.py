#!/usr/bin/env python3
"""Shows spoor at work on this machine, in about ten seconds and without a cluster.

Starts a small kubelet (HTTPS, bearer token), two Go web programs without symbols in control groups named like pods', one of which
calls the other, and the agent with the capabilities that the chart gives it with `propagation: headers`. Sends requests, prints
the spans as the agent prints them, of one request the whole tree, by the parents that its spans name, and metrics as Prometheus
would scrape them."""
import argparse
import os
import re
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import gobuild  # noqa: E402
from harness.agent import CHART_CAPABILITIES, Agent, effective_capabilities  # noqa: E402
from harness.certs import Certs  # noqa: E402
from harness.cgroup import Cgroups  # noqa: E402
from harness.kubelet import Kubelet  # noqa: E402
from harness.paths import WORK, agent_binary  # noqa: E402
from harness.pods import Container, Pod  # noqa: E402
from harness.ports import free_port  # noqa: E402
from harness.process import Process  # noqa: E402
from harness.wait import until  # noqa: E402

HERE = Path(__file__).resolve().parent
REQUESTS = (("GET", "/fast"), ("GET", "/fast?color=blue"), ("GET", "/slow"), ("GET", "/items/42"), ("GET", "/items/43"),
            ("GET", "/nowhere"), ("POST", "/broken"), ("GET", "/panic"))
SERVED = "http_server_request_duration_seconds"
STORY, STORY_SPANS = ("GET", "/orders/7"), 7
# A line of the stdout exporter: time, duration, service, pod, kind, operation, ids.
LINE = re.compile(r"(?P<time>\S+) +(?P<took>\S+) +(?P<service>\S+) +\S+ +(?P<kind>server|client)  (?P<operation>.*?) +"
                  r"trace=(?P<trace>\w+) span=(?P<span>\w+)(?: parent=(?P<parent>\w+))?$")
# A sample of Prometheus's text format, and a label of it.
SAMPLE, LABEL = re.compile(r"(\w+)\{(.*)\} (\S+)$", re.M), re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def say(text=""):
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `| head`: nobody reads any more, so end as if asked to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.kill(os.getpid(), signal.SIGTERM)
    except OSError:
        pass  # the terminal was closed: what follows cleans up all the same


def needs():
    """What this machine lacks, one sentence each."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: BPF programs are loaded and a control group is made (sudo ./run demo)")
    release = os.uname().release.split("-")[0].split(".")
    if (int(release[0]), int(release[1])) < (6, 6):
        missing.append(f"Linux 6.6 or newer, for uprobe_multi; this is {os.uname().release}")
    if not agent_binary().exists():
        missing.append(f"the agent, {agent_binary()} (./run build)")
    try:
        gobuild.go_command("")
    except gobuild.NoGo as e:
        missing.append(f"{e} (apt-get install golang-go or golang-1.22-go)")
    for name in ("openssl", "setpriv"):
        if not any(os.access(f"{d}/{name}", os.X_OK) for d in (*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin")):
            missing.append(f"the program {name}")
    return missing


def send(port, method, path):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, data=b"x" if method == "POST" else None,
                                     headers={"User-Agent": "demo"})
    try:
        urllib.request.urlopen(request, timeout=5).read()
    except (urllib.error.HTTPError, OSError):
        pass  # 404, 500 and the connection that a panic cuts are what is shown


def tree(spans):
    """These spans as (depth, span), each below its parent; in one level in the order in which they began."""
    def below(span, depth):
        yield depth, span
        for child in sorted((s for s in spans if s["parent"] == span["span"]), key=lambda s: s["time"]):
            yield from below(child, depth + 1)

    known = {s["span"] for s in spans}
    for root in sorted((s for s in spans if s["parent"] not in known), key=lambda s: s["time"]):
        yield from below(root, 0)


def give_back(folder):
    """What was made through sudo belongs to who called sudo, or they could not remove it."""
    owner = int(os.environ.get("SUDO_UID", 0))
    if owner and HERE.stat().st_uid == owner:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, int(os.environ.get("SUDO_GID", owner)), follow_symlinks=False)


class Demo:
    """Everything that is started, and its end in the opposite order."""

    def __init__(self, folder):
        self.folder, self.undo = Path(folder), []
        # Some containers' root has no NET_ADMIN: all but propagation works there.
        self.net_admin = bool(effective_capabilities(os.getpid()) >> 12 & 1)
        self.capabilities = CHART_CAPABILITIES + (("net_admin",) if self.net_admin else ())

    def later(self, fn):
        self.undo.append(fn)

    def close(self):
        while self.undo:
            try:
                self.undo.pop()()
            except Exception as e:  # the rest is cleaned up all the same
                say(f"cleaning up: {e}")

    def start(self):
        certs = Certs(self.folder / "pki")
        kubelet = Kubelet(certs.signed("kubelet"), token="demo-token")
        self.later(kubelet.stop)
        (self.folder / "token").write_text("demo-token")
        self.cgroups = Cgroups()
        self.later(self.cgroups.close)

        if not any((WORK / "bin").glob("shop-*")):
            say("programs  are compiled; the first time Go compiles its standard library, too, which takes a minute")
        self.binary = gobuild.build(HERE, flavour="stripped", name="shop")
        self.stock_pod, self.stock, stock_port = self.program("shop-stock", kubelet)
        self.pod, self.web, self.port = self.program("shop-web", kubelet, f"http://127.0.0.1:{stock_port}")

        self.metrics_port = free_port()
        self.agent = Agent(self.folder, {
            "kubelet.source": "kubelet", "kubelet.endpoint": kubelet.url, "kubelet.token_file": self.folder / "token",
            "kubelet.tls.mode": "ca", "kubelet.tls.ca_file": certs.ca.cert, "exporters": ["stdout"], "stdout.format": "text",
            "batch.delay": "200ms", "propagation": "headers", "metrics.exporters": ["prometheus"], "prometheus.listen": "127.0.0.1",
            "prometheus.port": self.metrics_port}, self.capabilities, on_line=lambda line: say("  " + line))
        self.later(self.agent.kill)
        self.agent.start()
        self.agent.wait_traced(self.stock.pid)
        self.agent.wait_traced(self.web.pid)

    def program(self, name, kubelet, *arguments):
        """A program in a pod of its own: pod, process, port."""
        pod = Pod.of_deployment(name, containers=[Container("web", f"registry.example/shop/{name}:1.4.2")])
        (self.folder / name).symlink_to(self.binary)
        process = Process([self.folder / name, *arguments], self.cgroups.make(pod, pod.main, "containerd_systemd"))
        self.later(lambda: process.stop(signal.SIGKILL))
        port = process.record("port")
        kubelet.set(pod)
        return pod, process, port

    def introduce(self):
        agent = self.agent
        say(f"kubelet   a test kubelet, HTTPS and bearer token, tells of pods {self.pod.name} and {self.stock_pod.name}")
        for what in (self.web, self.stock):
            probes = agent.process_state(what.pid).get("probes", "?")
            say(f"program   {Path(what.argv[0]).name}, pid {what.pid}, stripped, nothing added; {probes} probes in it")
        say(f"agent     pid {agent.pid}, capabilities {effective_capabilities(agent.pid):#x} (BPF, PERFMON, SYS_PTRACE, "
            f"DAC_READ_SEARCH; {'and' if self.net_admin else 'without'} NET_ADMIN, for propagation)")
        say(f"pages     http://127.0.0.1:{agent.port}/status and /metrics, as long as the demo runs")
        say()

    def requests(self):
        say("spans, as the agent prints them:")
        for method, path in REQUESTS:
            send(self.port, method, path)
            time.sleep(0.05)
        self.wait_lines(len(REQUESTS))
        send(self.port, *STORY)
        self.wait_lines(len(REQUESTS) + STORY_SPANS)

    def wait_lines(self, n):
        until(lambda: len(self.agent.lines) >= n, 10,
              lambda: f"{n} spans are printed ({len(self.agent.lines)} were); log:\n{self.agent.tail()}")

    def story(self):
        """The tree of the last request: what both programs did for it."""
        spans = [LINE.match(line).groupdict() for line in self.agent.lines[len(REQUESTS):len(REQUESTS) + STORY_SPANS]]
        say(f"\nthe whole story of {' '.join(STORY)}, each span below the parent that its line names:")
        for depth, s in tree(spans):
            say(f"  {s['took']:>9}  {'   ' * depth}{s['service']} {s['kind']}  {s['operation']}")
        propagation = self.agent.status()["propagation"]
        if not propagation["works"]:
            say(f"What shop-stock did is traces of its own here, as propagation does not work: {propagation['reason']}")

    def metrics(self):
        """What a scrape says of shop-web: its requests by route, and its Go runtime."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            samples = [(m[1], dict(LABEL.findall(m[2])), float(m[3])) for m in SAMPLE.finditer(answer.read().decode())]
        samples = [(name, labels, value) for name, labels, value in samples if labels.get("k8s_pod_name") == self.pod.name]
        say(f"\nmetrics of shop-web, made of all its requests, as Prometheus would scrape them from {url}:")
        seconds = {tuple(sorted(labels.items())): value for name, labels, value in samples if name == f"{SERVED}_sum"}
        for name, labels, count in samples:
            if name == f"{SERVED}_count":
                what = " ".join(filter(None, (labels["http_request_method"], labels.get("http_route", "(no route)"),
                                              labels.get("http_response_status_code", labels.get("error_type")))))
                say(f"  {what:<28} {count:3.0f} {'request' if count == 1 else 'requests'}, "
                    f"mean {seconds[tuple(sorted(labels.items()))] / count * 1000:.2f} ms")
        said = {(name, labels.get("go_memory_type")): value for name, labels, value in samples}
        say(f"  Go's runtime, read from its memory: {said['go_goroutine_count', None]:.0f} goroutines, "
            f"{said['go_memory_used_bytes', 'other'] / 1e6:.1f} MB used beside stacks, GOMAXPROCS {said['go_processor_limit', None]:.0f}")

    def summary(self):
        book, status = self.agent.conservation(), self.agent.process_state(self.web.pid)
        say()
        say(f"summary   {len(REQUESTS) + 1} requests sent; spans: {book['produced']:.0f} produced, {book['exported']:.0f} exported, "
            f"{book['dropped']:.0f} dropped, {book['sampled_out']:.0f} sampled out, {book['queued']:.0f} queued")
        say(f"status    pod {self.pod.name}: {status.get('state')}, because {status.get('reason')}")

    def last_words(self):
        found = re.findall(r'msg="agent: (.*?)"$', self.agent.log, re.M)
        return found[-1] if found else "(none)"

    def keep(self):
        say(f"\nprogram   http://127.0.0.1:{self.port}, with /fast /slow /items/N /orders/N /broken /panic: send it something")
        say(f"agent     http://127.0.0.1:{self.agent.port}, with /status /metrics /healthz /readyz")
        say("Ctrl-C ends the demo.")
        try:
            while self.agent.process.running:
                time.sleep(0.3)
        except KeyboardInterrupt:
            self.summary()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default=agent_binary(), type=Path, help="the agent to show (build/release/spoor)")
    parser.add_argument("--keep", action="store_true", help="go on until Ctrl-C, for requests of your own")
    args = parser.parse_args()
    os.environ["SPOOR"] = str(args.agent.resolve())
    missing = needs()
    if missing:
        say("The demo needs:\n" + "\n".join(f"  - {m}" for m in missing))
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    with tempfile.TemporaryDirectory(prefix="spoor-demo-") as folder:
        demo = Demo(folder)
        try:
            demo.start()
            demo.introduce()
            demo.requests()
            demo.story()
            demo.metrics()
            demo.summary()
            if args.keep:
                demo.keep()
            took = demo.agent.stop()
            say(f"agent     ended in {took:.1f} s; its last words: {demo.last_words()}")
            if not args.keep:
                say("With --keep the demo goes on until Ctrl-C, for requests of your own.")
            return 0
        except KeyboardInterrupt:
            say("\ninterrupted")
            return 130
        except AssertionError as e:
            say(f"failed: {e}")
            return 1
        finally:
            demo.close()
            give_back(WORK)


if __name__ == "__main__":
    sys.exit(main())
