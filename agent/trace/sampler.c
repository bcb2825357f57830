#include "trace/sampler.h"

/* The decision of OpenTelemetry's TraceIdRatioBased: the last 8 bytes of the trace id as a
 * big-endian number, shifted right by one, are below ratio * 2^63
 * (opentelemetry-go/sdk/trace/sampling.go). Here without the shift. */
static int parse_ratio(const char *arg, uint64_t *below)
{
	char *end;
	double ratio;

	*below = UINT64_MAX;
	if (!arg || !*arg)
		return 0;
	if (!strchr("0123456789.", *arg))
		return -EINVAL; /* strtod() would take blanks, signs, nan and inf */
	ratio = strtod(arg, &end);
	if (*end || !(ratio >= 0 && ratio <= 1))
		return -EINVAL;
	if (ratio < 1)
		*below = (uint64_t)(ratio * 0x1p63) << 1;
	return 0;
}

int sampler_parse(struct sampler *out, const char *name, const char *arg)
{
	static const char parent[] = "parentbased_";
	struct sampler s = { .sample_below = UINT64_MAX, .sample_inbound = SAMPLE_ROOT };
	int err = 0;

	if (strncmp(name, parent, sizeof(parent) - 1) == 0) {
		s.sample_inbound = SAMPLE_LIKE_PARENT;
		name += sizeof(parent) - 1;
	}
	if (strcmp(name, "always_off") == 0)
		s.sample_below = 0;
	else if (strcmp(name, "traceidratio") == 0)
		err = parse_ratio(arg, &s.sample_below);
	else if (strcmp(name, "always_on") != 0)
		return -ENOENT;
	if (err)
		return err;
	*out = s;
	return 0;
}
