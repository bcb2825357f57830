#include "trace/text.h"

#include "base/utf8.h"

#include <arpa/inet.h>

struct str text_cut(struct str s, size_t max)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t n = max;

	if (s.n < max || max == 0)
		return s.n < max ? s : (struct str){ s.p, 0 };
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = p[n - back];

		if (c < 0x80)
			break;
		if (c < 0xc0)
			continue;
		if (back < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u))
			n -= back;
		break;
	}
	return (struct str){ s.p, n };
}

int text_utf8(struct str *s, struct arena *arena)
{
	static const char replacement[3] = { (char)0xef, (char)0xbf, (char)0xbd }; /* U+FFFD */
	size_t at = utf8_valid(s->p, s->n), bad = 0, n = 0, valid;
	char *copy;

	if (at == s->n)
		return 0;
	for (; at < s->n; at += 1 + utf8_valid(s->p + at + 1, s->n - at - 1))
		bad++;
	copy = arena_get(arena, s->n + 2 * bad);
	if (!copy)
		return -ENOSPC;
	for (at = 0; at < s->n; at++) {
		valid = utf8_valid(s->p + at, s->n - at);
		memcpy(copy + n, s->p + at, valid);
		n += valid;
		at += valid;
		if (at < s->n) {
			memcpy(copy + n, replacement, sizeof(replacement));
			n += sizeof(replacement);
		}
	}
	*s = (struct str){ copy, n };
	return 0;
}

int64_t text_number(struct str s, int64_t max)
{
	int64_t n = 0;

	if (s.n == 0)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		n = 10 * n + (s.p[i] - '0');
		if (n > max)
			return -1;
	}
	return n;
}

bool text_take(struct str *rest, size_t n, struct str *out)
{
	if (n > rest->n)
		return false;
	*out = (struct str){ rest->p, n };
	rest->p += n;
	rest->n -= n;
	return true;
}

int text_clean(struct str *s, size_t max, struct arena *arena)
{
	*s = text_cut(*s, max);
	return text_utf8(s, arena);
}

struct str text_header(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] > '~')
			return (struct str){ NULL, 0 };
	return s.n ? s : (struct str){ NULL, 0 };
}

int text_ip(struct str bytes, struct arena *arena, struct str *out)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const char *ip = bytes.p;
	int family = bytes.n == 4 ? AF_INET : AF_INET6;
	char *text;

	*out = (struct str){ NULL, 0 };
	if (bytes.n != 4 && bytes.n != 16)
		return 0;
	if (bytes.n == 16 && memcmp(ip, mapped, sizeof(mapped)) == 0) {
		family = AF_INET;
		ip += sizeof(mapped);
	}
	text = arena_get(arena, INET6_ADDRSTRLEN);
	if (!text)
		return -ENOSPC;
	if (inet_ntop(family, ip, text, INET6_ADDRSTRLEN))
		*out = str_of(text);
	return 0;
}
