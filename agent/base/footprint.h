/* footprint.h - keeps what is resident to what is in use. Any thread. */
#pragma once
#include "base/base.h"

/* Before the first thread: one heap for all of them, and large blocks apart from it, so that what
 * is freed can go back to the system. Threads that allocate at the same time wait for each other;
 * none does so while it handles spans. */
void footprint_setup(void);
/* Gives back what is free in the heap. */
void footprint_trim(void);
/* The end of starting: that, and the pages of code that only starting needed. Those that are needed
 * again come back from the page cache. 0 or -errno. */
int footprint_settle(void);
