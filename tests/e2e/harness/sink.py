"""A scripted OTLP receiver: any answer after any delay; keeps what it accepted and when each attempt came."""
import gzip
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest, ExportMetricsServiceResponse)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest, ExportTraceServiceResponse)

from .otlp import points_of_protobuf, spans_of_protobuf
from .wait import until


@dataclass
class Answer:
    """What to answer. action: "" answers; "hang" never does; "reset" cuts the connection; "half" sends half of an answer."""
    status: int = 200
    headers: dict = field(default_factory=dict)
    rejected: int = 0
    message: str = ""
    action: str = ""
    delay: float = 0.0


@dataclass
class Attempt:
    time: float
    path: str
    headers: dict
    spans: list
    status: int
    size: int  # of the message, uncompressed
    count: int  # of spans


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def _body(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self):
        sink = self.server.sink
        if self.headers.get("Expect", "").lower() == "100-continue":
            pass  # BaseHTTPRequestHandler has answered it
        body = self._body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/v1/metrics"):
            self._metrics(sink, body)
            return
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        answer = sink.next_answer()
        count = sum(len(scope.spans) for resource in message.resource_spans for scope in resource.scope_spans)
        sink.attempt(Attempt(time.monotonic(), self.path, dict(self.headers), spans_of_protobuf(message) if sink.keep else [],
                             0 if answer.action else answer.status, len(body), count))
        if answer.delay:
            sink.stopped.wait(answer.delay)
        self._answer(sink, answer)

    def _metrics(self, sink, body):
        message = ExportMetricsServiceRequest()
        message.ParseFromString(body)
        answer = sink.next_metrics_answer()
        sink.metrics_attempt(points_of_protobuf(message), dict(self.headers), answer)
        if answer.delay:
            sink.stopped.wait(answer.delay)
        self._answer(sink, answer, ExportMetricsServiceResponse())

    def _answer(self, sink, answer, reply=None):
        if answer.action == "hang":
            sink.stopped.wait(600)
            self.close_connection = True
        elif answer.action == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.close_connection = True
        else:
            points = reply is not None
            reply = reply if points else ExportTraceServiceResponse()
            if answer.rejected or answer.message:
                setattr(reply.partial_success, "rejected_data_points" if points else "rejected_spans", answer.rejected)
                reply.partial_success.error_message = answer.message
            body = reply.SerializeToString() if answer.status == 200 else b""
            self.send_response(answer.status)
            for key, value in {"Content-Type": "application/x-protobuf", **answer.headers}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body) + (100 if answer.action == "half" else 0)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = answer.action == "half"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, sink):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sink = sink
        super().__init__(address, _Handler)

    def handle_error(self, request, client_address):
        pass  # a peer that went away is what some tests ask for


class Sink:
    """Answers `script` (a list of Answer) in order, then `default`. `spans`: those of all accepted requests; without
    `keep` they are only counted, which is faster."""

    def __init__(self, script=(), default=None, address="127.0.0.1", port=0, keep=True):
        self._script, self.default, self._lock = list(script), default or Answer(), threading.Lock()
        self.attempts, self.spans, self.received, self.keep = [], [], 0, keep
        self.points, self.metrics_attempts, self._metrics_script, self.metrics_default = [], 0, [], Answer()
        self.metrics_headers = None  # of the last attempt
        self.stopped = threading.Event()
        self._server = _Server((address, port), self)
        self.address, self.port = address, self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://[{self.address}]:{self.port}" if ":" in self.address else f"http://{self.address}:{self.port}"

    def next_answer(self):
        with self._lock:
            return self._script.pop(0) if self._script else self.default

    def script(self, *answers):
        with self._lock:
            self._script = list(answers)

    def next_metrics_answer(self):
        with self._lock:
            return self._metrics_script.pop(0) if self._metrics_script else self.metrics_default

    def metrics_script(self, *answers):
        with self._lock:
            self._metrics_script = list(answers)

    def metrics_attempt(self, points, headers, answer):
        with self._lock:
            self.metrics_attempts += 1
            self.metrics_headers = headers
            if answer.status == 200 and not answer.action:
                self.points += points

    def attempt(self, attempt):
        with self._lock:
            if attempt.status == 200:
                self.received += attempt.count
                self.spans.extend(attempt.spans)
            self.attempts.append(attempt)

    def clear(self):
        with self._lock:
            self.spans, self.attempts, self.received = [], [], 0

    def wait(self, n, timeout=15, what=""):
        """Until n spans were accepted; returns them."""
        until(lambda: self.received >= n, timeout, lambda: f"{n} spans arrive ({self.received} did){what and ': ' + what}")
        return self.spans

    def stop(self):
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
