#include "gobin/exe.h"
#include <elf.h>
#include <sys/stat.h>

/* 1 MiB in windows of a page: look-ups in type metadata jump about, and most of what a larger
 * window would read is not used. */
#define WINDOW ((size_t)4096)
#define SETS   ((size_t)64)
#define WAYS   ((size_t)4)
/* What one public call may read. A 700 MB program needs about 150 MB; this bounds what a hostile
 * file costs (about half a second). */
#define BUDGET (512ull << 20)

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

struct exe_window {
	uint64_t base; /* file offset + 1; 0: free */
	uint32_t used; /* bytes that are valid */
	uint32_t age;  /* next way to throw out, in the first of a set */
};

static bool read_raw(struct exe *e, uint64_t offset, void *buf, size_t n, size_t *got)
{
	size_t done = 0;

	if (n > e->left) {
		e->err = e->err ? e->err : -EFBIG;
		return false;
	}
	while (done < n) {
		ssize_t r = pread(e->fd, (uint8_t *)buf + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			e->err = e->err ? e->err : -errno;
			return false;
		}
		if (r == 0)
			break;
		done += (size_t)r;
	}
	e->left -= done;
	e->bytes_read += done;
	*got = done;
	return true;
}

/* The window that begins at a multiple of WINDOW, or NULL. */
static const struct exe_window *window_get(struct exe *e, uint64_t base)
{
	struct exe_window *set = &e->windows[base / WINDOW % SETS * WAYS];
	struct exe_window *w;
	size_t got = 0;

	for (size_t i = 0; i < WAYS; i++)
		if (set[i].base == base + 1)
			return &set[i];
	w = &set[set->age];
	set->age = (uint32_t)((set->age + 1) % WAYS);
	w->base = 0;
	if (!read_raw(e, base, e->data + (size_t)(w - e->windows) * WINDOW, WINDOW, &got))
		return NULL;
	w->base = base + 1;
	w->used = (uint32_t)got;
	return w;
}

bool exe_read_file(struct exe *e, uint64_t offset, void *buf, size_t n)
{
	uint8_t *to = buf;
	size_t got = 0;

	if (n > e->size || offset > e->size - n) {
		memset(buf, 0, n);
		return false;
	}
	if (n > WINDOW) {
		bool ok = read_raw(e, offset, buf, n, &got);

		if (ok && got < n)
			e->err = e->err ? e->err : -ENODATA;
		memset(to + got, 0, n - got);
		return ok && got == n;
	}
	for (size_t done = 0; done < n;) {
		uint64_t base = (offset + done) & ~(uint64_t)(WINDOW - 1);
		const struct exe_window *w = window_get(e, base);
		size_t skip = (size_t)(offset + done - base), some = n - done;

		if (!w || skip + some > WINDOW)
			some = WINDOW - skip;
		if (some > n - done)
			some = n - done;
		if (!w || skip + some > w->used) {
			e->err = e->err ? e->err : -ENODATA;
			memset(buf, 0, n);
			return false;
		}
		memcpy(to + done, e->data + (size_t)(w - e->windows) * WINDOW + skip, some);
		done += some;
	}
	return true;
}

const struct exe_segment *exe_segment(const struct exe *e, uint64_t addr)
{
	for (size_t i = 0; i < e->nsegments; i++)
		if (addr - e->segments[i].addr < e->segments[i].memsz)
			return &e->segments[i];
	return NULL;
}

bool exe_has(const struct exe *e, uint64_t addr, uint64_t n)
{
	const struct exe_segment *s = exe_segment(e, addr);

	return s && addr - s->addr <= s->filesz && n <= s->filesz - (addr - s->addr);
}

uint64_t exe_offset(const struct exe *e, uint64_t addr)
{
	const struct exe_segment *s = exe_segment(e, addr);

	return s && addr - s->addr < s->filesz ? s->offset + (addr - s->addr) : 0;
}

bool exe_read(struct exe *e, uint64_t addr, void *buf, size_t n)
{
	if (exe_has(e, addr, n))
		return exe_read_file(
			e, exe_segment(e, addr)->offset + (addr - exe_segment(e, addr)->addr), buf,
			n);
	memset(buf, 0, n);
	return false;
}

uint8_t exe_u8(struct exe *e, uint64_t addr)
{
	uint8_t v;

	(void)exe_read(e, addr, &v, sizeof(v));
	return v;
}

