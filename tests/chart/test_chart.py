"""Tests of the chart and of what is made from it. Needs Go (or $HELM) and promtool; no cluster, no root."""
import json
import re
import shutil
import subprocess

import pytest
import yaml

import generate
import options

ROOT = options.ROOT
HERE = generate.HERE
VALUES = sorted((HERE / "values").glob("*.yaml"))


def objects(text):
    return [o for o in yaml.safe_load_all(text) if o]


def one(text, kind):
    found = [o for o in objects(text) if o["kind"] == kind]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}"
    return found[0]


def rendered(tmp_path, values, **more):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return generate.template("-f", file, **more)


def notes(tmp_path, values, **more):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return generate.template("--notes", "-f", file, **more)


@pytest.mark.parametrize("path,content", list(generate.everything()), ids=lambda x: x if len(x) < 60 else "")
def test_what_is_generated_is_up_to_date(path, content):
    assert (ROOT / path).read_text() == content, "run tests/chart/generate.py"


def test_no_golden_render_is_left_of_values_that_are_gone():
    made = {f.stem for f in VALUES} - {"plain"}
    assert {f.stem for f in (HERE / "golden").glob("*")} == made


@pytest.mark.parametrize("file", VALUES, ids=lambda f: f.stem)
def test_lint_is_clean(file):
    generate.helm("lint", generate.CHART, "-f", file)


def test_lint_can_fail(tmp_path):
    shutil.copytree(generate.CHART, tmp_path / "spoor")
    (tmp_path / "spoor/templates/broken.yaml").write_text("a: [")
    with pytest.raises(RuntimeError):
        generate.helm("lint", tmp_path / "spoor")


def test_the_versions_are_those_of_the_file_version():
    chart = yaml.safe_load((generate.CHART / "Chart.yaml").read_text())
    version = (ROOT / "VERSION").read_text().strip()
    assert chart["version"] == version and chart["appVersion"] == version


def test_every_value_is_explained():
    text = (generate.CHART / "values.yaml").read_text()
    flat = []

    def leaves(node, prefix):
        for key, value in node.items():
            path = prefix + key
            if path in generate.COMMENTS:
                flat.append(path)
                if path != "config":
                    continue
            if isinstance(value, dict) and value:
                leaves(value, path + ".")
            elif path not in generate.COMMENTS:
                raise AssertionError(f"{path} has no comment")

    leaves(yaml.safe_load(text), "")
    assert len(flat) > 50


def test_everything_changes_every_value():
    """values/everything.yaml is the proof that each value is used: a new one must be tried there."""
    changed = yaml.safe_load((HERE / "values/everything.yaml").read_text())
    # Those that exclude others in one render; each is in another file or test here.
    elsewhere = {"existingConfigMap", "dnsPolicy", "serviceAccount.create", "rbac.create", "networkPolicy.egress"}

    def given(path):
        node = changed
        for key in path.split("."):
            if not isinstance(node, dict) or key not in node:
                return False
            node = node[key]
        return True

    assert [p for p in generate.COMMENTS if p not in elsewhere and not p.startswith("config.") and not given(p)] == []


def test_every_value_of_everything_has_an_effect(tmp_path):
    """Taking one value of values/everything.yaml away changes what is rendered."""
    text = (HERE / "values/everything.yaml").read_text()
    whole = rendered(tmp_path, yaml.safe_load(text))
    # Hidden there by a stronger one on purpose, or tried by golden renders of their own.
    hidden = {"nameOverride", "image.registry", "image.tag", "tests.enabled", "affinity"}
    tried = 0
    for path in generate.COMMENTS:
        *parents, last = path.split(".")
        values = node = yaml.safe_load(text)
        for key in parents:
            node = node.get(key, {})
        if path in hidden or last not in node:
            continue
        tried += 1
        del node[last]
        try:
            assert rendered(tmp_path, values) != whole, f"{path} does nothing"
        except RuntimeError:
            pass  # what is left is refused: an effect as well
    assert tried > 50


def test_the_schema_has_every_option_of_the_agent():
    schema = json.loads((generate.CHART / "values.schema.json").read_text())
    for option in options.chart_options():
        node = schema["properties"]["config"]
        for key in option.key.split("."):
            assert node["additionalProperties"] is False
            node = node["properties"][key]
        assert node["description"] == option.help


