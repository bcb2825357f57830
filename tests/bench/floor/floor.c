/*
 * floor - hangs empty, counting programs on places of one executable, and waits for SIGTERM: the
 *least that any tracer costs, and a counter of calls for the bench.
 *
 *	floor OBJECT EXECUTABLE PID OFFSET...
 *
 * Offsets are file offsets (0x...); PID -1 means every process. At its end it prints the number of
 *hits of each place.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES_MAX 16

static void on_signal(int sig)
{
	(void)sig;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	unsigned long offsets[PLACES_MAX];
	__u64 cookies[PLACES_MAX];
	int n = argc - 4, cpus = libbpf_num_possible_cpus();

	if (n < 1 || n > PLACES_MAX) {
		(void)fprintf(stderr, "usage: floor OBJECT EXECUTABLE PID OFFSET...\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		offsets[i] = strtoul(argv[4 + i], NULL, 0);
		cookies[i] = i;
	}
	struct bpf_object *obj = bpf_object__open_file(argv[1], NULL);

	if (!obj || bpf_object__load(obj) < 0)
		return 1;
	LIBBPF_OPTS(bpf_uprobe_multi_opts, o, .offsets = offsets, .cookies = cookies, .cnt = n);
	struct bpf_program *prog =
		bpf_object__find_program_by_name(obj, getenv("FLOOR_COUNT") ? "count" : "empty");

	if (!bpf_program__attach_uprobe_multi(prog, (int)strtol(argv[3], NULL, 10), argv[2], NULL,
					      &o)) {
		(void)fprintf(stderr, "floor: cannot attach to %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGINT, &sa, NULL);
	printf("attached\n");
	(void)fflush(stdout);
	(void)pause();
	int map = bpf_object__find_map_fd_by_name(obj, "hits");

	for (__u32 i = 0; i < (__u32)n; i++) {
		__u64 v[512] = { 0 }, sum = 0;

		(void)bpf_map_lookup_elem(map, &i, v);
		for (int c = 0; c < cpus; c++)
			sum += v[c];
		printf("%llu\n", (unsigned long long)sum);
	}
	return 0;
}
