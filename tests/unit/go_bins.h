/* go_bins.h - real Go programs for tests, built once by tests/gobin/build.sh, and copies of them
 * that are spoiled. */
#pragma once
#include "gobin/gobin.h"
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GO_BINS BUILD_DIR "/../go-bins"

/* Before the tests are forked: a failed build fails all of them. */
ReportHook(PRE_ALL)(struct criterion_test_set *all)
{
	pid_t pid = fork();
	int status = -1;

	(void)all;
	if (pid == 0) {
		(void)execl("/bin/bash", "bash", SOURCE_DIR "/tests/gobin/build.sh", GO_BINS,
			    (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		(void)fprintf(stderr, "tests/gobin/build.sh failed: status %d\n", status);
}

static inline int bin_fd(const char *name)
{
	char path[512];
	int fd;

	(void)snprintf(path, sizeof(path), GO_BINS "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s is not built", path);
	return fd;
}

static inline struct gobin *bin_open_fd(int fd)
{
	struct gobin *g = NULL;
	enum gobin_why why = GOBIN_OK;
	int err = gobin_open(&g, fd, &why);

	cr_assert_eq(err, 0, "refused: %s (%s)", gobin_why_label(why), strerror(-err));
	return g;
}

static inline struct gobin *bin_open(const char *name)
{
	return bin_open_fd(bin_fd(name));
}

/* A copy in memory that may be written to. */
struct copy {
	int fd;
	uint8_t *p;
	size_t n;
};

static inline struct copy bin_copy_path(const char *path)
{
	struct copy c = { memfd_create("copy", MFD_CLOEXEC), NULL, 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	cr_assert(fd >= 0 && fstat(fd, &st) == 0 && c.fd >= 0, "%s", path);
	c.n = (size_t)st.st_size;
	cr_assert_eq(ftruncate(c.fd, st.st_size), 0);
	c.p = mmap(NULL, c.n, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
	cr_assert_neq(c.p, MAP_FAILED);
	cr_assert_eq(pread(fd, c.p, c.n, 0), st.st_size);
	(void)close(fd);
	return c;
}

static inline struct copy bin_copy(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), GO_BINS "/%s", name);
	return bin_copy_path(path);
}

/* The reason for which a file is refused; GOBIN_OK when it is not. Takes the descriptor. */
static inline enum gobin_why bin_why(int fd)
{
	enum gobin_why why = GOBIN_OK;
	struct gobin *g = NULL;
	int err = gobin_open(&g, fd, &why);

	cr_assert_eq(err == 0, why == GOBIN_OK);
	cr_assert_eq(err == 0, g != NULL);
	gobin_close(&g);
	return why;
}
