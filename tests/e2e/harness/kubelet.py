"""A scripted kubelet: HTTPS, GET /pods, bearer token; every way to go wrong is a mode that a test may switch to."""
import json
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODES = ("ok", "401", "403", "500", "slow", "hang", "reset", "truncated", "short", "garbage", "not_pods", "too_large")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 90

    def setup(self):
        # The handshake belongs to this connection's thread: one that never ends stops nobody else.
        kubelet = self.server.kubelet
        self.request.settimeout(10)
        self.tls = kubelet.tls
        self.request = self.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *args):
        pass

    def _send(self, status, body, kind="application/json", length=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.server.kubelet.answered(self.path, status)
        self.close_connection |= self.tls is not self.server.kubelet.tls  # another certificate is for new connections

    def do_GET(self):
        kubelet = self.server.kubelet
        mode = kubelet.mode
        if self.path != "/pods":
            return self._send(404, b"404 page not found\n", "text/plain")
        if mode == "401" or self.headers.get("Authorization") != f"Bearer {kubelet.token}":
            return self._send(401, b"Unauthorized", "text/plain")
        if mode == "403":
            return self._send(403, b"Forbidden (user=system:serviceaccount:spoor:spoor, verb=get, resource=nodes, "
                              b"subresource(s)=[pods proxy])", "text/plain")
        if mode == "500":
            return self._send(500, b"internal error\n", "text/plain")
        body = kubelet.body()
        return getattr(self, "_" + mode)(body)

    def _ok(self, body):
        self._send(200, body)

    def _slow(self, body):
        time.sleep(self.server.kubelet.delay)
        self._send(200, body)

    def _hang(self, _body):
        self.server.kubelet.answered(self.path, 0)
        self.server.kubelet.stopped.wait(60)
        self.close_connection = True

    def _reset(self, _body):
        self.server.kubelet.answered(self.path, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True

    def _truncated(self, body):
        """The connection ends before the announced length."""
        self._send(200, body[:len(body) // 2], length=len(body))
        self.close_connection = True

    def _short(self, body):
        """The announced length is kept, the JSON ends early."""
        self._send(200, body[:len(body) // 2])

    def _garbage(self, _body):
        self._send(200, b"<html>a proxy's page</html>", "text/html")

    def _not_pods(self, _body):
        self._send(200, b'{"kind":"Status","apiVersion":"v1","status":"Failure"}')

    def _too_large(self, body):
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"pad":"'
        self._send(200, head + b"x" * self.server.kubelet.pad + b'","items":[]}')


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, kubelet):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.kubelet = kubelet
        super().__init__(address, _Handler)

    def handle_error(self, request, client_address):
        self.kubelet.failures += 1  # a refused handshake is what many tests ask for


class Kubelet:
    """Serves its pods until stop(). `pods`, `mode`, `token` and the certificate may change while it runs."""

    def __init__(self, pair, token="a-token", address="127.0.0.1", port=0):
        self.token, self.address = token, address
        self.mode, self.delay, self.pad = "ok", 1.0, 64 << 20
        self._pods, self._lock = {}, threading.Lock()
        self.requests, self.failures = [], 0  # (monotonic time, path, status)
        self.stopped = threading.Event()
        self.use(pair)
        self._server = _Server((address, port), self)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"https://[{self.address}]:{self.port}" if ":" in self.address else f"https://{self.address}:{self.port}"

    def use(self, pair):
        """New connections see this certificate."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pair.cert, pair.key)
        tls.set_alpn_protocols(["http/1.1"])
        self.tls = tls

    def set(self, *pods):
        """Adds these pods, or replaces those with the same uid. Pods are rendered at each request: just edit them."""
        with self._lock:
            for pod in pods:
                self._pods[pod.uid] = pod

    def remove(self, *pods):
        with self._lock:
            for pod in pods:
                self._pods.pop(pod.uid, None)

    def body(self):
        with self._lock:
            items = [pod.render() for pod in self._pods.values()]
        return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}).encode()

    def answered(self, path, status):
        with self._lock:
            self.requests.append((time.monotonic(), path, status))

    def asked(self, status=None):
        """How many requests were answered so far (with that status)."""
        with self._lock:
            return sum(1 for r in self.requests if status is None or r[2] == status)

    def stop(self):
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
