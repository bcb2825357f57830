/* utf8.h - is it UTF-8? What leaves the agent must be: one bad string, and a receiver refuses the
 * whole request. Pure. */
#pragma once
#include "base/base.h"

/* Number of leading bytes of p that are whole valid characters (RFC 3629): n when all of it is
 * valid. */
size_t utf8_valid(const char *p, size_t n);
/* Overwrites each byte that is in no valid character with '?'. */
void utf8_repair(char *p, size_t n);
