"""A program with OpenTelemetry's SDK beside the agent: no operation is sent twice, every parent is the true one."""
import random

import pytest

from harness.wait import until

VERSIONS = ("1.19", "1.23", "1.26", "1.27")

# path -> span: its parent. Ours are "server" and "client" and the mark of the leaf; without a header on the wire a leaf is a root.
AUTO = {
    "/sdk/none": {"sdk server": "caller"},
    "/bare/none": {"server": "caller"},
    "/sdk/plain": {"sdk server": "caller", "client plain": "sdk server", "server plain": None},
    "/sdk/wrapped": {"sdk server": "caller", "sdk client": "sdk server", "server wrapped": "sdk client"},
    "/sdk/both": {"sdk server": "caller", "client plain": "sdk server", "server plain": None, "sdk client": "sdk server",
                  "server wrapped": "sdk client", "client again": "sdk server", "server again": None},
    "/bare/plain": {"server": "caller", "client plain": "server", "server plain": None},
    "/bare/wrapped": {"server": "caller", "sdk client": None, "server wrapped": "sdk client"},
    "/sdk/manual": {"sdk server": "caller", "sdk internal": "sdk server", "client manual": "sdk internal",
                    "client below": "sdk internal", "client after": "sdk server", "server manual": None, "server below": None,
                    "server after": None},
    "/bare/manual": {"server": "caller", "sdk internal": None, "client manual": "sdk internal", "client below": "sdk internal",
                     "client after": "server", "server manual": None, "server below": None, "server after": None},
    "/sdk/proxy": {"sdk server": "caller", "server proxy": "caller"},
    "/bare/proxy": {"server": "caller", "server proxy": "caller"},
    "/sdk/client": {"sdk server": "caller", "sdk client": "sdk server", "server client": None},
    "/sdk/background": {"sdk server": "caller", "client background": "sdk server", "server background": None},
    "/sdk/goroutine": {"sdk server": "caller", "client started": "sdk server", "server started": None},
    "/timeout/sdk/plain": {"sdk server": "caller", "client plain": "sdk server", "server plain": None},
}


@pytest.mark.parametrize("go", VERSIONS)
def test_no_operation_is_sent_twice_and_every_parent_is_true(sdk, go):
    target = sdk.otel(go)
    stories = [(sdk.ask(target, path), want) for path, want in AUTO.items() for _ in range(3)]
    for story, want in stories:
        if go == "1.19" and story.path == "/sdk/goroutine":  # who started a goroutine is known since Go 1.21
            want = {**want, "client started": None}
        assert story.tree(len(want)) == want, f"{story.path}: {story.told()}"
    state = sdk.agent.process_state(target.pid)
    assert state["sdk"]["what"].startswith("OpenTelemetry v1.") and "left to it" in state["sdk"]["what"], state["sdk"]
    # Servers and clients of which the SDK sends a span.
    left = sum(3 * [*want].count("sdk server") + 3 * [*want].count("sdk client") for want in AUTO.values())
    assert state["sdk"]["operations_left_to_it"] == left, state["sdk"]
    assert state["sdk"]["operations_under_its_spans"] > 0, state["sdk"]


def test_many_requests_at_a_time_are_not_mixed_up(sdk):
    from concurrent.futures import ThreadPoolExecutor
    target = sdk.otel()
    paths = [path for path in AUTO for _ in range(25)]
    random.Random(1).shuffle(paths)
    with ThreadPoolExecutor(16) as pool:
        stories = list(pool.map(lambda path: sdk.ask(target, path), paths))
    spans = sum(len(AUTO[path]) for path in paths)
    until(lambda: len(sdk.of(target)) >= spans, 30, lambda: f"{spans} spans arrive: {len(sdk.of(target))} did")
    by_trace = sdk.index()
    wrong = [(story.path, story.told()) for story in stories if story.tree(0, by_trace) != AUTO[story.path]]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
    assert len(sdk.of(target)) == spans


