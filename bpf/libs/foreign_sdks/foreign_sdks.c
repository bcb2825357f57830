/* foreign_sdks.c - tracing SDKs that are told of, and nothing more: their spans go to places of
 * their own in forms of their own, and which of our operations they stand for cannot be seen. */
#include "trace/lib.h"

#define NOTE                                                                                       \
	"its spans are its own, in a form of its own; everything is traced, as without it "        \
	"(sdk: auto)"

static const struct go_part parts[] = {
	{ .name = "it is there", .probes = 1, .lost = "nothing: the program does not use it" },
};

/* A library of one function that tells that the SDK is there; it is not hooked. */
#define FOREIGN(id, text, modules_, function)                                                      \
	static const struct lib id = {                                                             \
		.name = #id,                                                                       \
		.scope = "spoor/" #id,                                                             \
		.probes = &(const struct go_probe){ .name = "begin of a span",                     \
						    .symbols = SYMBOLS function },                 \
		.nprobes = 1,                                                                      \
		.parts = parts,                                                                    \
		.nparts = 1,                                                                       \
		.event_size = sizeof(struct event),                                                \
		.sdk = &(const struct lib_sdk){ .name = (text),                                    \
						.modules = SYMBOLS modules_,                       \
						.note = NOTE },                                    \
	};                                                                                         \
	LIB_REGISTER(id)

FOREIGN(jaeger_sdk, "Jaeger", ("github.com/uber/jaeger-client-go"),
	("github.com/uber/jaeger-client-go.(*Tracer).startSpanWithOptions"));
FOREIGN(sentry_sdk, "Sentry", ("github.com/getsentry/sentry-go"),
	("github.com/getsentry/sentry-go.StartTransaction",
	 "github.com/getsentry/sentry-go.StartSpan"));
FOREIGN(elastic_sdk, "Elastic APM", ("go.elastic.co/apm/v2", "go.elastic.co/apm"),
	("go.elastic.co/apm/v2.(*Tracer).StartTransactionOptions",
	 "go.elastic.co/apm.(*Tracer).StartTransactionOptions"));
FOREIGN(newrelic_sdk, "New Relic", ("github.com/newrelic/go-agent/v3"),
	("github.com/newrelic/go-agent/v3/newrelic.(*Application).StartTransaction"));
