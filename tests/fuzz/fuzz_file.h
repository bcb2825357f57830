/* fuzz_file.h - bytes as a file in memory. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A descriptor of a file that holds head and then data; aborts when the machine does not give one.
 */
static inline int fuzz_file(const void *head, size_t nhead, const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || (nhead && write(fd, head, nhead) != (ssize_t)nhead) ||
	    (size && write(fd, data, size) != (ssize_t)size))
		abort();
	return fd;
}
