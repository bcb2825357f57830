#!/usr/bin/env python3
"""Makes what follows from the chart and from the agent's options: the chart's schema, the tables of its README, the
plain manifests in k8s/ and the golden renders in tests/chart/golden. test_chart.py fails where they are not up to date.

    generate.py            writes them
    generate.py --check    only says which are out of date
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import options

ROOT = options.ROOT
CHART = ROOT / "helm/spoor"
HERE = Path(__file__).resolve().parent
KUBE_VERSION = "v1.37.2"


def helm_program():
    """$HELM, or the one that is built from tests/chart/helm."""
    if os.environ.get("HELM"):
        return os.environ["HELM"]
    out = ROOT / "build/chart/helm"
    out.parent.mkdir(parents=True, exist_ok=True)
    # The flags are those of the cluster's programs, so that the two builds share what they compile.
    subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-tags", "selinux,notest,grpcnotrace",
                    "-ldflags", "-s -w", "-o", str(out), "."], cwd=HERE / "helm", check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"})
    return str(out)


def helm(*args):
    """Runs helm; its standard output, or an error with what it said."""
    helm.program = getattr(helm, "program", None) or helm_program()
    done = subprocess.run([helm.program, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr + done.stdout)
    return done.stdout


def template(*args, namespace="spoor", kube_version=KUBE_VERSION):
    return helm("template", "spoor", CHART, "-n", namespace, "--kube-version", kube_version, *args)


# --- values.schema.json

def guess(value):
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    if isinstance(value, str):
        return {"type": "string"}
    return {"type": "array" if isinstance(value, list) else "object"}


NAMES = {"type": "object", "additionalProperties": {"type": "string"}}
SECRETS = {"type": "array", "items": {"anyOf": [{"type": "string", "minLength": 1}, {
    "type": "object", "required": ["name"], "additionalProperties": False, "properties": {"name": {"type": "string"}}}]}}

# Where the default value of a key does not tell its type well enough.
SPECIAL = {
    "commonLabels": NAMES,
    "commonAnnotations": NAMES,
    "global.imagePullSecrets": SECRETS,
    "image.pullSecrets": SECRETS,
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.repository": {"type": "string", "minLength": 1},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "serviceAccount.annotations": NAMES,
    "env": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "privileges.capabilities": {"type": "array", "minItems": 1, "uniqueItems": True,
                                "items": {"type": "string", "pattern": "^[A-Z_]+$", "not": {"pattern": "^CAP_"}}},
    "dnsPolicy": {"enum": ["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]},
    "podAnnotations": NAMES,
    "podLabels": NAMES,
    "metrics.service.annotations": NAMES,
    "metrics.podMonitor.labels": NAMES,
    "metrics.podMonitor.interval": {"type": "string", "pattern": options.DURATION},
    "metrics.prometheusRule.labels": NAMES,
    "metrics.prometheusRule.ruleLabels": NAMES,
    "metrics.prometheusRule.disabledRules": {"type": "array", "items": {"type": "string"}},
}


def structure(values, prefix=""):
    """The schema of an object whose keys are the chart's own: those that have a comment of their own are its leaves."""
    properties = {}
    for key, value in values.items():
        path = prefix + key
        if path == "config":
            properties[key] = options.schema()
        elif path in SPECIAL:
            properties[key] = SPECIAL[path]
        elif isinstance(value, dict) and path not in COMMENTS:
            properties[key] = structure(value, path + ".")
        else:
            properties[key] = guess(value)
        if path in COMMENTS:
            properties[key] = {**properties[key], "description": COMMENTS[path]}
    # A chart that has this one as a part hands all its global values down.
    return {"type": "object", "additionalProperties": prefix == "global.", "properties": properties}


def comments(text):
    """Path of each key of values.yaml -> the text of the "# --" comment above it."""
    found, path, waiting = {}, [], None
    for line in text.splitlines():
        comment = re.match(r"\s*# -- (.*)", line)
        key = re.match(r"( *)([A-Za-z]\w*):", line)
        if comment:
            waiting = comment[1]
        elif key:
            path[len(key[1]) // 2:] = [key[2]]
            if waiting:
                found[".".join(path)] = waiting
            waiting = None
    return found


VALUES_TEXT = (CHART / "values.yaml").read_text()
COMMENTS = comments(VALUES_TEXT)


def values():
    import yaml
    return yaml.safe_load(VALUES_TEXT)


def schema():
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **structure(values())}, indent=2) + "\n"


# --- README.md

def cell(text):
    return text.replace("|", "\\|")


def values_table():
    lines = ["| value | default | meaning |", "|---|---|---|"]
    flat = {}

    def flatten(node, prefix):
        for key, value in node.items():
            path = prefix + key
            if path in COMMENTS:
                flat[path] = value
            if isinstance(value, dict) and any(c.startswith(path + ".") for c in COMMENTS):
                flatten(value, path + ".")

    flatten(values(), "")
    for path, value in flat.items():
        default = "see values.yaml" if path in ("config", "affinity") else f"`{json.dumps(value)}`"
        lines.append(f"| `{path}` | {cell(default)} | {cell(COMMENTS[path])} |")
    return "\n".join(lines)


def options_table():
    lines = ["| key under `config` | the agent's default | meaning |", "|---|---|---|"]
    for option in options.chart_options():
        allowed = "" if option.allowed in options.CHECKED_BY_AGENT else f" ({option.allowed})"
        default = f"`{option.default}`" if option.default else ""
        lines.append(f"| `{option.key}` | {cell(default)} | {cell(option.help + allowed)} |")
    return "\n".join(lines)


def readme():
    text = (CHART / "README.md").read_text()
    for name, table in ("values", values_table()), ("options", options_table()):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + "\n" + table + "\n" + end + rest.split(end)[1]
    return text


# --- k8s/

NAMESPACE = """\
# Rendered from helm/spoor with its default values by tests/chart/generate.py; do not edit. Install with
#     kubectl apply -f k8s/
# The agent's configuration is in the ConfigMap; after a change: kubectl --namespace spoor rollout restart daemonset/spoor
apiVersion: v1
kind: Namespace
metadata:
  name: spoor
  labels:
    app.kubernetes.io/name: spoor
    # hostPID and the capabilities are refused by the levels baseline and restricted.
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/warn: privileged
    pod-security.kubernetes.io/audit: privileged
"""


def manifests():
    """The chart's objects as nobody's release: without what belongs to helm."""
    rendered = template("-f", HERE / "values/plain.yaml")
    rendered = re.sub(r"(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", "", rendered)
    return NAMESPACE + re.sub(r"(?m)^# Source: .*\n", "", rendered).replace("\n\n---", "\n---").rstrip("\n") + "\n"


# --- tests/chart/golden

def golden():
    for file in sorted((HERE / "values").glob("*.yaml")):
        if file.stem == "plain":
            continue
        version = re.search(r"# kube-version: (\S+)", file.read_text())
        yield f"tests/chart/golden/{file.stem}.yaml", template("-f", file, kube_version=version[1] if version else KUBE_VERSION)


def everything():
    """(path below the root, content that it must have), in an order in which later ones may use earlier ones."""
    yield "helm/spoor/values.schema.json", schema()
    yield "helm/spoor/README.md", readme()
    yield "k8s/spoor.yaml", manifests()
    yield from golden()


def main():
    check, stale = "--check" in sys.argv[1:], []
    for path, content in everything():
        file = ROOT / path
        if file.exists() and file.read_text() == content:
            continue
        stale.append(path)
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    for path in stale:
        print("out of date:" if check else "written:", path)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
