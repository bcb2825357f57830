#include "trace/library.h"

#include "base/config.h"
#include "base/log.h"
#include "gobin/gobin.h"
#include "trace/attach.h"
#include "trace/core.h"
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

/* Places of one library at which functions of one process end, most: room that is not taken unless
 * it is used. */
#define EXITS_EACH 256u
#define LOG_BYTES  (256u << 10)

/* Sets a `const volatile` of the object before it is loaded. Libraries that lack it do not mind. */
static void set_constant(struct bpf_object *object, const char *name, uint64_t value)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
	const struct btf *btf = bpf_object__btf(object);
	const struct btf_var_secinfo *var;
	const struct btf_type *section;
	size_t size;
	char *data;
	int id;

	id = map && btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) : -1;
	data = id > 0 ? bpf_map__initial_value(map, &size) : NULL;
	if (!data)
		return;
	section = btf__type_by_id(btf, (uint32_t)id);
	var = btf_var_secinfos(section);
	for (unsigned i = 0; i < btf_vlen(section); i++, var++) {
		const struct btf_type *t = btf__type_by_id(btf, var->type);

		if (strcmp(btf__name_by_offset(btf, t->name_off), name) == 0 &&
		    var->size <= sizeof(value) && var->offset + var->size <= size)
			memcpy(data + var->offset, &value, var->size);
	}
}

/* Shared maps are core's, by name; sizes are the configuration's. */
static int prepare_maps(struct bpf_object *object, const struct core *core,
			const struct config *cfg, uint32_t features)
{
	bool writes = features & FEATURE_WRITE;
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, object)
	{
		const char *name = bpf_map__name(map);
		const struct bpf_map *shared = core_map(core, map);

		if (shared)
			err = bpf_map__reuse_fd(map, bpf_map__fd(shared));
		else if (strcmp(name, "slots") == 0 || strcmp(name, "shares") == 0 ||
			 strcmp(name, "learned") == 0)
			err = bpf_map__set_max_entries(map, cfg->targets_max);
		else if (strcmp(name, "exits") == 0)
			err = bpf_map__set_max_entries(map, cfg->targets_max * EXITS_EACH);
		else if (keyed_is_ops(map) || (strcmp(name, "writes") == 0 && writes))
			err = bpf_map__set_max_entries(map, cfg->operations_max);
		else if (strcmp(name, "write_rooms") == 0 && writes)
			err = bpf_map__set_max_entries(map, WRITE_ROOMS);
		if (err)
			return err;
	}
	return 0;
}

/* A part that may be whole names it, or no part does. */
static bool is_needed(const struct lib *lib, size_t probe, uint32_t features)
{
	bool named = false;

	for (size_t i = 0; i < lib->nparts; i++) {
		if (!(lib->parts[i].probes >> probe & 1))
			continue;
		named = true;
		if (!(lib->parts[i].feature & ~features))
			return true;
	}
	return !named;
}

static bool runs(const struct go_probe *probe, const char *program)
{
	const char *leave = go_probe_leave(probe);

	return (probe->enter && strcmp(probe->enter, program) == 0) ||
	       (leave && strcmp(leave, program) == 0);
}

void library_leave_out(struct bpf_object *object, const struct lib *lib, uint32_t features)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object)
	{
		bool named = false, needed = false;

		for (size_t i = 0; i < lib->nprobes; i++) {
			if (!runs(&lib->probes[i], bpf_program__name(prog)))
				continue;
			named = true;
			needed = needed || is_needed(lib, i, features);
		}
		if (named && !needed)
			(void)bpf_program__set_autoload(prog, false);
	}
}

/* The dispatcher's PROG_ARRAY takes programs of its own kind only. libbpf is asked for its attach
 * type, as the kernel headers of Debian 12 do not name it. */
static void prepare_programs(struct bpf_object *object)
{
	enum bpf_attach_type multi;
	enum bpf_prog_type type;
	struct bpf_program *prog;

	if (libbpf_prog_type_by_name("uprobe.multi", &type, &multi) != 0)
		return; /* the load will fail, and say why */
	bpf_object__for_each_program(prog, object)
	{
		if (bpf_program__type(prog) == type)
			(void)bpf_program__set_expected_attach_type(prog, multi);
	}
}

static int put_program(struct bpf_object *object, const char *name, int progs, size_t idx,
		       uint8_t probe)
{
	uint32_t at = progs_index((uint8_t)idx, probe);
	const struct bpf_program *prog;
	int fd;

	if (!name)
		return 0;
	prog = bpf_object__find_program_by_name(object, name);
	fd = prog ? bpf_program__fd(prog) : -ENOENT;
	if (fd < 0)
		return -ENOENT;
	return bpf_map_update_elem(progs, &at, &fd, BPF_ANY) ? -errno : 0;
}

static int put_programs(struct library *l, int progs, size_t idx, uint32_t features)
{
	int err = 0;

	for (size_t i = 0; i < l->lib->nprobes && !err; i++) {
		const struct go_probe *probe = &l->lib->probes[i];

		if (!is_needed(l->lib, i, features))
			continue;
		err = put_program(l->object, probe->enter, progs, idx, (uint8_t)i);
		if (!err)
			err = put_program(l->object, go_probe_leave(probe), progs, idx,
					  (uint8_t)(i | COOKIE_LEAVE));
	}
	return err;
}

