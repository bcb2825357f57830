/* lib.h - the module interface: what a traced Go library tells the agent about itself. A library is
 * one folder in bpf/libs/; dropping it in is all that is needed. Tables are constant; decode() runs
 * on the events thread. */
#pragma once
#include "base/arena.h"
#include "base/base.h"
#include "bpf/event.h"
#include "metrics/point.h"

struct gobin_field;
struct literals;
struct privacy;

/* A NULL-terminated list of names. */
#define SYMBOLS(...)                                                                               \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* One Go function that is hooked. */
struct go_probe {
	const char *name;           /* stable, short: status page, inspect */
	const char *const *symbols; /* alternatives as pclntab spells them, NULL-terminated; first
				       match wins */
	const char *enter;          /* BPF program run behind its stack check, or NULL */
	const char *leave; /* BPF program run where it ends, or NULL. At each of its RETs, which
			      cost five enter hits; or, with results, see there */
	uint8_t results;   /* words of the results that the leave program takes by
			      bpf/go_exit.bpf.h: it is run at places that cost as little as an
			      enter, wherever on the way to a RET there is one at which these
			      results are known. Only for a function whose deferred functions do
			      not change them; at most GO_RESULTS_MAX */
	/* Instead of leave: BPF program run in it, once a call of one of `callees` (the first that
	 * is in the binary) has returned, with the results that `kept` names still in their
	 * registers (GO_RESULT(n) | ...), on an instruction that the kernel emulates. */
	const char *returned;
	const char *const *callees;
	uint32_t kept;
	/* Its hits are given up in a process where decode() finds that they tell nothing new
	 * (span.trial), and tried again where they might. */
	bool trial;
};

/* Result n of a Go function, from 1, as the argument registers are counted. */
#define GO_RESULT(n) (1u << ((n)-1))

/* The program at the probe's places other than the enter place, or NULL. */
static inline const char *go_probe_leave(const struct go_probe *p)
{
	return p->leave ? p->leave : p->returned;
}

/* One Go struct field that is read. */
struct go_field {
	const char *type;  /* "net/http.Request"; alternatives separated by '|', first that exists
			      wins */
	const char *field; /* "Method"; empty: the size of the type */
};

/* What the agent can be asked for that costs hits: a part may exist for one of them alone, and its
 * probes are attached only where the feature is on. */
#define FEATURE_PROPAGATION 0x01 /* outbound trace context: agent/propagate/ */
#define FEATURE_WRITE                                                                              \
	0x02 /* the same, by bpf_probe_write_user(): programs that only parts with this feature    \
	      * name are not even loaded where it is off, as the kernel would refuse them          \
	      */

/* What a library can do in a binary, whole or not at all: if one of its probes or fields is
 * missing, the part is off, and the reason and `lost` are reported. A probe is attached when one
 * part that names it is whole; go_slot.parts tells the probes which parts are. */
struct go_part {
	const char *name; /* "server http/1" */
	uint32_t probes;  /* bit n: probes[n] */
	uint64_t fields;  /* bit n: fields[n] */
	const char *lost; /* what the user does not get without it, one clause */
	uint32_t feature; /* FEATURE_*: off as long as that is; 0: always tried */
	bool serves;      /* it sees requests that the program gets, with the ids they come with */
	bool asks;        /* it looks at what others serve: for a parent, or to take their place */
};

/* What decode() may use beside the event. All of it is the caller's and lives as long as the batch.
 */
struct decode {
	struct arena *arena;       /* of the batch */
	struct literals *literals; /* read-only strings of the traced file, see trace/literals.h */
	const struct privacy
		*privacy; /* redaction and filters from the configuration, base/config.h */
	const struct str *probe_paths; /* HTTP paths of the pod's own liveness, readiness and
					  startup probes */
	size_t nprobe_paths;
};

/* What is measured of the operations of a library: one instrument, fed by every span of that kind,
 * sampled or not. */
struct lib_metric {
	struct instrument is; /* a histogram: its bounds are below; or a counter */
	enum span_kind of;    /* spans of this kind */
	const char *value; /* the integer attribute that is measured, absent: not this time; NULL:
			      the duration in seconds */
	/* Attributes of the span that are the series', NULL-terminated: those that the semantic
	 * conventions require, or recommend, for this metric. */
	const char *const *attrs;
	const double *bounds; /* of the buckets, as the conventions advise */
	size_t nbounds;
};

