#include "gobin/gomap.h"
#include "bpf/event.h"

/* Of runtime's map descriptors: key and element follow the common head, then the bucket (old) or
 * group (swiss). */
#define AT_KEY   48
#define AT_ELEM  56
#define AT_GROUP 64
#define SLOTS    8

static bool pointer_to(const struct gotypes *ts, uint64_t at, uint8_t kind, struct gotype *out)
{
	return gotype_read(ts, exe_ptr(ts->exe, at), out) && out->kind == kind;
}

static bool is_header_map(const struct gotypes *ts, uint64_t addr, struct gotype *group)
{
	struct gotype map, key, elem;

	return addr && gotype_read(ts, addr, &map) && map.kind == GOTYPE_MAP &&
	       pointer_to(ts, map.addr + AT_KEY, GOTYPE_STRING, &key) &&
	       pointer_to(ts, map.addr + AT_ELEM, GOTYPE_SLICE, &elem) &&
	       pointer_to(ts, elem.addr + 48, GOTYPE_STRING, &key) &&
	       pointer_to(ts, map.addr + AT_GROUP, GOTYPE_STRUCT, group);
}

/* The type of a field that is an array of eight: its element, and where in the group it begins. */
static bool array_field(const struct gotypes *ts, const struct gotype *group, const char *name,
			struct gotype *elem, uint64_t *offset)
{
	struct gotype_field f;
	struct gotype array;

	for (size_t i = 0; gotype_field(ts, group, i, &f) == 0; i++) {
		if (strcmp(f.name, name) != 0)
			continue;
		*offset = f.offset;
		return gotype_read(ts, f.type, &array) && array.kind == GOTYPE_ARRAY &&
		       exe_u64(ts->exe, array.addr + 64) == SLOTS &&
		       gotype_read(ts, exe_ptr(ts->exe, array.addr + 48), elem) &&
		       elem->size * SLOTS == array.size && f.offset + array.size <= group->size;
	}
	return false;
}

/* Keys and elements in arrays of their own: old maps, and swiss ones with the experiment
 * mapsplitgroup. */
static bool split(const struct gotypes *ts, const struct gotype *group, struct gobin_map *m)
{
	struct gotype key, elem;
	uint64_t keys = 0, elems = 0;

	if (!array_field(ts, group, "keys", &key, &keys) ||
	    !array_field(ts, group, "elems", &elem, &elems))
		return false;
	m->key = (uint16_t)keys;
	m->key_stride = (uint16_t)key.size;
	m->elem = (uint16_t)elems;
	m->elem_stride = (uint16_t)elem.size;
	return true;
}

static bool slots(const struct gotypes *ts, const struct gotype *group, struct gobin_map *m)
{
	struct gotype_field key, elem;
	struct gotype slot;
	uint64_t at = 0;

	if (!array_field(ts, group, "slots", &slot, &at) || gotype_field(ts, &slot, 0, &key) != 0 ||
	    gotype_field(ts, &slot, 1, &elem) != 0 || strcmp(key.name, "key") != 0 ||
	    strcmp(elem.name, "elem") != 0)
		return false;
	m->key = (uint16_t)(at + key.offset);
	m->elem = (uint16_t)(at + elem.offset);
	m->key_stride = m->elem_stride = (uint16_t)slot.size;
	return true;
}

static int layout(const struct gotypes *ts, const struct gotype *group, struct gobin_map *out)
{
	struct gobin_map m = { 0 };
	struct gotype_field first;

	if (group->size > 4096 || gotype_field(ts, group, 0, &first) != 0 || first.offset != 0)
		return -ENOENT;
	m.group = (uint16_t)group->size;
	if (strcmp(first.name, "topbits") == 0) {
		m.kind = GO_MAP_OLD;
		if (!split(ts, group, &m))
			return -ENOENT;
	} else if (strcmp(first.name, "ctrl") == 0) {
		m.kind = GO_MAP_SWISS;
		if (!slots(ts, group, &m) && !split(ts, group, &m))
			return -ENOENT;
	} else {
		return -ENOENT;
	}
	*out = m;
	return 0;
}

int gomap_headers(struct gotypes *ts, struct gobin_map *out)
{
	struct gotype_want want[] = {
		{ { "net/http", 8 }, { "Header", 6 }, 0, 0 },
		{ { "net/textproto", 13 }, { "MIMEHeader", 10 }, 0, 0 },
		{ { "net/url", 7 }, { "Values", 6 }, 0, 0 },
		{ { "net/http", 8 }, { "Request", 7 }, 0, 0 },
	};
	uint64_t candidates[ARRAY_SIZE(want) + 1];
	struct gotype group, request;
	struct gotype_field f;
	int err = gotypes_lookup(ts, want, ARRAY_SIZE(want));

	if (err)
		return err;
	candidates[0] = gotypes_unnamed(ts, "map[string][]string");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		candidates[i + 1] = want[i].found;
	if (candidates[4] && gotype_read(ts, candidates[4], &request)) {
		candidates[4] = 0;
		for (size_t i = 0; gotype_field(ts, &request, i, &f) == 0; i++)
			if (strcmp(f.name, "Header") == 0)
				candidates[4] = f.type;
	}
	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		if (is_header_map(ts, candidates[i], &group) && layout(ts, &group, out) == 0)
			return 0;
	return ts->exe->err ? ts->exe->err : -ENOENT;
}
