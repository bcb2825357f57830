/* log.h - one line an event, logfmt or JSON, on stderr. Any thread. Only the files that decide log.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Set once, before the threads start. */
void log_setup(enum log_level level, bool json);
struct config;
/* The same by the options log.level and log.format. */
void log_setup_config(const struct config *cfg);
/* fmt makes the message; "key: value" details belong into it, the offending value in quotes. */
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Escapes text so that it stands inside "..." of logfmt and JSON, one line, valid UTF-8; what does
 * not fit ends in "...". Returns the length without NUL; size >= 1. */
size_t log_escape(char *out, size_t size, const char *text);

#define LOG_LIMIT_NS 60000000000ull

/* Remembers when a repeated message was last let through, and how many were not. Static, one a call
 * site. */
struct log_limit {
	uint64_t last_ns, skipped, told;
};
/* True when the message may go out (first time, then once a minute); *skipped says how many did
 * not. */
bool log_allow(struct log_limit *limit, uint64_t *skipped);
/* The same for messages that differ from each other: so many a minute. One thread. */
bool log_allow_some(struct log_limit *limit, unsigned a_minute, uint64_t *skipped);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* Log and return in one line: return fail(-EINVAL, "config: %s: '%s' is not a number", key, value);
 */
#define fail(err, ...)                                                                             \
	({                                                                                         \
		int err_ = (err);                                                                  \
		log_write(LOG_ERROR, __VA_ARGS__);                                                 \
		err_;                                                                              \
	})
