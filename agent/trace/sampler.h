/* sampler.h - turns OTEL_TRACES_SAMPLER and its argument into what the probes decide by. Pure. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"

struct sampler {
	uint64_t sample_below;
	uint8_t sample_inbound;
};

/* name: always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off,
 * parentbased_traceidratio; arg: ratio 0..1,
 * "" is 1. 0; -ENOENT: no such sampler; -EINVAL: the argument is no ratio. */
int sampler_parse(struct sampler *out, const char *name, const char *arg) must_check;
