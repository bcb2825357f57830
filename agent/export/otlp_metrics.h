/* otlp_metrics.h - points as the bytes of OTLP ExportMetricsServiceRequests. METRICS thread only.
 */
#pragma once
#include "metrics/point.h"

struct otlp_metrics;

/* A request is complete: bytes for the receiver, valid during the call, with that many points. */
typedef void otlp_metrics_request(void *arg, const uint8_t *body, size_t size, size_t points);

/* max_request: bytes before compression, which a request exceeds by no more than one point. */
int otlp_metrics_new(struct otlp_metrics **out, size_t max_request, bool gzip,
		     otlp_metrics_request *request, void *arg) must_check;
void otlp_metrics_free(struct otlp_metrics **o);
/* Between the two, points are given to the sink, whose arg is the struct otlp_metrics. */
void otlp_metrics_begin(struct otlp_metrics *o, bool delta);
/* The last request, if there is something in it. 0; -ENOMEM: some points were lost, *lost of them.
 */
int otlp_metrics_end(struct otlp_metrics *o, size_t *lost) must_check;
extern const struct point_sink otlp_metrics_sink;
