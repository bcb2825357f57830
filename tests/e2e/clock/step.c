/* step.c - preloaded into the agent: adds the seconds written in $STEP_FILE to its wall clock, as
 * if somebody had set it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int err = (int)syscall(SYS_clock_gettime, clock, ts);
	const char *path = getenv("STEP_FILE");
	FILE *f;
	long step;

	if (err || clock != CLOCK_REALTIME || !path)
		return err;
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%ld", &step) == 1)
		ts->tv_sec += step;
	fclose(f);
	return 0;
}
