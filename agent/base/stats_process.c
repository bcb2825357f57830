/* The standard process_* metrics, of the agent itself. */
#include "base/stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>

/* Unix time of the start: boot time plus field 22 of stat. 0 when /proc does not tell. */
static double start_time(void)
{
	char text[1024];
	FILE *f = fopen("/proc/self/stat", "re");
	struct timespec real, boot;
	unsigned long long ticks;
	const char *p;

	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	p = strrchr(text, ')'); /* field 2 may hold anything */
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return 0;
	ticks = strtoull(p, NULL, 10);
	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (double)(real.tv_sec - boot.tv_sec) + (double)(real.tv_nsec - boot.tv_nsec) / 1e9 +
	       (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static size_t entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2; /* . and .. */
}

void stats_process(struct stats_page *page, void *arg)
{
	static _Atomic uint64_t
		started_ms; /* the wall clock may step later: the first answer stays */
	struct rusage used = { 0 };
	struct rlimit files = { 0 };
	unsigned long long size = 0, resident = 0;
	char text[128], *end;
	long page_size = sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/self/statm", "re");

	(void)arg;
	if (f) {
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		(void)fclose(f);
		size = strtoull(text, &end, 10);
		resident = strtoull(end, NULL, 10);
	}
	if (!started_ms)
		started_ms = (uint64_t)(start_time() * 1000);
	(void)getrusage(RUSAGE_SELF, &used);
	(void)getrlimit(RLIMIT_NOFILE, &files);
	stats_sample(page, COUNTER, "process_cpu_seconds_total", NULL,
		     "Total user and system CPU time spent in seconds.",
		     (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
			     (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	stats_sample(page, GAUGE, "process_resident_memory_bytes", NULL,
		     "Resident memory size in bytes.", (double)resident * (double)page_size);
	stats_sample(page, GAUGE, "process_virtual_memory_bytes", NULL,
		     "Virtual memory size in bytes.", (double)size * (double)page_size);
	stats_sample(page, GAUGE, "process_open_fds", NULL, "Number of open file descriptors.",
		     (double)entries("/proc/self/fd") - 1);
	stats_sample(page, GAUGE, "process_max_fds", NULL,
		     "Maximum number of open file descriptors.", (double)files.rlim_cur);
	stats_sample(page, GAUGE, "process_threads", NULL, "Number of OS threads in the process.",
		     (double)entries("/proc/self/task"));
	stats_sample(page, GAUGE, "process_start_time_seconds", NULL,
		     "Start time of the process since unix epoch in seconds.",
		     (double)started_ms / 1000);
}
