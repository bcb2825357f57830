#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static enum log_level least = LOG_INFO;
static bool as_json;

void log_setup(enum log_level level, bool json)
{
	least = level;
	as_json = json;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char line[1024];
	va_list ap;

	if (level > least)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, as_json ? "{\"level\":\"%s\",\"msg\":\"%s\"}\n" : "level=%s msg=\"%s\"\n", names[level], line);
}
