#include "gobin/dwarf.h"
#include "gobin/names.h"
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>

/* libdw would map or load the whole file. It gets an ELF image in memory with these sections only:
 * what a hostile or changing file can do is then bounded by the sizes checked here. */
static const char *const wanted_sections[] = { ".debug_abbrev", ".debug_info", ".debug_str",
					       ".debug_line_str", ".debug_str_offsets" };
#define SECTIONS   ARRAY_SIZE(wanted_sections)
#define NAMES_SIZE 96u
#define LOADED_MAX (32u << 20) /* as in the file, compressed mostly */
#define PLAIN_MAX  (64u << 20)
#define UNITS_MAX  100000u
#define NAME_LEN   512u

struct dwarf {
	char *image;
	Elf *elf;
	Dwarf *dw;
};

struct found_sections {
	struct exe_section s[SECTIONS];
	uint64_t loaded, plain;
};

static int sections_find(struct exe *e, struct found_sections *f)
{
	struct exe_section s;
	Elf64_Chdr ch;

	*f = (struct found_sections){ 0 };
	for (size_t i = 0; exe_section(e, i, &s) == 0; i++)
		for (size_t k = 0; k < SECTIONS; k++) {
			if (strcmp(s.name, wanted_sections[k]) != 0 || f->s[k].size ||
			    s.type == SHT_NOBITS)
				continue;
			if (s.offset > e->size || s.size > e->size - s.offset)
				return -EBADMSG;
			f->s[k] = s;
			f->loaded += s.size;
			f->plain += s.size;
			if (!(s.flags & SHF_COMPRESSED))
				continue;
			/* Deflate makes at most 1032 bytes of one: a header that says more is a
			 * lie. */
			if (!exe_read_file(e, s.offset, &ch, sizeof(ch)) ||
			    ch.ch_size / 1100 > s.size)
				return -EBADMSG;
			f->plain += ch.ch_size;
		}
	if (!f->s[0].size || !f->s[1].size)
		return -ENOENT;
	return f->loaded > LOADED_MAX || f->plain > PLAIN_MAX ? -E2BIG : 0;
}

bool dwarf_exists(struct exe *e)
{
	struct found_sections f;

	return sections_find(e, &f) != -ENOENT;
}

/* Header, section headers (none, names, wanted ones), names, contents. */
static char *image_make(struct exe *e, const struct found_sections *f, size_t *size)
{
	const size_t names_at = sizeof(Elf64_Ehdr) + (SECTIONS + 2) * sizeof(Elf64_Shdr);
	size_t at = names_at + NAMES_SIZE, name = 1;
	char *image = calloc(1, at + f->loaded + 16 * SECTIONS);
	Elf64_Ehdr *eh = (void *)image;
	Elf64_Shdr *sh;

	if (!image)
		return NULL;
	sh = (void *)(image + sizeof(*eh));
	memcpy(eh->e_ident, ELFMAG "\2\1\1", 7);
	*eh = (Elf64_Ehdr){ .e_type = ET_EXEC,
			    .e_version = EV_CURRENT,
			    .e_shoff = sizeof(*eh),
			    .e_ehsize = sizeof(*eh) };
	memcpy(eh->e_ident, ELFMAG "\2\1\1", 7);
	eh->e_machine = e->arm64 ? EM_AARCH64 : EM_X86_64;
	eh->e_shentsize = sizeof(*sh);
	eh->e_shnum = SECTIONS + 2;
	eh->e_shstrndx = 1;
	sh[1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = NAMES_SIZE };
	for (size_t k = 0; k < SECTIONS; k++) {
		size_t n = strlen(wanted_sections[k]) + 1;

		memcpy(image + names_at + name, wanted_sections[k], n);
		sh[k + 2] = (Elf64_Shdr){ .sh_name = (uint32_t)name,
					  .sh_type = f->s[k].size ? SHT_PROGBITS : SHT_NOBITS,
					  .sh_flags = f->s[k].flags & SHF_COMPRESSED,
					  .sh_offset = at,
					  .sh_size = f->s[k].size,
					  .sh_addralign = 1 };
		if (f->s[k].size &&
		    !exe_read_file(e, f->s[k].offset, image + at, (size_t)f->s[k].size)) {
			free(image);
			return NULL;
		}
		name += n;
		at = (at + (size_t)f->s[k].size + 15) & ~(size_t)15;
	}
	*size = at;
	return image;
}

int dwarf_new(struct dwarf **out, struct exe *e, size_t *memory)
{
	auto_dwarf struct dwarf *d = NULL;
	struct found_sections f;
	size_t size = 0;
	int err = sections_find(e, &f);

	if (err)
		return err;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->image = image_make(e, &f, &size);
	if (!d->image)
		return e->err ? e->err : -ENOMEM;
	(void)elf_version(EV_CURRENT);
	d->elf = elf_memory(d->image, size);
	d->dw = d->elf ? dwarf_begin_elf(d->elf, DWARF_C_READ, NULL) : NULL;
	if (!d->dw)
		return -EBADMSG;
	*memory = size + (size_t)f.plain;
	*out = take(d);
	return 0;
}

