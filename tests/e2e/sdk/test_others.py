"""SDKs whose spans are none of OpenTelemetry's: told, and Datadog's requests left to it."""
from pathlib import Path

import modules
import pytest

from harness import gobuild

HERE = Path(__file__).parent


def datadog(sdk, *args, env=None):
    program = gobuild.build(HERE / "datadog", go="1.26", flavour="stripped", require=modules.DATADOG, name="datadog")
    # Nobody listens there: the tracer makes its spans all the same.
    target = sdk.node.run(program, *args, env={"DD_TRACE_AGENT_URL": "http://127.0.0.1:1", "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
                                               **(env or {})})
    sdk.agent.wait_traced(target.pid)
    return target


TRACED = {"server": "caller", "client plain": "server", "server plain": None}


def test_requests_that_datadogs_tracer_serves_are_left_to_it_and_others_are_not(sdk):
    target = datadog(sdk, "-on")
    for path, want in {"/bare/x": TRACED, "/hand/x": TRACED, "/sdk/x": {"server plain": None}}.items():
        for _ in range(3):
            story = sdk.ask(target, path)
            assert story.tree(len(want)) == want, f"{path}: {story.told()}"
    state = sdk.agent.process_state(target.pid)["sdk"]
    assert state["what"].startswith("Datadog v2.") and state["operations_left_to_it"] == 3, state


@pytest.mark.parametrize("args, env", [((), {}), (("-on",), {"DD_TRACE_ENABLED": "false"})])
def test_a_tracer_of_datadogs_that_is_not_on_changes_nothing(sdk, args, env):
    target = datadog(sdk, *args, env=env)
    for path in ("/bare/x", "/hand/x", "/sdk/x"):
        story = sdk.ask(target, path)
        assert story.tree(len(TRACED)) == TRACED, f"{path}: {story.told()}"
    what = sdk.agent.process_state(target.pid)["sdk"]["what"]
    assert ("turned off by DD_TRACE_ENABLED" in what) == bool(env), what


def test_jaeger_and_sentry_are_told_and_change_nothing(sdk):
    program = gobuild.build(HERE / "others", go="1.26", flavour="stripped", require=modules.OTHERS, name="others")
    target = sdk.node.run(program)
    sdk.agent.wait_traced(target.pid)
    for path in ("/jaeger", "/sentry"):
        assert sdk.ask(target, path).tree(1) == {"server": "caller"}
    what = sdk.agent.process_state(target.pid)["sdk"]["what"]
    assert what.startswith(("Jaeger", "Sentry")) and "everything is traced" in what, what
