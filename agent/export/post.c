#include "export/post.h"

#include "base/config.h"
#include "base/log.h"
#include "export/otlp.h"
#include "export/otlp_signal.h"
#include "export/otlp_url.h"
#include "version.h"

#include <curl/curl.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define RESPONSE_MAX  (4u << 20) /* OTLP: a client reads no more than this of an answer */
#define RESPONSE_KEEP 65536      /* a larger buffer is given back after use */
#define POLL_MS       200        /* how often a running request looks at its deadline, and beats */
#define LIFETIME_S                                                                                 \
	300 /* a connection is made anew after 5-10 minutes, so that load balancers can balance */
#define URL_MAX 2048
#define DAY_S   86400 /* no batch lives longer, whatever Retry-After says */

struct post {
	const struct post_kind *kind;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	char url[URL_MAX];
	char error[CURL_ERROR_SIZE];
	char *response;
	size_t response_used, response_size;
	bool response_cut; /* longer than RESPONSE_MAX, or no memory for it */
	struct log_limit answer_limit;
};

static size_t on_response(char *data, size_t one, size_t n, void *arg)
{
	struct post *h = arg;
	size_t need = h->response_used + n;

	(void)one;
	if (need > RESPONSE_MAX) {
		h->response_cut = true;
		return 0;
	}
	if (need > h->response_size) {
		size_t size = need < 4096 ? 4096 : need * 2;
		char *p = realloc(h->response, size);

		if (!p) {
			h->response_cut = true;
			return 0;
		}
		h->response = p;
		h->response_size = size;
	}
	memcpy(h->response + h->response_used, data, n);
	h->response_used = need;
	return n;
}