void dwarf_free(struct dwarf **d)
{
	if (!*d)
		return;
	if ((*d)->dw)
		(void)dwarf_end((*d)->dw);
	if ((*d)->elf)
		(void)elf_end((*d)->elf);
	free((*d)->image);
	free(*d);
	*d = NULL;
}

/* The linker's spelling: dots in the last element of an import path are escaped. */
static size_t spell(const struct dwarf_want *w, char *buf, size_t cap)
{
	static const char dot[3] = { '%', '2', 'e' };
	size_t slash = w->package.n, n = 0;

	while (slash && w->package.p[slash - 1] != '/')
		slash--;
	for (size_t i = 0; i < w->package.n; i++) {
		if (n + 4 + w->name.n >= cap)
			return 0;
		if (i >= slash && w->package.p[i] == '.') {
			memcpy(buf + n, dot, sizeof(dot));
			n += sizeof(dot);
		} else {
			buf[n++] = w->package.p[i];
		}
	}
	buf[n++] = '.';
	memcpy(buf + n, w->name.p, w->name.n);
	return n + w->name.n;
}

static void unit_lookup(Dwarf_Die *unit, const struct names *set, struct dwarf_want **list)
{
	Dwarf_Die die;

	if (dwarf_child(unit, &die) != 0)
		return;
	do {
		const char *name;
		int tag = dwarf_tag(&die);

		if (tag != DW_TAG_structure_type && tag != DW_TAG_typedef)
			continue;
		name = dwarf_diename(&die);
		if (!name || !*name)
			continue;
		for (long i = names_find(set, name, strlen(name), -1); i >= 0;
		     i = names_find(set, name, strlen(name), i))
			if (!list[i]->found)
				list[i]->found = dwarf_dieoffset(&die);
	} while (dwarf_siblingof(&die, &die) == 0);
}

int dwarf_lookup(struct dwarf *d, struct dwarf_want *want, size_t n)
{
	auto_free struct dwarf_want **list = calloc(n + 1, sizeof(*list));
	auto_free char *text = malloc(n * NAME_LEN + 1);
	auto_names struct names set = { 0 };
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	size_t units = 0;

	if (!list || !text || names_init(&set, n))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t len = spell(&want[i], text + i * NAME_LEN, NAME_LEN);

		want[i].found = 0;
		if (len)
			list[names_add(&set, (struct str){ text + i * NAME_LEN, len })] = &want[i];
	}
	while (units++ < UNITS_MAX && dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL) == 0)
		unit_lookup(&die, &set, list);
	return 0;
}

/* What a member's type is, behind typedefs. */
static bool plain_type(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	for (int i = 0; i < 8 && dwarf_tag(die) == DW_TAG_typedef; i++)
		if (!dwarf_attr(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, die))
			return false;
	return true;
}

static bool member_offset(Dwarf_Die *member, uint64_t *out)
{
	Dwarf_Attribute attr;
	Dwarf_Word word;
	Dwarf_Op *op;
	size_t n;

	if (!dwarf_attr(member, DW_AT_data_member_location, &attr))
		return false;
	if (dwarf_formudata(&attr, &word) == 0) {
		*out = word;
		return true;
	}
	if (dwarf_getlocation(&attr, &op, &n) != 0 || n < 1 || op[0].atom != DW_OP_plus_uconst)
		return false;
	*out = op[0].number;
	return true;
}

bool dwarf_field(struct dwarf *d, uint64_t type, struct str path, uint64_t *out)
{
	uint64_t sum = 0, at = 0;
	Dwarf_Attribute attr;
	Dwarf_Die die, member;
	Dwarf_Word size;

	if (!type || !dwarf_offdie(d->dw, type, &die) || !plain_type(&die))
		return false;
	if (!path.n) {
		if (dwarf_aggregate_size(&die, &size) != 0)
			return false;
		*out = size;
		return true;
	}
	for (int depth = 0; depth < 8; depth++) {
		const char *dot = memchr(path.p, '.', path.n);
		size_t n = dot ? (size_t)(dot - path.p) : path.n;
		bool found = false;

		if (dwarf_tag(&die) != DW_TAG_structure_type || dwarf_child(&die, &member) != 0)
			return false;
		do {
			const char *name =
				dwarf_tag(&member) == DW_TAG_member ? dwarf_diename(&member) : NULL;

			found = name && strlen(name) == n && memcmp(name, path.p, n) == 0;
		} while (!found && dwarf_siblingof(&member, &member) == 0);
		if (!found || !member_offset(&member, &at))
			return false;
		sum += at;
		if (!dot) {
			*out = sum;
			return true;
		}
		if (!dwarf_attr(&member, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &die) ||
		    !plain_type(&die))
			return false;
		path = (struct str){ dot + 1, path.n - n - 1 };
	}
	return false;
}
