/* otlp.h - spans of a batch as the bytes of an OTLP ExportTraceServiceRequest, and what the
 * receiver answers. Allocates when it is made and while its buffers grow to the largest request,
 * not after. EXPORT thread only. */
#pragma once
#include "base/base.h"

#define OTLP_SCHEMA_URL "https://opentelemetry.io/schemas/1.44.0"

struct attr;
struct export_job;
struct otlp;
struct wire;

/* max_spans: most spans of a job; max_request: bytes before compression. 0 or -ENOMEM. */
int otlp_new(struct otlp **out, size_t max_spans, size_t max_request, bool gzip) must_check;
void otlp_free(struct otlp **o);
/* Encodes the spans of the job, grouped by resource and scope. *body is valid until the next call;
 * *size is its length and *plain that before compression. 0; -EMSGSIZE: longer than max_request;
 * -ENOMEM. */
int otlp_encode(struct otlp *o, const struct export_job *job, const uint8_t **body, size_t *size,
		size_t *plain) must_check;

/* The partial success of an ExportTraceServiceResponse, or of one for metrics, which is the same on
 * the wire. */
struct otlp_answer {
	size_t rejected;
	char message[257]; /* the receiver's, cut, printable */
};
/* Never trusts what it is given: rejected is as the receiver says, negative is 0. 0; -EBADMSG: no
 * such message; -ENOMEM. */
int otlp_answer(struct otlp_answer *out, const void *body, size_t size) must_check;
/* Writes an attribute as a KeyValue into that field. */
void otlp_attr(struct wire *w, uint32_t field, const struct attr *a);
/* Copies at most n-1 bytes of text, with '.' for what is not printable ASCII, and ends it. */
void otlp_printable(char *to, size_t n, const void *text, size_t size);
