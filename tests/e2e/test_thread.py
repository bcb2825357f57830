"""The whole way once: kubelet -> process -> binary -> probe -> ring -> batch -> a real collector, and stdout."""
from harness import truth
from harness.agent import effective_capabilities
from harness.load import Request, send

CAPABILITIES = 1 << 2 | 1 << 19 | 1 << 38 | 1 << 39  # DAC_READ_SEARCH, SYS_PTRACE, PERFMON, BPF


def test_one_request_of_an_annotated_pod_is_one_span_in_a_real_collector(node):
    collector = node.collector()
    target = node.run(None, "-truth")
    agent = node.agent(collector)
    assert effective_capabilities(agent.pid) == CAPABILITIES
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast")])
    spans = collector.wait(1)
    truth.check(spans, requests)
    truth.check_pod(spans, target.pod)
    told = target.truths()[requests[0].rid]
    assert spans[0].start - truth.SLACK <= told["start"] and told["end"] <= spans[0].end + truth.SLACK, "the handler ran within the span"
    assert spans[0].scope == "spoor/net/http" and spans[0].schema.endswith("/1.44.0")
    assert spans[0].service == "web"
    book = agent.conservation()
    assert book["produced"] == book["exported"] == 1 and book["open"] == 0


def test_every_kind_of_answer_is_told_as_it_was(node):
    collector = node.collector()
    target = node.run(None, "-truth")
    agent = node.agent(collector)
    agent.wait_traced(target.pid)
    requests = [Request(path) for path in truth.ANSWERS] * 1 + [Request("/nowhere"), Request("/items/7"), Request("/users/a/posts/b/c")]
    send(target.port, requests, workers=1)
    spans = collector.wait(len(requests))
    truth.check(spans, requests)
    truth.check_pod(spans, target.pod)


def test_stdout_prints_one_line_a_span_in_order(node):
    target = node.run()
    agent = node.agent(exporters=["stdout"], stdout__format="text")
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request(p) for p in ("/fast", "/fail", "/items/1", "/slow")], workers=1)
    from harness.wait import until
    until(lambda: len(agent.lines) == 4, 10, lambda: f"4 lines: {agent.lines}")
    for line, request, words in zip(agent.lines, requests, (("GET", "/fast", "200"), ("GET", "/fail", "500"),
                                                           ("GET", "/items/{id}", "200"), ("GET", "/slow", "200"))):
        for word in (*words, request.trace_id, target.pod.name, "web"):
            assert word in line, f"{word} in: {line}"
