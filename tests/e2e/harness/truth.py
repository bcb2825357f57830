"""Compares spans with what the client and the program know of each request, one by one."""
from collections import Counter, defaultdict

from .otlp import SERVER

# path -> (what net/http is told to send, None: nothing is sent; the span is an error)
ANSWERS = {
    "/fast": (200, False), "/slow": (200, False), "/fail": (500, True), "/teapot": (418, False), "/nothing": (200, False),
    "/nocontent": (204, False), "/redirect": (302, False), "/early": (200, False), "/panic": (None, True),
    "/panic_late": (202, True), "/abort": (None, True), "/recovered": (503, True), "/hijack": (None, False),
    "/stream": (200, False), "/deep": (200, False), "/echo": (200, False),
}
SLACK = 2_000_000  # ns that a client's and the agent's view of one moment may differ on one machine, beyond the request itself


def by_rid(spans):
    found = defaultdict(list)
    for span in spans:
        found[span.rid].append(span)
    return found


def one_each(spans, requests):
    """[(request, span)]: every request has exactly one span, every span of these programs a request."""
    found = by_rid(spans)
    missing = [r for r in requests if r.rid not in found]
    twice = {rid: len(s) for rid, s in found.items() if len(s) > 1}
    unknown = set(found) - {r.rid for r in requests}
    assert not missing, f"{len(missing)} of {len(requests)} requests have no span: {Counter((r.method, r.path) for r in missing).most_common(5)}"
    assert not twice, f"requests with more than one span: {dict(list(twice.items())[:5])}"
    assert not unknown, f"spans of no request: {[found[u][0] for u in list(unknown)[:3]]}"
    return [(r, found[r.rid][0]) for r in requests]


def check_ids(pairs):
    """The trace goes on where the client began it; else a trace of its own. No id occurs twice."""
    ids = Counter(span.span_id for _, span in pairs)
    assert max(ids.values()) == 1, f"span ids occur twice: {[i for i, n in ids.items() if n > 1][:3]}"
    assert "" not in ids and "0" * 16 not in ids
    roots = Counter()
    for request, span in pairs:
        if request.trace is True:
            assert (span.trace_id, span.parent_id) == (request.trace_id, request.parent_id), f"{request}: {span}"
            assert span.flags & 0x300 == 0x300, f"the parent is remote, flags say {span.flags:#x}: {span}"
        elif request.trace is None:
            assert not span.parent_id and int(span.trace_id, 16), f"a root has no parent and a trace id: {span}"
            roots[span.trace_id] += 1
    assert not roots or max(roots.values()) == 1, "roots share a trace id"


def check_times(pairs):
    """Within what the client saw of the request, on the wall clock."""
    for request, span in pairs:
        assert span.start <= span.end, f"ends before it starts: {span}"
        early, late = request.start - span.start, span.end - request.end
        assert early < SLACK, f"starts {early / 1e6:.3f} ms before the client sent it: {span}"
        assert span.start < request.end + SLACK, f"starts after the client had the answer: {span}"
        # A handler may go on after the client has all it wants; not in our programs, by more than scheduling.
        assert late < 200_000_000, f"ends {late / 1e6:.3f} ms after the client had the answer: {span}"


def expected_code(request):
    path = request.path.split("?")[0]
    if path in ANSWERS:
        return ANSWERS[path]
    return (request.status or None, request.status >= 500)


def check_fields(pairs, routes=True, scheme="http", version="1.1"):
    """Method, path, query, status, route, peer, server and protocol, as the semantic conventions name them."""
    for request, span in pairs:
        where = f"{request.method} {request.uri}: {span}"
        path, _, query = request.uri.partition("?")
        code, error = expected_code(request)
        assert span.kind == SERVER, where
        assert span.attrs.get("http.request.method") == request.method, where
        assert span.attrs.get("url.path") == path, where
        assert span.attrs.get("url.query", "") == query, where
        assert span.attrs.get("url.scheme") == scheme, where
        assert span.attrs.get("network.protocol.version") == version, where
        assert span.code == code, f"status is {code}: {where}"
        if request.status:
            assert code is None or request.status == code, f"the client saw {request.status}: {where}"
        assert span.status == (2 if error else 0), f"span status {span.status}: {where}"
        assert ("error.type" in span.attrs) == error, f"error.type: {where}"
        if error and code and code >= 500:
            assert span.attrs["error.type"] == str(code), where
        address, _, port = request.local.rpartition(":")
        if request.local:
            assert span.attrs.get("network.peer.address") == address.strip("[]"), f"{request.local}: {where}"
            assert span.attrs.get("network.peer.port") == int(port), f"{request.local}: {where}"
            assert span.attrs.get("client.address") == address.strip("[]"), f"{request.local}: {where}"
        route = expected_route(request, path) if routes else None
        assert span.route == route, f"route is {route}: {where}"
        assert span.name == (f"{request.method} {route}" if route else request.method), where


def expected_route(request, path):
    """The ServeMux pattern of our web server without method and host; None where it has none (or Go is older than 1.22)."""
    if path.startswith("/items/"):
        return "/items/{id}" if request.method in ("GET", "HEAD") else None
    if path.startswith("/users/"):
        return "/users/{user}/posts/{post...}"
    if path.startswith("/mid/"):
        return "/mid/{id}"  # of the mux behind a middleware that copies the request
    if path.startswith("/strip/"):  # the same mux once more, behind StripPrefix; what it does not know is the outer pattern's
        return "/strip" + (expected_route(request, path[len("/strip"):]) or "/")
    return path if path in ANSWERS or path == "/healthz" else None


def check_pod(spans, pod, container=None):
    """Resource attributes of that pod and container."""
    container = container or pod.main
    assert spans, "there are spans"
    for span in spans:
        r = span.resource
        want = {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name, "k8s.pod.uid": pod.uid,
                "k8s.container.name": container.name, "container.id": container.id, "k8s.node.name": pod.node,
                "service.namespace": pod.namespace, "service.instance.id": f"{pod.namespace}.{pod.name}.{container.name}",
                "k8s.container.restart_count": container.restarts, "telemetry.sdk.language": "go"}
        got = {key: r.get(key) for key in want}
        assert got == want, f"resource {r}"


def check(spans, requests, routes=True, scheme="http", version="1.1"):
    """Everything above; the pairs."""
    pairs = one_each(spans, requests)
    check_ids(pairs)
    check_times(pairs)
    check_fields(pairs, routes, scheme, version)
    return pairs
