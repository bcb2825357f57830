/* gotype.h - Go's own type metadata (internal/abi/type.go): field offsets that are right for
 * exactly this binary. */
#pragma once
#include "gobin/exe.h"
#include "gobin/moduledata.h"

enum gotype_kind {
	GOTYPE_ARRAY = 17,
	GOTYPE_INTERFACE = 20,
	GOTYPE_MAP = 21,
	GOTYPE_PTR = 22,
	GOTYPE_SLICE = 23,
	GOTYPE_STRING = 24,
	GOTYPE_STRUCT = 25
};

struct gotypes {
	struct exe *exe;
	uint64_t types, etypes; /* 0: there is none that we understand */
	uint64_t links,
		nlinks;        /* i32 offsets from types, sorted by type string; 0 since Go 1.27: */
	uint64_t row, row_end; /* there the same descriptors stand back to back */
	uint32_t map_size;     /* of a map's descriptor, 0: not known yet */
	uint64_t rodata;       /* the word behind, start of the read-only data */
};

struct gotype {
	uint64_t addr;
	uint64_t size;
	uint8_t tflag, kind;
	uint32_t str; /* offset of its name from types */
};

struct gotype_field {
	char name[128]; /* "" when longer */
	uint64_t type;
	uint64_t offset;
};

/* Finds the type section through the words of moduledata, whatever the layout. 0 or -ENOENT. */
int gotypes_find(struct gotypes *out, struct exe *e, const struct moduledata *m) must_check;
/* Reads and checks the descriptor at addr. */
bool gotype_read(const struct gotypes *ts, uint64_t addr, struct gotype *out);
/* Bytes of the descriptor at t with all that follows it; 0: it makes no sense. */
uint64_t gotype_extent(const struct gotypes *ts, const struct gotype *t);
/* Its string ("http.Request"), cut at cap - 1; the full length is returned. */
size_t gotype_string(const struct gotypes *ts, const struct gotype *t, char *buf, size_t cap);
/* True: t is the named type `name` of the package with that import path. */
bool gotype_is(const struct gotypes *ts, const struct gotype *t, struct str package,
	       struct str name);
/* The struct's idx-th field. 0, -ENOENT behind the last, -EBADMSG. */
int gotype_field(const struct gotypes *ts, const struct gotype *t, size_t idx,
		 struct gotype_field *out) must_check;
/* True: the fields lie one behind the other and fill the struct. They do not in Go <= 1.18, which
 * shifts the offsets. */
bool gotype_sound(const struct gotypes *ts, const struct gotype *t);

struct gotype_want {
	struct str package, name; /* "net/http", "Request" */
	uint64_t found;           /* address of its descriptor, 0: none */
	uint64_t pointer;         /* of the descriptor of the pointer to it */
};

/* Looks the types up. 0 or -errno (a type that is not there is no error). */
int gotypes_lookup(struct gotypes *ts, struct gotype_want *want, size_t n) must_check;
/* The unnamed type with exactly this string ("map[string][]string"), or 0. */
uint64_t gotypes_unnamed(struct gotypes *ts, const char *string);
/* Splits "net/http.Request" at the last '.' outside of brackets. False: there is none. */
bool gotype_split(struct str full, struct str *package, struct str *name);