/* A variable in the environment of a process by which it keeps the SDK from sending spans. */
struct lib_sdk_off {
	const char *variable, *value; /* letters' case does not matter */
	uint32_t parts;               /* ... if these parts are whole: what heeds it */
};

/* A library that is a tracing SDK. Its probes find out which operations the program sends spans of
 * itself; it sends no records. */
struct lib_sdk {
	const char *name; /* as people call it: "OpenTelemetry" */
	const char
		*note; /* what "sdk: auto" means beside it; NULL: its operations are left to it */
	const char *const *modules;    /* where it comes from, NULL-terminated */
	const struct lib_sdk_off *off; /* ends with variable NULL */
	const char *const *types;      /* whose addresses spans() wants, NULL-terminated; or NULL */
	/* What all probes must know to find its spans in contexts; fields as in the lib's table.
	 * Leaves out alone where that cannot be told. NULL: they are not looked for. */
	void (*spans)(const struct gobin_field *fields, const uint64_t *types, struct go_sdk *out);
};
#define LIB_SDK_TYPES_MAX 4

struct lib {
	const char *name;  /* its folder: config key, log field, metric label */
	const char *scope; /* instrumentation scope of its spans, "spoor/net/http" */
	const struct go_probe
		*probes; /* begins before ends: they are attached from the last to the first */
	size_t nprobes;  /* <= LIB_PROBES_MAX */
	const struct go_field *fields;
	size_t nfields; /* <= GO_FIELDS_MAX; GO_RUNTIME_FIELDS first */
	uint64_t alone; /* bit n: fields[n] is read by itself and not in a copy of its struct, so
			   that it may lie beyond GO_STRUCT_MAX */
	const struct go_part *parts;
	size_t nparts;
	size_t event_size; /* shortest event that decode() may be given */
	const struct lib_metric *metrics;
	size_t nmetrics;
	bool at_start; /* nearly every program has it: its object is loaded at start, not on first
			  use */
	const struct lib_sdk *sdk;           /* NULL: it is none */
	const void *(*object)(size_t *size); /* its compiled BPF object; NULL: an SDK that is only
						told of */
	/* ev is 8-aligned, ev->size bytes long and lies in the batch's arena: strings may point
	 * into it. span comes with what the head says (times, ids, flags, lib) and room for
	 * SPAN_ATTRS_MAX in attrs; decode() fills in the rest. 0; -EBADMSG: a length or tag is
	 * wrong; -ENOSPC: the arena is full. Pure: never logs, no state. NULL: it sends no records.
	 */
	int (*decode)(const struct event *ev, const struct decode *with, struct span *span);
};

#define LIB_REGISTER(l)                                                                            \
	static const struct lib *const l##_entry __attribute__((used, retain, section("libs"))) =  \
		&(l)

/* Defines `const void *NAME_object(size_t *)` over NAME.bpf.o, which the build has made. */
#define LIB_OBJECT(name)                                                                           \
	__asm__(".pushsection .rodata\n.balign 16\n" #name "_object_begin:\n.incbin \"" #name      \
		".bpf.o\"\n" #name "_object_end:\n.popsection\n");                                 \
	extern const char name##_object_begin[] __attribute__((visibility("hidden")));             \
	extern const char name##_object_end[] __attribute__((visibility("hidden")));               \
	static const void *name##_object(size_t *size)                                             \
	{                                                                                          \
		*size = (size_t)(name##_object_end - name##_object_begin);                         \
		return name##_object_begin;                                                        \
	}

/* Weak: a build without any library still links. */
extern const struct lib *const __start_libs[] __attribute__((weak));
extern const struct lib *const __stop_libs[] __attribute__((weak));

#define lib_foreach(it) for (const struct lib *const *it = __start_libs; it < __stop_libs; it++)

static inline size_t lib_count(void)
{
	return (size_t)(__stop_libs - __start_libs);
}

/* The library with that index (cookie.lib), or NULL. */
static inline const struct lib *lib_at(size_t idx)
{
	return idx < lib_count() ? __start_libs[idx] : NULL;
}
