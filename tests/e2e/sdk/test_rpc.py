"""gRPC beside OpenTelemetry's instrumentation of it, on either side or both."""
import pytest

CALLS = {
    "/neither": {"rpc client": "server", "rpc server": None, "client inside": "rpc server"},
    # The SDK's client sends its context on the wire.
    "/client": {"sdk client": None, "rpc server": "sdk client", "client inside": "rpc server"},
    "/server": {"rpc client": "server", "sdk server": None, "client inside": "sdk server"},
    "/both": {"sdk client": None, "sdk server": "sdk client", "client inside": "sdk server"},
}


@pytest.mark.parametrize("go", ["1.23", "1.26"])
def test_each_call_is_sent_once_a_side(sdk, go):
    target = sdk.rpc(go)
    for path, calls in CALLS.items():
        for _ in range(4):
            want = {"server": "caller", "server inside": None, **calls}
            story = sdk.ask(target, path)
            assert story.tree(len(want)) == want, f"{path}: {story.told()}"
