/* Values of options: text to value and back. */
#include "base/option.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* Longest names first where one begins another. */
static const struct unit durations[] = { { "ms", 1 },      { "s", 1000 },     { "m", 60000 },
					 { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 } };
static const struct unit sizes[] = { { "KiB", 1 << 10 },   { "MiB", 1 << 20 }, { "GiB", 1 << 30 },
				     { "Ki", 1 << 10 },    { "Mi", 1 << 20 },  { "Gi", 1 << 30 },
				     { "kB", 1000 },       { "KB", 1000 },     { "MB", 1000000 },
				     { "GB", 1000000000 }, { "B", 1 },         { NULL, 0 } };

/* digits[.digits] times the unit that follows; *p is moved behind both. No unit: `bare`, 0 forbids
 * that. */
static int parse_quantity(const char **p, const struct unit *units, uint64_t bare, uint64_t *out)
{
	uint64_t whole = 0, part = 0, scale = 1, factor = 0;
	const char *s = *p;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
			return -EINVAL;
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s) && scale < 1000000; s++, scale *= 10)
			part = part * 10 + (uint64_t)(*s - '0');
	if (isdigit((unsigned char)*s) || s[-1] == '.')
		return -EINVAL;
	for (; units->name && !factor; units++)
		if (strncmp(s, units->name, strlen(units->name)) == 0) {
			factor = units->factor;
			s += strlen(units->name);
		}
	if (!factor && (!bare || scale > 1))
		return -EINVAL;
	if (__builtin_mul_overflow(whole, factor ? factor : bare, out) ||
	    __builtin_add_overflow(*out, part * factor / scale, out))
		return -EINVAL;
	*p = s;
	return 0;
}

/* "1h30m"; "0" needs no unit. */
static int parse_duration(const char *text, uint64_t *out)
{
	uint64_t sum = 0, one;

	if (strcmp(text, "0") == 0) {
		*out = 0;
		return 0;
	}
	do {
		if (parse_quantity(&text, durations, 0, &one) != 0 ||
		    __builtin_add_overflow(sum, one, &sum))
			return -EINVAL;
	} while (*text);
	*out = sum;
	return 0;
}

static int parse_number(enum option_type type, const char *text, uint64_t *out)
{
	static const struct unit none[] = { { NULL, 0 } };
	uint64_t n;

	if (type == OPTION_DURATION)
		return parse_duration(text, out);
	if (parse_quantity(&text, type == OPTION_SIZE ? sizes : none, 1, &n) != 0 || *text)
		return -EINVAL;
	*out = n;
	return 0;
}

/* Splits "least-most"; a row without it allows everything that its type holds. */
static void range_of(const struct option *o, char least[32], char most[32])
{
	size_t n = strcspn(o->allowed, "-");

	(void)snprintf(least, 32, "%.*s", (int)n, o->allowed);
	(void)snprintf(most, 32, "%s", o->allowed[n] ? o->allowed + n + 1 : "");
}

static int parse_in_range(const struct option *o, const char *text, uint64_t *out)
{
	char least[32], most[32];
	uint64_t n, lo = 0, hi = o->type == OPTION_UINT ? UINT32_MAX : UINT64_MAX;

	range_of(o, least, most);
	if (*o->allowed &&
	    (parse_number(o->type, least, &lo) != 0 || parse_number(o->type, most, &hi) != 0))
		return -EINVAL;
	if (parse_number(o->type, text, &n) != 0 || n < lo || n > hi)
		return -EINVAL;
	*out = n;
	return 0;
}

