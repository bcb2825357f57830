#include "discover/request.h"

#include "base/config.h"
#include "base/log.h"
#include "discover/reply.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define BODY_FIRST ((size_t)256 * 1024)

struct request {
	const struct config *cfg;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	int epoll_fd, timer_fd;
	char url[640];  /* as curl gets it, with the name to verify for a host */
	char peer[320]; /* host:port that is connected to */
	bool tls, busy, ended, too_large;
	CURLcode result;
	char error[CURL_ERROR_SIZE];
	char *body;
	size_t size, room;
};

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	struct request *r = arg;
	struct epoll_event ev = { .data.fd = fd };

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		(void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
	if (epoll_ctl(r->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) != 0 &&
	    errno == EEXIST)
		(void)epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, fd, &ev);
	(void)curl_multi_assign(r->multi, fd, r);
	return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct request *r = arg;
	struct itimerspec when = { 0 };

	(void)multi;
	if (ms >= 0) {
		when.it_value.tv_sec = ms / 1000;
		when.it_value.tv_nsec = ms % 1000 * 1000000 + (ms == 0);
	}
	(void)timerfd_settime(r->timer_fd, 0, &when, NULL);
	return 0;
}

static size_t on_body(char *data, size_t one, size_t n, void *arg)
{
	struct request *r = arg;

	(void)one;
	if (n > r->cfg->kubelet_max_response - r->size) {
		r->too_large = true;
		return 0;
	}
	if (n > r->room - r->size) {
		size_t room = r->room ? 2 * r->room : BODY_FIRST;
		char *more;

		while (room - r->size < n)
			room *= 2;
		more = realloc(r->body, room);
		if (!more)
			return 0;
		r->body = more;
		r->room = room;
	}
	memcpy(r->body + r->size, data, n);
	r->size += n;
	return n;
}

static void free_url(CURLU **u)
{
	curl_url_cleanup(*u);
}

static void free_part(char **part)
{
	curl_free(*part);
}

#define auto_part __attribute__((cleanup(free_part)))

/* Splits the endpoint: who is connected to, and by which name its certificate is verified. */
static int take_endpoint(struct request *r, const char *endpoint)
{
	__attribute__((cleanup(free_url))) CURLU *u = curl_url();
	auto_part char *scheme = NULL, *host = NULL, *port = NULL, *path = NULL;
	const struct config *cfg = r->cfg;
	const char *name =
		*cfg->kubelet_tls_server_name ? cfg->kubelet_tls_server_name : cfg->node_name;
	char connect_to[640];
	size_t len;

	if (!u || curl_url_set(u, CURLUPART_URL, endpoint, 0) ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
	    curl_url_get(u, CURLUPART_HOST, &host, 0) ||
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ||
	    curl_url_get(u, CURLUPART_PATH, &path, 0) ||
	    (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0))
		return fail(-EINVAL, "config: kubelet.endpoint: '%s' is no http or https URL",
			    endpoint);
	r->tls = strcmp(scheme, "https") == 0;
	if (!r->tls || !*name)
		name = host;
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		path[--len] = '\0';
	(void)snprintf(r->peer, sizeof(r->peer), "%s:%s", host, port);
	(void)snprintf(r->url, sizeof(r->url), "%s://%s:%s%s/pods", scheme, name, port, path);
	if (name != host) {
		(void)snprintf(connect_to, sizeof(connect_to), "%s:%s:%s:%s", name, port, host,
			       port);
		r->connect_to = curl_slist_append(NULL, connect_to);
		if (!r->connect_to)
			return fail(-ENOMEM, "kubelet: no memory");
	}
	return 0;
}