/* A field name is a token, a value has no control characters (RFC 9110, 5.5, 5.6.2). */
static bool header_valid(const char *header, const char *equals)
{
	static const char token[] =
		"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	if (equals == header || strspn(header, token) != (size_t)(equals - header))
		return false;
	for (const char *p = equals + 1; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

static int add_header(struct post *h, const char *line)
{
	struct curl_slist *headers = curl_slist_append(h->headers, line);

	if (!headers)
		return -ENOMEM;
	h->headers = headers;
	return 0;
}

static int set_headers(struct post *h, const struct otlp_options *o)
{
	/* "Expect:" takes that header away: curl would wait for "100 Continue" with large requests.
	 */
	if (add_header(h, "Content-Type: application/x-protobuf") < 0 ||
	    add_header(h, "Expect:") < 0 ||
	    (o->gzip && add_header(h, "Content-Encoding: gzip") < 0))
		return -ENOMEM;
	for (size_t i = 0; i < o->headers->n; i++) {
		const char *header = o->headers->v[i];
		const char *equals = strchr(header, '=');
		auto_free char *line = NULL;

		if (!equals || !header_valid(header, equals))
			return fail(-EINVAL, "%s: '%.*s' is not a header", o->headers_option,
				    equals ? (int)(equals - header) : 20, header);
		/* curl takes "name;" for a header without a value. */
		if (asprintf(&line, equals[1] ? "%.*s: %s" : "%.*s;%s", (int)(equals - header),
			     header, equals + 1) < 0) {
			line = NULL;
			return -ENOMEM;
		}
		if (add_header(h, line) < 0)
			return -ENOMEM;
	}
	return 0;
}

static long lifetime_chance(void)
{
	unsigned chance = 0;

	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	return (long)(chance % LIFETIME_S);
}

static void set_options(struct post *h, const struct otlp_options *o)
{
	CURL *e = h->easy;

	(void)curl_easy_setopt(e, CURLOPT_URL, h->url);
	(void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	(void)curl_easy_setopt(e, CURLOPT_POST, 1L);
	(void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, h->headers);
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, "spoor/" SPOOR_VERSION);
	(void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms);
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)o->timeout_ms);
	/* Without it, giving up waits for a resolver thread that hangs. */
	(void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(e, CURLOPT_MAXLIFETIME_CONN, LIFETIME_S + lifetime_chance());
	(void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_response);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	if (*o->ca_file)
		(void)curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
}

void post_free(struct post **p)
{
	struct post *h = take(*p);

	if (!h)
		return;
	if (h->easy)
		curl_easy_cleanup(h->easy);
	if (h->multi)
		(void)curl_multi_cleanup(h->multi);
	curl_slist_free_all(h->headers);
	free(h->response);
	free(h);
}

/* The option that gave what is no URL. */
static const char *option_of(const struct config *cfg, enum otlp_signal signal)
{
	if (signal == OTLP_METRICS && *cfg->otlp_metrics_endpoint)
		return "otlp.metrics_endpoint";
	if (signal == OTLP_TRACES && *cfg->otlp_traces_endpoint)
		return "otlp.traces_endpoint";
	return *cfg->otlp_endpoint ? "otlp.endpoint" : "node.ip";
}

int post_new(struct post **out, const struct config *cfg, const struct post_kind *kind)
{
	__attribute__((cleanup(post_free))) struct post *h = calloc(1, sizeof(*h));
	struct otlp_options o = otlp_options(cfg, kind->signal);
	const char *bad;
	int err;

	if (!h)
		return -ENOMEM;
	h->kind = kind;
	if (otlp_url(h->url, sizeof(h->url), cfg, kind->signal, &bad) < 0)
		return fail(-EINVAL, "%s: '%s' is not a URL like http://collector:4318",
			    option_of(cfg, kind->signal), bad);
	h->multi = curl_multi_init();
	h->easy = curl_easy_init();
	if (!h->multi || !h->easy)
		return -ENOMEM;
	err = set_headers(h, &o);
	if (err < 0)
		return err;
	set_options(h, &o);
	*out = take(h);
	return 0;
}

/* Runs the request to its end; *expired: the deadline came first. */
static CURLcode perform(struct post *h, const _Atomic uint64_t *deadline_ns, bool *expired)
{
	CURLcode code = CURLE_FAILED_INIT;
	int running = 1, left;
	CURLMsg *msg;

	*expired = false;
	if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
		return code;
	while (curl_multi_perform(h->multi, &running) == CURLM_OK && running && !*expired) {
		heart_beat(h->kind->heart);
		*expired = export_expired(deadline_ns);
		if (!*expired)
			(void)curl_multi_poll(h->multi, NULL, 0, POLL_MS, NULL);
	}
	while ((msg = curl_multi_info_read(h->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			code = msg->data.result;
	(void)curl_multi_remove_handle(h->multi, h->easy);
	return code;
}

static void no_answer(const struct post *h, CURLcode code, struct export_result *out)
{
	out->verdict = EXPORT_RETRY;
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		out->reason = EXPORT_TIMEOUT;
		break;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
		out->reason = EXPORT_TLS;
		break;
	default:
		out->reason = EXPORT_CONNECT;
	}
	(void)snprintf(out->message, sizeof(out->message), "%.200s: %s", h->url,
		       *h->error ? h->error : curl_easy_strerror(code));
}

static void count_one(_Atomic uint64_t *counter)
{
	(void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Delivered, perhaps but for some. */
static void accepted(struct post *h, size_t count, struct export_result *out)
{
	struct otlp_answer answer = { 0 };
	uint64_t skipped;

	out->verdict = EXPORT_DONE;
	if (h->response_cut || otlp_answer(&answer, h->response, h->response_used) < 0) {
		if (log_allow(&h->answer_limit, &skipped))
			log_warn("otlp: %s: the answer is no %s: is this an OTLP receiver?", h->url,
				 h->kind->answer);
		return;
	}
	out->reason = EXPORT_REJECTED;
	out->rejected = answer.rejected < count ? answer.rejected : count;
	if (out->rejected)
		(void)snprintf(out->message, sizeof(out->message),
			       "%.200s: %zu of %zu %s rejected: %s", h->url, out->rejected, count,
			       h->kind->items, answer.message);
	else if (*answer.message)
		(void)snprintf(out->message, sizeof(out->message),
			       "%.200s: accepted with a warning: %s", h->url, answer.message);
}

/* What the status code means: OpenTelemetry Protocol Specification, "OTLP/HTTP Response",
 * "Retryable Response Codes". */
static void answered(struct post *h, long status, size_t count, struct export_result *out)
{
	char body[257];
	curl_off_t after = 0;

	if (status >= 200 && status <= 299) {
		count_one(h->kind->answered_2xx);
		atomic_store_explicit(h->kind->last_success, (uint64_t)time(NULL),
				      memory_order_relaxed);
		accepted(h, count, out);
		return;
	}
	if (status >= 500)
		count_one(h->kind->answered_5xx);
	else
		count_one(h->kind->answered_4xx);
	out->reason = status >= 500 ? EXPORT_HTTP_5XX : EXPORT_HTTP_4XX;
	if (status == 413) {
		out->verdict = EXPORT_SPLIT;
		out->reason = EXPORT_TOO_LARGE;
	} else if (status == 429 || status == 502 || status == 503 || status == 504) {
		out->verdict = EXPORT_RETRY;
		if (curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK &&
		    after > 0)
			out->after_ms = (uint64_t)(after < DAY_S ? after : DAY_S) * 1000;
	} else {
		out->verdict = EXPORT_DROP;
	}
	otlp_printable(body, sizeof(body), h->response, h->response_used);
	(void)snprintf(out->message, sizeof(out->message), "%.200s: HTTP %ld%s%s", h->url, status,
		       *body ? ": " : "", body);
}

void post_send(struct post *h, const uint8_t *body, size_t size, size_t count,
	       const _Atomic uint64_t *deadline_ns, struct export_result *out)
{
	curl_off_t sent = 0, took_us = 0;
	long status = 0;
	bool expired;
	CURLcode code;

	(void)curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, (const char *)body);
	(void)curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
	h->response_used = 0;
	h->response_cut = false;
	*h->error = '\0';
	*out = (struct export_result){ 0 };
	code = perform(h, deadline_ns, &expired);
	if (curl_easy_getinfo(h->easy, CURLINFO_TOTAL_TIME_T, &took_us) == CURLE_OK && took_us > 0)
		stat_observe(otlp_request, (uint64_t)took_us * 1000);
	(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (curl_easy_getinfo(h->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK)
		(void)atomic_fetch_add_explicit(h->kind->sent_bytes, (uint64_t)sent,
						memory_order_relaxed);
	if (code == CURLE_OK || (h->response_cut && status)) {
		answered(h, status, count, out);
	} else {
		count_one(h->kind->not_answered);
		no_answer(h, expired ? CURLE_OPERATION_TIMEDOUT : code, out);
	}
	if (h->response_size > RESPONSE_KEEP) {
		free(take(h->response));
		h->response_size = 0;
	}
}
