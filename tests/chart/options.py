"""The agent's options, read from agent/base/options.h, the one place where they are."""
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Option(NamedTuple):
    type: str
    key: str
    default: str
    allowed: str
    help: str


# Options that the chart sets itself, or that mean nothing in a pod.
NOT_IN_CHART = {
    "node.name": "set by the chart",
    "node.ip": "set by the chart",
    "proc.root": "the pod sees the node's processes in /proc",
    "discovery.pids": "processes have no lasting pids on a node",
}

STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r"X\((\w+),\s*\w+,\s*" + r",\s*".join([STRING] * 5) + r"\)")

DURATION = r"^(0|([0-9]+([.][0-9]+)?(ms|s|m|h|d))+)$"
SIZE = r"^[0-9]+([.][0-9]+)?(KiB|MiB|GiB|Ki|Mi|Gi|kB|KB|MB|GB|B)?$"
# In the column of allowed values: what the agent checks itself. A URL may be a template here.
CHECKED_BY_AGENT = {"", "URL", "address", "ratio", "pid", "secret"}


def read():
    text = (ROOT / "agent/base/options.h").read_text().replace("\\\n", "")
    table = text[text.index("#define OPTIONS(X)"):].split("\n")[0]
    rows = ROW.findall(table)
    if len(rows) != len(re.findall(r"\sX\(", table)) or not rows:
        raise SystemExit("options.h: a row is not understood")
    unescape = lambda s: s.replace('\\"', '"')
    return [Option(r[0], r[1], unescape(r[3]), r[4], unescape(r[5])) for r in rows]


def chart_options():
    return [o for o in read() if o.key not in NOT_IN_CHART]


def value_schema(option):
    """The JSON schema of an option's value in the configuration file."""
    if option.type == "ENUM" and "off" in option.allowed.split():
        return {"enum": [*option.allowed.split(), False]}  # what YAML makes of an unquoted off
    if option.type == "ENUM":
        return {"enum": option.allowed.split()}
    if option.type == "BOOL":
        return {"type": "boolean"}
    if option.type == "UINT":
        low, high = option.allowed.split("-")
        return {"type": "integer", "minimum": int(low), "maximum": int(high)}
    if option.type == "DURATION":
        return {"type": "string", "pattern": DURATION}
    if option.type == "SIZE":
        return {"anyOf": [{"type": "string", "pattern": SIZE}, {"type": "integer", "minimum": 0}]}
    if option.type == "LIST":
        free = option.allowed in CHECKED_BY_AGENT
        item = {"type": "string"} if free else {"enum": option.allowed.split()}
        return {"type": "array", "items": item}
    if option.type == "MAP":
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    if option.key == "traces.sampler_arg":
        return {"type": ["string", "number"]}
    return {"type": "string"}


def schema():
    """The JSON schema of the whole file: one level of objects for each dot of a key."""
    top = {"type": "object", "additionalProperties": False, "properties": {}}
    for option in chart_options():
        *parents, last = option.key.split(".")
        level = top
        for name in parents:
            level = level["properties"].setdefault(
                name, {"type": "object", "additionalProperties": False, "properties": {}})
        level["properties"][last] = {**value_schema(option), "description": option.help}
    # The probes of the pod need the endpoint, at a port that is known.
    top["properties"]["admin"]["properties"]["port"]["minimum"] = 1
    top["properties"]["admin"]["properties"]["listen"]["minLength"] = 1
    return top
