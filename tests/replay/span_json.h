/* span_json.h - a decoded span as one line of JSON, every field of it: what replay cases expect. */
#pragma once
#include "trace/span.h"
#include <inttypes.h>
#include <stdio.h>

static inline void json_text(FILE *f, struct str s)
{
	fputc('"', f);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static inline void json_hex(FILE *f, const char *key, const uint8_t *bytes, size_t n)
{
	fprintf(f, ",\"%s\":\"", key);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%02x", bytes[i]);
	fputc('"', f);
}

static inline void span_json(FILE *f, const struct span *s)
{
	fputs("{\"name\":", f);
	json_text(f, s->name);
	fprintf(f, ",\"kind\":%d,\"status\":%d,\"filtered\":%s", (int)s->kind, (int)s->status,
		s->health ? "true" : "false");
	json_hex(f, "trace_id", s->trace_id, sizeof(s->trace_id));
	json_hex(f, "span_id", s->span_id, sizeof(s->span_id));
	json_hex(f, "parent_id", s->parent_id, sizeof(s->parent_id));
	fprintf(f,
		",\"flags\":%u,\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"tracestate\":", s->flags,
		s->start_ns, s->end_ns);
	json_text(f, s->tracestate);
	fputs(",\"attributes\":{", f);
	for (int i = 0; i < s->nattrs; i++) {
		const struct attr *a = &s->attrs[i];

		fprintf(f, "%s\"%s\":", i ? "," : "", a->key);
		if (a->type == ATTR_STR)
			json_text(f, a->s);
		else if (a->type == ATTR_INT)
			fprintf(f, "%" PRId64, a->i);
		else
			fputs(a->i ? "true" : "false", f);
	}
	fputs("}}\n", f);
}
