"""Sends requests through the Go load client and returns what it saw of each."""
import json
import secrets
import subprocess
from dataclasses import dataclass, field

from . import gobuild
from .paths import TESTS


@dataclass
class Request:
    path: str = "/fast"
    method: str = "GET"
    headers: list = field(default_factory=list)  # (name, value), spelling kept
    host: str = ""
    body: int = 0
    cancel: int = 0
    trace: object = True  # True: a traceparent of its own; None: none; a string: that one
    sampled: bool = True
    rid: str = field(default_factory=lambda: secrets.token_hex(6))
    tag: bool = True  # whether its id is put into the query
    trace_id: str = ""
    parent_id: str = ""
    # filled in by send()
    status: int = 0
    proto: str = ""
    bytes: int = 0
    local: str = ""
    start: int = 0
    end: int = 0
    error: str = ""

    def __post_init__(self):
        if self.trace is True:
            self.trace_id, self.parent_id = secrets.token_hex(16), secrets.token_hex(8)

    @property
    def uri(self):
        if not self.tag:
            return self.path
        return f"{self.path}{'&' if '?' in self.path else '?'}rid={self.rid}"

    def wire(self):
        headers = [list(h) for h in self.headers]
        if self.trace is True:
            headers.append(["Traceparent", f"00-{self.trace_id}-{self.parent_id}-{'01' if self.sampled else '00'}"])
        elif self.trace:
            headers.append(["Traceparent", self.trace])
        return json.dumps({"rid": self.rid, "method": self.method, "path": self.uri, "host": self.host, "headers": headers,
                           "body": self.body, "cancel": self.cancel})


def binary():
    return gobuild.build(TESTS / "e2e" / "load", flavour="stripped")


def _run(base, lines, proto, args, timeout):
    done = subprocess.run([str(binary()), "-base", base, "-proto", proto, *args], input="\n".join(lines).encode(),
                          stdout=subprocess.PIPE, timeout=timeout, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def send(port, requests, proto="h1", workers=4, conns=0, reconnect=False, rate=0, timeout=120, host="127.0.0.1"):
    """Sends them all; fills in what the client saw; returns them."""
    requests = list(requests)
    scheme = "https" if proto in ("h2", "h1s") else "http"
    host = f"[{host}]" if ":" in host else host
    args = ["-c", str(workers), "-conns", str(conns), "-rate", str(rate)] + (["-reconnect"] if reconnect else [])
    by_id = {r.rid: r for r in requests}
    for got in _run(f"{scheme}://{host}:{port}", [r.wire() for r in requests], proto, args, timeout):
        r = by_id[got["rid"]]
        r.status, r.proto, r.bytes, r.local = got["status"], got["proto"], got["bytes"], got["local"]
        r.start, r.end, r.error = got["start"], got["end"], got["err"]
    return requests


def count(port, seconds, workers=16, rate=0, path="/fast", headers=()):
    """One request over and over; {"sent": n, "answered": n}."""
    request = Request(path=path, trace=None, tag=False, headers=list(headers))
    return _run(f"http://127.0.0.1:{port}", [request.wire()], "h1", ["-for", f"{seconds}s", "-c", str(workers), "-rate", str(rate)],
                seconds + 60)[0]
