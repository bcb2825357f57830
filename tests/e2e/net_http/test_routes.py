"""Which route a span has: that of the ServeMux that served the request, wherever it stands; none where none did."""
import pytest

from harness import gobuild, truth
from harness.gobuild import installed
from harness.load import Request, send
from harness.node import NET_HTTP

# What a mux with these patterns says; None: no route.
PLAIN = {
    "/users/5": "/users/{id}", "/files/a/b/c": "/files/{path...}", "/exact/": "/exact/{$}", "/tree/of/life": "/tree/", "/tree/": "/tree/",
    "/made/up/strings": "/made/{of}/strings", "/users/a%2Fb": "/users/{id}", "/batch/7": "/batch/{n}",
    "/tree": None, "/tree/../users/5": None, "/missing": None, "/exact/x": None,
}
NESTED = {
    "/api/v1/users/5": "/api/v1/users/{id}", "/api/v1/other": "/api/v1/", "/api/v1/deep/1/2": "/api/v1/deep/{a}/{b}",
    "/t/acme/users/7": "/t/{tenant}/users/{id}", "/same/x": "/same/{x}", "/same/": "/same/", "/old/x": "/old/",
    "/t/acme/deep/c%2Fd/e": "/t/{tenant}/deep/{a}/{b}", "/t/a%20b/users/7": "/t/{tenant}/users/{id}",
}
SERVERS = {
    "plain": PLAIN, "copied": PLAIN | {"/denied": None}, "twice": PLAIN, "nested": NESTED, "nested2": NESTED,
    "rewriter": {"/old/x": "/new/{x}", "/x/y": None}, "stripped": {"/v1/users/5": "/users/{id}"},
    "two": {"/red/blue": "/{colour}/blue", "/red/green": "/{colour}/green", "/red/red": None},
    "asking": {"/some/green": None, "/x": None}, "own": {"/x": None, "/users/5": None},
    "late": dict.fromkeys(PLAIN),  # the mux runs on another goroutine
}
VERSIONS = ("1.22", "1.23", "1.26", "1.27")
PROTOS = {"h1": "", "h2": "_tls"}


def program(version, **more):
    assert installed(version), f"Go {version} is needed"
    return gobuild.build(NET_HTTP / "routers", go=version, **more)


def ask(target, proto, servers, times=1):
    """[(expected route, request)]"""
    wanted = {}
    requests = []
    for server, routes in servers.items():
        sent = send(target.ports[server + PROTOS[proto]], [Request(p) for p in routes for _ in range(times)], proto=proto, workers=1)
        wanted |= {r.rid: (server, routes[r.path]) for r in sent}
        requests += sent
    return requests, wanted


def check(rig, target, requests, wanted):
    wrong = []
    for request, span in truth.one_each(rig.spans(target, len(requests)), requests):
        server, route = wanted[request.rid]
        method = span.attrs["http.request.method"]
        if (span.route, span.name) != (route, f"{method} {route}" if route else method):
            wrong.append(f"{server} {request.method} {request.path} ({span.code}): {span.route}, not {route}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("proto", PROTOS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_route_is_what_the_mux_found_wherever_it_stands(rig, version, proto):
    target = rig.run(program(version))
    check(rig, target, *ask(target, proto, SERVERS))


@pytest.mark.parametrize("flavour", ("pie", "race"))
def test_the_same_built_in_other_ways(rig, flavour):
    target = rig.run(program("1.26", flavour=flavour))
    check(rig, target, *ask(target, "h1", SERVERS))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cloned_request_is_known_over_http1_and_over_http2_unknown(rig, version):
    target = rig.run(program(version))
    check(rig, target, *ask(target, "h1", {"cloned": PLAIN}))
    target = rig.run(program(version))
    check(rig, target, *ask(target, "h2", {"cloned": dict.fromkeys(PLAIN)}))


@pytest.mark.parametrize("version", ("1.26",))
def test_methods_and_hosts_choose_the_route(rig, version):
    target = rig.run(program(version))
    requests = [Request("/users/5", method=m) for m in ("GET", "HEAD", "POST", "PUT")] + [Request("/hosted/3", host="example.test"),
                                                                                       Request("/hosted/3")]
    expected = ["/users/{id}"] * 3 + [None, "/hosted/{id}", None]
    sent = send(target.ports["copied"], requests, workers=1)
    check(rig, target, sent, {r.rid: ("copied", route) for r, route in zip(sent, expected)})


@pytest.mark.parametrize("version", ("1.19", "1.21"))
def test_before_go_1_22_there_are_no_routes(rig, version):
    target = rig.run(gobuild.build(NET_HTTP / "server", go=version))
    requests = send(target.ports["h1"], [Request(p) for p in ("/fast", "/deep")], workers=1)
    assert {s.route for _, s in truth.one_each(rig.spans(target, 2), requests)} == {None}


def test_routes_off_and_free(node, rig_of):
    for mode, expected in (("off", {"plain": None, "copied": None}), ("free", {"plain": "/users/{id}", "copied": None})):
        rig = rig_of(node, routes=mode)
        target = rig.run(program("1.26"))
        check(rig, target, *ask(target, "h1", {name: {"/users/5": route} for name, route in expected.items()}))
        rig.agent.stop()


@pytest.mark.parametrize("version", ("1.23", "1.27"))
@pytest.mark.parametrize("seed", (1, 2))
def test_ten_thousand_paths_through_random_muxes_have_the_route_that_go_found(rig, version, seed):
    """Up to three muxes one inside the other, with prefixes stripped between them; the program says what each request met."""
    target = rig.run(gobuild.build(NET_HTTP / "randmux", go=version), "-seed", str(seed))
    paths = target.process.record("paths")
    requests = []
    for port in target.ports.values():
        requests += send(port, [Request(p) for p in paths], workers=4)
    pairs = truth.one_each(rig.spans(target, len(requests), timeout=60), requests)
    truths = {rid: t["route"] or None for rid, t in target.truths().items()}
    wrong = [(r.path, span.route, truths[r.rid]) for r, span in pairs if span.route != truths[r.rid]]
    absent = [w for w in wrong if w[1] is None]
    print(f"{len(pairs)} requests, {sum(1 for t in truths.values() if t)} with a route, {len(set(truths.values()))} routes")
    assert not wrong, f"{len(wrong)} of {len(pairs)}, {len(absent)} of them absent: {wrong[:10]}"
