#include "base/pages.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Bounds for what strangers can take: connections in all and of one address, bytes of a request's
 * head, silence. */
#define CONNECTIONS        128
#define CONNECTIONS_PER_IP 16
#define HEAD_BYTES         16384
#define SILENCE_SECONDS    10
#define CONNECTIONS_KEPT   96 /* of more, the oldest goes */

#define TEXT "text/plain; charset=utf-8"

struct pages {
	struct MHD_Daemon *daemon;
	const struct pages_of *of;
	void *arg;
	uint16_t port;
	struct MHD_Connection
		*open[CONNECTIONS_KEPT + 1]; /* oldest first; the server's thread only */
	size_t nopen;
};

const char *page_header(const struct page_request *r, const char *name)
{
	const char *v = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);

	return v ? v : "";
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

bool page_is_local(const struct page_request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	return info && is_loopback(info->client_addr) && host_is_local(page_header(r, "Host"));
}

static void index_page(const struct page_request *r, const struct pages_of *of)
{
	(void)fputs("spoor: traces Go programs without changing them\n\n", r->f);
	for (size_t i = 0; i < of->n; i++)
		(void)fprintf(r->f, "%-9s %s\n", of->v[i].path, of->v[i].what);
}

static void dispatch(struct page_request *r, const struct pages_of *of, const char *path,
		     const char *method)
{
	const struct page *page = NULL;

	for (size_t i = 0; i < of->n && !page; i++)
		if (strcmp(path, of->v[i].path) == 0)
			page = &of->v[i];
	if (!page) {
		r->status = MHD_HTTP_NOT_FOUND;
		(void)fputs("no such page; / lists them\n", r->f);
	} else if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
		   strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		r->status = MHD_HTTP_METHOD_NOT_ALLOWED;
		(void)fputs("only GET and HEAD\n", r->f);
	} else if (!page->get) {
		index_page(r, of);
	} else {
		page->get(r);
	}
}

static enum MHD_Result send_answer(const struct page_request *r, char *body, size_t size)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result sent;

	if (!response) {
		free(body);
		return MHD_NO;
	}
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	(void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (r->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	sent = MHD_queue_response(r->connection, r->status, response);
	MHD_destroy_response(response);
	return sent;
}

/* Answered as soon as the head is there; what a body would hold is not read, libmicrohttpd closes
 * such a connection. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	const struct pages *p = arg;
	struct page_request r = { .arg = p->arg,
				  .port = p->port,
				  .connection = connection,
				  .status = MHD_HTTP_OK,
				  .type = TEXT };
	char *body = NULL;
	size_t size = 0;

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	r.f = open_memstream(&body, &size);
	if (!r.f)
		return MHD_NO;
	dispatch(&r, p->of, url, method);
	if (fclose(r.f) != 0) {
		free(body);
		return MHD_NO;
	}
	return send_answer(&r, body, size);
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

static void forget(struct pages *a, const struct MHD_Connection *connection)
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
	struct pages *a = arg;

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
	const struct pages *p = arg;
	char text[256];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("%s: %s", p->of->name, text);
}

int pages_start(struct pages **out, const struct pages_of *of, const char *address, uint32_t port,
		void *arg)
{
	auto_free struct pages *p = calloc(1, sizeof(*p));
	auto_close int fd = -1;

	if (!p)
		return fail(-ENOMEM, "%s: out of memory", of->name);
	p->of = of;
	p->arg = arg;
	fd = listen_on(address, (uint16_t)port, &p->port);
	if (fd < 0)
		return fail(fd,
			    "%s: cannot listen on '%s' port %u: %s; --%s-port chooses another, 0 "
			    "any free one",
			    of->name, address, port, strerror(-fd), of->name);
	/* It closes the socket also when it fails, but for its very first steps: never close it
	 * twice. */
	p->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, p,
		MHD_OPTION_EXTERNAL_LOGGER, library_log, p, MHD_OPTION_LISTEN_SOCKET, take_fd(fd),
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		CONNECTIONS_PER_IP, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_SECONDS, MHD_OPTION_NOTIFY_CONNECTION,
		opened_or_closed, p, MHD_OPTION_END);
	if (!p->daemon)
		return fail(-EIO, "%s: the HTTP server could not be started", of->name);
	*out = take(p);
	return 0;
}

uint16_t pages_port(const struct pages *p)
{
	return p->port;
}

void pages_stop(struct pages **p)
{
	if (!*p)
		return;
	MHD_stop_daemon((*p)->daemon);
	free(*p);
	*p = NULL;
}
