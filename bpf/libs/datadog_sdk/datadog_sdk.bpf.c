// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* datadog_sdk.bpf.c - the spans that a program's own Datadog tracer makes of requests. A span says
 * what it is of by the name of its operation, as Datadog's instrumentation names them. One hit for
 * each span. */
#include "datadog_sdk.h"
#include "foreign.bpf.h"

#define NAME_MAX 20

/* "http.request" is a client's as well: foreign_serves() knows which goroutine serves, and whether
 * it is calling out. */
static __always_inline int is_served(struct go_str name)
{
	__u64 t[3] = {};

	if (name.len > NAME_MAX || go_read(t, cap(name.len, NAME_MAX), name.ptr))
		return 0;
	if (name.len == 12) /* http.request */
		return t[0] == 0x7165722e70747468ULL && t[1] == 0x74736575;
	if (name.len == 11) /* web.request, and the server of gRPC */
		return (t[0] == 0x757165722e626577ULL && t[1] == 0x747365) ||
		       (t[0] == 0x7265732e63707267ULL && t[1] == 0x726576);
	/* http.server.request, and the same of gRPC */
	return name.len == 19 && (t[0] == 0x7265732e70747468ULL || t[0] == 0x7265732e63707267ULL) &&
	       t[1] == 0x757165722e726576ULL && t[2] == 0x747365;
}

/* func (t *tracer) StartSpan(operationName string, options ...StartSpanOption) *Span */
SEC("uprobe.multi")
int datadog_sdk_new(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct go_str name = { GO_P2(ctx), GO_P3(ctx) };

	if (s && is_served(name))
		foreign_serves(s, &c, GO_G(ctx));
	return 0;
}