static int endpoint(struct request *r)
{
	const struct config *cfg = r->cfg;
	char url[320];

	if (*cfg->kubelet_endpoint)
		return take_endpoint(r, cfg->kubelet_endpoint);
	if (!*cfg->node_ip)
		return fail(-EINVAL, "config: the kubelet is to be asked, but neither "
				     "kubelet.endpoint nor node.ip (HOST_IP) is set");
	(void)snprintf(url, sizeof(url),
		       strchr(cfg->node_ip, ':') ? "https://[%s]:10250" : "https://%s:10250",
		       cfg->node_ip);
	return take_endpoint(r, url);
}

static CURLM *new_multi(struct request *r)
{
	CURLM *multi = curl_multi_init();

	if (!multi)
		return NULL;
	(void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, r);
	(void)curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
	(void)curl_multi_setopt(multi, CURLMOPT_TIMERDATA, r);
	(void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L);
	return multi;
}

int request_new(struct request **out, const struct config *cfg, int epoll_fd)
{
	struct request *r = calloc(1, sizeof(*r));
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	if (!r)
		return fail(-ENOMEM, "kubelet: no memory");
	r->cfg = cfg;
	r->epoll_fd = epoll_fd;
	r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	ev.data.fd = r->timer_fd;
	(void)curl_global_init(CURL_GLOBAL_DEFAULT);
	r->multi = new_multi(r);
	r->easy = curl_easy_init();
	if (!r->multi || !r->easy || r->timer_fd < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, r->timer_fd, &ev) != 0)
		err = fail(-ENOMEM, "kubelet: cannot set up a connection");
	else
		err = endpoint(r);
	if (err) {
		request_free(&r);
		return err;
	}
	*out = r;
	return 0;
}

void request_free(struct request **p)
{
	struct request *r = take(*p);

	if (!r)
		return;
	if (r->multi && r->busy)
		(void)curl_multi_remove_handle(r->multi, r->easy);
	curl_easy_cleanup(r->easy);
	if (r->multi)
		(void)curl_multi_cleanup(r->multi);
	curl_slist_free_all(r->headers);
	curl_slist_free_all(r->connect_to);
	if (r->timer_fd >= 0)
		(void)close(r->timer_fd);
	free(r->body);
	free(r);
	curl_global_cleanup();
}

const char *request_url(const struct request *r)
{
	return r->url;
}

const char *request_peer(const struct request *r)
{
	return r->peer;
}

bool request_tls(const struct request *r)
{
	return r->tls;
}

const char *request_trust_name(const struct request *r, enum request_trust trust)
{
	static const char *const names[] = { [REQUEST_CA] = "ca",
					     [REQUEST_NODE_CERT] = "node-cert",
					     [REQUEST_INSECURE] = "insecure" };

	return r->tls ? names[trust] : "none";
}

bool request_busy(const struct request *r)
{
	return r->busy;
}

