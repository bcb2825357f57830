#include "discover/sdk.h"

#include "base/config.h"
#include "discover/proc.h"
#include "trace/lib.h"
#include "trace/plan.h"

#include <stdio.h>
#include <strings.h>

/* The variable by which this process keeps the SDK silent, or NULL. */
static const struct lib_sdk_off *turned_off(const struct config *cfg, const struct plan_lib *l,
					    int pid)
{
	for (const struct lib_sdk_off *off = l->lib->sdk->off; off && off->variable; off++) {
		auto_free char *value = NULL;

		if ((l->parts & off->parts) == off->parts &&
		    proc_getenv(cfg->proc_root, pid, off->variable, &value) == 0 &&
		    strcasecmp(value, off->value) == 0)
			return off;
	}
	return NULL;
}

static void say(struct sdk_verdict *out, const struct plan_lib *l, const char *fmt, const char *a,
		const char *b)
{
	int n = snprintf(out->text, sizeof(out->text), "%s%s%s: ", l->lib->sdk->name,
			 l->version[0] ? " " : "", l->version);

	if (n > 0 && (size_t)n < sizeof(out->text))
		(void)snprintf(out->text + n, sizeof(out->text) - (size_t)n, fmt, a, b);
}

/* That it is in the binary says little: many programs link one and never turn it on. So by default
 * nothing is decided here, and each operation is looked at when it happens. */
static void judge(struct sdk_verdict *out, const struct config *cfg, const struct plan_lib *l,
		  int pid)
{
	const struct lib_sdk_off *off = turned_off(cfg, l, pid);

	out->found = true;
	if (off) {
		say(out, l, "turned off by %s=%s, traced as without it", off->variable, off->value);
	} else if (strcmp(cfg->sdk, "never") == 0) {
		out->refused = true;
		say(out, l, "programs with an SDK are not traced (sdk: never)", NULL, NULL);
	} else if (strcmp(cfg->sdk, "always") == 0) {
		out->use |= SDK_PARENT;
		say(out, l, "all is traced, whatever it sends itself (sdk: always)", NULL, NULL);
	} else {
		out->use |= SDK_PARENT | SDK_LEFT;
		say(out, l,
		    l->lib->sdk->note ? l->lib->sdk->note
				      : "operations of which it sends spans itself are left to it, "
					"all others "
					"are traced (sdk: auto)",
		    NULL, NULL);
	}
}

void sdk_judge(struct sdk_verdict *out, const struct config *cfg, const struct plan *plan, int pid)
{
	struct sdk_verdict one;

	*out = (struct sdk_verdict){ 0 };
	for (size_t i = 0; i < plan->nlibs; i++) {
		if (!plan->libs[i].lib->sdk || !plan->libs[i].parts)
			continue;
		one = (struct sdk_verdict){ 0 };
		judge(&one, cfg, &plan->libs[i], pid);
		/* Of several the one that changes most is told. */
		if (!out->found || one.refused || (one.use && !out->use))
			memcpy(out->text, one.text, sizeof(out->text));
		out->found = true;
		out->refused |= one.refused;
		out->use |= one.use;
	}
}
