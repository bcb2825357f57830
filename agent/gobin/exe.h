/* exe.h - an ELF executable as the kernel would map it, read through a bounded cache of pread
 * windows. Every address is checked against the program headers, once, here; reads outside of what
 * the file holds give zero bytes and false. Used by one thread at a time. */
#pragma once
#include "base/base.h"
#include "gobin/gobin.h"

#define EXE_SEGMENTS_MAX 64
#define EXE_READ         1u /* as PF_R, PF_W, PF_X, but named by what they allow */
#define EXE_WRITE        2u
#define EXE_EXEC         4u

struct exe_segment {
	uint64_t addr, offset, filesz, memsz;
	uint32_t allows; /* EXE_* */
};

struct exe_window; /* cached piece of the file */

struct exe {
	int fd;
	uint64_t size; /* of the file */
	bool pie;
	bool arm64;
	size_t nsegments;
	struct exe_segment segments[EXE_SEGMENTS_MAX]; /* ascending, disjoint */
	uint64_t dynamic, dynamic_size;
	uint64_t shoff;
	uint16_t shnum, shstrndx;
	uint64_t rela, nrela; /* relative relocations, used by exe_ptr() when nrela is not 0 */
	struct exe_window *windows;
	uint8_t *data;
	uint64_t left;       /* bytes that may still be read in this call of the library */
	uint64_t bytes_read; /* in all */
	int err; /* first failed read since exe_budget(): -EIO, -EFBIG (budget), -ENODATA (file got
		    shorter) */
};

struct exe_section {
	uint64_t addr, offset, size, flags;
	uint32_t type;
	char name[32];
};

/* Reads and checks the headers. fd is kept, and closed by exe_close(), also after a failure. 0 or
 * -errno and *why. */
int exe_open(struct exe *e, int fd, enum gobin_why *why) must_check;
void exe_close(struct exe *e);
/* Starts a public call: the allowance is full again and no error is remembered. */
void exe_budget(struct exe *e);
/* Memory that it holds, bytes. */
size_t exe_memory(void);

/* n bytes at a virtual address. False and zero bytes: not in the file's part of one segment, or
 * unreadable. */
bool exe_read(struct exe *e, uint64_t addr, void *buf, size_t n);
/* n bytes at a file offset, past the segments. */
bool exe_read_file(struct exe *e, uint64_t offset, void *buf, size_t n);
uint8_t exe_u8(struct exe *e, uint64_t addr);
uint16_t exe_u16(struct exe *e, uint64_t addr);
uint32_t exe_u32(struct exe *e, uint64_t addr);
uint64_t exe_u64(struct exe *e, uint64_t addr);
/* A pointer: as exe_u64(), or the addend of its relative relocation where the linker left zeros in
 * place (lld). */
uint64_t exe_ptr(struct exe *e, uint64_t addr);

/* The segment that holds the address, file part or not; NULL: none. */
const struct exe_segment *exe_segment(const struct exe *e, uint64_t addr);
/* True: n bytes from addr lie in the file's part of one segment. */
bool exe_has(const struct exe *e, uint64_t addr, uint64_t n);
/* File offset of an address that exe_has() at least one byte of, or 0. */
uint64_t exe_offset(const struct exe *e, uint64_t addr);

/* Turns relocations on for exe_ptr(). 0; -ENOENT: the file has none. */
int exe_relocate(struct exe *e) must_check;
/* The idx-th section. 0; -ENOENT: no more, or no usable section headers. */
int exe_section(struct exe *e, size_t idx, struct exe_section *out) must_check;
