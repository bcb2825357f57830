#include "trace/route.h"

#include "trace/http.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_escape(struct str s, size_t at)
{
	return at + 2 < s.n && s.p[at] == '%' && hex(s.p[at + 1]) >= 0 && hex(s.p[at + 2]) >= 0;
}

/* What url.PathUnescape() does not take stays as it is, all of it. */
static bool is_encoded(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '%' && !is_escape(s, i))
			return false;
	return true;
}

static unsigned char next(struct str s, size_t *at, bool encoded)
{
	unsigned char c = (unsigned char)s.p[*at];

	if (encoded && c == '%') {
		c = (unsigned char)(hex(s.p[*at + 1]) * 16 + hex(s.p[*at + 2]));
		*at += 2;
	}
	*at += 1;
	return c;
}

static bool same_text(struct str a, struct str b)
{
	bool a_encoded = is_encoded(a), b_encoded = is_encoded(b);
	size_t i = 0, k = 0;

	while (i < a.n && k < b.n)
		if (next(a, &i, a_encoded) != next(b, &k, b_encoded))
			return false;
	return i == a.n && k == b.n;
}

/* Bytes that the path has when it is decoded. */
static size_t decoded_len(struct str path)
{
	bool encoded = is_encoded(path);
	size_t n = 0;

	for (size_t i = 0; i < path.n; n++)
		(void)next(path, &i, encoded);
	return n;
}

static struct str rest_of(struct str s, size_t from)
{
	return (struct str){ s.p + from, s.n - from };
}

/* Cuts "/segment" off the front: the segment without its slash. False: there is none. */
static bool cut_segment(struct str *rest, struct str *segment)
{
	const char *slash;

	if (!rest->n || rest->p[0] != '/')
		return false;
	slash = memchr(rest->p + 1, '/', rest->n - 1);
	*segment = (struct str){ rest->p + 1, slash ? (size_t)(slash - rest->p) - 1 : rest->n - 1 };
	*rest = rest_of(*rest, segment->n + 1);
	return true;
}

static bool is_wild(struct str segment)
{
	return segment.n && segment.p[0] == '{';
}

/* A segment that takes all the rest, or the end: "", "{name...}", "{$}". */
static bool is_last(struct str segment)
{
	return !segment.n || str_eq(segment, "{$}") ||
	       (is_wild(segment) && segment.n > 5 &&
		memcmp(segment.p + segment.n - 4, "...}", 4) == 0);
}

bool route_matches(struct str pattern, struct str path)
{
	struct str rest = http_route(pattern), want, got;

	while (cut_segment(&rest, &want)) {
		if (is_last(want))
			return path.n && path.p[0] == '/' && (!str_eq(want, "{$}") || path.n == 1);
		if (!cut_segment(&path, &got) || !got.n)
			return false; /* no wildcard stands for nothing */
		if (!is_wild(want) && !same_text(want, got))
			return false;
	}
	return pattern.n && !path.n;
}

/* Cuts segments off the front of *path until so many bytes are left, decoded. How many were cut, or
 * -1: there is no such place. */
static int strip(struct str *path, size_t len)
{
	struct str rest = *path, segment;
	int n = 0;

	while (decoded_len(rest) > len && cut_segment(&rest, &segment))
		n++;
	if (!rest.n || decoded_len(rest) != len)
		return -1;
	*path = rest;
	return n;
}

/* The first n segments of a pattern's path, or {NULL, 0}: it does not name so many one by one. */
static struct str head(struct str pattern, int n)
{
	struct str route = http_route(pattern), rest = route, segment;

	for (int i = 0; i < n; i++)
		if (!cut_segment(&rest, &segment) || is_last(segment))
			return (struct str){ NULL, 0 };
	return (struct str){ route.p, route.n - rest.n };
}

int route_join(const struct route_step *steps, size_t n, struct str path, struct arena *arena,
	       struct str *out)
{
	size_t room = 0, used = 0;
	struct str last;
	char *text;

	*out = (struct str){ NULL, 0 };
	if (!n || !path.n ||
	    (steps[0].path_len != ROUTE_SAME && strip(&path, steps[0].path_len) < 0) ||
	    !route_matches(steps[0].pattern, path))
		return 0;
	for (size_t i = 0; i < n; i++)
		room += steps[i].pattern.n;
	text = arena_get(arena, room);
	if (!text)
		return -ENOSPC;
	last = http_route(steps[0].pattern);
	for (size_t i = 1; i < n; i++) {
		int cut = steps[i].path_len == ROUTE_SAME ? 0 : strip(&path, steps[i].path_len);
		struct str stripped = { NULL, 0 };

		if (cut > 0)
			stripped = head(steps[i - 1].pattern, cut);
		if (cut < 0 || (cut && !stripped.n) || !route_matches(steps[i].pattern, path))
			break;
		if (stripped.n)
			memcpy(text + used, stripped.p, stripped.n);
		used += stripped.n;
		last = http_route(steps[i].pattern);
	}
	memcpy(text + used, last.p, last.n);
	*out = (struct str){ text, used + last.n };
	return 0;
}
