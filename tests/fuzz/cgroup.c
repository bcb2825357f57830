/* Lines of /proc/PID/cgroup: whatever they say, an id is 64 hex digits or nothing. */
#include "discover/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_cgroup found;
	size_t n;

	proc_cgroup_parse((const char *)data, size, &found);
	n = strnlen(found.container_id, sizeof(found.container_id));
	if (n != 0 && n != CONTAINER_ID_LEN)
		abort();
	if (strnlen(found.pod_uid, sizeof(found.pod_uid)) > POD_UID_MAX ||
	    (found.pod_uid[0] && n == 0))
		abort();
	for (size_t i = 0; i < n; i++)
		if (!strchr("0123456789abcdef", found.container_id[i]))
			abort();
	return 0;
}
