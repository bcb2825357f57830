#include "runtime/layout.h"
#include "gobin/buildinfo.h"

#include <stdio.h>

static const struct runtime_layout rows[] = {
	{ .from = 19,
	  .to = 19,
	  .lock = 24,
	  .ngsys = 72,
	  .gfree = { 176 },
	  .time_to_run = 312,
	  .delta = 1176,
	  .large = 56,
	  .small = 72,
	  .sys = 3544,
	  .numgc = 7704,
	  .pause_dist = 7744,
	  .goal = 104,
	  .sweep = 112,
	  .triggered = 120,
	  .marked = 184,
	  .free = 320,
	  .allocated = 328,
	  .freed = 336,
	  .mapped = 344,
	  .fixed_headroom = true,
	  .fine = true },
	{ .from = 20,
	  .to = 20,
	  .lock = 24,
	  .ngsys = 72,
	  .gfree = { 184 },
	  .time_to_run = 320,
	  .delta = 1176,
	  .large = 56,
	  .small = 72,
	  .sys = 3544,
	  .numgc = 7704,
	  .pause_dist = 7744,
	  .goal = 48,
	  .sweep = 56,
	  .triggered = 64,
	  .marked = 128,
	  .free = 264,
	  .allocated = 272,
	  .freed = 280,
	  .mapped = 288,
	  .fixed_headroom = true },
	{ .from = 21,
	  .to = 21,
	  .lock = 24,
	  .ngsys = 72,
	  .gfree = { 184 },
	  .time_to_run = 320,
	  .delta = 1176,
	  .large = 56,
	  .small = 72,
	  .sys = 3544,
	  .numgc = 7704,
	  .pause_dist = 7744,
	  .goal = 72,
	  .sweep = 80,
	  .triggered = 88,
	  .marked = 152,
	  .free = 288,
	  .allocated = 296,
	  .freed = 304,
	  .mapped = 312 },
	{ .from = 22,
	  .to = 24,
	  .lock = 24,
	  .ngsys = 72,
	  .gfree = { 184 },
	  .time_to_run = 320,
	  .pauses = 4224,
	  .delta = 1176,
	  .large = 56,
	  .small = 72,
	  .sys = 3544,
	  .numgc = 7704,
	  .goal = 72,
	  .sweep = 80,
	  .triggered = 88,
	  .marked = 152,
	  .free = 288,
	  .allocated = 296,
	  .freed = 304,
	  .mapped = 312 },
	{ .from = 25,
	  .to = 25,
	  .lock = 32,
	  .ngsys = 80,
	  .gfree = { 184, 200 },
	  .time_to_run = 344,
	  .pauses = 4248,
	  .delta = 1168,
	  .large = 48,
	  .small = 64,
	  .sys = 3520,
	  .numgc = 7680,
	  .goal = 72,
	  .sweep = 80,
	  .triggered = 88,
	  .marked = 152,
	  .free = 288,
	  .allocated = 296,
	  .freed = 304,
	  .mapped = 312 },
	{ .from = 26,
	  .to = 27,
	  .lock = 32,
	  .ngsys = 96,
	  .gfree = { 200, 216 },
	  .time_to_run = 360,
	  .pauses = 4264,
	  .delta = 1168,
	  .large = 48,
	  .small = 64,
	  .sys = 3520,
	  .numgc = 7680,
	  .goal = 72,
	  .sweep = 80,
	  .triggered = 88,
	  .marked = 152,
	  .free = 288,
	  .allocated = 296,
	  .freed = 304,
	  .mapped = 312 },
};

const uint16_t layout_class_size[LAYOUT_CLASSES] = {
	0,     8,     16,    24,    32,    48,    64,    80,    96,    112,   128,   144,
	160,   176,   192,   208,   224,   240,   256,   288,   320,   352,   384,   416,
	448,   480,   512,   576,   640,   704,   768,   896,   1024,  1152,  1280,  1408,
	1536,  1792,  2048,  2304,  2688,  3072,  3200,  3456,  4096,  4864,  5376,  6144,
	6528,  6784,  6912,  8192,  9472,  9728,  10240, 10880, 12288, 13568, 14336, 16384,
	18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768
};

/* Experiments that a toolchain was built with can change any of this; those that change only
 * cryptography, or what lies beside the program, cannot. */
static bool known_experiments(const char *version)
{
	static const char *const harmless[] = {
		"boringcrypto", "systemcrypto", "opensslcrypto",         "strictfipsruntime",
		"nodwarf5",     "dwarf5",       "ms_tls_config_schannel"
	};
	const char *at = strstr(version, "X:");

	for (at = at ? at + 2 : ""; *at;) {
		size_t n = strcspn(at, ", ");
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
			known = known || (strlen(harmless[i]) == n && !strncmp(at, harmless[i], n));
		if (!known)
			return false;
		at += n + (at[n] != 0);
	}
	return true;
}

const struct runtime_layout *runtime_layout(const char *go_version)
{
	int minor = buildinfo_minor(go_version);

	/* What is not released yet can still move. */
	if (strncmp(go_version, "devel", 5) == 0 || strstr(go_version, "-devel") ||
	    !known_experiments(go_version))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (minor >= rows[i].from && minor <= rows[i].to)
			return &rows[i];
	return NULL;
}
