"""What labels and annotations make of a span's resource, and when."""
from harness.load import Request, send
from harness.pods import Pod
from harness.wait import until
from test_pods import check_traced, spans_of


def test_pod_labels_and_annotations_that_are_asked_for_are_attributes(node):
    sink = node.sink()
    pod = Pod.of_deployment(labels={"team": "blue"}, annotations={"cost-centre": "42"})
    target = node.run(pod=pod)
    agent = node.agent(sink, resource__pod_labels=["team", "absent"], resource__pod_annotations=["cost-centre"],
                       resource__attributes="deployment.environment.name=test,k8s.cluster.name=c1")
    agent.wait_traced(target.pid)
    r = check_traced(sink, target)[0].resource
    assert r["k8s.pod.label.team"] == "blue" and "k8s.pod.label.absent" not in r
    assert r["k8s.pod.annotation.cost-centre"] == "42"
    assert r["deployment.environment.name"] == "test" and r["k8s.cluster.name"] == "c1"


def test_labels_and_annotations_that_change_while_the_pod_runs_show_without_a_new_attach(node):
    sink, target = node.sink(), node.run()
    agent = node.agent(sink, resource__pod_labels=["team"])
    agent.wait_traced(target.pid)
    check_traced(sink, target)
    attached = agent.metric("spoor_attach_total")

    def names():
        request, = send(target.port, [Request("/fast")])
        return until(lambda: next((s.resource for s in sink.spans if s.rid == request.rid), None), 10, "its span arrives")
    before = names()
    assert before["service.name"] == "web" and "k8s.pod.label.team" not in before
    target.pod.annotations["resource.opentelemetry.io/service.name"] = "shop"
    target.pod.labels["team"] = "red"
    node.kubelet.set(target.pod)
    until(lambda: names()["service.name"] == "shop", 10, "the new name shows")
    after = names()
    assert after["k8s.pod.label.team"] == "red"
    assert {k: v for k, v in after.items() if k != "k8s.pod.label.team"} == {**before, "service.name": "shop"}, "nothing else has changed"
    target.pod.annotations["somebody.else/heartbeat"] = "1"
    del target.pod.annotations["resource.opentelemetry.io/service.name"]
    node.kubelet.set(target.pod)
    until(lambda: names()["service.name"] == "web", 10, "and the old one again")
    assert agent.metric("spoor_attach_total") == attached and agent.metric("spoor_detach_total") == 0
    process = agent.process_state(target.pid)
    assert process["spans"] == len(spans_of(sink, target)), "its counters went on"