/* Every hash map of a library has keys that begin with the slot. */
static int find_maps(struct library *l, const struct core *core)
{
	struct bpf_map *map;
	int err = 0;

	l->slots = bpf_object__find_map_fd_by_name(l->object, "slots");
	if (l->slots < 0)
		return -ENOENT;
	l->shares = bpf_object__find_map_by_name(l->object, "shares");
	if (l->shares && bpf_map__value_size(l->shares) != SHARE_SIZE)
		return -EINVAL;
	l->exits = bpf_object__find_map_by_name(l->object, "exits");
	if (l->exits && bpf_map__value_size(l->exits) != sizeof(struct go_exit))
		return -EINVAL;
	bpf_object__for_each_map(map, l->object)
	{
		if (!err && !core_map(core, map))
			err = keyed_add(&l->keyed, map);
	}
	return err;
}

/* The verifier says what it disliked in its last lines. */
static void log_verdict(const struct lib *lib, const char *text)
{
	const char *from = text + strlen(text);
	int lines = 0;

	while (from > text && lines < 12)
		if (*--from == '\n')
			lines++;
	for (const char *end; *from; from = *end ? end + 1 : end) {
		end = strchrnul(from, '\n');
		if (end > from)
			log_debug("%s: verifier: %.*s", lib->name, (int)(end - from), from);
	}
}

/* Entries that one process may leave behind for its next operations, see bpf/share.h. */
#define IDLE_MAX 32u
static uint32_t idle_of(const struct config *cfg)
{
	uint32_t each = cfg->operations_max / cfg->targets_max / 4;
	uint32_t share = cfg->operations_max_per_process / 4;

	each = each < share ? each : share;
	return each < IDLE_MAX ? each : IDLE_MAX;
}

static int open_and_load(struct library *l, const struct core *core, const struct config *cfg,
			 uint32_t features, char *verdict)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = l->lib->name,
		    .kernel_log_buf = verdict, .kernel_log_size = LOG_BYTES);
	size_t size;
	const void *bytes = l->lib->object(&size);
	int err;

	l->object = bpf_object__open_mem(bytes, size, &opts);
	if (!l->object)
		return -errno;
	set_constant(l->object, "wake_bytes", cfg->ring_wakeup);
	set_constant(l->object, "share_max", cfg->operations_max_per_process);
	set_constant(l->object, "share_idle", idle_of(cfg));
	set_constant(l->object, "live_max", cfg->operations_max_per_process);
	prepare_programs(l->object);
	library_leave_out(l->object, l->lib, features);
	err = prepare_maps(l->object, core, cfg, features);
	return err ? err : bpf_object__load(l->object);
}

int library_load(struct library *out, const struct lib *lib, size_t idx, const struct core *core,
		 const struct config *cfg, uint32_t features, const char **why)
{
	struct library l = { .lib = lib, .slots = -1 };
	auto_free char *verdict = calloc(1, LOG_BYTES);
	int err = verdict ? open_and_load(&l, core, cfg, features, verdict) : -ENOMEM;

	*why = "the kernel refused its programs";
	if (err && verdict)
		log_verdict(lib, verdict);
	if (!err) {
		*why = "its maps or programs are not as its table says";
		err = find_maps(&l, core);
	}
	if (!err)
		err = put_programs(&l, core->progs, idx, features);
	if (err) {
		library_close(&l);
		return err;
	}
	*out = l;
	return 0;
}

void library_close(struct library *l)
{
	bpf_object__close(l->object);
	*l = (struct library){ .slots = -1 };
}

void library_share_sdk(struct go_sdk *sdk, uint8_t use, uint64_t bias)
{
	if (!(use & SDK_PARENT))
		*sdk = (struct go_sdk){ 0 };
	if (!sdk->span)
		return;
	sdk->span += bias;
	sdk->none += bias;
	sdk->leave = (use & SDK_LEFT) != 0;
}

int library_fill(const struct library *l, uint16_t slot, const struct go_slot *shared,
		 const struct plan_lib *plan)
{
	static const char nothing[SHARE_SIZE];
	struct go_slot entry = *shared;
	uint32_t key = slot;

	if (l->shares && bpf_map_update_elem(bpf_map__fd(l->shares), &key, nothing, BPF_ANY))
		return -errno;

	entry.parts = plan->parts;
	for (size_t i = 0; i < GO_FIELDS_MAX; i++) {
		bool found = i < l->lib->nfields && plan_has_field(plan, i);

		entry.at[i] = found ? (uint16_t)plan->fields[i].offset : GO_ABSENT;
	}
	return bpf_map_update_elem(l->slots, &key, &entry, BPF_ANY) ? -errno : 0;
}

int library_add_exit(const struct library *l, uint16_t slot, uint64_t bias,
		     const struct plan_place *place)
{
	struct op_key key = { .slot = slot, .id = place->addr + bias };
	struct go_exit exit = place->exit;

	if (!l->exits)
		return -ENOENT;
	for (int i = 0; i < GO_RESULTS_MAX; i++)
		if (place->addresses >> i & 1)
			exit.values[i] += (int64_t)bias;
	return bpf_map_update_elem(bpf_map__fd(l->exits), &key, &exit, BPF_ANY) ? -errno : 0;
}

void library_clear(const struct library *l, uint16_t slot)
{
	static const struct go_slot nobody;
	uint32_t key = slot;

	(void)bpf_map_update_elem(l->slots, &key, &nobody, BPF_ANY);
}
