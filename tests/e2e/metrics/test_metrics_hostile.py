"""What people and programs may do to the page for Prometheus and to what is pushed: none of them takes the metrics of the others."""
import socket

from test_prometheus import SECONDS, requests, scraped

from harness.load import send
from harness.pods import Pod
from harness.wait import until

SERVER = "http.server.request.duration"


def test_annotations_of_a_pod_never_spoil_the_page_for_others(node):
    """They become labels of target_info, whose names a pod's author chooses: one that Prometheus cannot read costs it the whole page."""
    hostile = Pod.of_deployment("evil", annotations={f"resource.opentelemetry.io/{k}": v for k, v in {
        "job": "mine", "instance": "mine", "__name__": "mine", "a.b": "1", "a_b": "2", "a-b": "3", "9lives": "x", "le": "7",
        "k8s.container.name": 'quo"te\\ \n{}, \x7f\u2028 end', "": "empty", "...": "dots"}.items()})
    target, other = node.run(pod=hostile), node.run()
    agent, port = scraped(node)
    agent.wait_traced(target.pid)
    agent.wait_traced(other.pid)
    send(target.port, requests(40))
    send(other.port, requests(40))
    prometheus = node.prometheus(port)
    until(lambda: prometheus.value(f"sum({SECONDS}_count)") == 80, 10, lambda: f"{prometheus.health()}")
    [(info, _)] = prometheus.query('target_info{job="shop/evil"}')
    assert info["__name__"] == "target_info" and info["_name_"] == "mine" and info["exported_job"] == info["exported_instance"] == "mine"
    assert info["a_b"] == "3;1;2" and info["_9lives"] == "x" and info["exported_le"] == "7" and info["_"] == "dots"
    assert info["k8s_container_name"] == 'quo"te\\ \n{}, \x7f\u2028 end'
    assert prometheus.value(f'sum({SECONDS}_bucket{{job="shop/evil",le="0.005"}})') <= 40
    assert {labels["le"] for labels, _ in prometheus.query(f"{SECONDS}_bucket")} >= {"0.005", "0.025", "0.075", "0.75", "+Inf"}


def raw(port, agent, path):
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\nUser-Agent: " + agent + b"\r\n\r\n")
        return s.recv(65536)[:12]


def test_every_byte_that_a_client_can_send_comes_through_as_a_label(node):
    target = node.run()
    agent, port = scraped(node, metrics__add_attributes={SERVER: "user_agent.original url.path"})
    agent.wait_traced(target.pid)
    prometheus = node.prometheus(port)
    sent = [bytes([b]) for b in range(256) if b not in b"\x00\n\r"]
    for b in sent:
        raw(target.port, b"a" + b + b"z", b"/fast")
    paths = ["/items/%%%02x" % b for b in range(256) if b != 0x2f]
    for path in paths:
        raw(target.port, b"p", path.encode())
    seen = agent.conservation
    until(lambda: seen()["produced"] >= len(paths) + 200, 10, lambda: f"{seen()}")
    n = seen()["produced"]
    until(lambda: prometheus.value(f"sum({SECONDS}_count)") == n, 10, lambda: f"{prometheus.health()} {prometheus.value(f'sum({SECONDS}_count)')} of {n}")
    agents = {labels.get("user_agent_original") for labels, _ in prometheus.query(f'{SECONDS}_count{{http_route="/fast"}}')}
    assert {f"a{chr(b)}z" for b in range(0x20, 0x7f)} <= agents
