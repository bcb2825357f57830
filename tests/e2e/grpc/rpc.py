"""The program that makes gRPC calls as it is told, and compares their spans with what it saw of each, one by one."""
import json
import socket
from collections import defaultdict

from harness import gobuild
from harness.otlp import CLIENT, SERVER
from harness.paths import TESTS

CALLS = TESTS / "e2e" / "grpc" / "calls"
SCOPE = "spoor/google.golang.org/grpc"


def program(go, grpc, flavour="stripped"):
    """The program of these tests with that release of gRPC, built for that Go version."""
    return gobuild.build(CALLS, go=go, flavour=flavour, require=(f"google.golang.org/grpc@v{grpc}",), name=f"grpc{grpc}")


def order(target, calls, workers=1, repeat=1, timeout=60):
    """Lets the program make these calls; what it saw of each."""
    with socket.create_connection(("127.0.0.1", target.ports["control"]), timeout=timeout) as s:
        s.sendall(json.dumps({"Workers": workers, "Repeat": repeat, "Calls": calls}).encode() + b"\n")
        report = json.loads(s.makefile("rb").readline())
    assert not report["Errors"], report["Errors"]
    return report["Truths"]


NAMES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
         "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
         "UNAUTHENTICATED")
SERVER_ERRORS = {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
SLACK = 2_000_000  # ns
LATE = 200_000_000  # ns that a server may go on after its client has gone


def name_of(code):
    return NAMES[code] if code < len(NAMES) else str(code)


def by_method(spans, kind):
    """rpc.method -> its spans of that kind."""
    found = defaultdict(list)
    for span in spans:
        if span.kind == kind and span.scope == SCOPE:
            found[span.attrs.get("rpc.method")].append(span)
    return found


def check_status(span, code, errors, where):
    assert span.attrs.get("rpc.response.status_code") == code, where
    failed = code in errors or code not in NAMES
    assert span.status == (2 if failed else 0), where
    assert span.attrs.get("error.type") == (code if failed else None), where


def check_server_address(span, truth, where):
    """The target on one side, :authority on the other: for host:port they are the same."""
    host, _, port = truth["Target"].rpartition(":")
    got = (span.attrs.get("server.address"), span.attrs.get("server.port"))
    assert got == (host, int(port)), where


def check_common(span, truth, kind, where):
    method = truth["Method"].lstrip("/")
    check_server_address(span, truth, where)
    assert span.kind == kind, where
    assert span.name == method, where
    assert span.attrs["rpc.system.name"] == "grpc", where
    assert not [key for key in span.attrs if key.startswith(("http.", "url."))], where


def check_client(span, truth, where):
    check_common(span, truth, CLIENT, where)
    check_status(span, name_of(truth["Code"]), set(NAMES[1:]), where)
    if truth["Trace"]:  # the ids that the program itself sends are this span's
        assert (span.trace_id, span.span_id) == tuple(truth["Trace"].split("-")[1:3]) and not span.parent_id, where
    assert span.start <= span.end, where
    assert abs(span.start - truth["Start"]) < 50_000_000 and span.start - truth["Start"] > -SLACK, where
    assert abs(span.end - truth["End"]) < 50_000_000 and truth["End"] - span.end > -SLACK, where


def check_server(span, truth, code, where):
    check_common(span, truth, SERVER, where)
    check_status(span, code, SERVER_ERRORS, where)
    assert truth["Start"] - SLACK < span.start <= span.end < truth["End"] + LATE, where
    if truth["Trace"]:
        _, trace, parent, flags = truth["Trace"].split("-")
        assert (span.trace_id, span.parent_id) == (trace, parent), where
        assert span.flags & 0x300 == 0x300, where
        assert span.tracestate == truth["State"], where
    else:
        assert not span.parent_id, where


def check(spans, truths, served=True, extra=0):
    """Each call has one client's span and (if served) one server's, and both tell what the program saw."""
    clients, servers = by_method(spans, CLIENT), by_method(spans, SERVER)
    for truth in truths:
        method = truth["Method"].lstrip("/")
        where = f"{truth}: {clients[method]}, {servers[method]}"
        assert len(clients[method]) == 1, where
        check_client(clients[method][0], truth, where)
        if served:
            assert len(servers[method]) == 1, where
            check_server(servers[method][0], truth, name_of(truth["Served"]), where)
    others = [s for s in spans if s.scope != SCOPE]
    assert not others, f"spans of something else: {others[:3]}"
    return clients, servers
