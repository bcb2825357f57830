/* Spans to an OTLP/HTTP receiver: what is encoded in otlp.c is posted by post.c. */
#include "base/config.h"
#include "export/otlp.h"
#include "export/otlp_signal.h"
#include "export/post.h"

#include <stdio.h>

struct otlp_http {
	struct otlp *otlp;
	struct post *post;
};

static const struct post_kind traces = {
	.signal = OTLP_TRACES,
	.heart = HEART_EXPORT,
	.items = "spans",
	.answer = "ExportTraceServiceResponse",
	.answered_2xx = &stats[STAT_otlp_requests_2xx],
	.answered_4xx = &stats[STAT_otlp_requests_4xx],
	.answered_5xx = &stats[STAT_otlp_requests_5xx],
	.not_answered = &stats[STAT_otlp_requests_none],
	.sent_bytes = &stats[STAT_otlp_sent_bytes],
	.last_success = &stats[STAT_otlp_last_success],
};

static void otlp_http_close(void **state)
{
	struct otlp_http *h = take(*state);

	if (!h)
		return;
	otlp_free(&h->otlp);
	post_free(&h->post);
	free(h);
}

static int otlp_http_open(void **state, const struct config *cfg)
{
	__attribute__((cleanup(otlp_http_close))) void *owner = NULL;
	struct otlp_http *h = owner = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	err = post_new(&h->post, cfg, &traces);
	if (err == 0)
		err = otlp_new(&h->otlp, (size_t)cfg->batch_spans * EXPORT_BATCHES_MAX,
			       cfg->otlp_max_request, otlp_options(cfg, OTLP_TRACES).gzip);
	if (err < 0)
		return err;
	*state = take(owner);
	return 0;
}

static void otlp_http_send(void *state, const struct export_job *job, struct export_result *out)
{
	struct otlp_http *h = state;
	size_t size, plain;
	const uint8_t *body;
	int err = otlp_encode(h->otlp, job, &body, &size, &plain);

	*out = (struct export_result){ 0 };
	if (err < 0) {
		/* Without memory, half of it may still fit. */
		out->verdict = EXPORT_SPLIT;
		out->reason = EXPORT_TOO_LARGE;
		(void)snprintf(out->message, sizeof(out->message), "%zu spans: %s", job->count,
			       err == -EMSGSIZE ? "larger than otlp.max_request" : "out of memory");
		return;
	}
	if (job->attempt)
		stat_add(otlp_retries, 1);
	post_send(h->post, body, size, job->count, job->deadline_ns, out);
}

static void otlp_http_done(void *state, size_t count, const size_t failed[EXPORT_REASON_COUNT])
{
	static _Atomic uint64_t *const counters[EXPORT_REASON_COUNT] = {
		[EXPORT_HTTP_4XX] = &stats[STAT_otlp_failed_4xx],
		[EXPORT_HTTP_5XX] = &stats[STAT_otlp_failed_5xx],
		[EXPORT_TIMEOUT] = &stats[STAT_otlp_failed_timeout],
		[EXPORT_CONNECT] = &stats[STAT_otlp_failed_connect],
		[EXPORT_TLS] = &stats[STAT_otlp_failed_tls],
		[EXPORT_TOO_LARGE] = &stats[STAT_otlp_failed_too_large],
		[EXPORT_REJECTED] = &stats[STAT_otlp_failed_rejected],
		[EXPORT_SHUTDOWN] = &stats[STAT_otlp_failed_shutdown],
	};

	(void)state;
	stat_add(otlp_items, count);
	for (size_t i = 0; i < EXPORT_REASON_COUNT; i++)
		(void)atomic_fetch_add_explicit(counters[i], failed[i], memory_order_relaxed);
}

static const struct exporter otlp_http = {
	.name = "otlp",
	.open = otlp_http_open,
	.send = otlp_http_send,
	.done = otlp_http_done,
	.close = otlp_http_close,
};
EXPORTER_REGISTER(otlp_http);
