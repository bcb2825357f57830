/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * write.bpf.h - outbound trace context of gRPC calls: three hits more an attempt, and programs that
 * are loaded only where FEATURE_WRITE is on. From the goroutine of the attempt to the header fields
 * that it makes, from these to the frame that loopyWriter writes.
 *
 * Sources: internal/transport/{http2_client,controlbuf,http_util}.go. */
#pragma once
#include "op.bpf.h"

/* A call by which an SDK exports: it has no span. */
GO_APART int write_is_export(struct scratch *b, const struct go_slot *s)
{
	struct go_str method;
	__u64 w[2];

	if (!b || !s ||
	    go_read(&method, sizeof(method), go_u64(&b->cs, s->at[F_CS_HDR]) + s->at[F_HDR_METHOD]))
		return 1;
	if (method.len < 16 || go_read(w, sizeof(w), method.ptr))
		return 0;
	return w[0] == GO_TEXT8('/', 'o', 'p', 'e', 'n', 't', 'e', 'l') &&
	       w[1] == GO_TEXT8('e', 'm', 'e', 't', 'r', 'y', '.', 'p');
}

/* An attempt begins on this goroutine: what it sends next is this call's. */
static __always_inline void write_attempt(struct scratch *b, const struct go_slot *s,
					  const struct op *op, __u64 g)
{
	struct op_key k;

	if (!(s->parts & GRPC_PART_WRITE))
		return;
	k = write_key(b->k.slot, WRITE_ATTEMPT, g);
	if (!op || !op->active || op->stream != b->k.id || write_is_export(b, s)) {
		count(propagation_no_span);
		(void)bpf_map_delete_elem(&writes, &k);
		return;
	}
	write_ids_of(&b->ids, &op->ev, b->g.goid);
	write_put(&k, &b->ids);
}

/* In func (t *http2Client) NewStream(ctx context.Context, callHdr *CallHdr, ...), where
 * createHeaderFields(...) ([]hpack.HeaderField, error) has returned. */
SEC("uprobe.multi")
int grpc_write_fields(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct write_ids ids;
	struct op_key k;

	if (!s)
		return 0;
	k = write_key(c.slot, WRITE_ATTEMPT, GO_G(ctx));
	if (write_take(&ids, &k, c.generation) || ids.owner != go_goid(ctx, s))
		return 0;
	if (!GO_P1(ctx)) /* it has failed */
		return 0;
	ids.owner = 0;
	k = write_key(c.slot, WRITE_CALL, GO_P1(ctx));
	write_put(&k, &ids);
	return 0;
}

/* []hpack.HeaderField: Name 0, Value 16, Sensitive 32. */
#define FIELD_SIZE   40
#define FIELDS_MAX   128
/* RFC 7541, 4.1: what a field counts for in a list of headers. */
#define FIELD_COUNTS 32
/* What servers take at least, by default: 8 KiB. */
#define LIST_MAX     (8192 - FIELD_COUNTS - 11 - TRACEPARENT_VALUE)

struct write_scan {
	__u64 at, n, size;
	__u32 own, unread;
};

static long write_scan_step(__u32 i, struct write_scan *w)
{
	__u64 field[4], name[2] = {};

	if (i >= w->n)
		return 1;
	if (go_read(field, sizeof(field), w->at + (__u64)i * FIELD_SIZE)) {
		w->unread = 1;
		return 1;
	}
	w->size += field[1] + field[3] + FIELD_COUNTS;
	if (field[1] != 11)
		return 0;
	if (go_read(name, 11, field[0])) {
		w->unread = 1;
		return 1;
	}
	if ((name[0] | KEY_LOWER) == KEY_TRACEPAR && (name[1] | 0x202020) == KEY_ENT)
		w->own = 1;
	return 0;
}

/* Whether a field may be added to these: the program's own wins, wherever in it that came from.
 * Counted if not. Apart, for its own frame. */
