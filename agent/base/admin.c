#include "base/admin.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

/* Bounds for what strangers can take: connections in all and of one address, bytes of a request's
 * head, silence. */
#define CONNECTIONS        128
#define CONNECTIONS_PER_IP 16
#define HEAD_BYTES         16384
#define SILENCE_SECONDS    10
#define CONNECTIONS_KEPT   96 /* of more, the oldest goes */

#define HEART_LIMIT 30.0 /* seconds without a beat after which a thread counts as dead */
#define CHECKS_MAX  16

#define TEXT "text/plain; charset=utf-8"

struct admin {
	struct MHD_Daemon *daemon;
	const struct admin_source *source;
	uint16_t port;
	struct MHD_Connection
		*open[CONNECTIONS_KEPT + 1]; /* oldest first; the server's thread only */
	size_t nopen;
};

struct answer {
	unsigned status;
	const char *type;
	char *body; /* malloced */
	size_t size;
};

/* All handlers write to f, the body, and set what differs from 200 and plain text. */
struct request {
	const struct admin *admin;
	struct MHD_Connection *connection;
	struct answer *answer;
	FILE *f;
};

static const char *header(const struct request *r, const char *name)
{
	const char *v = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);

	return v ? v : "";
}

static void get_metrics(struct request *r)
{
	bool openmetrics = strstr(header(r, "Accept"), "application/openmetrics-text") != NULL;

	r->answer->type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				      : "text/plain; version=0.0.4; charset=utf-8";
	if (stats_write(r->f, openmetrics) != 0)
		r->answer->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_healthz(struct request *r)
{
	for (int h = 0; h < HEART_COUNT; h++) {
		double age = heart_age((enum heart)h);
		bool late = age > HEART_LIMIT;

		if (late)
			r->answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		if (heart_watched((enum heart)h))
			(void)fprintf(r->f, "[%c] thread %s: last heartbeat %.1f s ago%s\n",
				      late ? '-' : '+', heart_names[h], age,
				      late ? ", it hangs" : "");
		else
			(void)fprintf(r->f, "[+] thread %s: does not run\n", heart_names[h]);
	}
}

static void get_readyz(struct request *r)
{
	struct admin_check checks[CHECKS_MAX];
	size_t n = r->admin->source->ready(r->admin->source->arg, checks, CHECKS_MAX);

	for (size_t i = 0; i < n; i++) {
		if (!checks[i].ok)
			r->answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		(void)fprintf(r->f, "[%c] %s%s%s\n", checks[i].ok ? '+' : '-', checks[i].name,
			      *checks[i].reason ? ": " : "", checks[i].reason);
	}
}

static bool is_loopback(const struct sockaddr *peer)
{
	if (peer && peer->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr) >> 24 == 127;
	if (peer && peer->sa_family == AF_INET6) {
		const struct in6_addr *a = &((const struct sockaddr_in6 *)peer)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(a) ||
		       (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
	}
	return false;
}

/* A name other than localhost would be a web page that had its name resolved to the loopback
 * address. */
static bool host_is_local(const char *host)
{
	char name[64];
	struct in6_addr any;
	size_t n;

	if (*host == '[')
		n = strcspn(++host, "]");
	else
		n = strcspn(host, ":");
	if (n == 0 || n >= sizeof(name))
		return n == 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, host);
	return strcmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &any) == 1 ||
	       inet_pton(AF_INET6, name, &any) == 1;
}

static void get_status(struct request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	json_t *root;
	int err;

	if (!info || !is_loopback(info->client_addr) || !host_is_local(header(r, "Host"))) {
		r->answer->status = MHD_HTTP_FORBIDDEN;
		(void)fprintf(r->f,
			      "/status names pods and processes and is for this machine's loopback "
			      "address only.\n"
			      "In Kubernetes:  kubectl port-forward POD %u  and then  curl "
			      "localhost:%u/status\n",
			      r->admin->port, r->admin->port);
		return;
	}
	root = json_object();
	err = root ? r->admin->source->status(r->admin->source->arg, root) : -ENOMEM;
	r->answer->type = "application/json";
	if (err || json_dumpf(root, r->f, JSON_INDENT(2)) != 0)
		r->answer->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	(void)fputc('\n', r->f);
	json_decref(root);
}

static void get_index(struct request *r);

static const struct page {
	const char *path;
	void (*get)(struct request *r);
	const char *what;
} pages[] = {
	{ "/", get_index, "this list" },
	{ "/metrics", get_metrics, "the agent's own metrics, for Prometheus" },
	{ "/healthz", get_healthz, "whether all threads live, for the liveness probe" },
	{ "/readyz", get_readyz,
	  "whether pods are known and events are read, for the readiness probe" },
	{ "/status", get_status,
	  "pods, processes and libraries, each with its state and the reason, as JSON; loopback "
	  "only" },
};

static void get_index(struct request *r)
{
	(void)fputs("spoor: traces Go programs without changing them\n\n", r->f);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		(void)fprintf(r->f, "%-9s %s\n", pages[i].path, pages[i].what);
}

