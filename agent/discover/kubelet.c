#include "discover/kubelet.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "discover/credential.h"
#include "discover/pod.h"
#include "discover/request.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>

#define MS 1000000ULL
#define S  1000000000ULL

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MOST_MS  10000
#define TOKEN_MAX        ((size_t)16 * 1024)
#define CERT_MAX         ((size_t)256 * 1024)
#define EVENTS_MAX       16
#define GRACE_NS         S /* curl's own time-out comes first */

struct kubelet {
	const struct config *cfg;
	struct request *request;
	int epoll_fd, due_fd; /* due: when the next request begins */
	struct credential token, node_cert;
	enum request_trust trust; /* what is tried, or has worked, in mode auto */
	bool automatic;           /* mode auto */
	bool second;              /* this is the other trust's turn, the first has failed so: */
	struct request_failure first;
	bool again;            /* asked for while one was under way */
	bool token_new;        /* this attempt follows a 401: the token was read anew */
	unsigned int failures; /* in a row */
	uint64_t started_ns;
	uint64_t given_up_ns; /* when the request under way is */
	struct kubelet_state state;
	struct log_limit limit, changes;
};

static const char *const labels[KUBELET_WHY_COUNT] = {
	[KUBELET_OK] = "ok",
	[KUBELET_CONNECT] = "connect",
	[KUBELET_TIMEOUT] = "timeout",
	[KUBELET_TLS_CA] = "tls_ca",
	[KUBELET_TLS_NAME] = "tls_name",
	[KUBELET_TLS_EXPIRED] = "tls_expired",
	[KUBELET_TLS] = "tls",
	[KUBELET_UNAUTHORIZED] = "unauthorized",
	[KUBELET_FORBIDDEN] = "forbidden",
	[KUBELET_HTTP] = "http",
	[KUBELET_PARSE] = "parse",
	[KUBELET_TRUNCATED] = "truncated",
	[KUBELET_TOO_LARGE] = "too_large",
	[KUBELET_TOKEN] = "token",
};

const char *kubelet_why_label(enum kubelet_why why)
{
	return labels[why];
}

static const enum stat_id failure_stats[KUBELET_WHY_COUNT] = {
	[KUBELET_OK] = STAT_COUNT,
	[KUBELET_CONNECT] = STAT_kubelet_failed_connect,
	[KUBELET_TIMEOUT] = STAT_kubelet_failed_timeout,
	[KUBELET_TLS_CA] = STAT_kubelet_failed_tls_ca,
	[KUBELET_TLS_NAME] = STAT_kubelet_failed_tls_name,
	[KUBELET_TLS_EXPIRED] = STAT_kubelet_failed_tls_expired,
	[KUBELET_TLS] = STAT_kubelet_failed_tls,
	[KUBELET_UNAUTHORIZED] = STAT_kubelet_failed_unauthorized,
	[KUBELET_FORBIDDEN] = STAT_kubelet_failed_forbidden,
	[KUBELET_HTTP] = STAT_kubelet_failed_http,
	[KUBELET_PARSE] = STAT_kubelet_failed_parse,
	[KUBELET_TRUNCATED] = STAT_kubelet_failed_truncated,
	[KUBELET_TOO_LARGE] = STAT_kubelet_failed_too_large,
	[KUBELET_TOKEN] = STAT_kubelet_failed_token,
};

