#include "export/otlp_url.h"

#include "base/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>

#define DEFAULT_PORT "4318"

static void curl_free_cleanup(char **p)
{
	curl_free(*p);
}

static void curlu_cleanup(CURLU **u)
{
	curl_url_cleanup(*u);
}

#define auto_curl  __attribute__((cleanup(curl_free_cleanup)))
#define auto_curlu __attribute__((cleanup(curlu_cleanup)))

static bool is_ipv6(const char *text)
{
	struct in6_addr addr;

	return inet_pton(AF_INET6, text, &addr) == 1;
}

/* curl is lenient: it reads "4318" as the address 0.0.16.222, takes "https:///path" for the host
 * "path" and "unix:/run/sock" for the host "unix". Here host must be a name or address, and what
 * follows its colon a port. */
static bool authority_plausible(const char *p)
{
	static const char digits[] = "0123456789";
	size_t n = *p == '[' ? strcspn(p, "]") : strcspn(p, ":/?#");
	bool named = *p == '[';

	for (size_t i = 0; i < n && !named; i++)
		named = isalpha((unsigned char)p[i]) || (p[i] == '.' && i > 0);
	n += p[n] == ']';
	if (!named || n == 0)
		return false;
	return p[n] != ':' || strspn(p + n + 1, digits) > 0;
}

/* "http:/collector" and "http//collector" are misspelt URLs, not hosts called "http". */
static bool misspelt(const char *text)
{
	size_t n = strncmp(text, "https", 5) == 0 ? 5 : 4;

	return strncmp(text, "http", 4) == 0 &&
	       (text[n] == ':' || text[n] == '/' || text[n] == '\0');
}

/* Lets u hold what text says; bare: an IPv6 address without brackets. (Of an endpoint it is not
 * taken: is "::1:4318" an address, or one and a port?) */
static int parse(CURLU *u, const char *text, bool has_scheme, bool bare)
{
	auto_free char *full = NULL;
	auto_curl char *scheme = NULL, *port = NULL;

	if (!has_scheme && misspelt(text))
		return -EINVAL;
	if (!bare && !authority_plausible(has_scheme ? strstr(text, "://") + 3 : text))
		return -EINVAL;
	if (asprintf(&full, "%s%s%s%s", has_scheme ? "" : "http://", bare ? "[" : "", text,
		     bare ? "]" : "") < 0) {
		full = NULL;
		return -ENOMEM;
	}
	if (curl_url_set(u, CURLUPART_URL, full, 0) != CURLUE_OK)
		return -EINVAL;
	if (curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
	    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		return -EINVAL;
	if (curl_url_get(u, CURLUPART_PORT, &port, 0) == CURLUE_OK) {
		if (strcmp(port, "0") == 0)
			return -EINVAL;
	} else if (!has_scheme && curl_url_set(u, CURLUPART_PORT, DEFAULT_PORT, 0) != CURLUE_OK) {
		return -EINVAL;
	}
	return 0;
}

/* Appends the signal's path to the one that is there, which may end in a slash, or in the signal's
 * path already. */
static int append_path(CURLU *u, const char *signal)
{
	auto_curl char *path = NULL, *query = NULL, *fragment = NULL;
	auto_free char *full = NULL;
	size_t n, tail = strlen(signal);

	if (curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_OK ||
	    curl_url_get(u, CURLUPART_FRAGMENT, &fragment, 0) == CURLUE_OK)
		return -EINVAL;
	if (curl_url_get(u, CURLUPART_PATH, &path, 0) != CURLUE_OK)
		return -EINVAL;
	n = strlen(path);
	while (n && path[n - 1] == '/')
		n--;
	if (n >= tail && strncmp(path + n - tail, signal, tail) == 0)
		n -= tail;
	if (asprintf(&full, "%.*s%s", (int)n, path, signal) < 0) {
		full = NULL;
		return -ENOMEM;
	}
	return curl_url_set(u, CURLUPART_PATH, full, 0) == CURLUE_OK ? 0 : -EINVAL;
}

int otlp_url(char *out, size_t n, const struct config *cfg, enum otlp_signal signal,
	     const char **bad)
{
	const char *own =
		signal == OTLP_METRICS ? cfg->otlp_metrics_endpoint : cfg->otlp_traces_endpoint;
	const char *path = signal == OTLP_METRICS ? "/v1/metrics" : "/v1/traces";
	bool as_is = *own;
	const char *text = as_is                 ? own
			   : *cfg->otlp_endpoint ? cfg->otlp_endpoint
			   : *cfg->node_ip       ? cfg->node_ip
						 : "localhost";
	auto_curlu CURLU *u = curl_url();
	auto_curl char *url = NULL;
	int err = u ? parse(u, text, strstr(text, "://"), text == cfg->node_ip && is_ipv6(text))
		    : -ENOMEM;

	if (err == 0 && !as_is)
		err = append_path(u, path);
	if (err == 0 && curl_url_get(u, CURLUPART_URL, &url, 0) != CURLUE_OK)
		err = -EINVAL;
	if (err == 0 && (!url || strlen(url) >= n))
		err = -EINVAL;
	if (err < 0 || !url) {
		*bad = text;
		return err;
	}
	memcpy(out, url, strlen(url) + 1);
	return 0;
}
