#include "trace/http.h"

#include "base/config.h"
#include "trace/span.h"
#include "trace/text.h"

const double http_seconds[14] = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
				  0.5,   0.75, 1,     2.5,  5,     7.5, 10 };
const double http_bytes[12] = { 0,      128,    512,     2048,    8192,     32768,
				131072, 524288, 2097152, 8388608, 33554432, 134217728 };

static const char redacted[] = "REDACTED";

void http_target(struct str target, struct str *path, struct str *query)
{
	const char *end, *p = target.p, *mark;

	*path = *query = (struct str){ NULL, 0 };
	if (target.n == 0)
		return;
	end = p + target.n;
	if (*p != '/' && *p != '*') {
		p = memmem(p, target.n, "://", 3);
		if (!p)
			return; /* authority form: CONNECT */
		for (p += 3; p < end && *p != '/' && *p != '?'; p++)
			;
	}
	mark = memchr(p, '?', (size_t)(end - p));
	*path = (struct str){ p, (size_t)((mark ? mark : end) - p) };
	if (path->n == 0)
		*path = str_of("/");
	if (mark && end - mark > 1)
		*query = (struct str){ mark + 1, (size_t)(end - mark - 1) };
}

struct str http_authority(struct str a, int *port)
{
	const char *colon;
	struct str host = a;

	*port = -1;
	if (a.n == 0)
		return (struct str){ NULL, 0 };
	if (a.p[0] == '[') {
		const char *close = memchr(a.p, ']', a.n);

		if (!close)
			return a;
		host = (struct str){ a.p + 1, (size_t)(close - a.p - 1) };
		colon = close + 1 < a.p + a.n && close[1] == ':' ? close + 1 : NULL;
	} else {
		colon = memchr(a.p, ':', a.n);
		if (colon && memchr(colon + 1, ':', a.n - (size_t)(colon + 1 - a.p)))
			colon = NULL; /* an IPv6 address without brackets */
		if (colon)
			host.n = (size_t)(colon - a.p);
	}
	if (colon)
		*port = (int)text_number((struct str){ colon + 1, (size_t)(a.p + a.n - colon - 1) },
					 65535);
	return host.n ? host : (struct str){ NULL, 0 };
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Whether the percent-encoded key is `name`. */
static bool key_is(struct str key, const char *name)
{
	size_t i = 0;

	for (; i < key.n && *name; i++, name++) {
		char c = key.p[i];

		if (c == '%' && key.n - i > 2 && hex(key.p[i + 1]) >= 0 && hex(key.p[i + 2]) >= 0) {
			c = (char)(hex(key.p[i + 1]) << 4 | hex(key.p[i + 2]));
			i += 2;
		}
		if (c != *name)
			return false;
	}
	return i == key.n && !*name;
}

static bool is_secret(struct str key, const struct list *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		if (key_is(key, keys->v[i]))
			return true;
	return false;
}

/* The next pair of the query from *at on, *value behind its '=' or 0 when it has none. */
static struct str next_pair(struct str q, size_t *at, size_t *value)
{
	const char *p = q.p + *at, *amp = memchr(p, '&', q.n - *at), *eq;
	struct str pair = { p, amp ? (size_t)(amp - p) : q.n - *at };

	eq = memchr(p, '=', pair.n);
	*value = eq ? (size_t)(eq - p) + 1 : 0;
	*at += pair.n + (amp != NULL);
	return pair;
}

int http_redact(struct str *query, const struct list *keys, struct arena *arena)
{
	size_t found = 0, value, n = 0;
	struct str pair;
	char *copy;

	for (size_t at = 0; at < query->n;) {
		pair = next_pair(*query, &at, &value);
		found += value && is_secret((struct str){ pair.p, value - 1 }, keys);
	}
	if (!found)
		return 0;
	copy = arena_get(arena, query->n + found * sizeof(redacted));
	if (!copy)
		return -ENOSPC;
	for (size_t at = 0; at < query->n;) {
		bool secret;

		pair = next_pair(*query, &at, &value);
		secret = value && is_secret((struct str){ pair.p, value - 1 }, keys);
		memcpy(copy + n, pair.p, secret ? value : pair.n);
		n += secret ? value : pair.n;
		if (secret) {
			memcpy(copy + n, redacted, sizeof(redacted) - 1);
			n += sizeof(redacted) - 1;
		}
		if (at < query->n || query->p[query->n - 1] == '&')
			copy[n++] = '&';
	}
	*query = (struct str){ copy, n };
	return 0;
}

struct str http_method(struct span *span, struct str method, const struct list *known)
{
	for (size_t i = 0; i < known->n; i++) {
		if (str_eq(method, known->v[i])) {
			span_str(span, "http.request.method", method);
			return method;
		}
	}
	span_str(span, "http.request.method", str_of("_OTHER"));
	if (method.n)
		span_str(span, "http.request.method_original", method);
	return str_of("HTTP");
}

struct str http_route(struct str pattern)
{
	/* "GET /x", "example.com/x", "POST example.com/": method and host have no slash. */
	const char *slash = pattern.n ? memchr(pattern.p, '/', pattern.n) : NULL;

