#include "metrics/prometheus.h"

#include "base/config.h"
#include "metrics/labels.h"
#include "metrics/metrics.h"
#include "otlp.pb-c.h"
#include "pipeline/resource.h"
#include "trace/text.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#define FAMILIES_MAX 128

/* All samples of one metric: they stand together on the page, whoever's they are. */
struct family {
	const struct instrument *of;
	char name[160]; /* as Prometheus has it, without _total */
	FILE *f;
	char *text;
	size_t size;
};

/* The page that is being written. */
struct writing {
	const struct config *cfg;
	bool openmetrics;
	struct family families[FAMILIES_MAX];
	size_t nfamilies;
	struct family info; /* target_info */
	/* Of the points that come: target and scope, and labels of the resource. */
	char *common;
	size_t common_size;
	Otlp__Resource *resource;
	char numbers[LABELS_MAX][32]; /* that the resource has, as text */
	struct labels labels;
	size_t nlabels;              /* of the resource; those of a point come after them */
	const struct resource *seen; /* the last one that target_info was written of */
	int err;
};

/* ---- names ---- */

/* The unit as a word at the end of a name; "" for none. */
static const char *unit_word(const struct instrument *of)
{
	static const char *const words[][2] = {
		{ "s", "seconds" }, { "ms", "milliseconds" }, { "By", "bytes" }, { "%", "percent" }
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(of->unit, words[i][0]) == 0)
			return words[i][1];
	return strcmp(of->unit, "1") == 0 && of->kind == INSTRUMENT_GAUGE ? "ratio" : "";
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static void name_family(struct family *to)
{
	const char *unit = unit_word(to->of);
	size_t n = label_name(to->name, sizeof(to->name), str_of(to->of->name));

	if (ends_with(to->name, "_total"))
		to->name[n - strlen("_total")] = '\0';
	n = strlen(to->name);
	if (*unit && !ends_with(to->name, unit))
		(void)snprintf(to->name + n, sizeof(to->name) - n, "_%s", unit);
}

/* ---- labels of a resource ---- */

static struct str text_of(ProtobufCBinaryData b)
{
	return (struct str){ (const char *)b.data, b.len };
}

static struct str number_text(int64_t v, char *buf)
{
	(void)snprintf(buf, 32, "%" PRId64, v);
	return str_of(buf);
}

/* A string or a number as text; false: neither. buf: 32 bytes. */
static bool value_text(const Otlp__AnyValue *v, char *buf, struct str *out)
{
	if (v && v->value_case == OTLP__ANY_VALUE__VALUE_STRING_VALUE) {
		*out = text_of(v->string_value);
		return true;
	}
	if (!v || v->value_case != OTLP__ANY_VALUE__VALUE_INT_VALUE)
		return false;
	*out = number_text(v->int_value, buf);
	return true;
}

static bool find_value(const Otlp__Resource *r, const char *key, char *buf, struct str *out)
{
	for (size_t i = 0; i < r->n_attributes; i++)
		if (str_eq(text_of(r->attributes[i]->key), key))
			return value_text(r->attributes[i]->value, buf, out);
	return false;
}

/* The first labels of all: job is namespace/name of the service, instance its instance id. (One
 * that is empty is as good as absent.) */
static void put_target(FILE *f, const Otlp__Resource *r)
{
	struct str name = str_of(""), space = name, instance;
	char buf[32];
	auto_free char *job = NULL;

	(void)find_value(r, "service.name", buf, &name);
	if (find_value(r, "service.namespace", buf, &space)) {
		job = malloc(space.n + 1 + name.n);
		if (job) {
			memcpy(job, space.p, space.n);
			job[space.n] = '/';
			memcpy(job + space.n + 1, name.p, name.n);
			name = (struct str){ job, space.n + 1 + name.n };
		}
	}
	(void)fputs("job=", f);
	label_value(f, name);
	if (find_value(r, "service.instance.id", buf, &instance)) {
		(void)fputs(",instance=", f);
		label_value(f, instance);
	}
}

static bool is_of_target(struct str key)
{
	return str_eq(key, "service.name") || str_eq(key, "service.namespace") ||
	       str_eq(key, "service.instance.id");
}

#define PID "process.pid"

/* Whether each sample has it. */
static bool is_wanted(const struct config *cfg, struct str key)
{
	for (size_t i = 0; i < cfg->prometheus_resource_attributes.n; i++)
		if (str_eq(key, cfg->prometheus_resource_attributes.v[i]))
			return true;
	return str_eq(key, PID);
}

/* Labels of the attributes that are wanted; all: of all but those that name the target. */
static void label_resource(struct writing *w, bool all)
{
	const Otlp__Resource *r = w->resource;
	struct str value;

	labels_cut(&w->labels, 0);
	for (size_t i = 0; i < r->n_attributes && i < LABELS_MAX; i++) {
		struct str key = text_of(r->attributes[i]->key);

		if (all ? !is_of_target(key) : is_wanted(w->cfg, key))
			if (value_text(r->attributes[i]->value, w->numbers[i], &value))
				(void)labels_add(&w->labels, key, value);
	}
	labels_sort(&w->labels);
	w->nlabels = w->labels.n;
}

/* Of a service instance, once; of its processes it would be another target. */
static void put_info(struct writing *w)
{
	FILE *f = w->info.f;

	label_resource(w, true);
	(void)fputs("target_info{", f);
	put_target(f, w->resource);
	labels_write(&w->labels, f);
	(void)fputs("} 1\n", f);
}

static void begin(void *arg, struct resource *resource, const char *scope)
{
	struct writing *w = arg;
	struct str pid;
	char buf[32];
	FILE *f;

	free(take(w->common));
	otlp__resource__free_unpacked(w->resource, NULL);
	w->resource = otlp__resource__unpack(NULL, resource->size, resource->bytes);
	f = w->resource ? open_memstream(&w->common, &w->common_size) : NULL;
	if (!f) {
		w->err = -ENOMEM;
		return;
	}
	put_target(f, w->resource);
	(void)fputs(",otel_scope_name=", f);
	label_value(f, str_of(scope));
	if (fclose(f) != 0)
		w->err = -ENOMEM;
	if (w->seen != resource && !find_value(w->resource, PID, buf, &pid))
		put_info(w);
	w->seen = resource;
	label_resource(w, false);
}

/* ---- samples ---- */

/* As few digits as tell it from its neighbours: le="0.005" is what people write in a query. */
static void put_shortest(FILE *f, double v)
{
	char text[32];

	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	(void)fputs(text, f);
}

static void put_number(FILE *f, double v)
{
	if (isnan(v) || isinf(v))
		(void)fputs(isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf", f);
	else if (v == floor(v) && fabs(v) < 1e15)
		(void)fprintf(f, "%.0f", v);
	else
		put_shortest(f, v);
}

/* Libraries that measure the same each say so. */
static bool same_family(const struct instrument *a, const struct instrument *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0;
}

static struct family *family_of(struct writing *w, const struct instrument *of)
{
	struct family *family;

	for (size_t i = 0; i < w->nfamilies; i++)
		if (w->families[i].of == of || same_family(w->families[i].of, of))
			return &w->families[i];
	if (w->nfamilies == FAMILIES_MAX)
		return NULL;
	family = &w->families[w->nfamilies];
	family->of = of;
	name_family(family);
	family->f = open_memstream(&family->text, &family->size);
	if (!family->f)
		return NULL;
	w->nfamilies++;
	return family;
}

/* "{a="b",...}" of the point, without its last brace. The caller frees it; NULL: no memory. */
static char *labels_of(struct writing *w, const struct point *p)
{
	char *text = NULL, numbers[SPAN_ATTRS_MAX][32];
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	labels_cut(&w->labels, w->nlabels);
	for (size_t i = 0; i < p->nattrs && i < SPAN_ATTRS_MAX; i++) {
		const struct attr *a = &p->attrs[i];

		(void)labels_add(&w->labels, str_of(a->key),
				 a->type == ATTR_STR   ? a->s
				 : a->type == ATTR_INT ? number_text(a->i, numbers[i])
						       : str_of(a->i ? "true" : "false"));
	}
	(void)fprintf(f, "{%s", w->common);
	labels_write(&w->labels, f);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static void put_id(FILE *f, const uint8_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)fprintf(f, "%02x", id[i]);
}

/* The last one that lies in (low, high]. */
static void put_exemplar(FILE *f, const struct point *p, double low, double high)
{
	const struct exemplar *best = NULL;

	for (size_t i = 0; i < p->nexemplars; i++) {
		const struct exemplar *e = &p->exemplars[i];

		if (e->value <= high && (e->value > low || (low == 0 && e->value == 0)) &&
		    (!best || e->time_ns > best->time_ns))
			best = e;
	}
	if (!best)
		return;
	(void)fputs(" # {trace_id=\"", f);
	put_id(f, best->trace_id, sizeof(best->trace_id));
	(void)fputs("\",span_id=\"", f);
	put_id(f, best->span_id, sizeof(best->span_id));
	(void)fputs("\"} ", f);
	put_number(f, best->value);
	(void)fprintf(f, " %.3f", (double)best->time_ns / 1e9);
}

static void put_bucket(const struct writing *w, const struct family *to, const char *labels,
		       const struct point *p, double low, double high, uint64_t count)
{
	(void)fprintf(to->f, "%s_bucket%s,le=\"", to->name, labels);
	put_number(to->f, high);
	/* OpenMetrics: le is a float. */
	(void)fprintf(to->f, "%s\"} %" PRIu64,
		      w->openmetrics && high == floor(high) && !isinf(high) ? ".0" : "", count);
	if (w->openmetrics)
		put_exemplar(to->f, p, low, high);
	(void)fputc('\n', to->f);
}

static void put_explicit(const struct writing *w, const struct family *to, const char *labels,
			 const struct point *p)
{
	uint64_t count = 0;

	for (size_t i = 0; i < p->h.nbounds; i++) {
		count += p->h.counts[i];
		put_bucket(w, to, labels, p, i ? p->h.bounds[i - 1] : 0, p->h.bounds[i], count);
	}
	put_bucket(w, to, labels, p, p->h.nbounds ? p->h.bounds[p->h.nbounds - 1] : 0, INFINITY,
		   p->h.count);
}

/* Text has no exponential histograms: it is cut at powers of two, always the same ones, where the
 * buckets of any scale >= 0 end, too. */
static void put_exponential(const struct writing *w, const struct family *to, const char *labels,
			    const struct point *p)
{
	int from = p->of->real ? -10 : 0, last = p->of->real ? 7 : 30;
	uint64_t count = p->h.zeros;
	size_t i = 0;

	for (int e = from; e <= last; e++) {
		/* Bucket i ends at 2^((offset + i + 1) / 2^scale). */
		while (i < p->h.ncounts &&
		       ldexp((double)p->h.offset + (double)i + 1, -p->h.scale) <= e)
			count += p->h.counts[i++];
		put_bucket(w, to, labels, p, e == from ? 0 : ldexp(1, e - 1), ldexp(1, e), count);
	}
	put_bucket(w, to, labels, p, ldexp(1, last), INFINITY, p->h.count);
}

static void put_created(const struct writing *w, const struct family *to, const char *labels,
			const struct point *p)
{
	if (w->openmetrics && p->start_ns)
		(void)fprintf(to->f, "%s_created%s} %.3f\n", to->name, labels,
			      (double)p->start_ns / 1e9);
}

static void put_histogram(const struct writing *w, const struct family *to, const char *labels,
			  const struct point *p)
{
	if (p->h.bounds)
		put_explicit(w, to, labels, p);
	else
		put_exponential(w, to, labels, p);
	if (p->h.has_sum) {
		(void)fprintf(to->f, "%s_sum%s} ", to->name, labels);
		put_number(to->f, p->h.sum);
		(void)fputc('\n', to->f);
	}
	(void)fprintf(to->f, "%s_count%s} %" PRIu64 "\n", to->name, labels, p->h.count);
	put_created(w, to, labels, p);
}

static void point(void *arg, const struct point *p)
{
	struct writing *w = arg;
	const struct family *to = family_of(w, p->of);
	auto_free char *labels = to && w->common ? labels_of(w, p) : NULL;

	if (!labels) {
		w->err = -ENOMEM;
		return;
	}
	if (p->of->kind == INSTRUMENT_HISTOGRAM) {
		put_histogram(w, to, labels, p);
		return;
	}
	(void)fprintf(to->f, "%s%s%s} ", to->name,
		      p->of->kind == INSTRUMENT_COUNTER ? "_total" : "", labels);
	if (p->of->real)
		put_number(to->f, p->d);
	else
		(void)fprintf(to->f, "%" PRId64, p->i);
	(void)fputc('\n', to->f);
	if (p->of->kind == INSTRUMENT_COUNTER)
		put_created(w, to, labels, p);
}

static const struct point_sink sink = { .begin = begin, .point = point };

/* ---- the page ---- */

static const char *kind_word(const struct instrument *of)
{
	return of->kind == INSTRUMENT_COUNTER     ? "counter"
	       : of->kind == INSTRUMENT_HISTOGRAM ? "histogram"
						  : "gauge";
}

static void put_family(FILE *f, struct family *from, bool openmetrics)
{
	bool total = from->of->kind == INSTRUMENT_COUNTER && !openmetrics;

	(void)fprintf(f, "# HELP %s%s %s\n# TYPE %s%s %s\n", from->name, total ? "_total" : "",
		      from->of->help, from->name, total ? "_total" : "", kind_word(from->of));
	(void)fwrite(from->text, 1, from->size, f);
}

static int finish(FILE *f, struct writing *w)
{
	bool written = w->info.f && fclose(w->info.f) == 0;

	if (!written)
		w->err = -ENOMEM;
	for (size_t i = 0; i < w->nfamilies; i++)
		if (fclose(w->families[i].f) != 0)
			w->err = -ENOMEM;
	if (!w->err && w->info.size) {
		(void)fprintf(f, "# HELP target%s Target metadata\n# TYPE target%s %s\n%s",
			      w->openmetrics ? "" : "_info", w->openmetrics ? "" : "_info",
			      w->openmetrics ? "info" : "gauge", w->info.text);
	}
	for (size_t i = 0; i < w->nfamilies; i++) {
		if (!w->err)
			put_family(f, &w->families[i], w->openmetrics);
		free(w->families[i].text);
	}
	if (!w->err && w->openmetrics)
		(void)fputs("# EOF\n", f);
	free(w->info.text);
	free(w->common);
	otlp__resource__free_unpacked(w->resource, NULL);
	return w->err;
}

int prometheus_write(FILE *f, struct metrics *m, const struct config *cfg, bool openmetrics)
{
	auto_free struct writing *w = calloc(1, sizeof(*w));
	struct collecting how = { 0 };
	struct timespec now;

	if (!w)
		return -ENOMEM;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	how.now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	w->cfg = cfg;
	w->openmetrics = openmetrics;
	w->info.f = open_memstream(&w->info.text, &w->info.size);
	if (w->info.f)
		metrics_collect(m, &how, &sink, w);
	return finish(f, w);
}
