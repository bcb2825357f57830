"""Runs the agent as its DaemonSet does: root with four capabilities and nothing more, one configuration file, its own port."""
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .paths import agent_binary, tool
from .process import Process, fds, listening
from .wait import until

CHART_CAPABILITIES = ("bpf", "perfmon", "sys_ptrace", "dac_read_search")


def unprivileged(argv, capabilities=CHART_CAPABILITIES):
    """argv as uid 0 with these capabilities: bounding set, inheritable and permitted, no new privileges."""
    keep = "".join(f",+{name}" for name in capabilities)
    return [tool("setpriv"), "--no-new-privs", f"--bounding-set=-all{keep}", "--inh-caps=-all", "--ambient-caps=-all", "--",
            *map(str, argv)]


def effective_capabilities(pid):
    return int(re.search(r"CapEff:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16)


def yaml(value, indent=""):
    """Just enough YAML for a configuration of scalars, lists and maps."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{indent}{key}:", yaml(item, indent + "  ").rstrip("\n")]
        elif isinstance(item, (list, tuple)):
            lines.append(f"{indent}{key}: [{', '.join(json.dumps(str(i)) for i in item)}]")
        else:
            lines.append(f"{indent}{key}: {json.dumps(item if isinstance(item, bool) else str(item))}")
    return "\n".join(lines) + "\n"


def nested(options):
    """{"kubelet.tls.mode": "ca"} as the tree that the file holds."""
    tree = {}
    for key, value in options.items():
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


class Agent:
    """`spoor agent` with these options (keys as in the file), from start() to stop()."""

    def __init__(self, folder, options, capabilities=CHART_CAPABILITIES, wrap=(), env=None, on_line=None, folders=()):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.options = {"admin.listen": "127.0.0.1", "admin.port": 0, "node.name": "node-1", "node.ip": "127.0.0.1", **options}
        self.capabilities, self.wrap, self.env, self.folders = capabilities, list(wrap), dict(env or {}), folders
        self.config, self.log_path = self.folder / "spoor.yaml", self.folder / "spoor.log"
        self.process, self.on_line, self._port, self.started_at, self.pid = None, on_line, None, 0.0, 0

    # -- life

    def start(self, ready=True, timeout=20):
        self.config.write_text(yaml(nested(self.options)))
        self.config.chmod(0o644)
        argv = self.wrap + unprivileged([agent_binary(), "agent", "--config", self.config], self.capabilities)
        self._port, self.started_at = None, time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = Process(argv, self.folders, self.env, stderr=log, on_line=self.on_line)
        self.pid = self.process.pid
        if ready:
            self.wait_ready(timeout)
        return self

    def wait_ready(self, timeout=20):
        until(lambda: self._alive() and self.ready()[0], timeout, lambda: f"the agent is ready; {self.ready()[1]}; log:\n{self.tail()}")
        return self

    def _alive(self):
        if not self.process.running:
            raise AssertionError(f"the agent ended with {self.process.popen.returncode}:\n{self.tail()}")
        return True

    @property
    def real_pid(self):
        """The agent itself, below wrappers that stay (unshare --fork); what it starts itself is not looked at."""
        pid = self.pid
        while os.readlink(f"/proc/{pid}/exe") != str(agent_binary().resolve()):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if not children:
                break
            pid = int(children[0])
        return pid

    def stop(self, how=signal.SIGTERM, timeout=20, code=0):
        """Ends it; asserts its exit code. Seconds that it took."""
        begin = time.monotonic()
        if self.process.running:
            os.kill(self.real_pid, how)
        try:
            got = self.process.wait(timeout)
        except subprocess.TimeoutExpired as e:
            self.process.stop(signal.SIGKILL)
            raise AssertionError(f"the agent did not end within {timeout} s of {how!r}:\n{self.tail()}") from e
        assert code is None or got == code, f"the agent ended with {got}, not {code}:\n{self.tail()}"
        return time.monotonic() - begin

    def kill(self):
        """Whatever state it is in."""
        if self.process and self.process.running:
            self.process.stop(signal.SIGKILL)

    # -- what it says

    @property
    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def tail(self, lines=25):
        return "\n".join(self.log.splitlines()[-lines:])

    @property
    def lines(self):
        """What it printed: the stdout exporter's lines."""
        return self.process.lines

    @property
    def port(self):
        if not self._port:
            other = self.options.get("prometheus.port")
            self._port = until(lambda: self._alive() and [p for p in listening(self.real_pid) if p != other], 15,
                               lambda: f"the admin port is open:\n{self.tail()}")[0]
        return self._port

    def get(self, path, timeout=5):
        """(status, body) of one of its pages."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def ready(self):
        try:
            status, body = self.get("/readyz")
            return status == 200, body
        except OSError as e:
            return False, str(e)

    def status(self):
        return json.loads(self.get("/status")[1])

    def metrics(self):
        """{'spoor_spans_dropped_total{reason="decode"}': 0.0, ...}"""
        values = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def metric(self, name):
        """The sum over all series of that family (without its labels)."""
        return sum(v for k, v in self.metrics().items() if k.split("{")[0] == name)

    def dropped(self):
        """{reason: n}, only what is not 0."""
        return {re.search(r'reason="([^"]*)"', k)[1]: int(v) for k, v in self.metrics().items()
                if k.startswith("spoor_spans_dropped_total{") and v}

    def conservation(self):
        """What was produced and where it is; `open` is what the books do not explain."""
        m = self.metrics()
        made, sent = m["spoor_spans_produced_total"], m["spoor_spans_exported_total"]
        out, queued = m["spoor_spans_sampled_out_total"], m["spoor_export_queue_items"]
        dropped = sum(v for k, v in m.items() if k.startswith("spoor_spans_dropped_total{"))
        return {"produced": made, "exported": sent, "dropped": dropped, "sampled_out": out, "queued": queued,
                "open": made - sent - dropped - out - queued}

    # -- waiting for it

    def process_state(self, pid):
        """Its entry of /status for that process, or {}."""
        return next((p for p in self.status().get("processes", []) if p.get("pid") == pid and p.get("state") != "ended"), {})

    def traced(self, pid):
        return self.process_state(pid).get("state") == "traced"

    def wait_traced(self, pid, timeout=15):
        """Until probes are in that process. Seconds that it took."""
        begin = time.monotonic()
        until(lambda: self._alive() and self.traced(pid), timeout,
              lambda: f"process {pid} is traced; it is {self.process_state(pid)}; log:\n{self.tail()}")
        return time.monotonic() - begin

    def wait_untraced(self, pid, timeout=15):
        until(lambda: not self.traced(pid), timeout, lambda: f"process {pid} is left alone; it is {self.process_state(pid)}")

    def fds(self):
        return fds(self.real_pid)
