// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* otel_sdk.bpf.c - the spans that a program's own OpenTelemetry SDK makes of requests: an operation
 * of a server of which it makes one is left to it, and who would have that operation as its parent
 * has the span instead. One hit for each span, two for those that are recorded. */
#include "otel_sdk.h"
#include "parent.bpf.h"

/* The live operation of a server to which the context {itab, data} leads; without such a context
 * that of this goroutine. */
static __always_inline struct live_op *serving(const struct go_slot *s, const struct cookie *c,
					       __u64 g, __u64 itab, __u64 data)
{
	struct walk w = { .itab = itab, .data = data, .slot = c->slot };
	struct live *l;

	if (go_read(&w.goid, 8, g + s->at[F_G_GOID]))
		return NULL;
	l = live_of(c->slot, w.goid);
	if (l && l->outer.active & LIVE_KIND)
		w.own = l->outer.ctx;
	if (go_walk(&w) == WALK_FOUND)
		l = live_of(c->slot, w.goid);
	else if (w.result == WALK_ENDED)
		return NULL;
	return l && l->outer.active & LIVE_KIND ? &l->outer : NULL;
}

/* func (tr *tracer) newSpan(ctx context.Context, name string, config *trace.SpanConfig) trace.Span:
 * that is how each span begins, whether it will be recorded or not. */
SEC("uprobe.multi")
int otel_sdk_new(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct live_op *o;
	__u64 kind;

	if (!s || go_read(&kind, 8, GO_P6(ctx) + s->at[F_CONFIG_KIND]) || kind != SPAN_KIND_SERVER)
		return 0;
	o = serving(s, &c, GO_G(ctx), GO_P2(ctx), GO_P3(ctx));
	if (!o || o->covered)
		return 0;
	o->flags &= ~EVENT_SAMPLED; /* as long as nothing says that the span is recorded */
	o->covered = COVERED_SDK;
	return 0;
}

/* func (s *recordingSpan) runtimeTrace(ctx context.Context) context.Context: once for each span
 * that is recorded, when it has all its ids. */
SEC("uprobe.multi")
int otel_sdk_started(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct live_op *o;
	__u64 kind, id[4];

	if (!s || go_read(&kind, 8, GO_P1(ctx) + s->at[F_SPAN_KIND]) || kind != SPAN_KIND_SERVER)
		return 0;
	o = serving(s, &c, GO_G(ctx), GO_P2(ctx), GO_P3(ctx));
	if (!o || o->covered != COVERED_SDK ||
	    go_read(id, sizeof(id), GO_P1(ctx) + s->at[F_SPAN_CONTEXT]) || !id[2])
		return 0;
	set_u64(o->trace_id, id[0]);
	set_u64(o->trace_id + 8, id[1]);
	set_u64(o->span_id, id[2]);
	if (id[3] & 1)
		o->flags |= EVENT_SAMPLED;
	o->covered = COVERED_SPAN;
	return 0;
}
