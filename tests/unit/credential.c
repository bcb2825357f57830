#include "discover/credential.h"

#include <criterion/criterion.h>
#include <stdio.h>

static char dir[] = BUILD_DIR "/credential-XXXXXX";
static char one[128], two[128], path[128];
static struct credential c;

static void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	cr_assert(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void set_up(void)
{
	cr_assert(mkdtemp(dir));
	(void)snprintf(one, sizeof(one), "%s/one", dir);
	(void)snprintf(two, sizeof(two), "%s/two", dir);
	(void)snprintf(path, sizeof(path), "%s/token", dir);
	write_text(one, "first");
	write_text(two, "other");
	cr_assert_eq(symlink(one, path), 0);
}

static void tear_down(void)
{
	credential_clear(&c);
	(void)unlink(one);
	(void)unlink(two);
	(void)unlink(path);
	(void)rmdir(dir);
}

TestSuite(credential, .init = set_up, .fini = tear_down);

Test(credential, it_is_read_when_it_has_changed_and_not_before)
{
	cr_expect_eq(credential_read(&c, path, 64, false), 1);
	cr_expect_str_eq(c.text, "first");
	cr_expect_eq(credential_read(&c, path, 64, false), 0);
	cr_expect_eq(credential_read(&c, path, 64, true), 1);
	(void)usleep(20000);
	write_text(one, "FIRST");
	cr_expect_eq(credential_read(&c, path, 64, false), 1);
	cr_expect_str_eq(c.text, "FIRST");
}

Test(credential, the_swap_of_a_symbolic_link_is_a_change)
{
	cr_expect_eq(credential_read(&c, path, 64, false), 1);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(symlink(two, path), 0);
	cr_expect_eq(credential_read(&c, path, 64, false), 1);
	cr_expect_str_eq(c.text, "other");
	cr_expect_eq(c.size, 5);
}

Test(credential, what_is_gone_or_too_large_or_no_file_leaves_nothing)
{
	cr_expect_eq(credential_read(&c, path, 5, false), 1);
	cr_expect_eq(credential_read(&c, path, 4, true), -EFBIG);
	cr_expect_null(c.text);
	cr_expect_eq(credential_read(&c, path, 64, false), 1);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(credential_read(&c, path, 64, false), -ENOENT);
	cr_expect_null(c.text, "an old token is not used any longer");
	cr_expect_eq(credential_read(&c, dir, 64, false), -EINVAL);
	cr_expect_eq(credential_read(&c, "/dev/zero", 64, false), -EINVAL);
}
