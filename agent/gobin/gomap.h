/* gomap.h - how a map[string][]string is laid out in a binary. */
#pragma once
#include "gobin/gotype.h"

/* 0; -ENOENT: no such map in the program, or a layout that we do not know. */
int gomap_headers(struct gotypes *ts, struct gobin_map *out) must_check;