@pytest.mark.parametrize("values", [
    {"nonsense": 1},
    {"image": {"tagg": "1"}},
    {"image": {"digest": "sha256:12"}},
    {"image": {"pullPolicy": "Sometimes"}},
    {"config": {"nonsense": 1}},
    {"config": {"kubelet": {"tls": {"mode": "none"}}}},
    {"config": {"log": {"level": "loud"}}},
    {"config": {"propagation": "writes"}},
    {"config": {"otlp": {"timeout": "soon"}}},
    {"config": {"batch": {"spans": 0}}},
    {"config": {"admin": {"port": 0}}},
    {"config": {"admin": {"listen": ""}}},
    {"config": {"node": {"name": "x"}}},
    {"config": {"exporters": ["carrier-pigeon"]}},
    {"config": {"shutdown": {"timeout": "30s"}}},
    {"config": {"otlp": {"headers": {"a": "b"}}}, "otlp": {"headersSecret": {"name": "x"}}},
    {"privileges": {"capabilities": []}},
    {"privileges": {"capabilities": ["CAP_BPF"]}},
    {"hostNetwork": True, "dnsPolicy": "ClusterFirst"},
    {"networkPolicy": {"enabled": "yes"}},
], ids=json.dumps)
def test_bad_values_are_refused(tmp_path, values):
    with pytest.raises(RuntimeError):
        rendered(tmp_path, values)


def test_as_a_part_of_another_chart_it_takes_that_ones_globals(tmp_path):
    assert "mirror.example.com/spoor/spoor:" in rendered(tmp_path, {"global": {
        "imageRegistry": "mirror.example.com", "storageClass": "theirs"}})


def test_a_shutdown_that_fits_is_not_refused(tmp_path):
    for timeout in "29s", "0", "500ms", "0.4m":
        rendered(tmp_path, {"config": {"shutdown": {"timeout": timeout}}})
    rendered(tmp_path, {"config": {"shutdown": {"timeout": "1m30s"}}, "terminationGracePeriodSeconds": 91})


def test_an_old_kubernetes_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="incompatible"):
        rendered(tmp_path, {}, kube_version="v1.27.0")


def test_the_agent_gets_four_capabilities_and_nothing_else():
    pod = one(generate.template(), "DaemonSet")["spec"]["template"]["spec"]
    assert pod["hostPID"] is True and "hostNetwork" not in pod and "hostIPC" not in pod
    assert [v for v in pod["volumes"] if "hostPath" in v] == []
    (container,) = pod["containers"]
    assert "initContainers" not in pod
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"]}
    assert security["privileged"] is False and security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True and security["runAsUser"] == 0


