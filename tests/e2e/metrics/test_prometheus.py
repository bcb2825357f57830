"""The traced programs' metrics as a real Prometheus scrapes and queries them."""
import subprocess
import time
import urllib.request

import pytest

from harness.load import Request, send
from harness.paths import tool
from harness.ports import free_port
from harness.wait import until

SECONDS = "http_server_request_duration_seconds"


def requests(n):
    return [Request(("/fast", "/items/7", "/teapot", "/fail")[i % 4], trace=None) for i in range(n)]


def scraped(node, **options):
    """An agent that is scraped: (agent, port)."""
    port = free_port()
    return node.agent(node.sink(), metrics__exporters="prometheus", prometheus__port=port, prometheus__listen="127.0.0.1", **options), port


def page(port, accept=""):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_promql_says_what_was_sent(node):
    target, other = node.run(), node.run()
    agent, port = scraped(node)
    agent.wait_traced(target.pid)
    agent.wait_traced(other.pid)
    prometheus = node.prometheus(port)
    send(target.port, requests(400), workers=4)
    send(other.port, requests(40))
    until(lambda: prometheus.value(f"sum({SECONDS}_count)") == 440, 15, lambda: f"{prometheus.query(SECONDS + '_count')} {prometheus.health()}")
    pod = f'k8s_pod_name="{target.pod.name}"'
    by_code = dict((labels["http_response_status_code"], v) for labels, v in
                   prometheus.query(f"sum by (http_response_status_code) ({SECONDS}_count{{{pod}}})"))
    assert by_code == {"200": 200, "418": 100, "500": 100}
    assert prometheus.value(f'{SECONDS}_count{{{pod},http_route="/items/{{id}}",error_type=""}}') == 100
    assert prometheus.value(f'sum({SECONDS}_count{{{pod},error_type="500"}})') == 100
    [(labels, _)] = prometheus.query(f'{SECONDS}_count{{{pod},http_route="/fast"}}')
    assert labels == {"__name__": f"{SECONDS}_count", "job": "shop/web", "instance": f"shop.{target.pod.name}.app",
                      "otel_scope_name": "spoor/net/http", "k8s_namespace_name": "shop", "k8s_pod_name": target.pod.name,
                      "k8s_container_name": "app", "http_request_method": "GET", "url_scheme": "http", "http_response_status_code": "200",
                      "http_route": "/fast", "network_protocol_version": "1.1"}
    assert 0 < prometheus.value(f"histogram_quantile(0.5, sum by (le) ({SECONDS}_bucket{{{pod}}}))") <= 0.005
    # As dashboards join what the resource says.
    [(joined, count)] = prometheus.query(f'sum by (k8s_deployment_name) ({SECONDS}_count * on (job, instance) group_left '
                                         f'(k8s_deployment_name) target_info{{k8s_pod_name="{other.pod.name}"}})')
    assert joined == {"k8s_deployment_name": "web"} and count == 40
    # A pod that has gone is gone from the next scrape on.
    other.stop()
    node.kubelet.remove(other.pod)
    until(lambda: not prometheus.query(f'{SECONDS}_count{{k8s_pod_name="{other.pod.name}"}}'), 15, "its series are stale")
    assert prometheus.value(f"sum({SECONDS}_count)") == 400


def test_exemplars_come_with_openmetrics(node):
    target = node.run()
    agent, port = scraped(node)
    agent.wait_traced(target.pid)
    prometheus = node.prometheus(port)
    begin = time.time()
    send(target.port, requests(40))
    sink = node.receivers[0]
    spans = {s.span_id: s for s in sink.wait(40)}
    found = until(lambda: prometheus.get("query_exemplars", query=f"{SECONDS}_bucket", start=begin - 60, end=time.time() + 60), 10, "exemplars")
    exemplars = [e for series in found for e in series["exemplars"]]
    assert len(exemplars) >= 4
    for e in exemplars:
        span = spans[e["labels"]["span_id"]]
        assert span.trace_id == e["labels"]["trace_id"] and float(e["value"]) == pytest.approx((span.end - span.start) / 1e9)


@pytest.mark.parametrize("histogram", ("explicit_bucket_histogram", "base2_exponential_bucket_histogram"))
def test_both_formats_are_clean(node, histogram):
    target = node.run()
    agent, port = scraped(node, metrics__histogram=histogram)
    agent.wait_traced(target.pid)
    send(target.port, requests(40))
    until(lambda: agent.conservation()["produced"] == 40, 10, "they are seen")
    kind, text = page(port)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    checked = subprocess.run([tool("promtool"), "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    # The name is the conventions': a gauge that ends in _count is what promtool would call otherwise, and nothing else is.
    assert checked.stderr.decode().splitlines() == ['go_goroutine_count non-histogram and non-summary metrics should not have "_count" suffix'], text
    lines = [line for line in text.splitlines() if line.startswith(f"{SECONDS}_bucket") and 'http_route="/fast"' in line]
    counts = [int(line.rsplit(" ", 1)[1]) for line in lines]
    assert counts == sorted(counts) and counts[-1] == 10 and 'le="+Inf"' in lines[-1]
    kind, text = page(port, "application/openmetrics-text; version=1.0.0; q=0.9, text/plain; q=0.5")
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("# EOF\n") and " # {trace_id=" in text and "# TYPE target info" in text and f"{SECONDS}_created{{" in text


def test_no_rate_is_negative_when_pod_and_agent_restart(node):
    from harness.pods import new_container_id
    target = node.run()
    agent, port = scraped(node)
    agent.wait_traced(target.pid)
    prometheus = node.prometheus(port)
    sent = 0

    def some(n, of):
        nonlocal sent
        for _ in range(n):
            send(of.port, requests(20))
            sent += 20
            time.sleep(0.3)

    some(4, target)
    target.stop()
    target.pod.main.id, target.pod.main.restarts = new_container_id(), 1
    target = node.run(pod=target.pod)
    agent.wait_traced(target.pid)
    some(4, target)
    agent.stop()
    agent.start()
    agent.wait_traced(target.pid)
    some(4, target)
    time.sleep(0.6)
    # The container's restart goes on with the series; the agent's begins them anew, once, and what it then counts is new.
    assert {v for _, v in prometheus.query(f"resets({SECONDS}_count[2m])")} == {1}
    assert prometheus.value(f"sum(max_over_time({SECONDS}_count[2m]))") == 160 and prometheus.value(f"sum({SECONDS}_count)") == 80 and sent == 240
