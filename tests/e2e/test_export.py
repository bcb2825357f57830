"""Delivery: each span once, late rather than never, never for ever."""
import re
import signal
import time

import pytest

from harness import truth
from harness.load import Request, count, send
from harness.process import rss
from harness.sink import Answer, Sink
from harness.wait import until


def rig(node, *script, default=None, keep=True, **options):
    """A sink with that script, an agent, a traced program."""
    sink = node.sink(*script, default=default, keep=keep)
    target = node.run()
    agent = node.agent(sink, **options)
    agent.wait_traced(target.pid)
    return sink, target, agent


def settle(agent, timeout=15):
    """Until nothing is queued; the books."""
    until(lambda: (b := agent.conservation())["queued"] == 0 and b["open"] == 0, timeout, lambda: f"the books close: {agent.conservation()}")
    return agent.conservation()


def test_503_three_times_then_200_is_delivered_once(node):
    """Field case 33."""
    sink, target, agent = rig(node, Answer(503), Answer(503), Answer(503))
    requests = send(target.port, [Request("/fast") for _ in range(5)])
    sink.wait(5)
    time.sleep(1)
    truth.one_each(sink.spans, requests)
    assert settle(agent)["exported"] == 5 and [a.status for a in sink.attempts][:4] == [503, 503, 503, 200]


@pytest.mark.parametrize("status", (429, 502, 504))
def test_other_answers_that_are_worth_another_try(node, status):
    sink, target, agent = rig(node, Answer(status))
    requests = send(target.port, [Request("/fast")])
    sink.wait(1)
    truth.one_each(sink.spans, requests)


def test_429_with_retry_after_7_is_left_alone_for_7_seconds(node):
    """Field case 33."""
    sink, target, agent = rig(node, Answer(429, {"Retry-After": "7"}))
    send(target.port, [Request("/fast")])
    until(lambda: sink.attempts, 5, "the first attempt")
    send(target.port, [Request("/fast")])
    sink.wait(2, 20)
    gap = sink.attempts[1].time - sink.attempts[0].time
    assert 6.9 < gap < 11, f"{gap:.1f} s"


@pytest.mark.parametrize("status", (400, 401, 404))
def test_400_is_not_tried_again_but_counted(node, status):
    """Field case 33."""
    sink, target, agent = rig(node, Answer(status))
    send(target.port, [Request("/fast") for _ in range(3)], workers=1)
    until(lambda: agent.dropped().get("refused"), 10, lambda: f"they are counted: {agent.dropped()}")
    lost = agent.dropped()["refused"]
    good = send(target.port, [Request("/fast") for _ in range(4)])
    sink.wait(4 + 3 - lost)
    assert {r.rid for r in good} <= {s.rid for s in sink.spans}
    book = settle(agent)
    assert book["dropped"] == lost and book["exported"] == 7 - lost
    assert [a.status for a in sink.attempts].count(status) == 1, "one attempt"
    assert str(status) in agent.log


def test_413_is_split_until_it_fits(node):
    """The receiver's limit is lower than ours: halves, not losses."""
    sink, target, agent = rig(node, Answer(413), Answer(413), batch__delay="1s")
    requests = send(target.port, [Request("/fast") for _ in range(40)], workers=4)
    truth.one_each(sink.wait(40), requests)
    assert settle(agent)["exported"] == 40
    sink.default = Answer(413)
    send(target.port, [Request("/fast")])
    until(lambda: agent.dropped(), 10, "one span that is too large is dropped and counted")
    assert settle(agent)["dropped"] == 1


def test_a_partial_success_is_counted_and_not_sent_again(node):
    """Field case 33."""
    sink, target, agent = rig(node, Answer(rejected=2, message="two were bad"))
    send(target.port, [Request("/fast") for _ in range(5)], workers=5)
    until(lambda: agent.dropped().get("rejected") == 2, 10, lambda: f"{agent.dropped()}")
    time.sleep(1)
    book = settle(agent)
    assert book["exported"] == 3 and book["dropped"] == 2 and "two were bad" in agent.log
    assert sum(len(a.spans) for a in sink.attempts) == 5, "nothing was sent twice"


@pytest.mark.parametrize("action", ("hang", "reset", "half"))
def test_a_receiver_that_hangs_resets_or_closes_half_way_is_tried_again(node, action):
    """Field case 33."""
    sink, target, agent = rig(node, Answer(action=action), Answer(action=action), otlp__timeout="500ms")
    requests = send(target.port, [Request("/fast") for _ in range(3)], workers=1)
    until(lambda: {r.rid for r in requests} <= {s.rid for a in sink.attempts if a.status == 200 for s in a.spans}, 20,
          lambda: f"delivered in the end: {[(a.status, len(a.spans)) for a in sink.attempts]}")
    assert settle(agent)["exported"] == 3


def test_what_is_too_old_is_dropped_and_counted(node):
    sink, target, agent = rig(node, default=Answer(503), export__max_age="2s")
    send(target.port, [Request("/fast") for _ in range(3)])
    until(lambda: agent.dropped().get("too_old") == 3, 15, lambda: f"{agent.dropped()}")
    assert settle(agent)["dropped"] == 3


