#include "gobin/buildinfo.h"

/* "\xff Go buildinf:" at a 16-aligned address, pointer size, flags; debug/buildinfo/buildinfo.go.
 */
static const uint8_t magic[] = { 0xff, ' ', 'G', 'o', ' ', 'b', 'u',
				 'i',  'l', 'd', 'i', 'n', 'f', ':' };

#define HEAD        32u
#define FLAG_INLINE 2u /* strings follow; before Go 1.18 pointers to strings */
#define CHUNK       65536u
#define VERSION_MAX 256u
#define MODINFO_MAX (1u << 20)
#define MODULES_MAX 8192u
#define SENTINEL                                                                                   \
	((size_t)16) /* bytes of noise at both ends of the module lines                            \
		      * (cmd/go/internal/modload/build.go)                                         \
		      */
#define SCAN_MAX (64u << 20)

typedef uint64_t match(struct exe *e, uint64_t addr, const uint8_t *at, size_t left);

/* An address, a multiple of align, in a writable segment that fn says yes to; 0: none. From the end
 * to the begin: in a PIE megabytes of relocated read-only data stand before what we look for. */
static uint64_t scan(struct exe *e, size_t align, size_t need, match *fn)
{
	auto_free uint8_t *buf = malloc(CHUNK + HEAD);
	uint64_t all = 0;

	for (size_t i = e->nsegments; buf && i > 0; i--) {
		const struct exe_segment *s = &e->segments[i - 1];
		uint64_t skip = -s->addr & (align - 1);
		uint64_t chunks = s->filesz > skip ? (s->filesz - skip + CHUNK - 1) / CHUNK : 0;

		if (!(s->allows & EXE_WRITE))
			continue;
		while (chunks-- && all < SCAN_MAX) {
			uint64_t at = skip + chunks * CHUNK, left = s->filesz - at;
			size_t n = left < CHUNK + HEAD ? (size_t)left : CHUNK + HEAD;

			if (!exe_read(e, s->addr + at, buf, n))
				return 0;
			all += n;
			for (size_t j = 0; j + need <= n && j < CHUNK; j += align) {
				uint64_t hit = fn(e, s->addr + at + j, buf + j, n - j);

				if (hit)
					return hit;
			}
		}
	}
	return 0;
}

static uint64_t match_magic(struct exe *e, uint64_t addr, const uint8_t *at, size_t left)
{
	(void)e;
	(void)left;
	return memcmp(at, magic, sizeof(magic)) == 0 ? addr : 0;
}

/* What the search for runtime.buildVersion may read: it follows every pointer to a short string. */
#define VERSION_BUDGET (64ull << 20)

/* runtime.buildVersion: the only string header of the writable segments that points to "go1." or
 * "devel go1.". */
static uint64_t match_version(struct exe *e, uint64_t addr, const uint8_t *at, size_t left)
{
	char text[10];
	uint64_t n;

	(void)left;
	memcpy(&n, at + 8, sizeof(n));
	if (n < 5 || n > 64)
		return 0;
	if (!exe_read(e, exe_ptr(e, addr), text, n < sizeof(text) ? 5 : sizeof(text)))
		return 0;
	if (memcmp(text, "go1.", 4) == 0 && text[4] >= '0' && text[4] <= '9')
		return addr;
	return n > sizeof(text) && memcmp(text, "devel go1.", 10) == 0 ? addr : 0;
}

/* n bytes and a NUL behind them; *len is n, as there may be NULs inside. */
static char *text_at(struct exe *e, uint64_t addr, uint64_t n, uint64_t max, size_t *len)
{
	char *s = n <= max ? malloc((size_t)n + 1) : NULL;

	if (s && exe_read(e, addr, s, (size_t)n)) {
		s[n] = 0;
		*len = (size_t)n;
		return s;
	}
	free(s);
	return NULL;
}

/* A string behind its varint length; *addr moves past it. */
static char *text_inline(struct exe *e, uint64_t *addr, uint64_t max, size_t *len)
{
	uint64_t n = 0, at = *addr;
	char *s;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b;

		if (shift > 28 || !exe_read(e, at++, &b, 1))
			return NULL;
		n |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	s = text_at(e, at, n, max, len);
	if (s)
		*addr = at + n;
	return s;
}

static char *text_string(struct exe *e, uint64_t header, uint64_t max, size_t *len)
{
	return header ? text_at(e, exe_ptr(e, header), exe_u64(e, header + 8), max, len) : NULL;
}

