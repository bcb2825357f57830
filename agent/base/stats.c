#include "base/stats.h"

#include "base/base.h"

#include <math.h>

_Atomic uint64_t stats[STAT_COUNT];

struct row {
	enum stat_kind kind;
	const char *family, *labels, *help;
};

#define X(id, k, f, l, h) { k, "spoor_" f, l, h },
static const struct row rows[STAT_COUNT] = { STATS(X) };
#undef X

struct histogram_row {
	const char *family, *labels, *help;
	double bounds[HISTOGRAM_BOUNDS]; /* ends with 0 */
};

#define X(id, f, l, h, ...) { "spoor_" f, l, h, { __VA_ARGS__ } },
static const struct histogram_row histograms[HISTOGRAM_COUNT] = { HISTOGRAMS(X) };
#undef X

#define X(id, f, l, h, ...)                                                                        \
	_Static_assert(ARRAY_SIZE(((double[]){ __VA_ARGS__ })) < HISTOGRAM_BOUNDS,                 \
		       "too many bounds");
HISTOGRAMS(X)
#undef X

static struct {
	_Atomic uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* not cumulated; the last is +Inf */
	_Atomic uint64_t sum_ns;
} observed[HISTOGRAM_COUNT];

static struct {
	void (*collect)(struct stats_page *, void *);
	void *arg;
} collectors[8];
static size_t ncollectors;

struct sample {
	const char *family, *help;
	char *labels; /* without braces, owned */
	enum stat_kind kind;
	size_t order; /* of its family */
	double value;
};

struct stats_page {
	struct sample *samples;
	size_t n, room;
	bool failed; /* out of memory */
};

void stats_observe(enum stat_histogram id, uint64_t ns)
{
	const double *bounds = histograms[id].bounds;
	double s = (double)ns / 1e9;
	size_t i = 0;

	while (bounds[i] > 0 && s > bounds[i])
		i++;
	atomic_fetch_add_explicit(&observed[id].counts[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&observed[id].sum_ns, ns, memory_order_relaxed);
}

void stats_collector(void (*collect)(struct stats_page *, void *), void *arg)
{
	if (ncollectors < ARRAY_SIZE(collectors)) {
		collectors[ncollectors].collect = collect;
		collectors[ncollectors++].arg = arg;
	}
}

void stats_no_collectors(void)
{
	ncollectors = 0;
}

/* Quotes end a label's value; in a help text they are plain (but not in OpenMetrics). */
static void put_escaped(FILE *f, const char *text, bool quotes)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '\n' || (quotes && *text == '"'))
			(void)fputc('\\', f);
		(void)fputc(*text == '\n' ? 'n' : *text, f);
	}
}

static char *labels_text(const char *const *labels)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return NULL;
	for (size_t i = 0; labels && labels[i]; i += 2) {
		(void)fprintf(f, "%s%s=\"", i ? "," : "", labels[i]);
		put_escaped(f, labels[i + 1] ? labels[i + 1] : "", true);
		(void)fputc('"', f);
		if (!labels[i + 1])
			break;
	}
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Takes labels over. */
static void page_add(struct stats_page *page, struct sample s)
{
	struct sample *more = page->samples;

	if (s.labels && page->n == page->room) {
		more = realloc(page->samples, (page->room + 128) * sizeof(*more));
		if (more) {
			page->samples = more;
			page->room += 128;
		}
	}
	if (!more || !s.labels) {
		free(s.labels);
		page->failed = true;
		return;
	}
	s.order = page->n;
	for (size_t i = 0; i < page->n; i++)
		if (strcmp(page->samples[i].family, s.family) == 0) {
			s.order = page->samples[i].order;
			break;
		}
	page->samples[page->n++] = s;
}

void stats_sample(struct stats_page *page, enum stat_kind kind, const char *family,
		  const char *const *labels, const char *help, double value)
{
	page_add(page, (struct sample){ .family = family,
					.help = help,
					.labels = labels_text(labels),
					.kind = kind,
					.value = value });
}

