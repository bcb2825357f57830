#include "base/utf8.h"

/* Bytes of the character at p, of which n >= 1 are there; 0: none. The table of RFC 3629,
 * section 4. */
static size_t character(const unsigned char *p, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf; /* of the second byte */
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

size_t utf8_valid(const char *p, size_t n)
{
	size_t at = 0, len;
	uint64_t eight;

	while (at < n) {
		/* Nearly everything is ASCII: eight bytes at a time. */
		while (n - at >= sizeof(eight)) {
			memcpy(&eight, p + at, sizeof(eight));
			if (eight & 0x8080808080808080ull)
				break;
			at += sizeof(eight);
		}
		if (at == n)
			break;
		len = character((const unsigned char *)p + at, n - at);
		if (len == 0)
			break;
		at += len;
	}
	return at;
}

void utf8_repair(char *p, size_t n)
{
	for (size_t at = utf8_valid(p, n); at < n; at += 1 + utf8_valid(p + at + 1, n - at - 1))
		p[at] = '?';
}
