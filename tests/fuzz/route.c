/* Paths, patterns and lengths as they come: the route that is joined matches the path that came.
 * The input is the path, then for each mux one byte, the length that it saw (255: as it came), and
 * its pattern; each ends with a NUL. */
#include "trace/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str cut(const uint8_t **data, size_t *size)
{
	size_t n = strnlen((const char *)*data, *size);
	struct str s = { (const char *)*data, n };

	*data += n + (n < *size);
	*size -= n + (n < *size);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct route_step steps[4];
	struct str path = cut(&data, &size), route = { NULL, 0 };
	struct arena arena;
	size_t n = 0;

	if (arena_init(&arena, 1 << 12))
		return 0;
	while (size && n < ARRAY_SIZE(steps)) {
		steps[n].path_len = *data == 255 ? ROUTE_SAME : *data;
		data++;
		size--;
		steps[n++].pattern = cut(&data, &size);
	}
	if (route_join(steps, n, path, &arena, &route) == 0 && route.n &&
	    steps[0].path_len == ROUTE_SAME && !route_matches(route, path))
		abort();
	arena_clear(&arena);
	return 0;
}