static void put_head(FILE *f, const char *family, const char *kind, const char *help,
		     bool openmetrics)
{
	size_t n = strlen(family), tail = strlen("_total");

	if (openmetrics && strcmp(kind, "counter") == 0 && n > tail &&
	    strcmp(family + n - tail, "_total") == 0)
		n -= tail;
	(void)fprintf(f, "# HELP %.*s ", (int)n, family);
	put_escaped(f, help, openmetrics);
	(void)fprintf(f, "\n# TYPE %.*s %s\n", (int)n, family, kind);
}

static void put_value(FILE *f, double value)
{
	if (value == trunc(value) && fabs(value) < 1e15)
		(void)fprintf(f, " %.0f\n", value);
	else
		(void)fprintf(f, " %.15g\n", value);
}

static void put_samples(FILE *f, const struct stats_page *page, bool openmetrics)
{
	static const char *const kinds[] = { [GAUGE] = "gauge", [COUNTER] = "counter" };

	for (size_t first = 0; first < page->n; first++) {
		const struct sample *head = &page->samples[first];

		if (head->order != first)
			continue;
		put_head(f, head->family, kinds[head->kind], head->help, openmetrics);
		for (size_t i = first; i < page->n; i++) {
			const struct sample *s = &page->samples[i];

			if (s->order != first)
				continue;
			(void)fputs(s->family, f);
			if (*s->labels)
				(void)fprintf(f, "{%s}", s->labels);
			put_value(f, s->value);
		}
	}
}

static void put_histogram(FILE *f, enum stat_histogram id, bool openmetrics)
{
	const struct histogram_row *h = &histograms[id];
	const char *comma = *h->labels ? "," : "", *open = *h->labels ? "{" : "",
		   *close = *h->labels ? "}" : "";
	uint64_t sum = 0;

	if (id == 0 || strcmp(histograms[id - 1].family, h->family) != 0)
		put_head(f, h->family, "histogram", h->help, openmetrics);
	for (size_t i = 0;; i++) {
		sum += atomic_load_explicit(&observed[id].counts[i], memory_order_relaxed);
		if (!(h->bounds[i] > 0))
			break;
		(void)fprintf(f, "%s_bucket{%s%sle=\"%g%s\"} %llu\n", h->family, h->labels, comma,
			      h->bounds[i],
			      h->bounds[i] == trunc(h->bounds[i]) && openmetrics ? ".0" : "",
			      (unsigned long long)sum);
	}
	(void)fprintf(f, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", h->family, h->labels, comma,
		      (unsigned long long)sum);
	(void)fprintf(f, "%s_sum%s%s%s", h->family, open, h->labels, close);
	put_value(f,
		  (double)atomic_load_explicit(&observed[id].sum_ns, memory_order_relaxed) / 1e9);
	(void)fprintf(f, "%s_count%s%s%s %llu\n", h->family, open, h->labels, close,
		      (unsigned long long)sum);
}

int stats_write(FILE *f, bool openmetrics)
{
	struct stats_page page = { 0 };

	for (size_t i = 0; i < ncollectors; i++)
		collectors[i].collect(&page, collectors[i].arg);
	for (size_t i = 0; i < STAT_COUNT; i++)
		page_add(&page, (struct sample){ .family = rows[i].family,
						 .help = rows[i].help,
						 .labels = strdup(rows[i].labels),
						 .kind = rows[i].kind,
						 .value = (double)atomic_load_explicit(
							 &stats[i], memory_order_relaxed) });
	put_samples(f, &page, openmetrics);
	for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
		put_histogram(f, (enum stat_histogram)i, openmetrics);
	if (openmetrics)
		(void)fputs("# EOF\n", f);
	for (size_t i = 0; i < page.n; i++)
		free(page.samples[i].labels);
	free(page.samples);
	return page.failed || ferror(f) ? -ENOMEM : 0;
}
