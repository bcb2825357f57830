/* reply.h - what the end of a request means: one label and one sentence for each way to fail. Pure.
 */
#pragma once
#include "discover/request.h"
#include <curl/curl.h>

struct config;

struct reply {
	const struct config *cfg;
	CURL *easy;
	CURLcode result;
	const char *error; /* curl's words */
	const char *body;  /* of size bytes, may be NULL */
	size_t size;
	bool too_large, tls;
	enum request_trust trust;
};

/* f->why is KUBELET_OK for a 200 whose body came whole. */
void reply_judge(const struct reply *r, struct request_failure *f);
