/* Any bytes as a record of the library of net/http clients: refused, or a span whose every string
 * is valid UTF-8 and within its limit. */
#include "base/config.h"
#include "base/utf8.h"
#include "trace/lib.h"
#include "trace/span.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *secret_names[] = { "sig", "X-Amz-Signature", NULL };
static char *method_names[] = { "GET", "POST", NULL };
static const struct list secrets = { secret_names, 2 }, methods = { method_names, 2 };

static const struct lib *find(void)
{
	lib_foreach (it)
		if (strcmp((*it)->name, "net_http_client") == 0)
			return *it;
	abort();
}

static void check(const struct span *s)
{
	if (s->nattrs > SPAN_ATTRS_MAX || utf8_valid(s->name.p, s->name.n) != s->name.n ||
	    s->name.n > 2048)
		abort();
	for (int i = 0; i < s->nattrs; i++) {
		const struct attr *a = &s->attrs[i];

		if (a->type == ATTR_STR &&
		    (!a->s.p || a->s.n > 16384 || utf8_valid(a->s.p, a->s.n) != a->s.n))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str paths[] = { { "/healthz", 8 } };
	const struct privacy privacy = { .redact_query_keys = &secrets,
					 .known_methods = &methods,
					 .url_query = true };
	const struct lib *lib = find();
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span span = { .attrs = attrs };
	struct arena arena;
	struct event *ev;

	if (size < lib->event_size || size > 60000 || arena_init(&arena, 1 << 18))
		return 0;
	ev = (struct event *)(void *)arena_copy(&arena, data, size);
	ev->size = (uint32_t)size; /* as the ring has checked */
	const struct decode with = {
		.arena = &arena, .privacy = &privacy, .probe_paths = paths, .nprobe_paths = 1
	};
	if (lib->decode(ev, &with, &span) == 0)
		check(&span);
	arena_clear(&arena);
	return 0;
}