static bool in_words(const char *words, const char *word)
{
	size_t n = strlen(word);

	if (n == 0 || strchr(word, ' '))
		return false;
	for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

/* The part between "://" and the path: not empty, no bare number, no empty port. */
static bool authority_ok(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	size_t n = strcspn(host, "/?#"), digits = strspn(host, "0123456789");

	return n > 0 && host[n - 1] != ':' && digits < n && host[digits] != ':';
}

/* http or https, a host, no user and no password (they belong into otlp.headers); the scheme may be
 * left out. */
static bool url_ok(const char *text)
{
	char whole[2048];
	char *scheme = NULL, *user = NULL;
	CURLU *u;
	bool ok;

	if ((size_t)snprintf(whole, sizeof(whole), "%s%s", strstr(text, "://") ? "" : "http://",
			     text) >= sizeof(whole) ||
	    !authority_ok(whole))
		return false;
	u = curl_url();
	ok = u && curl_url_set(u, CURLUPART_URL, whole, 0) == CURLUE_OK &&
	     curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	     (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
	     curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER;
	curl_free(scheme);
	curl_free(user);
	curl_url_cleanup(u);
	return ok;
}

static bool address_ok(const char *text)
{
	struct in6_addr any;

	return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}

static bool ratio_ok(const char *text)
{
	char *end;
	double d;

	if (strspn(text, "0123456789.eE+-") != strlen(text))
		return false;
	d = strtod(text, &end);
	return end != text && !*end && d >= 0 && d <= 1;
}

/* An empty string means "not given" wherever one is allowed. */
static bool string_ok(const struct option *o, const char *text)
{
	if (!*text)
		return true;
	if (strcmp(o->allowed, "URL") == 0)
		return url_ok(text);
	if (strcmp(o->allowed, "address") == 0)
		return address_ok(text);
	if (strcmp(o->allowed, "ratio") == 0)
		return ratio_ok(text);
	return true;
}

static bool item_ok(const struct option *o, const char *item)
{
	uint64_t pid;

	if (o->type == OPTION_MAP)
		return strchr(item, '=') && *item != '=';
	if (strcmp(o->allowed, "pid") == 0)
		return parse_number(OPTION_UINT, item, &pid) == 0 && pid > 0 && pid <= INT32_MAX;
	return !*o->allowed || in_words(o->allowed, item);
}

void option_allowed(const struct option *o, char out[OPTION_WHY])
{
	static const char *const examples[] = { [OPTION_UINT] = "a whole number",
						[OPTION_DURATION] =
							"a duration such as 500ms or 1m30s",
						[OPTION_SIZE] = "a size such as 512KiB or 4MiB" };
	char least[32], most[32];
	size_t n = 0;

	out[0] = '\0';
	if (o->type == OPTION_BOOL) {
		(void)snprintf(out, OPTION_WHY, "true or false");
	} else if (o->type == OPTION_UINT || o->type == OPTION_DURATION || o->type == OPTION_SIZE) {
		range_of(o, least, most);
		(void)snprintf(out, OPTION_WHY, "%s%s%s%s%s", examples[o->type],
			       *least ? ", from " : "", least, *most ? " to " : "", most);
	} else if (strcmp(o->allowed, "URL") == 0) {
		(void)snprintf(out, OPTION_WHY,
			       "an http or https URL such as https://host:4318 or [::1]:4318, "
			       "without user and password");
	} else if (strcmp(o->allowed, "address") == 0) {
		(void)snprintf(out, OPTION_WHY, "an IPv4 or IPv6 address");
	} else if (strcmp(o->allowed, "ratio") == 0) {
		(void)snprintf(out, OPTION_WHY, "a number from 0 to 1");
	} else if (strcmp(o->allowed, "pid") == 0) {
		(void)snprintf(out, OPTION_WHY, "process numbers, separated by commas");
	} else if (o->type == OPTION_MAP) {
		(void)snprintf(out, OPTION_WHY,
			       "key=value pairs, separated by commas, or a mapping");
	} else if (*o->allowed) {
		n = (size_t)snprintf(out, OPTION_WHY,
				     "%s: ", o->type == OPTION_LIST ? "any of" : "one of");
		for (const char *p = o->allowed; *p && n < OPTION_WHY - 3; p++) {
			if (*p == ' ')
				out[n++] = ',';
			out[n++] = *p;
		}
		out[n] = '\0';
	}
}

/* Line ends in a header or a path are somebody's attack or a paste that went wrong. */
static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

static int refuse(const struct option *o, const char *text, char why[OPTION_WHY])
{
	char allowed[OPTION_WHY];
	bool secret = strcmp(o->allowed, "secret") == 0;

	option_allowed(o, allowed);
	(void)snprintf(why, OPTION_WHY, "%s%.60s%s is not allowed, must be %s", secret ? "" : "'",
		       secret ? "the value (hidden)" : text, secret ? "" : "'", allowed);
	if (has_control(text))
		(void)snprintf(why, OPTION_WHY, "control characters are not allowed in it");
	return -EINVAL;
}

int option_parse_items(const struct option *o, const char *const *items, size_t n,
		       union option_value *out, char why[OPTION_WHY])
{
	struct list l = { 0 };
	bool none_allowed = in_words(o->allowed, "none");
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (!item_ok(o, items[i]) || has_control(items[i]))
			err = refuse(o, items[i], why);
		else if (none_allowed && strcmp(items[i], "none") == 0 && n == 1)
			continue; /* the empty list, where a variable must say so: an empty one
				     counts as not set */
		else if (none_allowed && strcmp(items[i], "none") == 0)
			err = refuse(o, "none beside others", why);
		else
			err = list_add(&l, items[i], strlen(items[i]));
	}
	if (err) {
		list_clear(&l);
		return err;
	}
	out->list = l;
	return 0;
}

int option_parse(const struct option *o, const char *text, union option_value *out,
		 char why[OPTION_WHY])
{
	struct list items = { 0 };
	uint64_t n;
	int err = 0;

	switch (o->type) {
	case OPTION_ENUM:
		if (!in_words(o->allowed, text))
			return refuse(o, text, why);
		out->text = strdup(text);
		return out->text ? 0 : -ENOMEM;
	case OPTION_STRING:
		if (has_control(text) || !string_ok(o, text))
			return refuse(o, text, why);
		out->text = strdup(text);
		return out->text ? 0 : -ENOMEM;
	case OPTION_UINT:
	case OPTION_DURATION:
	case OPTION_SIZE:
		if (parse_in_range(o, text, &n) != 0)
			return refuse(o, text, why);
		if (o->type == OPTION_UINT)
			out->uint = (uint32_t)n;
		else
			out->number = n;
		return 0;
	case OPTION_BOOL:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return refuse(o, text, why);
		out->flag = text[0] == 't';
		return 0;
	case OPTION_LIST:
	case OPTION_MAP:
		if (strcmp(text, "[]") != 0 && strcmp(text, "{}") != 0)
			err = list_split(text, &items);
		if (!err)
			err = option_parse_items(o, (const char *const *)items.v, items.n, out,
						 why);
		list_clear(&items);
		return err;
	}
	return -EINVAL;
}

void option_print_duration(char *out, size_t n, uint64_t ms)
{
	size_t at = 0, i = ARRAY_SIZE(durations) - 2; /* hours: days read badly */

	if (ms == 0)
		(void)snprintf(out, n, "0s");
	while (ms > 0 && i-- > 0 && at < n) {
		const struct unit *u = &durations[i];

		if (ms < u->factor)
			continue;
		at += (size_t)snprintf(out + at, n - at, "%" PRIu64 "%s", ms / u->factor, u->name);
		ms %= u->factor;
	}
}

void option_print_size(char *out, size_t n, uint64_t bytes)
{
	static const struct unit *const largest[] = { &sizes[2], &sizes[1], &sizes[0] };

	for (size_t i = 0; i < ARRAY_SIZE(largest); i++)
		if (bytes >= largest[i]->factor && bytes % largest[i]->factor == 0) {
			(void)snprintf(out, n, "%" PRIu64 "%s", bytes / largest[i]->factor,
				       largest[i]->name);
			return;
		}
	(void)snprintf(out, n, "%" PRIu64, bytes);
}

void option_print(FILE *f, const struct option *o, const union option_value *value)
{
	bool secret = strcmp(o->allowed, "secret") == 0;
	char text[64];

	switch (o->type) {
	case OPTION_STRING:
	case OPTION_ENUM:
		(void)fputs(value->text, f);
		break;
	case OPTION_UINT:
		(void)fprintf(f, "%" PRIu32, value->uint);
		break;
	case OPTION_DURATION:
	case OPTION_SIZE:
		(o->type == OPTION_SIZE ? option_print_size
					: option_print_duration)(text, sizeof(text), value->number);
		(void)fputs(text, f);
		break;
	case OPTION_BOOL:
		(void)fputs(value->flag ? "true" : "false", f);
		break;
	case OPTION_LIST:
	case OPTION_MAP:
		for (size_t i = 0; i < value->list.n; i++) {
			const char *item = value->list.v[i];

			(void)fprintf(f, "%s%.*s%s", i ? ", " : "",
				      secret ? (int)strcspn(item, "=") : (int)strlen(item), item,
				      secret ? "=***" : "");
		}
		break;
	}
}
