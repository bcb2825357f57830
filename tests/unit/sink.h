/* sink.h - a scripted OTLP/HTTP receiver for the export tests: a thread, one connection at a time,
 * one step of the script a request (the last one for all that follow), what came in decoded and
 * kept. */
#pragma once
#include "base/base.h"
#include "otlp.pb-c.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <zlib.h>

enum sink_action { ANSWER, HANG, RESET, CUT };

struct sink_step {
	int status;
	const char *headers; /* "Retry-After: 2\r\n" */
	const char *body;
	size_t size; /* of body; 0: strlen() */
	enum sink_action action;
	size_t most; /* answers 413 to more spans than that; 0: takes any number */
};

#define SINK_REQUESTS_MAX 256

struct sink_request {
	uint64_t at_ns;
	size_t spans;         /* in it */
	size_t accepted;      /* of them */
	uint64_t first, last; /* span ids */
	unsigned connection;
	char head[1024];
};

struct sink {
	const struct sink_step *steps;
	size_t nsteps;
	int listener, stop[2];
	uint16_t port;
	pthread_t thread;
	char *buffer;
	size_t have;
	unsigned connections;
	struct sink_request requests[SINK_REQUESTS_MAX];
	atomic_size_t nrequests, accepted; /* accepted: spans that were answered 2xx */
};

static inline uint64_t sink_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline uint64_t sink_id(const uint8_t *p)
{
	uint64_t id = 0;

	for (size_t i = 0; i < 8; i++)
		id = id << 8 | p[i];
	return id;
}

/* Readable within timeout; false: told to stop, closed, or another connection waits (*other). */
static inline bool sink_wait(struct sink *s, int fd, bool *other)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = s->stop[0], .events = POLLIN },
				{ .fd = other ? s->listener : -1, .events = POLLIN } };

	(void)poll(fds, 3, -1);
	if (other)
		*other = fds[2].revents;
	return fds[0].revents & POLLIN && !fds[1].revents;
}

#define SINK_BUFFER (8u << 20)

static inline void sink_decode(struct sink_request *r, const uint8_t *body, size_t size)
{
	Otlp__ExportTraceServiceRequest *m =
		otlp__export_trace_service_request__unpack(NULL, size, body);

	cr_assert(m, "what was sent is OTLP");
	for (size_t i = 0; i < m->n_resource_spans; i++) {
		for (size_t k = 0; k < m->resource_spans[i]->n_scope_spans; k++) {
			Otlp__ScopeSpans *ss = m->resource_spans[i]->scope_spans[k];

			for (size_t n = 0; n < ss->n_spans; n++) {
				Otlp__Span *span = otlp__span__unpack(NULL, ss->spans[n].len,
								      ss->spans[n].data);

				cr_assert(span);
				r->last = sink_id(span->span_id.data);
				if (r->spans++ == 0)
					r->first = r->last;
				otlp__span__free_unpacked(span, NULL);
			}
		}
	}
	otlp__export_trace_service_request__free_unpacked(m, NULL);
}

/* Reads one request into r. False: the connection is done with. */
static inline bool sink_read(struct sink *s, int fd, struct sink_request *r)
{
	size_t length = 0, head = 0;
	const char *field;
	bool other = false;
	char *end;

	s->have = 0;
	for (;;) {
		ssize_t n;

		if (!sink_wait(s, fd, s->have ? NULL : &other))
			return false;
		n = recv(fd, s->buffer + s->have, SINK_BUFFER - s->have - 1, 0);
		if (n <= 0)
			return false;
		s->have += (size_t)n;
		s->buffer[s->have] = '\0';
		if (!head && (end = memmem(s->buffer, s->have, "\r\n\r\n", 4))) {
			head = (size_t)(end - s->buffer) + 4;
			(void)snprintf(r->head, sizeof(r->head), "%.*s", (int)head, s->buffer);
			field = strstr(r->head, "Content-Length: ");
			cr_assert(field);
			length = strtoull(field + 16, NULL, 10);
		}
		if (head && s->have >= head + length)
			break;
	}
	r->at_ns = sink_now();
	r->connection = s->connections;
	if (strstr(r->head, "Content-Encoding: gzip")) {
		static uint8_t plain[SINK_BUFFER];
		z_stream z = { .next_in = (Bytef *)s->buffer + head,
			       .avail_in = (uInt)length,
			       .next_out = plain,
			       .avail_out = sizeof(plain) };

		cr_assert_eq(inflateInit2(&z, MAX_WBITS + 16), Z_OK);
		cr_assert_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
		sink_decode(r, plain, sizeof(plain) - z.avail_out);
		(void)inflateEnd(&z);
	} else {
		sink_decode(r, (uint8_t *)s->buffer + head, length);
	}
	return true;
}

