"""What a proper client library does not send: old versions, pipelines, other forms of a request, halves of one, other sockets."""
import secrets
import socket
import subprocess
import time

from harness import gobuild, truth
from harness.load import Request, send
from harness.node import NET_HTTP
from harness.wait import until


def talk(port, data, wait=0.5, host="127.0.0.1", path=None):
    """Sends bytes, returns all that comes back until the peer closes or nothing comes for a while."""
    s = socket.socket(socket.AF_UNIX) if path else socket.create_connection((host, port))
    with s:
        if path:
            s.connect(path)
        s.settimeout(wait)
        s.sendall(data)
        got = b""
        try:
            while chunk := s.recv(65536):
                got += chunk
        except (TimeoutError, ConnectionError):
            pass
        return got


def rid():
    return secrets.token_hex(6)


def found(rig, target, *ids):
    """The one span of each of these requests."""
    spans = until(lambda: (by := truth.by_rid(rig.spans(target, 1))) and all(i in by for i in ids) and by, 10, "their spans")
    assert all(len(spans[i]) == 1 for i in ids)
    return [spans[i][0] for i in ids]


def test_http_1_0(rig):
    target, a = rig.run(), rid()
    assert b"200" in talk(target.port, f"GET /fast?rid={a} HTTP/1.0\r\n\r\n".encode())
    span, = found(rig, target, a)
    assert span.attrs["network.protocol.version"] == "1.0" and span.code == 200 and span.attrs["url.path"] == "/fast"
    assert span.attrs.get("server.address") != "", "no Host header: no address rather than an empty one"


def test_pipelined_requests_are_told_apart(rig):
    target, ids = rig.run(), [rid() for _ in range(20)]
    parents = [secrets.token_hex(8) for _ in ids]
    trace = secrets.token_hex(16)
    talk(target.port, b"".join(f"GET /items/{i}?rid={a} HTTP/1.1\r\nHost: h\r\ntraceparent: 00-{trace}-{p}-01\r\n\r\n".encode()
                               for i, (a, p) in enumerate(zip(ids, parents))))
    spans = found(rig, target, *ids)
    assert [s.attrs["url.path"] for s in spans] == [f"/items/{i}" for i in range(20)]
    assert [s.parent_id for s in spans] == parents and {s.trace_id for s in spans} == {trace}
    assert all(a.end <= b.start + 1000 for a, b in zip(spans, spans[1:])), "one after the other"


def test_the_absolute_form_of_a_request(rig):
    target, a = rig.run(), rid()
    talk(target.port, f"GET http://shop.example:81/fast?rid={a} HTTP/1.1\r\nHost: other\r\n\r\n".encode())
    span, = found(rig, target, a)
    assert (span.attrs["url.path"], span.attrs["server.address"], span.attrs["server.port"]) == ("/fast", "shop.example", 81)


