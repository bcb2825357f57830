/* slow.h - calls that may never return, because they read a file on a file system that does not
 * answer any more (NFS, FUSE, a lost disk). Any thread. Each runs on a thread of its own, which is
 * left behind when it is late. So that these do not pile up, nothing more is called of the same
 * key (the device) while one of them is out. */
#pragma once
#include "base/base.h"

/* Waits until fn(arg) has returned: 0, and arg is still the caller's. -ETIMEDOUT: it has not within
 * timeout_ms, and arg is the call's: drop(arg) frees it, if fn ever returns. -EBUSY: an earlier
 * call of that key is out still, or too many of others are; -EAGAIN, -ENOMEM: no thread; then
 * nothing was called and arg is the caller's. */
int slow_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, uint64_t key,
	      unsigned timeout_ms) must_check;
/* A new descriptor for reading the file that fd, opened with O_PATH, stands for; -errno. Only an
 * O_PATH descriptor can be opened and closed without asking the file system. */
int slow_reopen(int fd);
/* What the kernel knows of a file without asking its file system. 0 or -errno. */
struct stat;
int slow_stat(int fd, struct stat *out) must_check;
/* How many calls are out. */
size_t slow_out(void);
