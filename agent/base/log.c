#include "base/log.h"

#include "base/base.h"
#include "base/config.h"
#include "base/stats.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048 /* one write(2), so lines of different threads never mix */
/* Who reads the log may stand still (a full disk, a stopped terminal): then lines are dropped, or
 * the thread that writes one would stand still as well, with the locks that it holds. */
#define READER_MS      200

static const char *const names[] = { "error", "warn", "info", "debug" };
static enum log_level least = LOG_INFO;
static bool as_json;

void log_setup(enum log_level level, bool json)
{
	least = level;
	as_json = json;
}

static void count(enum log_level level)
{
	switch (level) {
	case LOG_ERROR:
		stat_add(log_error, 1);
		break;
	case LOG_WARN:
		stat_add(log_warn, 1);
		break;
	case LOG_INFO:
		stat_add(log_info, 1);
		break;
	case LOG_DEBUG:
		stat_add(log_debug, 1);
		break;
	}
}

/* Bytes of the UTF-8 character at s (n bytes are left), 0 when it is none. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
	static const unsigned least_of[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80       ? 1
		     : s[0] >> 5 == 6  ? 2
		     : s[0] >> 4 == 14 ? 3
		     : s[0] >> 3 == 30 ? 4
				       : 0;
	unsigned code;

	if (len < 2 || len > n)
		return len > n ? 0 : len;
	code = s[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	return code < least_of[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0
											     : len;
}

/* One character of text, escaped so that it stays inside a quoted value, at out (of at least 7
 * bytes). *used: bytes of text. */
static size_t escape_one(char *out, const char *text, size_t n, size_t *used)
{
	unsigned char c = (unsigned char)*text;
	size_t len = utf8_len((const unsigned char *)text, n);

	*used = len ? len : 1;
	if (c == '"' || c == '\\')
		return (size_t)snprintf(out, 7, "\\%c", c);
	if (c == '\n')
		return (size_t)snprintf(out, 7, "\\n");
	if (c == '\t')
		return (size_t)snprintf(out, 7, "\\t");
	if (!len)
		return (size_t)snprintf(out, 7, "\\ufffd");
	if (c < ' ' || c == 0x7f)
		return (size_t)snprintf(out, 7, "\\u%04x", c);
	memcpy(out, text, len);
	return len;
}

size_t log_escape(char *out, size_t size, const char *text)
{
	size_t n = strlen(text), at = 0, used;

	for (; n && at + 7 < size; text += used, n -= used)
		at += escape_one(out + at, text, n, &used);
	if (n && at + 3 < size) { /* cut: says so */
		memcpy(out + at, "...", 3);
		at += 3;
	}
	out[at] = '\0';
	return at;
}

static size_t time_stamp(char *out, size_t size)
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(out + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

void log_setup_config(const struct config *cfg)
{
	enum log_level level = LOG_INFO;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], cfg->log_level) == 0)
			level = (enum log_level)i;
	log_setup(level, strcmp(cfg->log_format, "json") == 0);
}

/* A pipe that is said to be writable takes a line of at most PIPE_BUF bytes at once, if nobody else
 * of us writes one in between. The reader is waited for once, until it reads again. */
static void put_line(const char *line, size_t n)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards stuck, and see above */
	static bool stuck;
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t written = -1;

	(void)pthread_mutex_lock(&lock);
	stuck = poll(&fd, 1, stuck ? 0 : READER_MS) == 0;
	if (!stuck)
		written = write(STDERR_FILENO, line, n);
	(void)pthread_mutex_unlock(&lock);
	if (written < 0) /* there is nobody to tell */
		stat_add(log_lost, 1);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char message[1024], line[LINE_MAX_BYTES], stamp[32];
	size_t n;
	va_list ap;

	count(level);
	if (level > least)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	(void)time_stamp(stamp, sizeof(stamp));
	n = (size_t)snprintf(line, sizeof(line),
			     as_json ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":\""
				     : "time=%s level=%s msg=\"",
			     stamp, names[level]);
	n += log_escape(line + n, sizeof(line) - n - 4, message);
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s", as_json ? "\"}\n" : "\"\n");
	put_line(line, n);
}

bool log_allow(struct log_limit *limit, uint64_t *skipped)
{
	struct timespec t;
	uint64_t now, last = __atomic_load_n(&limit->last_ns, __ATOMIC_RELAXED);

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	if ((last && now - last < LOG_LIMIT_NS) ||
	    !__atomic_compare_exchange_n(&limit->last_ns, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&limit->skipped, 1, __ATOMIC_RELAXED);
		return false;
	}
	*skipped = __atomic_exchange_n(&limit->skipped, 0, __ATOMIC_RELAXED);
	return true;
}

bool log_allow_some(struct log_limit *limit, unsigned a_minute, uint64_t *skipped)
{
	if (log_allow(limit, skipped)) {
		limit->told = 1;
		return true;
	}
	if (limit->told >= a_minute)
		return false;
	limit->told++;
	*skipped = 0;
	limit->skipped--; /* this one goes out */
	return true;
}