	return slash ? (struct str){ slash, pattern.n - (size_t)(slash - pattern.p) }
		     : (struct str){ NULL, 0 };
}

const char *http_status_error(unsigned status)
{
#define T(d) #d "0", #d "1", #d "2", #d "3", #d "4", #d "5", #d "6", #d "7", #d "8", #d "9"
	static const char *const texts[] = { T(40), T(41), T(42), T(43), T(44), T(45), T(46),
					     T(47), T(48), T(49), T(50), T(51), T(52), T(53),
					     T(54), T(55), T(56), T(57), T(58), T(59) };
#undef T

	return status >= 400 && status - 400 < ARRAY_SIZE(texts) ? texts[status - 400] : NULL;
}

/* net/url.shouldEscape() for a path. */
static bool stands_in_path(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-_.~$&+,/:;=@", c));
}

/* Whether `raw` is a way to write `path`: net/url.(*URL).EscapedPath() takes it only then. */
static bool is_path(struct str raw, struct str path)
{
	size_t i = 0, k = 0;

	for (; i < raw.n && k < path.n; i++, k++) {
		char c = raw.p[i];

		if (c == '%') {
			if (raw.n - i < 3 || hex(raw.p[i + 1]) < 0 || hex(raw.p[i + 2]) < 0)
				return false;
			c = (char)(hex(raw.p[i + 1]) << 4 | hex(raw.p[i + 2]));
			i += 2;
		} else if (!stands_in_path(c) && (!c || !strchr("!'()*[]", c))) {
			return false;
		}
		if (c != path.p[k])
			return false;
	}
	return i == raw.n && k == path.n;
}

static char *add(char *to, struct str s)
{
	if (s.n)
		memcpy(to, s.p, s.n);
	return to + s.n;
}

static char *add_path(char *to, struct str path)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < path.n; i++) {
		unsigned char c = (unsigned char)path.p[i];

		if (stands_in_path((char)c)) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	return to;
}

int http_url_full(struct str *out, const struct http_url *u, struct arena *arena)
{
	static const char user[] = "REDACTED:REDACTED@";
	size_t most = u->scheme.n + 3 + sizeof(user) + u->host.n + 3 * u->path.n + u->raw_path.n +
		      1 + u->query.n;
	char *text = arena_get(arena, most), *to = text;

	if (!text)
		return -ENOSPC;
	to = add(to, u->scheme);
	to = add(to, str_of(u->opaque ? ":" : "://"));
	if (u->opaque) {
		to = add(to, u->path);
	} else {
		if (u->user)
			to = add(to, str_of(user));
		to = add(to, u->host);
		if (u->path.n && u->path.p[0] != '/')
			to = add(to, str_of("/"));
		if (u->raw_path.n && is_path(u->raw_path, u->path))
			to = add(to, u->raw_path);
		else if (str_eq(u->path, "*"))
			to = add(to, u->path);
		else
			to = add_path(to, u->path);
	}
	if (u->query.n) {
		to = add(to, str_of("?"));
		to = add(to, u->query);
	}
	*out = (struct str){ text, (size_t)(to - text) };
	return 0;
}

struct str http_version(unsigned version)
{
	return str_of(version == 20 ? "2" : version == 10 ? "1.0" : "1.1");
}
