/* stdout.c - spans as lines, for people (text) and programs (json). */
#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "export/export.h"
#include "pipeline/resource.h"
#include "trace/lib.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define NS_PER_S   1000000000ull
#define CHUNK      4096 /* PIPE_BUF: what a pipe that polls as writable takes without blocking */
#define POLL_MS    200
#define PATIENCE   25 /* polls without progress (5 s) until a reader counts as stuck */
#define FIRST_SIZE 65536

struct out {
	int fd;
	bool is_socket, json, colour;
	bool gone;  /* nobody reads any more */
	bool stuck; /* the reader has not taken anything for long: it is given no more time until it
		       does */
	char *p;    /* lines that wait to be written */
	size_t used, size, written;
	bool torn; /* p begins in the middle of a line, when nothing of it is written */
	bool nomem;
	struct log_limit stuck_limit;
};

static bool room(struct out *o, size_t n)
{
	size_t size = o->size ? o->size : FIRST_SIZE;
	char *p;

	if (n <= o->size - o->used)
		return true;
	while (size - o->used < n)
		size *= 2;
	p = realloc(o->p, size);
	if (!p) {
		o->nomem = true;
		return false;
	}
	o->p = p;
	o->size = size;
	return true;
}

static void put(struct out *o, const char *p, size_t n)
{
	if (!room(o, n))
		return;
	memcpy(o->p + o->used, p, n);
	o->used += n;
}

