/* base.h - what every file of the agent may use: owning locals that release themselves, sizes,
 * and views of bytes. No state, no thread. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define must_check    __attribute__((warn_unused_result))

/* Owning locals release themselves at the end of their scope; take() hands the value on. */
static inline void free_cleanup(void *p)
{
	free(*(void **)p);
}

static inline void close_cleanup(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

#define auto_free  __attribute__((cleanup(free_cleanup)))
#define auto_close __attribute__((cleanup(close_cleanup)))
#define take(p)                                                                                    \
	({                                                                                         \
		__typeof__(p) *from_ = &(p);                                                       \
		__typeof__(p) val_ = *from_;                                                       \
		*from_ = NULL;                                                                     \
		val_;                                                                              \
	})
#define take_fd(fd)                                                                                \
	({                                                                                         \
		int *from_ = &(fd);                                                                \
		int val_ = *from_;                                                                 \
		*from_ = -1;                                                                       \
		val_;                                                                              \
	})

/* Bytes that somebody else owns; not NUL-terminated. {NULL, 0} is "absent", {"", 0} is empty. */
struct str {
	const char *p;
	size_t n;
};

static inline struct str str_of(const char *text)
{
	return (struct str){ text, text ? strlen(text) : 0 };
}

static inline bool str_same(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_eq(struct str a, const char *b)
{
	return b && a.n == strlen(b) && (a.n == 0 || memcmp(a.p, b, a.n) == 0);
}