@pytest.mark.parametrize("mode,more", [("headers", ["NET_ADMIN"]), ("write", ["NET_ADMIN", "SYS_ADMIN"]), ("off", []), (False, [])], ids=str)
def test_propagation_adds_the_capabilities_that_it_needs_and_only_when_asked_for(tmp_path, mode, more):
    """An unquoted off is a boolean to YAML: the agent is given the word."""
    values = {"config": {"propagation": mode}}
    text = rendered(tmp_path, values)
    (container,) = one(text, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["capabilities"]["add"] == ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", *more]
    file = one(text, "ConfigMap")["data"]["config.yaml"]
    assert f"propagation: {mode or 'off'}" in file.replace('"', "").replace("'", ""), file
    assert ("NET_ADMIN" in notes(tmp_path, values)) == bool(more)
    assert ("SYS_ADMIN" in notes(tmp_path, values)) == ("SYS_ADMIN" in more)


def test_the_cluster_role_is_nodes_pods_unless_asked():
    rules = one(generate.template(), "ClusterRole")["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}]


def test_proxy_of_nodes_is_granted_on_request_only(tmp_path):
    rules = one(rendered(tmp_path, {"rbac": {"nodesProxy": True}}), "ClusterRole")["rules"]
    assert [r["resources"] for r in rules] == [["nodes/pods"], ["nodes/proxy"]]
    assert all(r["verbs"] == ["get"] for r in rules)


def test_the_configuration_is_rolled_out_when_it_changes(tmp_path):
    def checksum(values):
        return one(rendered(tmp_path, values), "DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) == checksum({"podLabels": {"a": "b"}})
    assert checksum({}) != checksum({"config": {"log": {"level": "debug"}}})


def test_selectors_do_not_change_with_the_version_and_the_labels(tmp_path):
    labels = one(rendered(tmp_path, {"commonLabels": {"a": "b"}}), "DaemonSet")["spec"]["selector"]["matchLabels"]
    assert labels == {"app.kubernetes.io/name": "spoor", "app.kubernetes.io/instance": "spoor",
                      "app.kubernetes.io/component": "agent"}


def test_every_object_with_a_namespace_names_it(tmp_path):
    values = yaml.safe_load((HERE / "values/everything.yaml").read_text())
    found = objects(rendered(tmp_path, values, namespace="elsewhere"))
    assert len(found) == 9
    for o in found:
        if not o["kind"].startswith("Cluster"):
            assert o["metadata"]["namespace"] == "elsewhere", o["kind"]


def test_probes_and_port_follow_the_admin_port(tmp_path):
    text = rendered(tmp_path, {"config": {"admin": {"port": 9999}}})
    container = one(text, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"name": "metrics", "containerPort": 9999, "protocol": "TCP"}]
    assert all(container[p]["httpGet"]["port"] == "metrics" for p in ("startupProbe", "livenessProbe", "readinessProbe"))


@pytest.mark.parametrize("endpoint,port", [
    ("", 4318), ("http://c:4000", 4000), ("http://c", 80), ("https://c/otlp", 443), ("http://[fd00::1]:4319", 4319),
    ("https://c.{{ .Release.Namespace }}:5000", 5000)])
def test_the_network_policy_lets_the_collectors_port_out(tmp_path, endpoint, port):
    text = rendered(tmp_path, {"config": {"otlp": {"endpoint": endpoint}}, "networkPolicy": {"enabled": True}})
    ports = [p["port"] for rule in one(text, "NetworkPolicy")["spec"]["egress"] for p in rule["ports"]]
    assert ports == [53, 53, 10250, port]


def test_the_plain_manifests_are_the_charts_without_helm():
    text = (ROOT / "k8s/spoor.yaml").read_text()
    plain, helms = objects(text), objects(generate.template("-f", HERE / "values/plain.yaml"))
    assert "helm" not in re.sub(r"(?m)^#.*\n", "", text).lower()
    assert plain[0]["kind"] == "Namespace"
    assert plain[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert [o["kind"] for o in plain[1:]] == [o["kind"] for o in helms]
    ours, theirs = one(text, "DaemonSet")["spec"]["template"]["spec"], one(generate.template(), "DaemonSet")["spec"]["template"]["spec"]
    assert ours == theirs


def test_the_notes_say_what_was_granted_and_how_to_opt_in(tmp_path):
    text = notes(tmp_path, {"config": {"discovery": {"annotation_prefix": "trace.example.com"}}})
    assert "capabilities BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH (all others dropped)" in text
    assert "annotate pod --selector app=CART trace.example.com/instrument=true" in text
    assert "WARNING" not in text


@pytest.mark.parametrize("values,version,warning", [
    ({}, "v1.32.0", "nodes/pods"),
    ({"rbac": {"nodesProxy": True}}, "v1.32.0", "execute commands"),
    ({"config": {"kubelet": {"tls": {"mode": "insecure"}}}}, "v1.37.2", "insecure"),
    ({"config": {"discovery": {"mode": "all"}}}, "v1.37.2", "every Go program"),
    ({"resources": {"limits": None}}, "v1.37.2", "memory limit"),
], ids=lambda v: json.dumps(v) if isinstance(v, dict) else None)
def test_the_notes_warn(tmp_path, values, version, warning):
    found = re.findall(r"WARNING: ((?:.+\n?)+)", notes(tmp_path, values, kube_version=version))
    assert len(found) == 1 and warning in found[0]


# --- the alerts

def rules():
    groups = yaml.safe_load((generate.CHART / "files/rules.yaml").read_text())["groups"]
    return [r for g in groups for r in g["rules"]]


def test_the_alerts_fire_on_what_they_are_for():
    done = subprocess.run(["promtool", "test", "rules", HERE / "rules_test.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried_and_explained():
    tried = (HERE / "rules_test.yaml").read_text()
    for rule in rules():
        if "alert" in rule:
            assert re.search(rf'alertname="{rule["alert"]}"|alertname: {rule["alert"]}\n', tried), rule["alert"]
            assert rule["annotations"].keys() == {"summary", "description"} and rule["labels"]["severity"]


def test_the_alerts_name_metrics_that_the_agent_has():
    sources = "".join(f.read_text() for f in [*(ROOT / "agent").rglob("*.[ch]"), *(ROOT / "bpf").glob("*.h")])
    families = {name for rule in rules() for name in re.findall(r"\bspoor_(\w+)", rule["expr"])}
    assert families and [f for f in families if f not in sources] == []


def test_disabled_alerts_are_left_out_and_labels_are_added(tmp_path):
    names = [r["alert"] for r in rules() if "alert" in r]
    text = rendered(tmp_path, {"metrics": {"prometheusRule": {
        "enabled": True, "disabledRules": names[:2], "ruleLabels": {"team": "x"}}}})
    made = [r for g in one(text, "PrometheusRule")["spec"]["groups"] for r in g["rules"]]
    assert [r["alert"] for r in made if "alert" in r] == names[2:]
    assert all(r["labels"]["team"] == "x" for r in made if "alert" in r)
    assert not any("labels" in r for r in made if "record" in r)
