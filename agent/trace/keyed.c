#include "trace/keyed.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define PURGE_KEYS 1024u

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

bool keyed_is_ops(const struct bpf_map *map)
{
	return ends_in(bpf_map__name(map), "_ops");
}

int keyed_add(struct keyed *k, const struct bpf_map *map)
{
	enum bpf_map_type type = bpf_map__type(map);

	if (type != BPF_MAP_TYPE_HASH && type != BPF_MAP_TYPE_LRU_HASH)
		return 0;
	if (k->n == KEYED_MAX || bpf_map__key_size(map) < sizeof(uint32_t) ||
	    bpf_map__value_size(map) < sizeof(uint32_t))
		return -EINVAL;
	k->maps[k->n++] = (struct keyed_map){
		.fd = bpf_map__fd(map),
		.key_size = bpf_map__key_size(map),
		.value_size = bpf_map__value_size(map),
		.operations = keyed_is_ops(map),
	};
	return 0;
}

/* One batch of keys that are to go. */
static void purge_keys(const struct keyed_map *map, const char *keys, const char *values,
		       uint32_t n, const uint8_t *gone, void (*open)(uint16_t slot, void *arg),
		       void *arg)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *key = keys + (size_t)i * map->key_size;
		uint32_t slot, active;

		memcpy(&slot, key, sizeof(slot));
		memcpy(&active, values + (size_t)i * map->value_size, sizeof(active));
		if (slot > UINT16_MAX || !gone[slot] || bpf_map_delete_elem(map->fd, key))
			continue;
		if (map->operations && active)
			open((uint16_t)slot, arg);
	}
}

static void purge_map(const struct keyed_map *map, const uint8_t *gone,
		      void (*open)(uint16_t slot, void *arg), void *arg)
{
	auto_free char *keys = malloc((size_t)PURGE_KEYS * map->key_size);
	auto_free char *values = malloc((size_t)PURGE_KEYS * map->value_size);
	uint32_t at = 0, n;
	bool more = keys && values, first = true;

	/* By buckets, so that other processes' probes, which go on, do not send the walk back to
	 * its start. */
	while (more) {
		uint32_t next = 0;

		n = PURGE_KEYS;
		if (bpf_map_lookup_batch(map->fd, first ? NULL : &at, &next, keys, values, &n,
					 NULL)) {
			if (errno != ENOENT)
				return;
			more = false;
		}
		purge_keys(map, keys, values, n, gone, open, arg);
		at = next;
		first = false;
	}
}

void keyed_purge(const struct keyed *k, const uint8_t *gone, void (*open)(uint16_t slot, void *arg),
		 void *arg)
{
	for (size_t i = 0; i < k->n; i++)
		purge_map(&k->maps[i], gone, open, arg);
}