static bool printable(const char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* Cuts "a\tb\tc" at its tabs: the next field, "" when there is none. */
static char *field(char **line)
{
	char *at = *line, *end = at + strcspn(at, "\t");

	*line = *end ? end + 1 : end;
	*end = 0;
	return at;
}

static int module_add(struct buildinfo *b, size_t *cap, char *line)
{
	const char *path = field(&line), *version = field(&line);

	if (b->nmodules == MODULES_MAX)
		return 0;
	if (b->nmodules == *cap) {
		size_t more = *cap ? 2 * *cap : 64;
		struct gobin_module *list = realloc(b->modules, more * sizeof(*list));

		if (!list)
			return -ENOMEM;
		b->modules = list;
		*cap = more;
	}
	b->modules[b->nmodules++] = (struct gobin_module){ path, version };
	return 0;
}

/* Lines: "path P", "mod P V [sum]", "dep P V [sum]", "=> P V [sum]" (replaces the dep before it),
 * "build K=V", with tabs. */
static int modules_parse(struct buildinfo *b)
{
	char *text = b->text, *end;
	size_t cap = 0;
	int err = 0;

	for (; !err && *text; text = end) {
		char *line = text;

		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		if (!printable(line) && !strchr(line, '\t'))
			continue;
		if (strncmp(line, "path\t", 5) == 0) {
			line += 5;
			b->main_path = field(&line);
		} else if (strncmp(line, "mod\t", 4) == 0 || strncmp(line, "dep\t", 4) == 0) {
			err = module_add(b, &cap, line + 4);
		} else if (strncmp(line, "=>\t", 3) == 0 && b->nmodules) {
			/* The code is the replacement's, the import path stays: keep the path, take
			 * the version, which a directory does not have. */
			line += 3;
			(void)field(&line);
			b->modules[b->nmodules - 1].version = field(&line);
		}
	}
	b->memory += cap * sizeof(*b->modules);
	return err;
}

/* Without build info. A version that is not found in bounded time stays unknown, the rest can still
 * be read. */
static char *version_search(struct exe *e, size_t *len)
{
	uint64_t before = e->left, given = before < VERSION_BUDGET ? before : VERSION_BUDGET, at;
	int err = e->err;

	e->left = given;
	at = scan(e, 8, 16, match_version);
	e->left = before - (given - e->left);
	if (e->err == -EFBIG)
		e->err = err;
	return text_string(e, at, VERSION_MAX, len);
}

static void sentinels_strip(char *text, size_t n)
{
	if (n >= 2 * SENTINEL + 1 && text[n - SENTINEL - 1] == '\n') {
		memmove(text, text + SENTINEL, n - 2 * SENTINEL);
		text[n - 2 * SENTINEL] = 0;
	} else {
		text[0] = 0;
	}
}

int buildinfo_read(struct exe *e, struct buildinfo *out)
{
	struct buildinfo b = { .main_path = "" };
	uint64_t at = scan(e, 16, HEAD, match_magic);
	size_t len = 0, version_len = 0;
	uint8_t head[HEAD];
	int err = 0;

	if (at && exe_read(e, at, head, sizeof(head))) {
		if (head[15] & FLAG_INLINE) {
			at += HEAD;
			b.version = text_inline(e, &at, VERSION_MAX, &version_len);
			b.text = b.version ? text_inline(e, &at, MODINFO_MAX, &len) : NULL;
		} else {
			b.version = text_string(e, exe_ptr(e, at + 16), VERSION_MAX, &version_len);
			b.text = text_string(e, exe_ptr(e, at + 24), MODINFO_MAX, &len);
		}
	}
	if (!b.version || !*b.version) {
		free(b.version);
		b.version = version_search(e, &version_len);
	}
	if (!b.version || !printable(b.version)) {
		free(b.version);
		b.version = calloc(1, 1);
	}
	if (!b.text)
		b.text = calloc(1, 1);
	if (!b.version || !b.text)
		err = -ENOMEM;
	if (!err) {
		b.memory = version_len + len + 2;
		sentinels_strip(b.text, len);
		err = modules_parse(&b);
	}
	if (err) {
		buildinfo_clear(&b);
		return err;
	}
	*out = b;
	return 0;
}

void buildinfo_clear(struct buildinfo *b)
{
	free(b->version);
	free(b->text);
	free(b->modules);
	*b = (struct buildinfo){ 0 };
}

int buildinfo_minor(const char *version)
{
	const char *at = strstr(version, "go1.");
	int n = 0;

	if (!at || at[4] < '0' || at[4] > '9')
		return -1;
	for (at += 4; *at >= '0' && *at <= '9' && n < 1000; at++)
		n = 10 * n + (*at - '0');
	return n;
}