uint16_t exe_u16(struct exe *e, uint64_t addr)
{
	uint16_t v;

	(void)exe_read(e, addr, &v, sizeof(v));
	return v;
}

uint32_t exe_u32(struct exe *e, uint64_t addr)
{
	uint32_t v;

	(void)exe_read(e, addr, &v, sizeof(v));
	return v;
}

uint64_t exe_u64(struct exe *e, uint64_t addr)
{
	uint64_t v;

	(void)exe_read(e, addr, &v, sizeof(v));
	return v;
}

/* Relative relocations come first in the table and are sorted by address (ld -z combreloc, the
 * default everywhere). */
static uint64_t relocated(struct exe *e, uint64_t addr)
{
	uint64_t lo = 0, hi = e->nrela;
	Elf64_Rela r;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (!exe_read(e, e->rela + mid * sizeof(r), &r, sizeof(r)))
			return 0;
		if (r.r_offset == addr)
			return (uint64_t)r.r_addend;
		if (r.r_offset < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}

uint64_t exe_ptr(struct exe *e, uint64_t addr)
{
	uint64_t v = exe_u64(e, addr);

	return v || !e->nrela ? v : relocated(e, addr);
}

int exe_relocate(struct exe *e)
{
	const uint32_t relative = e->arm64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	uint64_t rela = 0, size = 0, lo = 0, hi;
	Elf64_Dyn dyn;

	for (uint64_t at = 0; at + sizeof(dyn) <= e->dynamic_size && at < 4096 * sizeof(dyn);
	     at += sizeof(dyn)) {
		if (!exe_read(e, e->dynamic + at, &dyn, sizeof(dyn)) || dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == DT_RELA)
			rela = dyn.d_un.d_ptr;
		if (dyn.d_tag == DT_RELASZ)
			size = dyn.d_un.d_val;
	}
	hi = size / sizeof(Elf64_Rela);
	if (!hi || !exe_has(e, rela, size))
		return -ENOENT;
	while (lo < hi) { /* the first entry that is not relative */
		uint64_t mid = lo + (hi - lo) / 2;

		if (exe_u32(e, rela + mid * sizeof(Elf64_Rela) + offsetof(Elf64_Rela, r_info)) ==
		    relative)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return -ENOENT;
	e->rela = rela;
	e->nrela = lo;
	return 0;
}

int exe_section(struct exe *e, size_t idx, struct exe_section *out)
{
	Elf64_Shdr sh, names;
	uint64_t left;

	if (idx >= e->shnum || e->shstrndx >= e->shnum ||
	    !exe_read_file(e, e->shoff + e->shstrndx * sizeof(names), &names, sizeof(names)) ||
	    !exe_read_file(e, e->shoff + idx * sizeof(sh), &sh, sizeof(sh)))
		return -ENOENT;
	*out = (struct exe_section){ sh.sh_addr,  sh.sh_offset, sh.sh_size,
				     sh.sh_flags, sh.sh_type,   "" };
	if (sh.sh_name >= names.sh_size || names.sh_offset > e->size)
		return 0;
	left = e->size - names.sh_offset;
	if (sh.sh_name >= left)
		return 0;
	left -= sh.sh_name;
	(void)exe_read_file(e, names.sh_offset + sh.sh_name, out->name,
			    left < sizeof(out->name) - 1 ? (size_t)left : sizeof(out->name) - 1);
	return 0;
}

static int refuse(enum gobin_why *why, enum gobin_why what, int err)
{
	*why = what;
	return err;
}

static int segment_add(struct exe *e, const Elf64_Phdr *ph, enum gobin_why *why)
{
	struct exe_segment *s = &e->segments[e->nsegments];

	if (e->nsegments == EXE_SEGMENTS_MAX || ph->p_filesz > ph->p_memsz ||
	    ph->p_vaddr + ph->p_memsz < ph->p_vaddr || ph->p_offset + ph->p_filesz < ph->p_offset ||
	    ((ph->p_vaddr ^ ph->p_offset) & 4095))
		return refuse(why, GOBIN_MALFORMED, -EBADMSG);
	if (ph->p_offset + ph->p_filesz > e->size)
		return refuse(why, GOBIN_TRUNCATED, -EBADMSG);
	if (e->nsegments && ph->p_vaddr < s[-1].addr + s[-1].memsz)
		return refuse(why, GOBIN_MALFORMED, -EBADMSG);
	*s = (struct exe_segment){ .addr = ph->p_vaddr,
				   .offset = ph->p_offset,
				   .filesz = ph->p_filesz,
				   .memsz = ph->p_memsz };
	s->allows = (ph->p_flags & PF_R ? EXE_READ : 0) | (ph->p_flags & PF_W ? EXE_WRITE : 0) |
		    (ph->p_flags & PF_X ? EXE_EXEC : 0);
	e->nsegments++;
	return 0;
}

static int segments_read(struct exe *e, const Elf64_Ehdr *eh, enum gobin_why *why)
{
	uint32_t allows = 0;
	Elf64_Phdr ph;
	int err;

	if (eh->e_phentsize != sizeof(ph) || !eh->e_phnum || eh->e_phnum > 256)
		return refuse(why, GOBIN_MALFORMED, -EBADMSG);
	if (eh->e_phoff > e->size || eh->e_phnum * sizeof(ph) > e->size - eh->e_phoff)
		return refuse(why, GOBIN_TRUNCATED, -EBADMSG);
	for (size_t i = 0; i < eh->e_phnum; i++) {
		if (!exe_read_file(e, eh->e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return refuse(why, GOBIN_OPEN, e->err ? e->err : -EIO);
		if (ph.p_type == PT_DYNAMIC) {
			e->dynamic = ph.p_vaddr;
			e->dynamic_size = ph.p_filesz;
		}
		if (ph.p_type != PT_LOAD || !ph.p_memsz)
			continue;
		err = segment_add(e, &ph, why);
		if (err)
			return err;
		allows |= e->segments[e->nsegments - 1].allows;
	}
	return allows & EXE_EXEC ? 0 : refuse(why, GOBIN_MALFORMED, -EBADMSG);
}

static int header_check(struct exe *e, const Elf64_Ehdr *eh, size_t n, enum gobin_why *why)
{
	if (n < SELFMAG || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(why, GOBIN_NOT_ELF, -ENOEXEC);
	if (n < sizeof(*eh))
		return refuse(why, GOBIN_TRUNCATED, -EBADMSG);
	if (eh->e_ident[EI_CLASS] == ELFCLASS32)
		return refuse(why, GOBIN_BITS, -ENOTSUP);
	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return refuse(why, GOBIN_MALFORMED, -EBADMSG);
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB || eh->e_machine != MACHINE)
		return refuse(why, GOBIN_MACHINE, -ENOTSUP);
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return refuse(why, GOBIN_NOT_GO, -ENOEXEC);
	e->pie = eh->e_type == ET_DYN;
	e->arm64 = eh->e_machine == EM_AARCH64;
	if (eh->e_shentsize == sizeof(Elf64_Shdr) && eh->e_shoff && eh->e_shoff < e->size &&
	    eh->e_shnum <= (e->size - eh->e_shoff) / sizeof(Elf64_Shdr)) {
		e->shoff = eh->e_shoff;
		e->shnum = eh->e_shnum;
		e->shstrndx = eh->e_shstrndx;
	}
	return 0;
}

int exe_open(struct exe *e, int fd, enum gobin_why *why)
{
	Elf64_Ehdr eh = { 0 };
	struct stat st;
	size_t n = 0;
	int err;

	*e = (struct exe){ .fd = fd };
	exe_budget(e);
	if (fstat(fd, &st) < 0)
		return refuse(why, GOBIN_OPEN, -errno);
	if (!S_ISREG(st.st_mode))
		return refuse(why, GOBIN_OPEN, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL);
	e->size = (uint64_t)st.st_size;
	e->windows = calloc(SETS * WAYS, sizeof(*e->windows));
	e->data = malloc(SETS * WAYS * WINDOW);
	if (!e->windows || !e->data)
		return refuse(why, GOBIN_NO_MEMORY, -ENOMEM);
	if (!read_raw(e, 0, &eh, sizeof(eh), &n))
		return refuse(why, GOBIN_OPEN, e->err);
	err = header_check(e, &eh, n, why);
	return err ? err : segments_read(e, &eh, why);
}

void exe_close(struct exe *e)
{
	free(e->windows);
	free(e->data);
	if (e->fd >= 0)
		(void)close(e->fd);
	*e = (struct exe){ .fd = -1 };
}

void exe_budget(struct exe *e)
{
	e->left = BUDGET;
	e->err = 0;
}

size_t exe_memory(void)
{
	return SETS * WAYS * (WINDOW + sizeof(struct exe_window));
}
