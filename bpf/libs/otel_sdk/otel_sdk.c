/* otel_sdk.c - what the agent must know of OpenTelemetry's SDK in a program. */
#include "bpf/libs/otel_sdk/otel_sdk.h"

#include "gobin/gobin.h"
#include "trace/lib.h"

#define SDK "go.opentelemetry.io/otel/sdk/trace"

enum { NEW_SPAN, STARTED, AUTOEXPORT };

static const struct go_probe probes[] = {
	[NEW_SPAN] = { .name = "new span",
		       .symbols = SYMBOLS(SDK ".(*tracer).newSpan"),
		       .enter = "otel_sdk_new" },
	[STARTED] = { .name = "recording span",
		      .symbols = SYMBOLS(SDK ".(*recordingSpan).runtimeTrace"),
		      .enter = "otel_sdk_started" },
	/* Not hooked: that it is there tells who heeds OTEL_TRACES_EXPORTER. */
	[AUTOEXPORT] = { .name = "exporter by environment",
			 .symbols = SYMBOLS("go.opentelemetry.io/contrib/exporters/autoexport."
					    "NewSpanExporter") },
};

#define X(id, t, f) [F_##id] = { .type = (t), .field = (f) },
static const struct go_field fields[] = { OTEL_SDK_FIELDS(X) };
#undef X

#define P(probe) (1u << (probe))
#define F(field) (1ull << F_##field)
#define CONTEXT  (F(TRACE_ID) | F(SPAN_ID) | F(TRACE_FLAGS) | F(SPAN_CONTEXT) | F(SPAN_KIND))

static const struct go_part parts[] = {
	{ .name = "its spans as parents",
	  .probes = P(NEW_SPAN),
	  .fields = CONTEXT | F(NONE_CONTEXT),
	  .lost = "spans of the program's own are no parents of ours" },
	{ .name = "its spans of requests in the place of ours",
	  .probes = P(NEW_SPAN) | P(STARTED),
	  .fields = F(G_GOID) | CONTEXT | F(CONFIG_KIND),
	  .lost = "requests that the program sends spans of are sent twice",
	  .asks = true },
	{ .name = "exporter by environment",
	  .probes = P(AUTOEXPORT),
	  .lost = "OTEL_TRACES_EXPORTER=none is not heeded by the program" },
};

/* Who sets these does not want the SDK's spans. OTEL_SDK_DISABLED is none of them: the SDK does not
 * know it, and a program that heeds it makes no spans. */
static const struct lib_sdk_off off[] = {
	{ "OTEL_TRACES_EXPORTER", "none", OTEL_SDK_PART_AUTOEXPORT },
	{ "OTEL_TRACES_SAMPLER", "always_off", 0 },
	{ 0 },
};

/* The probes know SpanContext only as {trace id, span id, flags}, as it has been since 1.0. */
static void spans(const struct gobin_field *f, const uint64_t *types, struct go_sdk *out)
{
	if (!types[0] || !types[1] || f[F_SPAN_CONTEXT].source == GOBIN_NOWHERE ||
	    f[F_NONE_CONTEXT].source == GOBIN_NOWHERE || f[F_SPAN_KIND].source == GOBIN_NOWHERE ||
	    f[F_TRACE_FLAGS].source == GOBIN_NOWHERE || f[F_TRACE_ID].offset != 0 ||
	    f[F_SPAN_ID].offset != 16 || f[F_TRACE_FLAGS].offset != 24)
		return;
	*out = (struct go_sdk){
		.span = types[0],
		.none = types[1],
		.span_at = (uint16_t)f[F_SPAN_CONTEXT].offset,
		.kind_at = (uint16_t)f[F_SPAN_KIND].offset,
		.none_at = (uint16_t)f[F_NONE_CONTEXT].offset,
	};
}

static const struct lib_sdk sdk = {
	.name = "OpenTelemetry",
	.modules = SYMBOLS("go.opentelemetry.io/otel/sdk"),
	.off = off,
	.types = SYMBOLS("*" SDK ".recordingSpan", SDK ".nonRecordingSpan"),
	.spans = spans,
};

LIB_OBJECT(otel_sdk)

static const struct lib otel_sdk = {
	.name = "otel_sdk",
	.scope = "spoor/otel_sdk",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
	.event_size = sizeof(struct event),
	.sdk = &sdk,
	.object = otel_sdk_object,
};
LIB_REGISTER(otel_sdk);