static inline int sink_status(const struct sink_step *step, const struct sink_request *r)
{
	return step->most && r->spans > step->most ? 413 : step->status;
}

/* True when the connection stays. */
static inline bool sink_answer(struct sink *s, int fd, const struct sink_step *step,
			       struct sink_request *r)
{
	int status = sink_status(step, r);
	const char *body = step->body ? step->body : "";
	size_t size = step->size ? step->size : strlen(body);
	struct linger linger = { .l_onoff = 1 };
	char head[1024];
	int n;

	if (step->action == HANG) {
		while (sink_wait(s, fd, NULL) && recv(fd, head, sizeof(head), 0) > 0)
			;
		return false;
	}
	if (step->action == RESET) {
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		return false;
	}
	n = snprintf(head, sizeof(head), "HTTP/1.1 %d Whatever\r\n%sContent-Length: %zu\r\n\r\n",
		     status, step->headers ? step->headers : "",
		     size + (step->action == CUT ? 10 : 0));
	(void)send(fd, head, (size_t)n, MSG_NOSIGNAL);
	for (size_t at = 0; at < size;) {
		ssize_t sent = send(fd, body + at, size - at, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		at += (size_t)sent;
	}
	return step->action == ANSWER;
}

static inline void *sink_run(void *arg)
{
	struct sink *s = arg;

	while (sink_wait(s, s->listener, NULL)) {
		auto_close int fd = accept(s->listener, NULL, NULL);
		bool stays = fd >= 0;

		s->connections++;
		while (stays && s->nrequests < SINK_REQUESTS_MAX) {
			size_t n = s->nrequests;
			struct sink_request *r = &s->requests[n];
			const struct sink_step *step;

			memset(r, 0, sizeof(*r));
			if (!sink_read(s, fd, r))
				break;
			step = &s->steps[n < s->nsteps ? n : s->nsteps - 1];
			if (sink_status(step, r) < 300 && step->action == ANSWER)
				r->accepted = r->spans;
			s->accepted += r->accepted;
			s->nrequests = n + 1; /* from now on the test may look at r */
			stays = sink_answer(s, fd, step, r);
		}
	}
	return NULL;
}

/* Listens on a port that the system chooses; begins to answer with sink_start(). */
static inline void sink_open(struct sink *s, const struct sink_step *steps, size_t nsteps)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	memset(s, 0, sizeof(*s));
	s->steps = steps;
	s->nsteps = nsteps;
	s->buffer = malloc(SINK_BUFFER);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(getsockname(s->listener, (struct sockaddr *)&addr, &len), 0);
	s->port = ntohs(addr.sin_port);
	cr_assert_eq(pipe(s->stop), 0);
}

static inline void sink_start(struct sink *s)
{
	cr_assert_eq(listen(s->listener, 16), 0);
	cr_assert_eq(pthread_create(&s->thread, NULL, sink_run, s), 0);
}

static inline void sink_close(struct sink *s)
{
	if (s->thread) {
		cr_assert_eq(write(s->stop[1], "x", 1), 1);
		(void)pthread_join(s->thread, NULL);
	}
	(void)close(s->listener);
	(void)close(s->stop[0]);
	(void)close(s->stop[1]);
	free(s->buffer);
}
