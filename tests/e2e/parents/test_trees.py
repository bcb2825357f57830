"""Ten thousand calls in random trees: what is exported is what the program did, wherever that can be known; nothing is wrong
that claims to be certain; what is missing and what the third rule gets wrong is counted and printed."""
from collections import Counter, defaultdict

import pytest

from harness import gobuild
from harness.gobuild import VERSIONS
from harness.load import Request, send
from harness.otlp import CLIENT, SERVER
from harness.paths import TESTS
from harness.wait import until

TREES = TESTS / "e2e" / "parents" / "trees"
CALLS = 10_000
SLOW = pytest.mark.slow
# Classes of calls (trees/main.go): whether `by` may be the parent, and whether there may be none.
MAY_BE, MAY_LACK = {"exact", "known", "infer", "shared"}, {"none", "known", "infer", "shared", "late"}


def node_of(span):
    return int((span.attrs["url.full"] if span.kind == CLIENT else span.attrs["url.path"]).rsplit("/n/", 1)[1])


def by_node(spans, kind):
    found = defaultdict(list)
    for span in spans:
        if span.kind == kind:
            found[node_of(span)].append(span)
    return found


class Trees:
    """What was exported, beside what was done."""

    def __init__(self, calls, spans):
        self.calls = calls
        self.clients, self.servers = by_node(spans, CLIENT), by_node(spans, SERVER)
        self.server_of = {s.span_id: node for node, found in self.servers.items() for s in found}
        self.wrong, self.tally = [], defaultdict(Counter)

    def parent_of(self, span):
        """The node that is its parent; 0: it is a root; None: a span that is not there."""
        return self.server_of.get(span.parent_id) if span.parent_id else 0

    def check_call(self, call):
        (span,) = self.clients[call["id"]]
        parent, inferred = self.parent_of(span), span.attrs.get("spoor.parent") == "goroutine"
        right = parent == call["by"] if parent else call["class"] in MAY_LACK
        if parent:
            (server,) = self.servers[parent]
            right = right and server.trace_id == span.trace_id and call["class"] in MAY_BE
        what = "missing" if not parent else "right" if right else "wrong"
        self.tally[call["class"]][f"{what} (inferred)" if inferred else what] += 1
        if not right and not (inferred and call["class"] in ("shared", "late", "infer")):
            self.wrong.append((call, parent, inferred))
        if inferred and call["class"] not in ("infer", "shared", "late", "known"):
            self.wrong.append((call, parent, "inferred"))

    def check_times(self, call):
        """Field case 11: one clock; a request that waits for its calls is longer than they are."""
        (client,), served = self.clients[call["id"]], self.servers[call["id"]]
        assert client.start <= client.end
        for server in served:
            assert client.start <= server.start, (call, "served before it was called")
        parent = self.parent_of(client)
        if parent and call["class"] in ("exact", "known", "infer"):
            (server,) = self.servers[parent]
            assert server.start <= client.start <= client.end <= server.end, (call, client, server)

    def check(self):
        for call in self.calls.values():
            assert len(self.clients[call["id"]]) == 1, (call, self.clients[call["id"]])
            served = len(self.servers[call["id"]])
            assert served == 1 or (call["error"] and not served), (call, served)
        for call in self.calls.values():
            self.check_call(call)
            self.check_times(call)
        ways = Counter((c["way"], c["proto"], p and "wrong" or "missing") for c, p, _ in self.wrong)
        assert not self.wrong, f"{len(self.wrong)} of {len(self.calls)}: {ways.most_common(20)}; e.g. {self.wrong[:5]}"
        for node in self.server_of.values():
            assert not self.servers[node][0].parent_id, "nobody sends a traceparent here"

    def report(self, version):
        inferred = Counter()
        for tally in self.tally.values():
            for what, n in tally.items():
                if "inferred" in what:
                    inferred[what.split()[0]] += n
        of = {c: ", ".join(f"{n} {what}" for what, n in sorted(t.items())) for c, t in sorted(self.tally.items())}
        lacking = sum(t["missing"] for c, t in self.tally.items() if c not in ("none", "late"))
        deserving = sum(sum(t.values()) for c, t in self.tally.items() if c not in ("none", "late"))
        wrong = inferred["wrong"] / max(1, sum(inferred.values()))
        print(f"\nGo {version}: {len(self.calls)} calls; absent {lacking} of {deserving} that have one ({lacking / deserving:.1%}); "
              f"third rule wrong {inferred['wrong']} of {sum(inferred.values())} ({wrong:.1%})")
        for name, text in of.items():
            print(f"  {name}: {text}")


# golang.org/x/net: its own server and client; 0.62 with Go 1.27 hands over to net/http.
@pytest.mark.parametrize("version, xnet", [*(pytest.param(v, "", marks=SLOW if v in ("1.21", "1.23") else ()) for v in VERSIONS),
                                           pytest.param("1.19", "v0.17.0", marks=SLOW), ("1.26", "v0.38.0"), ("1.27", "v0.62.0")])
def test_exported_trees_are_the_true_ones(rig, version, xnet):
    trees = Trees(*rig.trees(version, CALLS, xnet=xnet))
    trees.check()
    trees.report(f"{version} {xnet}".strip())
    lost = [f"{name} {n}" for name, n in rig.agent.metrics().items() if n and name.startswith(("spoor_parents_skipped", "spoor_operations_skipped",
                                                                                               "spoor_operations_abandoned"))]
    assert not lost, lost


def test_what_is_done_for_a_health_probe_is_left_out_like_the_probe(rig):
    target = rig.node.run(gobuild.build(TREES, go="1.26"))
    rig.agent.wait_traced(target.pid)
    probe = [Request("/health", headers=[("User-Agent", "kube-probe/1.33")])]
    send(target.port, probe * 5 + [Request("/health")], workers=1)

    def mine():
        return [s for s in rig.collector.spans() if s.resource.get("container.id") == target.container.id]
    until(lambda: len([s for s in mine() if s.attrs.get("url.path") == "/health"]) == 1 and len(mine()) == 8, 10,
          lambda: f"one request, its call, and the servers of all calls: {[(s.kind, s.name, s.parent_id) for s in mine()]}")
    (server,) = [s for s in mine() if s.attrs.get("url.path") == "/health"]
    (client,) = [s for s in mine() if s.kind == CLIENT]
    assert client.parent_id == server.span_id


def test_the_inference_can_be_switched_off(node, rig_of):
    trees = Trees(*rig_of(node, parents__starting_goroutine=False).trees("1.26", 2_000))
    trees.check()
    assert not any("inferred" in what for tally in trees.tally.values() for what in tally), trees.tally


def test_a_sampled_trace_is_whole_and_another_one_is_not_there(node, rig_of):
    """Parent-based: a call that has a parent is there if its parent is, and only then."""
    rig = rig_of(node, traces__sampler="parentbased_traceidratio", traces__sampler_arg="0.3")
    trees = Trees(*rig.trees("1.26", 5_000, sampled=True))
    there = {node for node, found in trees.servers.items() if found}
    parted = {call["id"] for call in trees.calls.values() if call["class"] == "exact" and (call["by"] in there) != bool(trees.clients[call["id"]])}
    assert not parted, [trees.calls[i] for i in list(parted)[:5]]
    lone = [s for found in trees.clients.values() for s in found if trees.parent_of(s) is None]
    assert not lone, f"{len(lone)} have a parent that is not there, e.g. {lone[:3]}"
    assert 0.2 < len(there) / len(trees.calls) < 0.4