bool kubelet_wanted(const struct config *cfg)
{
	if (strcmp(cfg->kubelet_source, "auto") != 0)
		return strcmp(cfg->kubelet_source, "kubelet") == 0;
	return *cfg->node_name || *cfg->node_ip || access(cfg->kubelet_token_file, F_OK) == 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void due_at(struct kubelet *k, uint64_t at_ns)
{
	struct itimerspec when = { .it_value = { (time_t)(at_ns / S), (long)(at_ns % S) } };

	(void)timerfd_settime(k->due_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ms, give or take a share of it, so that the nodes of a cluster do not ask in step. */
static uint64_t jitter_ns(uint64_t ms, unsigned int percent)
{
	uint32_t random = UINT32_MAX / 2;
	double part;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	part = 1 + ((double)random / UINT32_MAX * 2 - 1) * percent / 100;
	return (uint64_t)((double)ms * (double)MS * part);
}

static enum request_trust first_trust(const char *mode)
{
	if (strcmp(mode, "insecure") == 0)
		return REQUEST_INSECURE;
	return strcmp(mode, "node-cert") == 0 ? REQUEST_NODE_CERT : REQUEST_CA;
}

int kubelet_new(struct kubelet **out, const struct config *cfg)
{
	struct kubelet *k = calloc(1, sizeof(*k));
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	if (!k)
		return fail(-ENOMEM, "kubelet: no memory");
	k->cfg = cfg;
	k->trust = first_trust(cfg->kubelet_tls_mode);
	k->automatic = strcmp(cfg->kubelet_tls_mode, "auto") == 0;
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	k->due_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	ev.data.fd = k->due_fd;
	if (k->epoll_fd < 0 || k->due_fd < 0 ||
	    epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, k->due_fd, &ev) != 0)
		err = fail(-errno, "kubelet: %s", strerror(errno));
	else
		err = request_new(&k->request, cfg, k->epoll_fd);
	if (err) {
		kubelet_free(&k);
		return err;
	}
	if (k->trust == REQUEST_INSECURE && request_tls(k->request))
		log_warn("kubelet: kubelet.tls.mode is insecure: its certificate is not verified, "
			 "and the token is sent to "
			 "whoever answers");
	*out = k;
	return 0;
}

void kubelet_free(struct kubelet **p)
{
	struct kubelet *k = take(*p);

	if (!k)
		return;
	request_free(&k->request);
	credential_clear(&k->token);
	credential_clear(&k->node_cert);
	if (k->epoll_fd >= 0)
		(void)close(k->epoll_fd);
	if (k->due_fd >= 0)
		(void)close(k->due_fd);
	free(k);
}

int kubelet_fd(const struct kubelet *k)
{
	return k->epoll_fd;
}

void kubelet_refresh(struct kubelet *k)
{
	uint64_t earliest = k->started_ns ? k->started_ns + k->cfg->kubelet_min_refresh * MS : 1;

	if (request_busy(k->request))
		k->again = true;
	else if (!k->failures)
		due_at(k, earliest);
}

static void set_failure(struct request_failure *f, enum kubelet_why why, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void set_failure(struct request_failure *f, enum kubelet_why why, const char *fmt, ...)
{
	va_list ap;

	f->why = why;
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

static void failed(struct kubelet *k, const struct request_failure *f)
{
	uint64_t wait = (uint64_t)BACKOFF_FIRST_MS << (k->failures < 10 ? k->failures : 10);
	bool changed = k->state.why != f->why;
	uint64_t skipped = 0, changes;

	if (wait > BACKOFF_MOST_MS)
		wait = BACKOFF_MOST_MS;
	if (wait > k->cfg->kubelet_refresh)
		wait = k->cfg->kubelet_refresh;
	k->failures++;
	k->second = k->again = k->token_new = false;
	(void)atomic_fetch_add_explicit(&stats[failure_stats[f->why]], 1, memory_order_relaxed);
	k->state.why = f->why;
	(void)snprintf(k->state.message, sizeof(k->state.message), "kubelet %s: %s",
		       request_peer(k->request), f->text);
	due_at(k, now_ns() + jitter_ns(wait, 20));
	/* Another reason is news, unless it comes and goes. */
	if (changed && log_allow_some(&k->changes, 5, &changes))
		k->limit = (struct log_limit){ .skipped = k->limit.skipped };
	if (log_allow(&k->limit, &skipped))
		log_warn("%s (%s; %llu times more since the last such line)", k->state.message,
			 k->state.last_success > 0 ? "the last pod list stays in use"
						   : "no pod list yet",
			 (unsigned long long)skipped);
}

/* Only what a token may consist of gets into a header. */
static bool token_trim(struct credential *c)
{
	size_t n = c->size;

	while (n > 0 && isspace((unsigned char)c->text[n - 1]))
		c->text[--n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)c->text[i]))
			return false;
	return n > 0;
}

static bool read_token(struct kubelet *k, bool force, struct request_failure *f)
{
	const char *path = k->cfg->kubelet_token_file;
	int err;

	if (!*path || !request_tls(k->request))
		return true; /* a token never travels in the clear */
	err = credential_read(&k->token, path, TOKEN_MAX, force);
	if (err < 0) {
		set_failure(f, KUBELET_TOKEN, "the token file %s cannot be read: %s", path,
			    strerror(-err));
		return false;
	}
	if (err == 1 && !token_trim(&k->token)) {
		credential_clear(&k->token);
		set_failure(f, KUBELET_TOKEN, "the token file %s is empty or holds no token", path);
		return false;
	}
	return true;
}

/* The node's certificate file begins with the server's own certificate. Only that one is trusted:
 * those that follow are its issuers. */
static bool read_node_cert(struct kubelet *k, struct request_failure *f)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  end[] = "-----END CERTIFICATE-----";
	const char *path = k->cfg->kubelet_tls_node_cert;
	int err = credential_read(&k->node_cert, path, CERT_MAX, false);
	char *first, *last;

	if (err < 0) {
		set_failure(f, KUBELET_TLS_CA, "the node's certificate %s cannot be read: %s", path,
			    strerror(-err));
		return false;
	}
	first = strstr(k->node_cert.text, begin);
	last = first ? strstr(first, end) : NULL;
	if (!last) {
		credential_clear(&k->node_cert);
		set_failure(f, KUBELET_TLS_CA, "%s holds no certificate", path);
		return false;
	}
	last[strlen(end)] = '\0';
	return true;
}

static void attempt(struct kubelet *k);

/* In mode auto the other way to trust has its turn after a failure of the first; then both are
 * told. */
static void trust_failed(struct kubelet *k, const struct request_failure *f)
{
	struct request_failure both;
	bool ca_first = k->trust == REQUEST_NODE_CERT;
	const struct request_failure *ca = ca_first ? &k->first : f,
				     *pin = ca_first ? f : &k->first;

	if (!k->automatic) {
		failed(k, f);
		return;
	}
	if (!k->second) {
		k->second = true;
		k->first = *f;
		k->trust = k->trust == REQUEST_CA ? REQUEST_NODE_CERT : REQUEST_CA;
		attempt(k);
		return;
	}
	/* "Not signed by" says least: of a pinned certificate that has expired, the other tells
	 * more. */
	set_failure(&both, ca->why == KUBELET_TLS_CA ? pin->why : ca->why, "%s; and %s", ca->text,
		    pin->text);
	k->trust = REQUEST_CA;
	failed(k, &both);
}

static bool of_trust(enum kubelet_why why)
{
	return why == KUBELET_TLS_CA || why == KUBELET_TLS_NAME || why == KUBELET_TLS_EXPIRED;
}

static void attempt(struct kubelet *k)
{
	struct request_failure f;

	if (!read_token(k, false, &f)) {
		failed(k, &f);
		return;
	}
	if (k->trust == REQUEST_NODE_CERT && request_tls(k->request) && !read_node_cert(k, &f)) {
		trust_failed(k, &f);
		return;
	}
	stat_add(kubelet_requests, 1);
	if (request_start(k->request, k->trust, k->token.text, k->node_cert.text, &f)) {
		failed(k, &f);
		return;
	}
	k->given_up_ns = now_ns() + k->cfg->kubelet_timeout * MS + GRACE_NS;
	due_at(k, k->given_up_ns);
}

/* curl forgets its own time-out when it has no memory to wait for a socket. */
static void give_up(struct kubelet *k)
{
	struct request_failure f;

	if (now_ns() < k->given_up_ns) {
		due_at(k, k->given_up_ns);
		return;
	}
	request_abandon(k->request);
	set_failure(&f, KUBELET_TIMEOUT, "no answer within kubelet.timeout (%llu ms)",
		    (unsigned long long)k->cfg->kubelet_timeout);
	failed(k, &f);
}

static void begin(struct kubelet *k)
{
	uint64_t ticks;

	(void)!read(k->due_fd, &ticks, sizeof(ticks));
	if (request_busy(k->request)) {
		give_up(k);
		return;
	}
	k->started_ns = now_ns();
	k->second = k->again = k->token_new = false;
	attempt(k);
}

static bool parsed(struct kubelet *k, struct pods **out, struct request_failure *f)
{
	char err[160];
	size_t size;
	const char *body = request_body(k->request, &size);
	int res = pods_parse(out, body, size, err, sizeof(err));

	stat_set(kubelet_response_size, size);
	if (res == -ENOMEM)
		set_failure(f, KUBELET_PARSE, "no memory for the pod list of %zu bytes", size);
	else if (res == -ENODATA)
		set_failure(f, KUBELET_TRUNCATED, "its answer is truncated: %s", err);
	else if (res)
		set_failure(f, res == -E2BIG ? KUBELET_TOO_LARGE : KUBELET_PARSE,
			    "its answer is not understood: %s", err);
	return !res;
}

static void succeeded(struct kubelet *k)
{
	struct timespec now;
	uint64_t next = now_ns() + jitter_ns(k->cfg->kubelet_refresh, 10);

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (k->failures || k->state.last_success <= 0)
		log_info("kubelet: pod list had from %s (TLS: %s)", request_url(k->request),
			 request_trust_name(k->request, k->trust));
	k->failures = 0;
	k->state.why = KUBELET_OK;
	k->state.message[0] = '\0';
	k->state.last_success = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	stat_set(kubelet_last_success, (uint64_t)now.tv_sec);
	due_at(k, k->again ? k->started_ns + k->cfg->kubelet_min_refresh * MS : next);
	k->second = k->again = k->token_new = false;
}

/* A request has ended. True: *out is a new snapshot. */
static bool ended(struct kubelet *k, struct pods **out)
{
	struct request_failure f = { 0 };

	stat_observe(kubelet_request, request_took_ns(k->request));
	request_outcome(k->request, k->trust, &f);
	if (f.why == KUBELET_OK && parsed(k, out, &f)) {
		request_forget(k->request);
		succeeded(k);
		return true;
	}
	request_forget(k->request);
	if (f.why == KUBELET_UNAUTHORIZED && !k->token_new && *k->cfg->kubelet_token_file) {
		struct request_failure token;

		k->token_new = true;
		if (read_token(k, true, &token))
			attempt(k);
		else
			failed(k, &token);
	} else if (of_trust(f.why)) {
		trust_failed(k, &f);
	} else {
		failed(k, &f);
	}
	return false;
}

int kubelet_run(struct kubelet *k, struct pods **out)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(k->epoll_fd, events, EVENTS_MAX, 0), got = 0;

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == k->due_fd)
			begin(k);
		else
			request_handle(k->request, events[i].data.fd, events[i].events);
	}
	while (!got && request_ended(k->request))
		got = ended(k, out);
	return got;
}

void kubelet_state(const struct kubelet *k, struct kubelet_state *out)
{
	if (!k) {
		*out = (struct kubelet_state){ .disabled = true, .tls_mode = "none" };
		return;
	}
	*out = k->state;
	out->tls_mode = request_trust_name(k->request, k->trust);
}
