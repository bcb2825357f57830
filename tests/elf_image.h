/* elf_image.h - the head of a smallest executable: a segment of code, one of data. */
#pragma once
#include <elf.h>
#include <stdint.h>

struct elf_image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
};

/* Code at 0x400000, from the file's beginning on; of the data, size bytes are in the file, memory
 * when it is loaded. */
static inline struct elf_image elf_image(uint64_t code_size, uint64_t data_offset,
					 uint64_t data_address, uint64_t size, uint64_t memory)
{
	struct elf_image h = { .eh = { .e_ident = ELFMAG "\2\1\1",
				       .e_type = ET_EXEC,
				       .e_phoff = sizeof(Elf64_Ehdr),
				       .e_phentsize = sizeof(Elf64_Phdr),
				       .e_phnum = 2 } };

#ifdef __aarch64__
	h.eh.e_machine = EM_AARCH64;
#else
	h.eh.e_machine = EM_X86_64;
#endif
	h.ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_vaddr = 0x400000,
				.p_filesz = code_size,
				.p_memsz = code_size };
	h.ph[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_W,
				.p_offset = data_offset,
				.p_vaddr = data_address,
				.p_filesz = size,
				.p_memsz = memory };
	return h;
}