def test_large_batches_are_split(node):
    """No request is larger than otlp.max_request before compression."""
    sink, target, agent = rig(node, otlp__max_request="64KiB", batch__spans=2000, batch__bytes="4MiB", batch__delay="2s")
    pad = "&pad=" + "y" * 300
    requests = send(target.port, [Request("/fast?a=1" + pad) for _ in range(600)], workers=8)
    spans = sink.wait(600, 30)
    truth.one_each(spans, requests)
    assert max(a.size for a in sink.attempts) <= 64 * 1024 and settle(agent)["open"] == 0


def test_the_wire_is_what_the_specification_says(node):
    sink, target, agent = rig(node, otlp__headers="x-tenant=blue,authorization=Bearer secret")
    send(target.port, [Request("/fast")])
    sink.wait(1)
    attempt = sink.attempts[0]
    headers = {k.lower(): v for k, v in attempt.headers.items()}
    assert attempt.path == "/v1/traces" and headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip" and headers["user-agent"].startswith("spoor/")
    assert headers["x-tenant"] == "blue" and headers["authorization"] == "Bearer secret"
    assert "secret" not in agent.log + agent.get("/status")[1]


def test_compression_can_be_switched_off(node):
    sink, target, agent = rig(node, otlp__compression="none")
    send(target.port, [Request("/fast")])
    sink.wait(1)
    assert "Content-Encoding" not in sink.attempts[0].headers


