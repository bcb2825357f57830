/* Any bytes as the writable segment of a program: version and module lines. */
#include "fuzz_file.h"
#include "gobin/buildinfo.h"
#include <elf.h>

struct head {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head h = { .eh = { .e_ident = ELFMAG "\2\1\1",
				  .e_type = ET_EXEC,
				  .e_phoff = sizeof(Elf64_Ehdr),
				  .e_phentsize = sizeof(Elf64_Phdr),
				  .e_phnum = 2 } };
	struct buildinfo b = { 0 };
	enum gobin_why why;
	struct exe e;

#ifdef __aarch64__
	h.eh.e_machine = EM_AARCH64;
#else
	h.eh.e_machine = EM_X86_64;
#endif
	h.ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_vaddr = 0x400000,
				.p_filesz = 64,
				.p_memsz = 64 };
	h.ph[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_W,
				.p_offset = sizeof(h),
				.p_vaddr = 0x401000 + sizeof(h),
				.p_filesz = size,
				.p_memsz = size };
	if (exe_open(&e, fuzz_file(&h, sizeof(h), data, size), &why) == 0 &&
	    buildinfo_read(&e, &b) == 0) {
		for (size_t i = 0; i < b.nmodules; i++)
			if (strchr(b.modules[i].path, '\n') || strchr(b.modules[i].version, '\t'))
				abort();
		(void)buildinfo_minor(b.version);
		if (!b.main_path)
			abort();
	}
	buildinfo_clear(&b);
	exe_close(&e);
	return 0;
}
