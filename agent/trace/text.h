/* text.h - bytes of traced programs made fit for OTLP, whose strings are UTF-8. Pure. */
#pragma once
#include "base/arena.h"

/* s without what follows a code point that begins before max bytes and ends behind them. */
struct str text_cut(struct str s, size_t max);
/* Makes *s valid UTF-8: as it is where it is valid, else a copy in which U+FFFD stands for each
 * byte that fits nowhere. 0; -ENOSPC: the arena is full. */
int text_utf8(struct str *s, struct arena *arena) must_check;
/* The decimal number in s, or -1: empty, no digits only, or above max. */
int64_t text_number(struct str s, int64_t max);
/* The first n bytes of *rest, which is then what follows them. False: there are not so many. */
bool text_take(struct str *rest, size_t n, struct str *out);
/* text_cut() and text_utf8(). 0; -ENOSPC. */
int text_clean(struct str *s, size_t max, struct arena *arena) must_check;
/* s if it is what the value of a header may be (RFC 9110, 5.5: no control characters, and ASCII
 * only); else {NULL, 0}. */
struct str text_header(struct str s);
/* An IP address of 4 or 16 bytes as people write it, one of IPv4 within IPv6 as IPv4; {NULL, 0} for
 * anything else. 0; -ENOSPC: the arena is full. */
int text_ip(struct str bytes, struct arena *arena, struct str *out) must_check;
