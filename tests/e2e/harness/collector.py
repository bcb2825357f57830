"""A real OpenTelemetry collector (tests/collector, built from Go modules), writing what it received as JSON lines to a file."""
import json
import os
import socket
import subprocess
from pathlib import Path

from . import gobuild
from .otlp import points_of, spans_of
from .paths import TESTS, WORK
from .ports import free_port
from .process import Process
from .wait import until


def binary():
    """Builds it when its sources have changed (minutes the first time, seconds with a build cache)."""
    given = os.environ.get("OTELCOL")
    if given:
        return Path(given)
    out = WORK / "bin" / "otelcol"
    sources = list((TESTS / "collector").iterdir())
    if not out.exists() or out.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        out.parent.mkdir(parents=True, exist_ok=True)
        go, env = gobuild.go_command("")
        subprocess.run([go, "build", "-trimpath", "-ldflags=-s -w", "-o", out, "."], cwd=TESTS / "collector", check=True,
                       env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", **env})
    return out


class Collector:
    """Listens for OTLP/HTTP on `url` and OTLP/gRPC on `grpc`; spans() is what it wrote so far."""

    def __init__(self, folder, config="otelcol.yaml"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file, port, grpc = self.folder / "received.json", free_port(), free_port()
        config = (TESTS / "collector" / config).read_text()
        (self.folder / "otelcol.yaml").write_text(config)
        self.url, self.grpc = f"http://127.0.0.1:{port}", f"127.0.0.1:{grpc}"
        with open(self.folder / "otelcol.log", "wb") as log:
            self.process = Process([binary(), "--config", self.folder / "otelcol.yaml"], stderr=log, env={
                "OTELCOL_HTTP": f"127.0.0.1:{port}", "OTELCOL_GRPC": self.grpc, "OTELCOL_FILE": str(self.file)})
        until(lambda: self._open(port), 20, "the collector listens")
        self._offset, self._spans, self._points = 0, [], []

    @staticmethod
    def _open(port):
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return True
        except OSError:
            return False

    def points(self):
        self.spans()
        return self._points

    def spans(self):
        if self.file.exists():
            with open(self.file, "rb") as f:
                f.seek(self._offset)
                for line in f:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    request = json.loads(line)
                    self._spans += spans_of(request)
                    self._points += points_of(request)
        return self._spans

    def wait(self, n, timeout=15, what=""):
        """Until it wrote n spans; returns them."""
        until(lambda: len(self.spans()) >= n, timeout, lambda: f"{n} spans arrive ({len(self.spans())} did){what and ': ' + what}")
        return self.spans()

    def stop(self):
        self.process.stop()