GO_APART int write_may(__u64 fields, __u64 n)
{
	struct write_scan w = { .at = fields, .n = n };

	if (n > FIELDS_MAX) {
		count(propagation_no_space);
		return 0;
	}
	bpf_loop(FIELDS_MAX, write_scan_step, &w, 0);
	if (w.own)
		count(propagation_own);
	else if (w.unread)
		count(propagation_unreadable);
	else if (w.size > LIST_MAX)
		count(propagation_no_space);
	else
		return 1;
	return 0;
}

/* func (l *loopyWriter) writeHeader(streamID uint32, endStream bool, hf []hpack.HeaderField,
 * onWrite func()) error: also of servers, and of trailers, which nobody has announced. */
SEC("uprobe.multi")
int grpc_write_headers(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	__u32 stream = GO_P2(ctx);
	__u64 framer;
	struct write_ids ids;
	struct op_key k;

	if (!s || !GO_P4(ctx))
		return 0;
	k = write_key(c.slot, WRITE_CALL, GO_P4(ctx));
	if (write_take(&ids, &k, c.generation) || !write_may(GO_P4(ctx), GO_P5(ctx)))
		return 0;
	if (!stream || stream >> 31 || go_read(&framer, 8, GO_P1(ctx) + s->at[F_LOOPY_FRAMER]) ||
	    go_read(&framer, 8, framer + s->at[F_FRAMER_FR])) {
		count(propagation_unreadable);
		return 0;
	}
	k = write_key(c.slot, stream, framer);
	write_put(&k, &ids);
	return 0;
}

static __always_inline int is_buf_writer(const struct go_type_name *t)
{
	return go_type_is(t, 20, GO_TEXT8('*', 't', 'r', 'a', 'n', 's', 'p', 'o'),
			  GO_TEXT8('r', 't', '.', 'b', 'u', 'f', 'W', 'r'),
			  GO_TEXT8('i', 't', 'e', 'r', 0, 0, 0, 0));
}

/* What is empty of the buffer that the Framer writes to. */
GO_APART int write_spare_of(struct scratch *b, const struct go_slot *s, struct write_spare *spare,
			    __u64 w_at)
{
	__u64 w[2], buf[2], offset, at;

	if (!b || !s || !spare)
		return 0;
	spare->at = spare->n = 0;
	if (go_read(w, sizeof(w), w_at) || go_type_name(&b->name, s, w[0]) ||
	    !is_buf_writer(&b->name))
		return 0;
	if (s->at[F_BUF_BUF] != GO_ABSENT)
		at = w[1] + s->at[F_BUF_BUF];
	else if (s->at[F_BUF_HANDLE] == GO_ABSENT || go_read(&at, 8, w[1] + s->at[F_BUF_HANDLE]) ||
		 !at)
		return 0;
	if (go_read(buf, sizeof(buf), at) || go_read(&offset, 8, w[1] + s->at[F_BUF_OFFSET]) ||
	    offset >= buf[1])
		return 0;
	spare->at = buf[0] + offset;
	spare->n = buf[1] - offset;
	return 0;
}

/* func (f *Framer) WriteHeaders(p HeadersFrameParam) error, of golang.org/x/net/http2 */
SEC("uprobe.multi")
int grpc_write_frame(struct pt_regs *ctx)
{
	__u64 param = WRITE_PARAM(ctx), framer = GO_P1(ctx);
	struct write_spare spare = {};
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct write_ids ids;
	struct scratch *b;
	struct op_key k;
	__u32 stream;

	if (!s || go_read(&stream, 4, param))
		return 0;
	k = write_key(c.slot, stream, framer);
	if (!stream || stream >> 31 || write_take(&ids, &k, c.generation))
		return 0;
	b = grpc_scratch_take();
	if (!b)
		return 0;
	write_spare_of(b, s, &spare, framer + s->at[F_H2_FRAMER_W]);
	grpc_scratch_put(b);
	write_field(&ids, param, &spare);
	return 0;
}
