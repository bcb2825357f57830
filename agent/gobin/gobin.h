/* gobin.h - reads a Go executable: version, functions, field offsets, places for probes. Bytes in,
 * answers out: no logging, no state between calls, bounded time and memory. Any one thread at a
 * time. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"

struct gobin;

/* Why a file is refused; also the label of spoor_binary_analysis_failures_total and the reason on
 * the status page. */
enum gobin_why {
	GOBIN_OK,
	GOBIN_OPEN, /* could not be read: errno tells */
	GOBIN_NOT_ELF,
	GOBIN_BITS,      /* 32-bit */
	GOBIN_MACHINE,   /* foreign machine or byte order */
	GOBIN_MALFORMED, /* headers contradict each other or the file */
	GOBIN_TRUNCATED,
	GOBIN_NOT_GO,     /* no moduledata, no pclntab */
	GOBIN_GO_VERSION, /* Go before 1.19 */
	GOBIN_TOO_LARGE,  /* a bound of time or memory was reached */
	GOBIN_NO_MEMORY,
	GOBIN_TIMEOUT, /* said by who waits for an analysis, never by gobin_open() */
	GOBIN_WHY_COUNT
};

/* "not_elf": stable, for labels. */
const char *gobin_why_label(enum gobin_why why);
/* One sentence for people: what is wrong and, where there is one, what to do. */
const char *gobin_why_text(enum gobin_why why);

/* Reads through fd (kept and closed by gobin_close(), also when opening fails). 0 or -errno, *why
 * set on failure. */
int gobin_open(struct gobin **out, int fd, enum gobin_why *why) must_check;
void gobin_close(struct gobin **g);
#define auto_gobin __attribute__((cleanup(gobin_close)))

struct gobin_module {
	const char *path, *version; /* version "" where unknown ("(devel)" stays as it is) */
};

struct gobin_info {
	const char *go_version; /* "go1.26.8" as the binary says it, "" unknown */
	const char *main_path;  /* package path of main, "" unknown */
	const struct gobin_module *modules;
	size_t nmodules;
	uint64_t nfuncs;
	uint64_t text, etext; /* virtual addresses in the file */
	uint64_t ro_addr, ro_offset,
		ro_size; /* the read-only segment that holds string literals; size 0: none */
	uint64_t types;  /* where names of types are counted from; 0: not known */
	bool pie;        /* addresses move by a load bias */
	size_t bytes_read, peak_bytes; /* what the analysis cost: pread bytes, memory */
};

const struct gobin_info *gobin_info(const struct gobin *g);

enum gobin_place {
	GOBIN_PLACE_CHECKED, /* behind the stack check, on push or sub */
	GOBIN_PLACE_ENTRY,   /* the function has no stack check: its first instruction */
	GOBIN_PLACE_REFUSED, /* bytes at the entry are not in the recipe table */
};

#define GOBIN_RETS_MAX 64

struct gobin_func {
	const char *name;      /* the alternative that matched; NULL: none did */
	uint64_t entry, end;   /* virtual addresses */
	uint64_t enter;        /* where an enter probe goes: virtual address */
	uint64_t enter_offset; /* the same as file offset, what uprobes want */
	enum gobin_place place;
	bool emulated; /* the kernel emulates the instruction there (push): one trap instead of two
			*/
};

/* One pass over the function table. names[i] is a NULL-terminated list of alternatives; out[i] the
 * first that exists. 0 or -errno. */
int gobin_funcs(struct gobin *g, const char *const *const *names, size_t n,
		struct gobin_func *out) must_check;
/* File offsets of the RETs of f, at most GOBIN_RETS_MAX; -ENOTSUP: an instruction could not be
 * decoded; -E2BIG. */
int gobin_rets(struct gobin *g, const struct gobin_func *f, uint64_t *offsets,
	       size_t *n) must_check;
/* File offsets of the places in f where a call of `callee` has returned and its results are still
 * in their registers, see insn_returned(); at most GOBIN_RETS_MAX. The kernel emulates the
 * instruction of each. 0; -ENOTSUP; -E2BIG. */
int gobin_returned(struct gobin *g, const struct gobin_func *f, const struct gobin_func *callee,
		   uint32_t results, uint64_t *offsets, size_t *n) must_check;

/* A place where a function ends. */
struct gobin_exit {
	uint64_t offset; /* in the file */
	uint64_t addr;   /* as linked */
	bool ret;        /* a RET: results are where Go's calling convention has them */
	bool constant_is_address[GO_RESULTS_MAX]; /* the load bias is to be added */
	struct go_exit exit;
};

/* Functions of the runtime that change no register though they are called; for gobin_exits(). */
#define GOBIN_BARRIERS 16
extern const char *const *const gobin_barriers[GOBIN_BARRIERS];

/* Where f ends, at instructions that the kernel emulates as far as there are such, at RETs else; at
 * most GOBIN_RETS_MAX. want: words of results that are to be known there. barriers: what
 * gobin_funcs() has found of gobin_barriers. 0; -ENOTSUP; -E2BIG. */
int gobin_exits(struct gobin *g, const struct gobin_func *f, size_t want,
		const struct gobin_func *barriers, struct gobin_exit *out, size_t *n) must_check;

/* What one instruction says of a fixed address: that of a variable, or what it calls. */
struct gobin_ref {
	uint64_t addr; /* as linked; 0: a call through a register */
	enum gobin_ref_kind {
		GOBIN_REF_ADDRESS, /* it takes the address */
		GOBIN_REF_READ,
		GOBIN_REF_WRITE, /* reads, perhaps, and writes */
		GOBIN_REF_CALL,
	} kind;
	uint8_t size; /* bytes read or written */
};

/* The first `max` references of f, in the order of its code. 0; -ENOTSUP: an instruction could not
 * be decoded, or not for this machine; -E2BIG. */
int gobin_refs(struct gobin *g, const struct gobin_func *f, struct gobin_ref *out, size_t max,
	       size_t *n) must_check;

enum gobin_source { GOBIN_NOWHERE, GOBIN_TYPES, GOBIN_DWARF, GOBIN_TABLE };
const char *gobin_source_text(
	enum gobin_source s); /* "type metadata", "DWARF", "built-in table", "not found" */

struct gobin_field {
	uint32_t offset; /* byte offset in the struct, or the type's size for field "" */
	enum gobin_source source;
	uint8_t alternative; /* which of the type's alternatives it belongs to, from 0 */
};

/* type: "net/http.Request", alternatives separated by '|'; field "Method", "" the type's size.
 * out[i].source GOBIN_NOWHERE where missing. 0 or -errno. */
struct gobin_want {
	const char *type, *field;
};
int gobin_fields(struct gobin *g, const struct gobin_want *want, size_t n,
		 struct gobin_field *out) must_check;

/* Addresses in the file of the descriptors by which the program itself knows the types: what the
 * first word of an interface value points to. "net/http.Request", "*net/http.Request". 0: the
 * program has none. 0 or -errno. */
int gobin_types(struct gobin *g, const char *const *types, size_t n, uint64_t *addr) must_check;

/* Layout of map[string][]string, for struct go_slot; kind is GO_MAP_*. */
struct gobin_map {
	uint8_t kind;
	uint16_t group, key, key_stride, elem, elem_stride;
};
int gobin_header_map(struct gobin *g, struct gobin_map *out) must_check;