static void set_trust(struct request *r, enum request_trust trust, char *cert)
{
	CURL *e = r->easy;

	/* No session is resumed: each handshake is judged by the trust of its own time. */
	(void)curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	(void)curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	/* The system's CAs have no say here. */
	(void)curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	(void)curl_easy_setopt(e, CURLOPT_CAINFO,
			       trust == REQUEST_CA ? r->cfg->kubelet_tls_ca_file : NULL);
	if (trust == REQUEST_NODE_CERT) {
		/* The trust store holds the one certificate; OpenSSL takes a trusted leaf for the
		 * end of the chain (X509_V_FLAG_PARTIAL_CHAIN, which curl sets). Name and dates are
		 * still looked at. */
		struct curl_blob blob = { cert, strlen(cert), CURL_BLOB_COPY };

		(void)curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &blob);
	}
	if (trust == REQUEST_INSECURE) {
		(void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		(void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
}

static int set_headers(struct request *r, const char *token)
{
	struct curl_slist *more;
	char *line = NULL;

	curl_slist_free_all(r->headers);
	r->headers = curl_slist_append(NULL, "Accept: application/json");
	if (!r->headers)
		return -ENOMEM;
	if (!token)
		return 0;
	if (asprintf(&line, "Authorization: Bearer %s", token) < 0)
		return -ENOMEM;
	more = curl_slist_append(r->headers, line);
	explicit_bzero(line, strlen(line));
	free(line);
	if (!more)
		return -ENOMEM;
	r->headers = more;
	return 0;
}

int request_start(struct request *r, enum request_trust trust, const char *token, char *cert,
		  struct request_failure *f)
{
	CURL *e = r->easy;

	curl_easy_reset(e);
	if (set_headers(r, r->tls ? token : NULL)) {
		*f = (struct request_failure){ KUBELET_CONNECT, "no memory" };
		return -ENOMEM;
	}
	if (r->tls)
		set_trust(r, trust, cert);
	r->error[0] = '\0';
	r->too_large = r->ended = false;
	r->size = 0;
	(void)curl_easy_setopt(e, CURLOPT_URL, r->url);
	(void)curl_easy_setopt(e, CURLOPT_CONNECT_TO, r->connect_to);
	(void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, r->headers);
	(void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(e, CURLOPT_PROXY,
			       ""); /* no HTTPS_PROXY on the way to the own node */
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	/* Without it, giving up waits for a resolver thread that hangs. */
	(void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->cfg->kubelet_timeout);
	(void)curl_easy_setopt(e, CURLOPT_MAXFILESIZE_LARGE,
			       (curl_off_t)r->cfg->kubelet_max_response);
	/* A connection of its own each time: certificate, CA file and token are judged as they are
	 * now. */
	(void)curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, "spoor");
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
	(void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->error);
	if (curl_multi_add_handle(r->multi, e) != CURLM_OK) {
		*f = (struct request_failure){ KUBELET_CONNECT, "curl takes no request" };
		return -EIO;
	}
	r->busy = true;
	return 0;
}

void request_handle(struct request *r, int fd, uint32_t events)
{
	int running, mask = 0;
	uint64_t ticks;

	if (fd == r->timer_fd) {
		(void)!read(fd, &ticks, sizeof(ticks));
		(void)curl_multi_socket_action(r->multi, CURL_SOCKET_TIMEOUT, 0, &running);
		return;
	}
	mask |= events & EPOLLIN ? CURL_CSELECT_IN : 0;
	mask |= events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
	mask |= events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
	(void)curl_multi_socket_action(r->multi, fd, mask, &running);
}

bool request_ended(struct request *r)
{
	CURLMsg *msg;
	int left;

	while (!r->ended && (msg = curl_multi_info_read(r->multi, &left))) {
		if (msg->msg != CURLMSG_DONE)
			continue;
		r->result = msg->data.result;
		r->ended = true;
		r->busy = false;
		(void)curl_multi_remove_handle(r->multi, r->easy);
	}
	return r->ended;
}

uint64_t request_took_ns(const struct request *r)
{
	curl_off_t us = 0;

	(void)curl_easy_getinfo(r->easy, CURLINFO_TOTAL_TIME_T, &us);
	return (uint64_t)us * 1000;
}

const char *request_body(const struct request *r, size_t *size)
{
	*size = r->size;
	return r->body ? r->body : "";
}

void request_forget(struct request *r)
{
	r->ended = false;
	free(r->body);
	r->body = NULL;
	r->size = r->room = 0;
}

void request_abandon(struct request *r)
{
	CURLM *fresh = new_multi(r);

	(void)curl_multi_remove_handle(r->multi, r->easy);
	r->busy = false;
	request_forget(r);
	if (!fresh)
		return;
	(void)curl_multi_cleanup(r->multi);
	r->multi = fresh;
}

void request_outcome(struct request *r, enum request_trust trust, struct request_failure *f)
{
	const struct reply reply = {
		.cfg = r->cfg,
		.easy = r->easy,
		.result = r->result,
		.error = *r->error ? r->error : curl_easy_strerror(r->result),
		.body = r->body,
		.size = r->size,
		.too_large = r->too_large,
		.tls = r->tls,
		.trust = trust,
	};

	reply_judge(&reply, f);
}
