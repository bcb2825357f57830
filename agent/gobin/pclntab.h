/* pclntab.h - the function table of a Go program (runtime/symtab.go: pcHeader, functab, _func). */
#pragma once
#include "gobin/exe.h"
#include "gobin/names.h"

/* More functions than any program has: a 707 MB one has 900,000. */
#define PCLNTAB_FUNCS_MAX (8u << 20)

struct pclntab {
	uint64_t addr;
	uint64_t nfunc;
	uint64_t names, names_size; /* the function names, NUL-terminated, back to back */
	uint64_t cutab, filetab, pctab;
	uint64_t functab; /* {u32 entry - text, u32 offset from functab of its _func}, nfunc of them
			     and the end */
	uint64_t text;    /* the header's textStart, 0 since Go 1.26 */
};

/* Reads the header at addr and checks it against itself and the segment, without a look at its
 * magic. 0; -EBADMSG; -E2BIG. */
int pclntab_header(struct exe *e, uint64_t addr, struct pclntab *out) must_check;

/* Called for each function whose name is idx in the set. */
typedef void pclntab_found(void *arg, size_t idx, uint64_t entry, uint64_t end);
/* One pass over the names, one over the functions; text is added to the entries. 0 or -errno. */
int pclntab_find(struct exe *e, const struct pclntab *p, uint64_t text, const struct names *wanted,
		 pclntab_found *found, void *arg) must_check;
/* Calls fn with each name and its offset in the name table, until it returns true. 0 or -errno. */
typedef bool pclntab_name(void *arg, uint64_t at, const char *name, size_t n);
int pclntab_names(struct exe *e, const struct pclntab *p, pclntab_name *fn, void *arg) must_check;
