"""The cluster as the checks see it: its commands, its pods, their processes, and what the collector received.

Runs inside the cluster's namespaces (enter.sh), so addresses and PIDs are those of the node."""
import contextlib
import json
import os
import ssl
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

RUN = Path(os.environ["CLUSTER_DIR"]) / "run"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = RUN / "collector"
NODE_IP = "192.0.2.10"
NODE_NAME = "node1"


class Failed(Exception):
    """A check's sentence is not true."""


def run(*args, stdin=None, check=True):
    done = subprocess.run(list(map(str, args)), input=stdin, capture_output=True, text=True)
    if check and done.returncode:
        raise Failed(f"{' '.join(map(str, args))}: {done.stderr.strip()[-600:]} {done.stdout.strip()[-300:]}")
    return done.stdout


def kubectl(*args, **more):
    return run("kubectl", *args, **more)


def helm(*args, **more):
    return run("helm", *args, **more)


def wait_until(what, seconds, condition):
    """Returns what condition() returns as soon as it is true."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s for {what}")
        time.sleep(0.2)


def apply_collector():
    config = (HERE / "config/otelcol.yaml").read_text()
    manifest = (HERE / "manifests/collector.yaml").read_text()
    indented = "".join("    " + line + "\n" for line in config.splitlines())
    OUT.mkdir(exist_ok=True)
    kubectl("apply", "-f", "-", stdin=manifest.replace("@otelcol_yaml@\n", indented).replace("@out@", str(OUT)))
    kubectl("-n", "observability", "rollout", "status", "daemonset/collector", "--timeout=60s")


def apply_shop():
    kubectl("apply", "-f", HERE / "manifests/shop.yaml")
    for name in "cart", "plain":
        kubectl("-n", "shop", "rollout", "status", f"deployment/{name}", "--timeout=60s")


# --- pods and their processes

class Pod:
    def __init__(self, item):
        self.item = item
        self.name, self.uid = item["metadata"]["name"], item["metadata"]["uid"]
        self.ip = item["status"].get("podIP")
        self.container_id = item["status"]["containerStatuses"][0].get("containerID", "").removeprefix("containerd://")
        self.image_id = item["status"]["containerStatuses"][0].get("imageID", "")

    def containers(self):
        """Name -> container id of those that run, of all three kinds."""
        state = self.item["status"]
        found = {}
        for kind in "initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses":
            for c in state.get(kind, []):
                if "running" in c["state"]:
                    found[c["name"]] = c["containerID"].removeprefix("containerd://")
        return found

    def pid(self, container=None):
        """Of a container's first process, of the only one's unless named."""
        wanted = self.containers()[container] if container else self.container_id
        for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda p: int(p.name)):
            try:
                if wanted in (entry / "cgroup").read_text():
                    return int(entry.name)
            except OSError:
                continue
        raise Failed(f"no process of pod {self.name}")


def pods(namespace, selector):
    items = json.loads(kubectl("-n", namespace, "get", "pods", "-l", selector, "-o", "json"))["items"]
    return [Pod(i) for i in items if "deletionTimestamp" not in i["metadata"] and "containerStatuses" in i["status"]]


def status(pid):
    """The fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def probes(pid):
    """How many bytes of the program's code in memory are not those of its file; each must be a breakpoint."""
    count = 0
    with open(f"/proc/{pid}/exe", "rb") as exe, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        inode = os.fstat(exe.fileno()).st_ino
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, rights, offset, _, number = line.split()[:5]
            if "x" not in rights or int(number) != inode:
                continue
            begin, end = (int(a, 16) for a in addresses.split("-"))
            exe.seek(int(offset, 16))
            wanted = exe.read(end - begin)
            memory.seek(begin)
            found = memory.read(len(wanted))
            if found == wanted:
                continue
            for i in range(0, len(wanted), 4096):
                if found[i:i + 4096] != wanted[i:i + 4096]:
                    changed = [f for f, w in zip(found[i:i + 4096], wanted[i:i + 4096]) if f != w]
                    if any(byte != 0xCC for byte in changed):
                        raise Failed(f"process {pid}: its code was changed, and not to breakpoints")
                    count += len(changed)
    return count


# --- requests and what became of them

def get(url, timeout=5, headers=None):
    """(status, headers, body) of a GET."""
    request = urllib.request.Request(url, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def value_of(any_value):
    ((kind, value),) = any_value.items()
    if kind == "arrayValue":
        return [value_of(v) for v in value.get("values", [])]
    return int(value) if kind == "intValue" else value


def attributes(pairs):
    return {pair["key"]: value_of(pair["value"]) for pair in pairs}


class Span:
    def __init__(self, resource, span):
        self.resource, self.name, self.kind = resource, span["name"], span.get("kind")
        self.trace_id, self.span_id, self.parent = span["traceId"], span["spanId"], span.get("parentSpanId", "")
        self.attributes = attributes(span.get("attributes", []))
        self.path = self.attributes.get("url.path")


def received():
    """The messages that the collector has got so far."""
    file = OUT / "spans.jsonl"
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # still being written


def points(name, kind):
    """(resource, point) of that metric, which is of that kind: "histogram", "sum"."""
    for message in received():
        for group in message.get("resourceMetrics", []):
            resource = attributes(group["resource"].get("attributes", []))
            for metric in (m for scope in group["scopeMetrics"] for m in scope["metrics"] if m["name"] == name):
                yield from ((resource, p) for p in metric[kind]["dataPoints"])


def histograms(name):
    """(resource, count, start, time) of every point of that metric."""
    for resource, p in points(name, "histogram"):
        yield resource, int(p["count"]), int(p["startTimeUnixNano"]), int(p["timeUnixNano"])


def spans():
    """Every span that the collector has received so far."""
    found = []
    for message in received():
        for group in message.get("resourceSpans", []):
            resource = attributes(group["resource"].get("attributes", []))
            for scope in group["scopeSpans"]:
                found += [Span(resource, s) for s in scope["spans"]]
    return found


@contextlib.contextmanager
def stopped_kubelet(own_certificate):
    """Without the kubelet; afterwards it has a certificate of that kind. Only where PIDs are the cluster's own."""
    (pid,) = [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/comm") if p.read_text() == "kubelet\n"]
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    group = next(g for g in map(Path, ("/sys/fs/cgroup/cluster-test", "/sys/fs/cgroup/pids/cluster-test")) if g.exists())
    os.kill(pid, 9)
    wait_until("the kubelet to end", 10, lambda: not Path(f"/proc/{pid}/exe").exists())
    yield
    file = RUN / "kubelet.yaml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("tls")]
    if not own_certificate:
        lines += [f"tlsCertFile: {RUN}/pki/kubelet-server.crt", f"tlsPrivateKeyFile: {RUN}/pki/kubelet-server.key"]
    file.write_text("\n".join(lines) + "\n")
    with open(RUN.parent / "log/kubelet.log", "a") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                         preexec_fn=lambda: (group / "cgroup.procs").write_text("0"))


def kubelet_certificate_is_signed_by_the_cluster():
    context = ssl.create_default_context(cafile=RUN / "pki/ca.crt")
    try:
        with socket.create_connection((NODE_IP, 10250), timeout=5) as plain:
            with context.wrap_socket(plain, server_hostname=NODE_NAME):
                return True
    except ssl.SSLCertVerificationError:
        return False
    except OSError:
        return None  # it does not listen
