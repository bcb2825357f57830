/* Any bytes as an executable: everything that gobin answers, twice, as the answers must be the
 * same. */
#include "fuzz_file.h"
#include "gobin/gobin.h"

static const char *const serve[] = { "net/http.serverHandler.ServeHTTP", NULL };
static const char *const finish[] = { "net/http.absent", "net/http.(*response).finishRequest",
				      NULL };
static const char *const goexit[] = { "runtime.goexit1", "main.main", NULL };
static const char *const *const names[] = { serve, finish, goexit };

static const struct gobin_want want[] = {
	{ "runtime.g", "goid" },
	{ "runtime.g", "_panic.arg|goid" },
	{ "net/http/internal/http2.ServerRequest|net/http.Request", "Header" },
	{ "net/http.Request", "" },
	{ "runtime.absent", "a" },
	{ "github.com/some/kafka-go.Writer", "Addr" },
	{ "internal/abi.ITab", "Type" },
};

struct answers {
	struct gobin_info info;
	struct gobin_func funcs[ARRAY_SIZE(names)];
	struct gobin_field fields[ARRAY_SIZE(want)];
	struct gobin_map map;
	uint64_t rets[GOBIN_RETS_MAX];
	size_t nrets;
	int err[4];
};

static void ask(struct gobin *g, struct answers *a)
{
	memset(a, 0, sizeof(*a));
	a->err[0] = gobin_funcs(g, names, ARRAY_SIZE(names), a->funcs);
	a->err[1] = gobin_fields(g, want, ARRAY_SIZE(want), a->fields);
	a->err[2] = gobin_header_map(g, &a->map);
	a->nrets = GOBIN_RETS_MAX;
	if (!a->err[0] && a->funcs[0].name)
		a->err[3] = gobin_rets(g, &a->funcs[0], a->rets, &a->nrets);
	a->info = *gobin_info(g);
}

static void check(const struct answers *a, size_t size)
{
	for (size_t i = 0; !a->err[0] && i < ARRAY_SIZE(names); i++) {
		const struct gobin_func *f = &a->funcs[i];

		if (f->name &&
		    (f->entry < a->info.text || f->end > a->info.etext || f->enter < f->entry ||
		     f->enter >= f->end || f->enter_offset >= size))
			abort();
	}
	if (a->info.peak_bytes > 300u << 20)
		abort();
}

/* Member by member: what stands between them is nobody's. */
static bool same(const struct answers *a, const struct answers *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct gobin_func *f = &a->funcs[i], *g = &b->funcs[i];

		if (f->name != g->name || f->entry != g->entry || f->end != g->end ||
		    f->enter != g->enter || f->enter_offset != g->enter_offset ||
		    f->place != g->place || f->emulated != g->emulated)
			return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		if (a->fields[i].offset != b->fields[i].offset ||
		    a->fields[i].source != b->fields[i].source)
			return false;
	return a->map.kind == b->map.kind && a->map.key == b->map.key &&
	       a->map.elem_stride == b->map.elem_stride && a->nrets == b->nrets &&
	       memcmp(a->rets, b->rets, sizeof(a->rets)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct answers a, b;
	enum gobin_why why = GOBIN_OK;
	struct gobin *g = NULL;

	if (gobin_open(&g, fuzz_file(NULL, 0, data, size), &why)) {
		if (g || why == GOBIN_OK || !*gobin_why_text(why))
			abort();
		return 0;
	}
	ask(g, &a);
	check(&a, size);
	ask(g, &b);
	if (!same(&a, &b))
		abort();
	gobin_close(&g);
	return 0;
}
