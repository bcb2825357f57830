/* redirect.h - the part of criterion/redirect.h that our tests use; see criterion.h beside it. */
#pragma once
#include <criterion/criterion.h>

static FILE *plain_stdout;

static inline void cr_redirect_stdout(void)
{
	(void)fflush(stdout);
	plain_stdout = tmpfile();
	if (!plain_stdout || dup2(fileno(plain_stdout), STDOUT_FILENO) < 0)
		_exit(1);
}

static inline FILE *cr_get_redirected_stdout(void)
{
	(void)fflush(stdout);
	rewind(plain_stdout);
	return plain_stdout;
}
