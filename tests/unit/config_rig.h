/* config_rig.h - for the tests of the configuration: loads one and keeps what is said meanwhile. */
#pragma once
#include "base/config.h"

#include "base/settings.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <jansson.h>
#include <stdio.h>

#define ARGS_MAX 16
#define unused   __attribute__((unused))

/* Loads with these flags; NULL when refused. */
static unused struct config *load(const char *first, ...)
{
	char *argv[ARGS_MAX] = { (char *)"agent" };
	struct config *cfg = NULL;
	int argc = 1;
	va_list ap;

	va_start(ap, first);
	for (const char *arg = first; arg && argc < ARGS_MAX; arg = va_arg(ap, const char *))
		argv[argc++] = (char *)arg;
	va_end(ap);
	return config_load(&cfg, argc, argv, NULL) == 0 ? cfg : NULL;
}

/* What is said on stderr while the call runs, and its result. */
static char said[16384];
#define SAID(call)                                                                                 \
	({                                                                                         \
		int fds_[2], saved_ = dup(STDERR_FILENO);                                          \
		cr_assert_eq(pipe(fds_), 0);                                                       \
		(void)dup2(fds_[1], STDERR_FILENO);                                                \
		__auto_type result_ = (call);                                                      \
		(void)dup2(saved_, STDERR_FILENO);                                                 \
		(void)close(saved_);                                                               \
		(void)close(fds_[1]);                                                              \
		ssize_t n_ = read(fds_[0], said, sizeof(said) - 1);                                \
		said[n_ > 0 ? n_ : 0] = '\0';                                                      \
		(void)close(fds_[0]);                                                              \
		result_;                                                                           \
	})

static unused char *file_of(const char *text)
{
	static char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), BUILD_DIR "/config-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
	return path;
}

static unused struct config *load_yaml(const char *text)
{
	char *path = file_of(text);
	struct config *cfg = SAID(load("--config", path, NULL));

	(void)unlink(path);
	return cfg;
}

static unused void no_environment(void)
{
	(void)clearenv();
}
