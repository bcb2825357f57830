/* plan.h - what of one binary will be traced: each library's functions and fields, resolved. Pure,
 * any thread; read only once made. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "trace/lib.h"

struct gobin;
struct gobin_field;
struct gobin_func;

/* What a binary has of one probe. */
enum plan_probe {
	PLAN_PROBE_FOUND,
	PLAN_PROBE_NO_FUNCTION, /* none of its alternatives is in the binary */
	PLAN_PROBE_NO_PLACE,    /* the bytes at its entry are not known to be safe for a probe */
	PLAN_PROBE_NO_END,      /* its RETs could not all be found */
	PLAN_PROBE_NO_RETURN,   /* no place where the call's results are still in their registers */
};

/* What a binary gives to one library; made by plan_make(), read by attach_process() and `spoor
 * inspect`. */
struct plan_lib {
	const struct lib *lib;
	uint32_t parts;             /* bit n: lib->parts[n] is whole */
	uint32_t features;          /* FEATURE_* that are on */
	uint32_t probes;            /* bit n: lib->probes[n] will be attached */
	struct gobin_func *funcs;   /* lib->nprobes; name NULL: not found */
	struct gobin_func *callees; /* the same of their `callees` */
	enum plan_probe *states;    /* lib->nprobes */
	struct gobin_field *fields; /* lib->nfields */
	char version[32];           /* of an SDK's module, "" unknown */
};

/* One place that will be hooked. */
struct plan_place {
	uint64_t offset;    /* in the file */
	uint8_t lib, probe; /* as in the cookie: a leave place has COOKIE_LEAVE */
	uint8_t addresses;  /* bit n: exit.values[n] wants the load bias added */
	uint64_t addr;      /* not 0: the probes are told by `exit` what is where at this address,
			       as linked */
	struct go_exit exit;
	bool trial; /* of a trial probe: it hangs in a link of its own */
};

struct plan {
	uint32_t features;     /* FEATURE_* that were on, and that a whole part of it serves */
	struct plan_lib *libs; /* one for each library, in order of lib_at() */
	size_t nlibs;
	struct plan_place *places; /* in the order in which they are attached: ends before begins */
	size_t nplaces;
	struct go_slot slot; /* what all libraries share: map layout, types of an SDK and read-only
				range without load bias */
};

/* Resolves every library's functions and fields in g; parts of a feature (FEATURE_*) that is not in
 * `features` are off. 0 or -errno. Pure; any thread. */
int plan_make(struct plan **out, struct gobin *g, uint32_t features) must_check;
/* The same for the n libraries given (at most LIBS_MAX). */
int plan_make_for(struct plan **out, struct gobin *g, const struct lib *const *libs, size_t n,
		  uint32_t features) must_check;
void plan_free(struct plan **p);
#define auto_plan __attribute__((cleanup(plan_free)))
/* Whether the probes can read the library's field i in this binary: it was found, and no further
 * into its struct than they read. */
bool plan_has_field(const struct plan_lib *p, size_t i);
/* Whether the library is an SDK of which the binary has neither a module nor a function, as most
 * have none: nothing of it is missing. */
bool plan_sdk_absent(const struct plan_lib *p);
/* Whether the binary has functions of this library that serve requests, and a part that sees them.
 */
enum plan_serves { PLAN_SERVES_NOTHING, PLAN_SERVES_UNSEEN, PLAN_SERVES_SEEN };
enum plan_serves plan_serves(const struct plan_lib *p);
/* Whether a whole part of it asks, see struct go_part. */
bool plan_asks(const struct plan_lib *p);
/* What keeps a part from being whole, one clause: "function net/http.(*conn).serve is not in the
 * binary". Returns buf, "" for a whole part. */
const char *plan_missing(const struct plan_lib *p, size_t part, char *buf, size_t size);