def test_a_program_that_never_installs_its_sdk_is_traced_as_any_other(sdk):
    target = sdk.otel(installed=False)
    stories = [(sdk.ask(target, path), want) for path, want in {
        "/sdk/plain": {"server": "caller", "client plain": "server", "server plain": None},
        "/sdk/wrapped": {"server": "caller", "client wrapped": "server", "server wrapped": None},
        "/sdk/manual": {"server": "caller", "client manual": "server", "client below": "server", "client after": "server",
                        "server manual": None, "server below": None, "server after": None},
        "/timeout/sdk/none": {"server": "caller"},
    }.items()]
    for story, want in stories:
        assert story.tree(len(want)) == want, f"{story.path}: {story.told()}"
    state = sdk.agent.process_state(target.pid)["sdk"]
    assert state["operations_left_to_it"] == 0 and state["operations_under_its_spans"] == 0, state


def test_what_the_sdk_samples_out_is_left_out_with_it(sdk):
    target = sdk.otel("1.26", "-ratio", "0")
    before = sdk.agent.metrics().get('spoor_spans_dropped_total{reason="sdk"}', 0)
    left = [sdk.ask(target, "/sdk/none", header=False) for _ in range(5)]
    bare = [sdk.ask(target, "/bare/none", header=False) for _ in range(5)]
    for story in bare:
        assert story.tree(1) == {"server": None}
    assert all(not story.all() for story in left)
    assert sdk.agent.metrics()['spoor_spans_dropped_total{reason="sdk"}'] == before + 5


def test_a_position_independent_program(sdk):
    target = sdk.otel("1.26", flavour="pie")
    for path in ("/sdk/plain", "/bare/plain", "/sdk/wrapped"):
        assert sdk.ask(target, path).tree(len(AUTO[path])) == AUTO[path]


def test_always_sends_everything_and_still_has_true_parents(node, sdk_of):
    sdk = sdk_of(node, sdk="always")
    target = sdk.otel()
    for path, want in {
        "/sdk/none": {"sdk server": "caller", "server": "caller"},
        "/sdk/plain": {"sdk server": "caller", "server": "caller", "client plain": "sdk server", "server plain": None},
        "/sdk/wrapped": {"sdk server": "caller", "server": "caller", "sdk client": "sdk server", "client wrapped": "sdk client",
                         "server wrapped": "sdk client"},
        "/bare/plain": {"server": "caller", "client plain": "server", "server plain": None},
        "/bare/wrapped": {"server": "caller", "sdk client": None, "client wrapped": "sdk client", "server wrapped": "sdk client"},
    }.items():
        story = sdk.ask(target, path)
        assert story.tree(len(want)) == want, f"{path}: {story.told()}"
    assert "sdk: always" in sdk.agent.process_state(target.pid)["sdk"]["what"]


def test_never_leaves_a_program_with_an_sdk_alone_and_says_why(node, sdk_of):
    sdk = sdk_of(node, sdk="never")
    target = sdk.otel(traced=False)
    until(lambda: "sdk: never" in sdk.agent.process_state(target.pid).get("reason", ""), 15,
          lambda: f"it is refused: {sdk.agent.process_state(target.pid)}")
    state = sdk.agent.process_state(target.pid)
    assert state["state"] == "not_selected" and "OpenTelemetry v1." in state["reason"], state
    assert not state.get("probes")
    story = sdk.ask(target, "/sdk/none")
    assert story.tree(1) == {"sdk server": "caller"}
    # Nothing is the matter with programs without one, or whose own is turned off.
    off = sdk.otel(env={"OTEL_TRACES_SAMPLER": "always_off"})
    assert "turned off by OTEL_TRACES_SAMPLER" in sdk.agent.process_state(off.pid)["sdk"]["what"]
    sdk.agent.wait_traced(node.run().pid)


@pytest.mark.parametrize("go", VERSIONS)
def test_what_the_sdk_sends_to_its_collector_makes_no_spans(sdk, go):
    target = sdk.otel(go)
    name = 'spoor_spans_dropped_total{reason="otlp_export"}'
    before = sdk.agent.metrics().get(name, 0)
    for _ in range(3):
        sdk.ask(target, "/sdk/none").tree(1)
    until(lambda: sdk.agent.metrics()[name] > before, 10, "its exports are counted")
    assert {s.kind for s in sdk.of(target)} == {2}
