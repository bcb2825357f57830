/* datadog_sdk.c - what the agent must know of Datadog's tracer in a program. */
#include "bpf/libs/datadog_sdk/datadog_sdk.h"

#include "trace/lib.h"

/* The tracer that was started; one that was not is of another type. */
static const struct go_probe probes[] = {
	{ .name = "new span",
	  .symbols = SYMBOLS("github.com/DataDog/dd-trace-go/v2/ddtrace/tracer.(*tracer).StartSpan",
			     "gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer.(*tracer).StartSpan"),
	  .enter = "datadog_sdk_new" },
};

#define X(id, t, f) [F_##id] = { .type = (t), .field = (f) },
static const struct go_field fields[] = { GO_RUNTIME_FIELDS(X) };
#undef X

static const struct go_part parts[] = {
	{ .name = "its spans of requests in the place of ours",
	  .probes = 1,
	  .fields = 1ull << F_G_GOID,
	  .lost = "requests that the program sends spans of are traced by both",
	  .asks = true },
};

static const struct lib_sdk_off off[] = {
	{ "DD_TRACE_ENABLED", "false", 0 },
	{ "DD_TRACE_ENABLED", "0", 0 },
	{ 0 },
};

static const struct lib_sdk sdk = {
	.name = "Datadog",
	.modules = SYMBOLS("github.com/DataDog/dd-trace-go/v2", "gopkg.in/DataDog/dd-trace-go.v1"),
	.off = off,
	.note = "requests that it serves are left to it with all that lies below them, all others "
		"are traced (sdk: auto)",
};

LIB_OBJECT(datadog_sdk)

static const struct lib datadog_sdk = {
	.name = "datadog_sdk",
	.scope = "spoor/datadog_sdk",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
	.event_size = sizeof(struct event),
	.sdk = &sdk,
	.object = datadog_sdk_object,
};
LIB_REGISTER(datadog_sdk);