def test_options_for_the_whole_server(rig):
    target = rig.run()
    talk(target.port, b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
    send(target.port, [Request("/fast")])
    spans = rig.spans(target, 2)
    assert [s.attrs.get("url.path") for s in spans if s.attrs["http.request.method"] == "OPTIONS"] in (["*"], [""]), spans


def test_bytes_that_are_no_request_are_no_span_and_nothing_is_left_of_them(rig):
    target = rig.run()
    before = rig.agent.conservation()["produced"]
    for data in (b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /fast HTTP/1.1\r\n", b"", b"\x16\x03\x01\x02\x00", b"GET /f",
                 b"GET /fast HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        talk(target.port, data, 0.1)
    requests = send(target.port, [Request("/fast") for _ in range(5)])
    truth.one_each(rig.spans(target, 5), requests)
    until(lambda: rig.agent.conservation()["produced"] == before + 5, 5, "five operations, not more")


def test_a_body_that_never_comes(rig):
    target, a = rig.run(), rid()
    talk(target.port, f"POST /echo?rid={a} HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf".encode(), 0.2)
    span, = found(rig, target, a)
    assert span.attrs["http.request.method"] == "POST" and span.end >= span.start


def test_a_client_that_asks_before_it_sends(rig):
    target, a = rig.run(), rid()
    got = talk(target.port, f"POST /echo?rid={a} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nabcd".encode())
    assert b"100 Continue" in got and b"200 OK" in got
    span, = found(rig, target, a)
    assert span.code == 200


def test_a_chunked_body_has_no_size_of_its_own(rig):
    target, a = rig.run(), rid()
    talk(target.port, f"POST /echo?rid={a} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode())
    span, = found(rig, target, a)
    assert span.attrs.get("http.request.body.size") is None, "unknown is absent, not -1"


def test_bytes_that_are_no_utf8_make_valid_spans(rig):
    """A protobuf string must be UTF-8: the real collector would refuse the whole batch."""
    target, a = rig.run(), rid()
    talk(target.port, b"GET /\xff\xfe?rid=" + a.encode() + b"&x=\x80 HTTP/1.1\r\nHost: h\r\nUser-Agent: \xc3(\xa0\r\n\r\n")
    requests = send(target.port, [Request("/fast")])
    spans = rig.spans(target, 2)
    assert requests[0].rid in truth.by_rid(spans), "the neighbour is not refused along with it"


def test_an_ipv6_peer(rig):
    target = rig.run(None, "-addr", "[::1]:0")
    requests = send(target.port, [Request("/fast")], host="::1")
    (_, span), = truth.check(rig.spans(target, 1), requests)
    assert span.attrs["network.peer.address"] == "::1"


def test_a_unix_socket_has_no_peer_address(rig):
    path = str(rig.node.folder / f"socket-{rid()}")
    target, a = rig.run(None, "-unix", path), rid()
    assert b"200" in talk(0, f"GET /fast?rid={a} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), path=path)
    span, = found(rig, target, a)
    assert "network.peer.address" not in span.attrs and "network.peer.port" not in span.attrs and span.code == 200


def test_http_1_1_over_tls(rig):
    target = rig.run(None, "-tls")
    requests = send(target.ports["tls"], [Request(p) for p in truth.ANSWERS] + [Request("/fast") for _ in range(100)], proto="h1s", workers=16)
    truth.check(rig.spans(target, len(requests)), requests, scheme="https")


def test_an_upgrade_to_h2c_is_one_span(rig):
    """The old way into HTTP/2: a request of HTTP/1.1 that goes on as stream 1."""
    program = gobuild.build(NET_HTTP / "xh2c", go="1.23", require=("golang.org/x/net@v0.35.0",))
    target, ids = rig.run(program), [rid() for _ in range(5)]
    for a in ids:
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_version}", "--http2",
                               f"http://127.0.0.1:{target.ports['h2c']}/fast?rid={a}"], capture_output=True, text=True)
        assert done.stdout == "2", done
    for span in found(rig, target, *ids):
        assert span.code == 200 and span.attrs["network.protocol.version"] == "2", span
    time.sleep(0.3)
    assert len(rig.spans(target, 5)) == 5


def test_more_requests_at_once_than_there_is_room_for_are_counted(node):
    """operations.max: what cannot be followed is told, the rest is right."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, operations__max=16)
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/slow?ms=300") for _ in range(60)], workers=60, reconnect=True)
    assert all(r.status == 200 for r in requests)
    skipped = until(lambda: agent.metrics()['spoor_operations_skipped_total{reason="no_room"}'], 5, "some are skipped, and counted")
    until(lambda: sink.received + agent.metrics()['spoor_operations_skipped_total{reason="no_room"}'] == 60, 10,
          lambda: f"60 = {sink.received} spans + {skipped} skipped")
    fine = send(target.port, [Request("/fast") for _ in range(50)], workers=2, reconnect=True)
    until(lambda: {r.rid for r in fine} <= {s.rid for s in sink.spans}, 10, "room is used again")


def test_a_program_with_many_idle_connections_leaves_room_for_others(node):
    """operations.max_per_process: one program's idle connections cost that program's spans only."""
    sink = node.sink()
    greedy, modest = node.run(), node.run()
    agent = node.agent(sink, operations__max=64, operations__max_per_process=32)
    idle = []
    try:
        agent.wait_traced(greedy.pid), agent.wait_traced(modest.pid)
        for _ in range(100):
            idle.append(socket.create_connection(("127.0.0.1", greedy.port)))
            idle[-1].sendall(b"GET /fast HTTP/1.1\r\nHost: h\r\n\r\n")
            idle[-1].recv(65536)
        until(lambda: agent.metrics()['spoor_operations_skipped_total{reason="no_share"}'] == 68, 10, "what is beyond its share is counted")
        until(lambda: sink.received == 32, 10, "the rest of it is traced")
        requests = send(modest.port, [Request("/slow?ms=300") for _ in range(30)], workers=30, reconnect=True)
        until(lambda: {r.rid for r in requests} <= {s.rid for s in sink.spans}, 10, "the other program has all its spans")
        truth.check([s for s in sink.spans if s.rid], requests)
        assert agent.metrics()['spoor_operations_skipped_total{reason="no_room"}'] == 0
    finally:
        for s in idle:
            s.close()
    requests = send(greedy.port, [Request("/fast") for _ in range(40)], workers=2, reconnect=True)
    until(lambda: {r.rid for r in requests} <= {s.rid for s in sink.spans}, 10, "a closed connection gives its place back")
    assert agent.metrics()['spoor_operations_skipped_total{reason="no_share"}'] == 68
