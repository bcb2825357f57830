/* Preloaded into an agent: allocations fail by chance, as they do where memory is short. NOMEM_SEED
 * chooses which, one of NOMEM_EVERY does, of those from NOMEM_FROM to NOMEM_UNTIL: then there is
 * memory again. A signal that ends the process is told, with the way it came. */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_ullong count;
static uint64_t seed, every, from, until;
static volatile sig_atomic_t armed;

static void crashed(int sig)
{
	static const char said[] = "\nCRASHED here:\n";
	void *way[64];

	armed = 0;
	(void)!write(2, said, sizeof(said) - 1);
	backtrace_symbols_fd(way, backtrace(way, 64), 2);
	_exit(128 + sig);
}

static uint64_t number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : 0;
}

__attribute__((constructor)) static void begin(void)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL };
	const struct sigaction sa = { .sa_handler = crashed };
	void *way[1];

	if (strcmp(program_invocation_short_name, "spoor") != 0)
		return;          /* what starts the agent */
	(void)backtrace(way, 1); /* its own memory, now */
	seed = number("NOMEM_SEED");
	every = number("NOMEM_EVERY");
	from = number("NOMEM_FROM");
	until = number("NOMEM_UNTIL");
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		(void)sigaction(signals[i], &sa, NULL);
	armed = every != 0;
}

/* Every thread takes its turn. splitmix64's mixing, so that seeds have nothing to do with each
 * other. */
static int fails(void)
{
	uint64_t i, x;

	if (!armed)
		return 0;
	i = atomic_fetch_add(&count, 1);
	x = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1b54a32d192ed03u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return i >= from && i < until && (x ^ x >> 31) % every == 0;
}

void *malloc(size_t size)
{
	return fails() ? (errno = ENOMEM, NULL) : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? (errno = ENOMEM, NULL) : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return fails() ? (errno = ENOMEM, NULL) : __libc_realloc(old, size);
}
