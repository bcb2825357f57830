"""Spans as a receiver sees them, whether they came as OTLP protobuf or as the collector's JSON."""
import base64
from collections import Counter
from dataclasses import dataclass, field

from google.protobuf.json_format import MessageToDict

SERVER, CLIENT = 2, 3
KINDS = {"SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 3}


@dataclass
class Span:
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start: int  # ns
    end: int
    attrs: dict
    resource: dict
    status: int = 0
    message: str = ""
    flags: int = 0
    tracestate: str = ""
    scope: str = ""
    schema: str = ""
    extra: dict = field(default_factory=dict)

    @property
    def rid(self):
        """The request's own id, which our programs carry in the query."""
        query = self.attrs.get("url.query", "")
        return next((part[4:] for part in query.split("&") if part.startswith("rid=")), "")

    @property
    def code(self):
        return self.attrs.get("http.response.status_code")

    @property
    def route(self):
        return self.attrs.get("http.route")

    @property
    def pod(self):
        return self.resource.get("k8s.pod.name")

    @property
    def service(self):
        return self.resource.get("service.name")


def _value(v):
    kind, value = next(iter(v.items()), ("stringValue", None))
    if kind == "intValue":
        return int(value)
    if kind == "arrayValue":
        return [_value(i) for i in value.get("values", [])]
    if kind == "kvlistValue":
        return _attrs(value.get("values", []))
    return value


def _attrs(pairs):
    found = {p["key"]: _value(p.get("value", {})) for p in pairs}
    assert len(found) == len(pairs), f"an attribute occurs twice: {[k for k, n in Counter(p['key'] for p in pairs).items() if n > 1]}"
    return found


def _id(value, size, as_hex):
    text = value if as_hex else base64.b64decode(value or "").hex()
    assert len(text) in (0, size), f"an id of {len(text)} digits: {text}"
    return text


def spans_of(request, as_hex=True):
    """All spans of one ExportTraceServiceRequest as a dictionary of OTLP JSON (ids hexadecimal) or of protobuf's JSON (base64)."""
    spans = []
    for rs in request.get("resourceSpans", []):
        resource = _attrs(rs.get("resource", {}).get("attributes", []))
        for ss in rs.get("scopeSpans", []):
            for s in ss.get("spans", []):
                status = s.get("status", {})
                code = status.get("code", 0)
                kind = s.get("kind", 0)
                spans.append(Span(
                    name=s.get("name", ""), kind=KINDS.get(kind, kind), trace_id=_id(s.get("traceId", ""), 32, as_hex),
                    span_id=_id(s.get("spanId", ""), 16, as_hex), parent_id=_id(s.get("parentSpanId", ""), 16, as_hex),
                    start=int(s.get("startTimeUnixNano", 0)), end=int(s.get("endTimeUnixNano", 0)),
                    attrs=_attrs(s.get("attributes", [])), resource=resource,
                    status={"STATUS_CODE_ERROR": 2, "STATUS_CODE_OK": 1}.get(code, code), message=status.get("message", ""),
                    flags=int(s.get("flags", 0)), tracestate=s.get("traceState", ""), scope=ss.get("scope", {}).get("name", ""),
                    schema=rs.get("schemaUrl", "") or ss.get("schemaUrl", "")))
    return spans


@dataclass
class Point:
    """One data point of a metric."""
    metric: str
    kind: str  # gauge, sum, histogram, exponentialHistogram
    unit: str
    attrs: dict
    resource: dict
    scope: str
    start: int  # ns
    time: int
    temporality: int  # 1 delta, 2 cumulative, 0 of a gauge
    monotonic: bool
    value: float  # of gauges and sums
    count: int = 0
    sum: float = 0.0
    buckets: list = field(default_factory=list)
    bounds: list = field(default_factory=list)
    exemplars: list = field(default_factory=list)
    raw: dict = field(default_factory=dict)

    @property
    def key(self):
        """What makes it a point of one series and not of another."""
        return self.metric, self.scope, tuple(sorted(self.attrs.items())), tuple(sorted((k, str(v)) for k, v in self.resource.items()))


TEMPORALITIES = {"AGGREGATION_TEMPORALITY_DELTA": 1, "AGGREGATION_TEMPORALITY_CUMULATIVE": 2}


def points_of(request, as_hex=True):
    """All data points of one ExportMetricsServiceRequest, as spans_of() takes it."""
    points = []
    for rm in request.get("resourceMetrics", []):
        resource = _attrs(rm.get("resource", {}).get("attributes", []))
        for sm in rm.get("scopeMetrics", []):
            for m in sm.get("metrics", []):
                kind = next(k for k in ("gauge", "sum", "histogram", "exponentialHistogram") if k in m)
                data = m[kind]
                temporality = data.get("aggregationTemporality", 0)
                for p in data.get("dataPoints", []):
                    exemplars = [{"value": float(e.get("asDouble", e.get("asInt", 0))), "time": int(e["timeUnixNano"]),
                                  "trace_id": _id(e.get("traceId", ""), 32, as_hex), "span_id": _id(e.get("spanId", ""), 16, as_hex)}
                                 for e in p.get("exemplars", [])]
                    points.append(Point(
                        metric=m["name"], kind=kind, unit=m.get("unit", ""), attrs=_attrs(p.get("attributes", [])), resource=resource,
                        scope=sm.get("scope", {}).get("name", ""), start=int(p.get("startTimeUnixNano", 0)),
                        time=int(p.get("timeUnixNano", 0)), temporality=TEMPORALITIES.get(temporality, temporality),
                        monotonic=bool(data.get("isMonotonic", False)), value=float(p.get("asDouble", p.get("asInt", 0))),
                        count=int(p.get("count", 0)), sum=float(p.get("sum", 0)), buckets=[int(c) for c in p.get("bucketCounts", [])],
                        bounds=[float(b) for b in p.get("explicitBounds", [])], exemplars=exemplars, raw=p))
    return points


def last_points(points):
    """Of each series its last point."""
    return list({p.key: p for p in sorted(points, key=lambda p: p.time)}.values())


def points_of_protobuf(message):
    return points_of(MessageToDict(message), as_hex=False)


def spans_of_protobuf(message):
    return spans_of(MessageToDict(message), as_hex=False)
