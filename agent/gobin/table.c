#include "gobin/table.h"

/* Only what programs may lack a descriptor of, what does not depend on the version (Go 1.19
 * to 1.27), and what the runtime's own assembly or compiler relies on, so that it will not move
 * silently. */
static const struct {
	const char *type, *field;
	uint32_t offset;
} rows[] = {
	/* src/runtime/runtime2.go, since Go 1.22 src/internal/abi/iface.go;
	   cmd/compile/internal/reflectdata writes it. */
	{ "runtime.itab", "inter", 0 },
	{ "runtime.itab", "_type", 8 },
	{ "internal/abi.ITab", "Inter", 0 },
	{ "internal/abi.ITab", "Type", 8 },
};

bool table_field(struct str type, struct str field, uint32_t *offset)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(type, rows[i].type) && str_eq(field, rows[i].field)) {
			*offset = rows[i].offset;
			return true;
		}
	return false;
}