static void puts_(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void putf(struct out *o, const char *fmt, ...)
{
	char text[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		put(o, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static void put_hex(struct out *o, const uint8_t *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		char two[2] = { digits[p[i] >> 4], digits[p[i] & 15] };

		put(o, two, 2);
	}
}

/* Text of strangers, on a terminal: no control characters, C1 in UTF-8 included. Returns how many
 * columns it takes, by code points. */
static size_t put_plain(struct out *o, struct str s)
{
	size_t columns = 0;

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool c1 = c == 0xc2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xa0;

		if (c1)
			i++;
		if (c < ' ' || c == 0x7f || c1)
			put(o, "?", 1);
		else
			put(o, &s.p[i], 1);
		columns += (c & 0xc0) != 0x80;
	}
	return columns;
}

static void pad(struct out *o, size_t columns, size_t width)
{
	while (columns++ < width)
		put(o, " ", 1);
}

static void put_json(struct out *o, struct str s)
{
	put(o, "\"", 1);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\')
			putf(o, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			putf(o, "\\u%04x", c);
		else
			put(o, &s.p[i], 1);
	}
	put(o, "\"", 1);
}

/* Attributes that say how an operation ended, and those that say what it was about when the name
 * does not. */
static const char *const result_keys[] = { "http.response.status_code", "rpc.response.status_code",
					   "db.response.status_code" };
static const char *const what_keys[] = { "url.path", "url.full" };

static const struct attr *first_attr(const struct span *s, const char *const *keys, size_t n)
{
	const struct attr *a = NULL;

	for (size_t i = 0; i < n && !a; i++)
		a = span_attr(s, keys[i]);
	return a;
}

static size_t put_value(struct out *o, const struct attr *a)
{
	char number[24];

	if (a->type == ATTR_STR)
		return put_plain(o, a->s);
	(void)snprintf(number, sizeof(number), "%lld", (long long)a->i);
	puts_(o, number);
	return strlen(number);
}

/* "GET /items/{id} 200", with the path where the name has no route. */
static size_t put_operation(struct out *o, const struct span *s)
{
	const struct attr *what = first_attr(s, what_keys, ARRAY_SIZE(what_keys));
	const struct attr *result = first_attr(s, result_keys, ARRAY_SIZE(result_keys));
	size_t columns = put_plain(o, s->name);

	if (what && !memchr(s->name.p, ' ', s->name.n)) {
		put(o, " ", 1);
		columns += 1 + put_value(o, what);
	}
	if (result) {
		put(o, " ", 1);
		columns += 1 + put_value(o, result);
	}
	return columns;
}

static void put_duration(struct out *o, uint64_t ns)
{
	double ms = (double)ns / 1e6;

	if (ms < 10000)
		putf(o, "%8.*fms  ", ms < 100 ? 2 : 1, ms);
	else
		putf(o, "%9.1fs  ", ms / 1000);
}

static bool is_root(const struct span *s)
{
	static const uint8_t none[sizeof(s->parent_id)];

	return memcmp(s->parent_id, none, sizeof(none)) == 0;
}

static const char *kind_of(const struct span *s)
{
	static const char *const kinds[] = { "unspecified", "internal", "server",
					     "client",      "producer", "consumer" };

	return kinds[s->kind < ARRAY_SIZE(kinds) ? s->kind : 0];
}

/* trace=... span=... parent=..., the last only where there is one */
static void put_ids(struct out *o, const struct span *s)
{
	puts_(o, "  trace=");
	put_hex(o, s->trace_id, sizeof(s->trace_id));
	puts_(o, " span=");
	put_hex(o, s->span_id, sizeof(s->span_id));
	if (is_root(s))
		return;
	puts_(o, " parent=");
	put_hex(o, s->parent_id, sizeof(s->parent_id));
}

/* 19:04:05.123  12.30ms  cart  shop/cart-6f7c-x2x  server  GET /items/{id} 200  trace=... */
static void put_text(struct out *o, const struct span *s, const struct resource *r)
{
	time_t seconds = (time_t)(s->start_ns / NS_PER_S);
	const struct attr *error = span_attr(s, "error.type");
	bool is_error = s->status == SPAN_ERROR;
	struct tm tm;
	size_t n;

	(void)localtime_r(&seconds, &tm);
	putf(o, "%02d:%02d:%02d.%03d  ", tm.tm_hour, tm.tm_min, tm.tm_sec,
	     (int)(s->start_ns % NS_PER_S / 1000000));
	put_duration(o, s->end_ns - s->start_ns);
	pad(o, put_plain(o, str_of(r->service)), 16);
	puts_(o, "  ");
	n = *r->pod ? put_plain(o, str_of(r->pod_namespace)) + put_plain(o, str_of("/")) +
			      put_plain(o, str_of(r->pod))
		    : put_plain(o, str_of("-"));
	pad(o, n, 32);
	putf(o, "  %-6s  ", kind_of(s));
	if (is_error && o->colour)
		puts_(o, "\033[31m");
	n = put_operation(o, s);
	if (is_error) {
		puts_(o, " ERROR");
		n += 6;
		if (error && error->type == ATTR_STR &&
		    !span_attr(s, "http.response.status_code")) {
			put(o, " ", 1);
			n += 1 + put_plain(o, error->s);
		}
		if (o->colour)
			puts_(o, "\033[0m");
	}
	pad(o, n, 36);
	put_ids(o, s);
	puts_(o, "\n");
}

static void put_attrs(struct out *o, const struct span *s)
{
	for (size_t i = 0; i < s->nattrs; i++) {
		const struct attr *a = &s->attrs[i];

		if (i)
			puts_(o, ",");
		put_json(o, str_of(a->key));
		puts_(o, ":");
		if (a->type == ATTR_STR)
			put_json(o, a->s);
		else if (a->type == ATTR_BOOL)
			puts_(o, a->i ? "true" : "false");
		else
			putf(o, "%lld", (long long)a->i);
	}
}

static void put_time(struct out *o, const char *key, uint64_t ns)
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm;

	(void)gmtime_r(&seconds, &tm);
	putf(o, "\"%s\":\"%04d-%02d-%02dT%02d:%02d:%02d.%09lluZ\",", key, tm.tm_year + 1900,
	     tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
	     (unsigned long long)(ns % NS_PER_S));
}

static void put_member(struct out *o, const char *key, const char *text, const char *after)
{
	putf(o, "\"%s\":", key);
	put_json(o, str_of(text));
	puts_(o, after);
}

static void put_object(struct out *o, const struct span *s, const struct resource *r)
{
	const struct lib *lib = lib_at(s->lib);

	puts_(o, "{");
	put_time(o, "start", s->start_ns);
	put_time(o, "end", s->end_ns);
	putf(o, "\"duration_ms\":%.6f,\"trace_id\":\"", (double)(s->end_ns - s->start_ns) / 1e6);
	put_hex(o, s->trace_id, sizeof(s->trace_id));
	puts_(o, "\",\"span_id\":\"");
	put_hex(o, s->span_id, sizeof(s->span_id));
	puts_(o, "\",\"parent_span_id\":\"");
	if (!is_root(s))
		put_hex(o, s->parent_id, sizeof(s->parent_id));
	puts_(o, "\",\"name\":");
	put_json(o, s->name);
	puts_(o, ",");
	put_member(o, "kind", kind_of(s), ",");
	put_member(o, "status", s->status == SPAN_ERROR ? "error" : "unset", ",");
	put_member(o, "scope", lib ? lib->scope : "spoor", ",\"resource\":{");
	put_member(o, "service.name", r->service, ",");
	put_member(o, "service.namespace", r->service_namespace, ",");
	put_member(o, "k8s.namespace.name", r->pod_namespace, ",");
	put_member(o, "k8s.pod.name", r->pod, ",");
	put_member(o, "k8s.container.name", r->container, "},\"attributes\":{");
	put_attrs(o, s);
	puts_(o, "}}\n");
}

/* One write that does not block for long. Bytes, 0: not now, -errno. */
static ssize_t write_some(const struct out *o)
{
	size_t n = o->used - o->written;
	struct pollfd pfd = { .fd = o->fd, .events = POLLOUT };
	ssize_t ret;

	if (poll(&pfd, 1, o->stuck ? 0 : POLL_MS) <= 0)
		return 0;
	if (n > CHUNK)
		n = CHUNK;
	ret = o->is_socket ? send(o->fd, o->p + o->written, n, MSG_DONTWAIT | MSG_NOSIGNAL)
			   : write(o->fd, o->p + o->written, n);
	if (ret < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return ret;
}

/* Writes until all is out. 0; -ETIME: the reader is stuck, or the deadline has passed; -errno. */
static int flush(struct out *o, const struct export_job *job)
{
	int idle = 0;

	while (o->written < o->used) {
		ssize_t n = write_some(o);

		heart_beat(HEART_EXPORT);
		if (n < 0)
			return (int)n;
		if (n > 0) {
			o->written += (size_t)n;
			o->stuck = false;
			idle = 0;
			continue;
		}
		if (o->stuck || ++idle == PATIENCE || export_expired(job->deadline_ns)) {
			o->stuck = true;
			return -ETIME;
		}
	}
	o->used = o->written = 0;
	o->torn = false;
	return 0;
}

/* Throws away what waits, but for the rest of a line that has been begun; number of lines thrown
 * away. */
static size_t forget(struct out *o)
{
	size_t keep = o->written, lines = 0;

	if (keep ? o->p[keep - 1] != '\n' : o->torn)
		keep = (size_t)((char *)memchr(o->p + keep, '\n', o->used - keep) - o->p) + 1;
	for (size_t i = keep; i < o->used; i++)
		lines += o->p[i] == '\n';
	o->used = keep - o->written;
	if (o->used)
		memmove(o->p, o->p + o->written, o->used);
	o->torn = o->used > 0;
	o->written = 0;
	return lines;
}

static void stdout_send(void *state, const struct export_job *job, struct export_result *out)
{
	struct export_cursor c = export_begin(job);
	struct out *o = state;
	const struct span *s;
	int err;

	*out = (struct export_result){ .verdict = EXPORT_DONE, .reason = EXPORT_REJECTED };
	if (o->gone) {
		out->rejected = job->count;
		return;
	}
	while ((s = export_next(&c)))
		(o->json ? put_object : put_text)(o, s, c.batch->resources[s->resource]);
	err = o->nomem ? -ENOMEM : flush(o, job);
	if (err == 0)
		return;
	o->nomem = false;
	out->rejected = forget(o);
	if (err == -ETIME) {
		(void)snprintf(out->message, sizeof(out->message),
			       "the reader is stuck: lines are dropped");
	} else {
		o->gone = err != -ENOMEM;
		out->rejected = job->count;
		(void)snprintf(out->message, sizeof(out->message), "%s", strerror(-err));
	}
}

static void stdout_close(void **state)
{
	struct out *o = take(*state);

	if (!o)
		return;
	if (o->fd > STDOUT_FILENO)
		(void)close(o->fd);
	free(o->p);
	free(o);
}

/* A pipe or terminal of our own that does not block: the flag on the inherited one would be seen by
 * everyone who shares it. */
static int open_fd(mode_t mode)
{
	int fd = -1;

	if (S_ISFIFO(mode) || S_ISCHR(mode))
		fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? STDOUT_FILENO : fd;
}

static int stdout_open(void **state, const struct config *cfg)
{
	struct out *o = calloc(1, sizeof(*o));
	struct stat st;

	if (!o)
		return -ENOMEM;
	if (fstat(STDOUT_FILENO, &st) < 0) {
		free(o);
		return fail(-errno, "stdout: %s", strerror(errno));
	}
	o->fd = open_fd(st.st_mode);
	o->is_socket = S_ISSOCK(st.st_mode);
	o->json = strcmp(cfg->stdout_format, "json") == 0;
	o->colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	*state = o;
	return 0;
}

static const struct exporter stdout_exporter = {
	.name = "stdout",
	.local = true,
	.open = stdout_open,
	.send = stdout_send,
	.close = stdout_close,
};
EXPORTER_REGISTER(stdout_exporter);