static void dispatch(struct request *r, const char *path, const char *method)
{
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		if (strcmp(path, pages[i].path) != 0)
			continue;
		if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		    strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
			pages[i].get(r);
			return;
		}
		r->answer->status = MHD_HTTP_METHOD_NOT_ALLOWED;
		(void)fputs("only GET and HEAD\n", r->f);
		return;
	}
	r->answer->status = MHD_HTTP_NOT_FOUND;
	(void)fputs("no such page; / lists them\n", r->f);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *a)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(a->size, a->body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result sent;

	if (!response) {
		free(a->body);
		return MHD_NO;
	}
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	(void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	sent = MHD_queue_response(connection, a->status, response);
	MHD_destroy_response(response);
	return sent;
}

/* Answered as soon as the head is there; what a body would hold is not read, libmicrohttpd closes
 * such a connection. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	struct answer answer = { .status = MHD_HTTP_OK, .type = TEXT };
	struct request r = { .admin = arg, .connection = connection, .answer = &answer };

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	r.f = open_memstream(&answer.body, &answer.size);
	if (!r.f)
		return MHD_NO;
	dispatch(&r, url, method);
	if (fclose(r.f) != 0) {
		free(answer.body);
		return MHD_NO;
	}
	return send_answer(connection, &answer);
}

/* A listening socket, or -errno. */
static int listen_on(const char *address, uint16_t port, uint16_t *chosen)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { 0 };
	socklen_t size;
	int on = 1, off = 0;
	auto_close int fd = -1;

	if (inet_pton(AF_INET, address, &at.v4.sin_addr) == 1) {
		at.v4.sin_family = AF_INET;
		at.v4.sin_port = htons(port);
		size = sizeof(at.v4);
	} else if (inet_pton(AF_INET6, address, &at.v6.sin6_addr) == 1) {
		at.v6.sin6_family = AF_INET6;
		at.v6.sin6_port = htons(port);
		size = sizeof(at.v6);
	} else {
		return -EINVAL;
	}
	fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at.any.sa_family ==
	    AF_INET6) /* "::" serves IPv4 as well, also where the system's default is not so */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, &at.any, size) != 0 || listen(fd, CONNECTIONS) != 0 ||
	    getsockname(fd, &at.any, &size) != 0)
		return -errno;
	*chosen = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
	return take_fd(fd);
}

static void forget(struct admin *a, const struct MHD_Connection *connection)
{
	for (size_t i = 0; i < a->nopen; i++) {
		if (a->open[i] != connection)
			continue;
		a->nopen--;
		memmove(&a->open[i], &a->open[i + 1], (a->nopen - i) * sizeof(*a->open));
		return;
	}
}

/* A client that sends a byte now and then is never silent. Enough of them, from enough addresses,
 * would take every place, and the kubelet, whose probe finds none, would end the agent. */
static void opened_or_closed(void *arg, struct MHD_Connection *connection, void **state,
			     enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info;
	struct admin *a = arg;

	(void)state;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		forget(a, connection);
		return;
	}
	a->open[a->nopen++] = connection;
	if (a->nopen <= CONNECTIONS_KEPT)
		return;
	info = MHD_get_connection_info(a->open[0], MHD_CONNECTION_INFO_CONNECTION_FD);
	if (info)
		(void)shutdown(info->connect_fd, SHUT_RDWR); /* read as its end */
	forget(a, a->open[0]);
}

static void library_log(void *arg, const char *fmt, va_list ap)
{
	char text[256];

	(void)arg;
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("admin: %s", text);
}

int admin_start(struct admin **out, const struct config *cfg, const struct admin_source *source)
{
	auto_free struct admin *a = calloc(1, sizeof(*a));
	auto_close int fd = -1;

	if (!*cfg->admin_listen)
		return 0;
	if (!a)
		return fail(-ENOMEM, "admin: out of memory");
	a->source = source;
	fd = listen_on(cfg->admin_listen, (uint16_t)cfg->admin_port, &a->port);
	if (fd < 0)
		return fail(fd,
			    "admin: cannot listen on '%s' port %u: %s; --admin-port chooses "
			    "another, 0 any free one",
			    cfg->admin_listen, cfg->admin_port, strerror(-fd));
	/* It closes the socket also when it fails, but for its very first steps: never close it
	 * twice. */
	a->daemon =
		MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL,
				 handle, a, MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
				 MHD_OPTION_LISTEN_SOCKET, take_fd(fd), MHD_OPTION_CONNECTION_LIMIT,
				 CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
				 CONNECTIONS_PER_IP, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				 (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_SECONDS,
				 MHD_OPTION_NOTIFY_CONNECTION, opened_or_closed, a, MHD_OPTION_END);
	if (!a->daemon)
		return fail(-EIO, "admin: the HTTP server could not be started");
	log_info("admin: listening on %s port %u: /metrics /healthz /readyz, /status for loopback "
		 "peers",
		 cfg->admin_listen, a->port);
	*out = take(a);
	return 0;
}

uint16_t admin_port(const struct admin *a)
{
	return a->port;
}

void admin_stop(struct admin **a)
{
	if (!*a)
		return;
	MHD_stop_daemon((*a)->daemon);
	free(*a);
	*a = NULL;
}