SPELLINGS = {  # what is written -> the path that is asked
    "http://{host}": "/v1/traces", "http://{host}/": "/v1/traces", "http://{host}/prefix": "/prefix/v1/traces",
    "http://{host}/prefix/": "/prefix/v1/traces", "{host}": "/v1/traces", "HTTP://{host}": "/v1/traces",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_endpoint_spellings(node, spelling):
    """Field case 34."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, otlp__endpoint=spelling.format(host=f"127.0.0.1:{sink.port}"))
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast")])
    sink.wait(1)
    assert sink.attempts[0].path == SPELLINGS[spelling]


def test_an_ipv6_receiver(node):
    sink = node.sink(address="::1")
    target = node.run()
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast")])
    sink.wait(1)


def test_the_environment_variables_of_opentelemetry(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(exporters=["otlp"], env={"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-from=env%2C%20coded",
                                                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=env"})
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast")])
    span = sink.wait(1)[0]
    assert sink.attempts[0].headers.get("x-from") == "env, coded" and span.resource["deployment.environment.name"] == "env"


def test_what_is_set_for_one_signal_is_for_that_one_alone(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval="200ms", env={
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=both", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=of-traces",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "none"})
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast")])
    sink.wait(1)
    until(lambda: sink.metrics_headers, 10, "metrics")
    traces, metrics = ({k.lower(): v for k, v in h.items()} for h in (sink.attempts[0].headers, sink.metrics_headers))
    assert traces["authorization"] == "of-traces" and "x-tenant" not in traces and traces["content-encoding"] == "gzip"
    assert metrics["x-tenant"] == "both" and "authorization" not in metrics and "content-encoding" not in metrics
    assert "of-traces" not in agent.log + agent.get("/status")[1]


NONSENSE = ("http://", "ftp://collector:4318", "http://collector:notaport", "http://collector:99999", "::1:4318", "http://[::1", "not a url")


@pytest.mark.parametrize("value", NONSENSE)
def test_a_nonsensical_endpoint_is_refused_at_start_with_its_value(node, value):
    """Field case 34."""
    agent = node.agent(exporters=["otlp"], otlp__endpoint=value, ready=False)
    code = agent.process.wait(10)
    assert code not in (0, None) and code > 0, f"it ends with an error, not {code}"
    assert value in agent.log and "otlp.endpoint" in agent.log, agent.log


def test_a_receiver_that_starts_long_after_the_agent_gets_everything(node):
    """Field case 35 (10 s here)."""
    from harness.ports import free_port
    port = free_port()
    target = node.run()
    agent = node.agent(exporters=["otlp"], otlp__endpoint=f"http://127.0.0.1:{port}")
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast") for _ in range(500)], rate=100)
    time.sleep(5)
    sink = Sink(port=port)
    node.receivers.append(sink)
    truth.one_each(sink.wait(500, 40), requests)
    assert settle(agent)["exported"] == 500
    assert agent.log.count("level=warn") < 12, "few lines, not one an attempt"


def test_sigterm_right_after_100_requests_loses_none(node):
    """Field case 35."""
    sink, target, agent = rig(node, batch__delay="5s")
    requests = send(target.port, [Request("/fast") for _ in range(100)], workers=10)
    took = agent.stop()
    truth.one_each(sink.spans, requests)
    assert took < 5


def test_sigterm_in_the_middle_of_a_storm_closes_the_books(node):
    """Nothing that was produced is unaccounted for in its last words."""
    import threading
    sink, target, agent = rig(node, keep=False)
    storm = threading.Thread(target=count, args=(target.port, 6), kwargs={"workers": 16})
    storm.start()
    time.sleep(3)
    took = agent.stop()
    storm.join()
    produced, exported, out, dropped = map(int, re.search(
        r"done: (\d+) spans produced, (\d+) exported, (\d+) sampled out, (\d+) dropped", agent.log).groups())
    assert produced == exported + out + dropped and exported == sink.received > 1000 and took < 8
    assert target.process.running


def test_sigterm_with_a_receiver_that_hangs_ends_in_time(node):
    """Field case 35."""
    sink, target, agent = rig(node, default=Answer(action="hang"), shutdown__timeout="2s")
    send(target.port, [Request("/fast") for _ in range(100)], workers=10)
    took = agent.stop()
    assert took < 4, f"{took:.1f} s"
    assert re.search(r"100", agent.log.splitlines()[-1] + agent.tail(5)), "the loss is told"


def test_a_second_signal_ends_it_at_once(node):
    sink, target, agent = rig(node, default=Answer(action="hang"), shutdown__timeout="30s")
    send(target.port, [Request("/fast") for _ in range(10)])
    import os
    os.kill(agent.pid, signal.SIGTERM)
    time.sleep(1)
    if agent.process.running:
        agent.stop(code=None, timeout=5)


def test_an_agent_that_is_killed_leaves_its_programs_running_untouched(node):
    sink, target, agent = rig(node)
    agent.process.stop(signal.SIGKILL)
    requests = send(target.port, [Request("/fast") for _ in range(100)], workers=8)
    assert all(r.status == 200 for r in requests)
    again = node.agent(sink)
    again.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast") for _ in range(10)])
    until(lambda: {r.rid for r in requests} <= {s.rid for s in sink.spans}, 10, "traced anew")


def test_a_receiver_that_never_answers_costs_no_memory(node):
    """Field case 19: dropped oldest first, counted, few log lines, recovery without restart."""
    sink, target, agent = rig(node, default=Answer(action="hang"), otlp__timeout="1s", batch__count=8, batch__spans=256)
    count(target.port, 4, workers=8, rate=4000)
    full = rss(agent.real_pid)
    count(target.port, 8, workers=8, rate=4000)
    assert rss(agent.real_pid) - full < 1 << 20, "memory stays flat"
    book = agent.conservation()
    assert book["dropped"] > 10_000 and agent.dropped().keys() <= {"queue_oldest", "ring_full"} and book["queued"] <= 8 * 256, book
    assert agent.log.count("level=warn") + agent.log.count("level=error") < 30, agent.tail()
    sink.default = Answer()
    fresh = send(target.port, [Request("/fast") for _ in range(20)])
    until(lambda: {r.rid for r in fresh} <= {s.rid for s in sink.spans}, 20, "it recovers")
    settle(agent)


def test_a_ring_that_overflows_loses_nothing_uncounted(node):
    """Field case 36: a tiny ring, the agent stopped for seconds at full rate: requests == exported + dropped."""
    sink, target, agent = rig(node, keep=False, ring__size="16KiB", ring__wakeup="4KiB")
    import os
    os.kill(agent.pid, signal.SIGSTOP)
    first = count(target.port, 3, workers=16)
    os.kill(agent.pid, signal.SIGCONT)
    second = count(target.port, 2, workers=16, rate=3000)
    sent = first["answered"] + second["answered"]
    assert first["answered"] > 5000, first
    book = until(lambda: (b := agent.conservation())["produced"] >= sent and b["queued"] == 0 and b, 15,
                 lambda: f"{sent} requests are accounted for: {agent.conservation()} {agent.dropped()}")
    assert book["produced"] == sent and book["open"] == 0, f"{sent} requests: {book} {agent.dropped()}"
    assert agent.dropped()["ring_full"] > 1000 and sink.received == book["exported"]


@pytest.mark.parametrize("rate", (0, 3000))
def test_the_books_close_at_a_high_rate(node, rate):
    """As fast as it goes, and 3,000 a second: of these none may be lost."""
    sink, target, agent = rig(node, keep=False)
    done = count(target.port, 4, workers=16, rate=rate)
    assert done["sent"] == done["answered"], "no request fails for being traced"
    book = until(lambda: (b := agent.conservation())["produced"] == done["answered"] and b["queued"] == 0 and b, 20,
                 lambda: f"{done}: {agent.conservation()} {agent.dropped()}")
    assert book["open"] == 0 and sink.received == book["exported"]
    if rate:
        assert book["dropped"] == 0, f"nothing is lost: {agent.dropped()}"


def test_stdout_and_a_receiver_get_the_same(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, exporters=["otlp", "stdout"], stdout__format="json")
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast") for _ in range(10)])
    sink.wait(10)
    until(lambda: len(agent.lines) == 10, 5, lambda: f"10 lines: {agent.lines[:2]}")
    for request in requests:
        assert any(request.trace_id in line for line in agent.lines)
    assert all(isinstance(r, dict) for r in agent.process.records) and len(agent.process.records) == 10


