#include "trace/route.h"

#include <criterion/criterion.h>

static struct arena arena;

static void set_up(void)
{
	cr_assert_eq(arena_init(&arena, 4096), 0);
}

static void tear_down(void)
{
	arena_clear(&arena);
}

TestSuite(route, .init = set_up, .fini = tear_down);

static bool matches(const char *pattern, const char *path)
{
	return route_matches(str_of(pattern), str_of(path));
}

Test(route, a_pattern_matches_what_the_mux_says_it_does)
{
	static const char *const yes[][2] = {
		{ "/", "/" },
		{ "/", "/a/b" },
		{ "/a", "/a" },
		{ "GET example.com/a/{x}", "/a/b" },
		{ "/a/{x}", "/a/b%2Fc" },
		{ "/a/", "/a/" },
		{ "/a/", "/a/b/c" },
		{ "/a/{$}", "/a/" },
		{ "/a/{rest...}", "/a/" },
		{ "/a/{rest...}", "/a/b/c" },
		{ "/{x}/b", "/a/b" },
		{ "/a%2Fb", "/a%2fb" },
		{ "/\xc3\xbc", "/%C3%BC" },
		{ "/a%zz", "/a%zz" },
		{ "/{x}/{y}/", "/a/b/" },
	};
	static const char *const no[][2] = {
		{ "/a", "/b" },     { "/a", "/a/" },      { "/a", "/a/b" },
		{ "/a/", "/a" },    { "/a/{$}", "/a/b" }, { "/a/{x}", "/a/" },
		{ "/a/{x}", "/a" }, { "/a%2Fb", "/a/b" }, { "/a/{r...}", "/a" },
		{ "/{x}", "/a/b" }, { "/", "" },          { "", "/" },
		{ "no path", "/" }, { "/{x}/b", "//b" },  { "/a/b", "/a" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		cr_expect(matches(yes[i][0], yes[i][1]), "%s %s", yes[i][0], yes[i][1]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		cr_expect(!matches(no[i][0], no[i][1]), "%s %s", no[i][0], no[i][1]);
}

static void expect(const char *path, const struct route_step *steps, size_t n, const char *route)
{
	struct str got;

	cr_assert_eq(route_join(steps, n, str_of(path), &arena, &got), 0);
	cr_expect(str_eq(got, route ? route : ""), "%s: %.*s", path, (int)got.n, got.p);
}

#define STEP(text, len)                                                                            \
	{                                                                                          \
		.pattern = { (text), sizeof(text) - 1 }, .path_len = (len)                         \
	}

Test(route, what_was_stripped_stands_before_the_pattern_of_the_mux_inside)
{
	const struct route_step two[] = { STEP("/api/", ROUTE_SAME), STEP("GET /users/{id}", 8) };
	const struct route_step three[] = { STEP("/t/{tenant}/", ROUTE_SAME), STEP("/v1/", 11),
					    STEP("/users/{id}", 8) };
	const struct route_step same[] = { STEP("/api/", ROUTE_SAME), STEP("/api/users/{id}", 12) };

	expect("/api/users/7", two, 2, "/api/users/{id}");
	expect("/t/acme/v1/users/7", three, 3, "/t/{tenant}/v1/users/{id}");
	expect("/t/a%20me/v1/users/7", three, 3, "/t/{tenant}/v1/users/{id}");
	expect("/api/users/7", same, 2, "/api/users/{id}");
}

Test(route, a_path_that_was_rewritten_ends_the_route_where_it_was)
{
	const struct route_step other[] = { STEP("/old/", ROUTE_SAME), STEP("/new/{x}", 6) };
	const struct route_step half[] = { STEP("/api/", ROUTE_SAME), STEP("/{x}", 3) };
	const struct route_step open[] = { STEP("/api/{rest...}", ROUTE_SAME), STEP("/{x}", 2) };
	const struct route_step before[] = { STEP("/users/{id}", 8), STEP("/users/{x}", 8) };

	expect("/old/x", other, 2, "/old/");
	expect("/api/users", half, 2, "/api/");
	expect("/api/v1/u", open, 2, "/api/{rest...}");
	expect("/v1/users/7", before, 2, "/users/{x}");
	expect("/v2/other/7", before, 2, NULL);
	expect("/nothing", before, 2, NULL);
	expect("", before, 2, NULL);
}

Test(route, a_full_arena_is_told)
{
	const struct route_step two[] = { STEP("/api/", ROUTE_SAME), STEP("/users/{id}", 8) };
	struct str got = { "x", 1 };

	cr_assert(arena_get(&arena, 4090));
	cr_assert_eq(route_join(two, 2, str_of("/api/users/7"), &arena, &got), -ENOSPC);
}
