/* allocations.h - counts what is allocated while `counting`. For one file of a test program. */
#pragma once
#include "base/base.h"

static volatile size_t counting,
	allocations; /* volatile: the compiler believes that malloc() touches neither */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_COUNT true
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

void *malloc(size_t n)
{
	allocations += counting;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocations += counting;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	allocations += counting;
	return __libc_realloc(p, n);
}
#else
#define CAN_COUNT false
#endif
