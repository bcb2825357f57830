// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "otel_sdk.h"
#include "go.h"

SEC("uprobe.multi")
int otel_sdk_new(struct pt_regs *ctx)
{
	struct cookie c;
	(void)go_slot(ctx, &c);
	return 0;
}

SEC("uprobe.multi")
int otel_sdk_started(struct pt_regs *ctx)
{
	struct cookie c;
	(void)go_slot(ctx, &c);
	return 0;
}
