#include "discover/decide.h"

#include "base/config.h"
#include "discover/proc.h"
#include "trace/target.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct decision because(enum decision_state state, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static struct decision because(enum decision_state state, const char *fmt, ...)
{
	struct decision d = { .state = state,
			      .signals =
				      state == DECIDE_TRACE ? SIGNAL_TRACES | SIGNAL_METRICS : 0 };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(d.reason, sizeof(d.reason), fmt, ap);
	va_end(ap);
	return d;
}

/* The first glob of the list that matches, or NULL. */
static const char *matches(const struct list *globs, const char *text)
{
	for (size_t i = 0; i < globs->n; i++)
		if (fnmatch(globs->v[i], text, 0) == 0)
			return globs->v[i];
	return NULL;
}

static const char *annotation(const struct config *cfg, const struct pod *pod, const char *name)
{
	char key[256];

	(void)snprintf(key, sizeof(key), "%s/%s", cfg->annotation_prefix, name);
	return pod_annotation(pod, key);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "key=value", or "key" for a label with any value. */
static bool has_label(const struct pod *pod, const char *want)
{
	const char *equals = strchr(want, '=');
	char key[320];
	const char *value;

	(void)snprintf(key, sizeof(key), "%.*s", equals ? (int)(equals - want) : (int)strlen(want),
		       want);
	value = pod_label(pod, key);
	return value && (!equals || strcmp(value, equals + 1) == 0);
}

static bool pid_listed(const struct config *cfg, const struct process *proc)
{
	for (size_t i = 0; i < cfg->select_pids.n; i++)
		if (strtol(cfg->select_pids.v[i], NULL, 10) == proc->pid)
			return true;
	return false;
}

/* A process in no pod: only what names processes can select it. */
static struct decision decide_plain(const struct config *cfg, const struct process *proc,
				    bool kubernetes)
{
	const char *glob;

	if (pid_listed(cfg, proc))
		return because(DECIDE_TRACE, "discovery.pids has %d", proc->pid);
	glob = matches(&cfg->select_executables, proc->exe);
	if (!glob)
		return kubernetes ? because(DECIDE_NO, "in no pod")
				  : because(DECIDE_NO, "neither discovery.executables nor "
						       "discovery.pids names it");
	if (matches(&cfg->exclude_executables, proc->exe))
		return because(DECIDE_NO, "discovery.exclude_executables has \"%s\"",
			       matches(&cfg->exclude_executables, proc->exe));
	return because(DECIDE_TRACE, "discovery.executables has \"%s\"", glob);
}

/* Mode selector: every kind of list that is given must match. proc NULL: the pod as a whole. */
static struct decision decide_selector(const struct config *cfg, const struct pod *pod,
				       const struct process *proc)
{
	bool by_exe = cfg->select_executables.n > 0;

	if (proc && pid_listed(cfg, proc))
		return because(DECIDE_TRACE, "discovery.pids has %d", proc->pid);
	if (!cfg->select_namespaces.n && !cfg->select_labels.n && !by_exe)
		return because(DECIDE_NO,
			       "discovery.mode is \"selector\", and no selector is given");
	if (cfg->select_namespaces.n && !matches(&cfg->select_namespaces, pod->namespace_))
		return because(DECIDE_NO, "discovery.namespaces does not match");
	for (size_t i = 0; i < cfg->select_labels.n; i++)
		if (!has_label(pod, cfg->select_labels.v[i]))
			return because(DECIDE_NO, "discovery.labels: the pod has no \"%s\"",
				       cfg->select_labels.v[i]);
	if (by_exe && proc && !matches(&cfg->select_executables, proc->exe))
		return because(DECIDE_NO, "discovery.executables does not match");
	return because(DECIDE_TRACE, "discovery.mode is \"selector\", and the selectors match");
}

static struct decision decide_unannotated(const struct config *cfg, const struct pod *pod,
					  const struct process *proc)
{
	struct decision d;
	const char *glob;

	if (strcmp(cfg->discovery_mode, "annotation") == 0)
		return because(DECIDE_NO, "no annotation %s/instrument", cfg->annotation_prefix);
	d = strcmp(cfg->discovery_mode, "selector") == 0
		    ? decide_selector(cfg, pod, proc)
		    : because(DECIDE_TRACE, "discovery.mode is \"all\"");
	if (d.state != DECIDE_TRACE)
		return d;
	glob = matches(&cfg->exclude_namespaces, pod->namespace_);
	if (glob)
		return because(DECIDE_NO, "discovery.exclude_namespaces has \"%s\"", glob);
	glob = proc ? matches(&cfg->exclude_executables, proc->exe) : NULL;
	if (glob)
		return because(DECIDE_NO, "discovery.exclude_executables has \"%s\"", glob);
	return d;
}

/* Takes away what the annotations traces and metrics switch off. */
static struct decision limit_signals(const struct config *cfg, const struct pod *pod,
				     struct decision d)
{
	static const struct {
		const char *name;
		uint32_t signal;
	} signals[] = { { "traces", SIGNAL_TRACES }, { "metrics", SIGNAL_METRICS } };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		const char *value = annotation(cfg, pod, signals[i].name);

		if (value && strcmp(value, "false") == 0)
			d.signals &= ~signals[i].signal;
	}
	if (!d.signals)
		return because(DECIDE_NO, "annotations %s/traces and %s/metrics are \"false\"",
			       cfg->annotation_prefix, cfg->annotation_prefix);
	return d;
}

static struct decision decide_in_pod(const struct config *cfg, const struct pod *pod,
				     const struct process *proc)
{
	const char *value = annotation(cfg, pod, "instrument");
	struct decision d;

	if (!value)
		d = decide_unannotated(cfg, pod, proc);
	else if (strcmp(value, "true") == 0)
		d = because(DECIDE_TRACE, "annotation %s/instrument is \"true\"",
			    cfg->annotation_prefix);
	else if (strcmp(value, "false") == 0)
		d = because(DECIDE_NO, "annotation %s/instrument is \"false\"",
			    cfg->annotation_prefix);
	else
		d = because(DECIDE_NO,
			    "annotation %s/instrument is \"%.40s\", which is neither \"true\" nor "
			    "\"false\"",
			    cfg->annotation_prefix, value);
	if (d.state == DECIDE_TRACE)
		d = limit_signals(cfg, pod, d);
	return d;
}

/* A comma-separated list of names with blanks around them. */
static bool in_list(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (*list) {
		size_t n;

		list += strspn(list, ", \t\n");
		n = strcspn(list, ", \t\n");
		if (n == len && memcmp(list, name, n) == 0)
			return true;
		list += n;
	}
	return false;
}

/* What runs in a container's cgroup, but is not its program. */
static struct decision decide_runtime(const struct process *proc, struct decision d)
{
	const char *name = base_name(proc->exe);

	if (strncmp(name, "runsc", 5) == 0 || strncmp(proc->exe, "/memfd:runsc", 12) == 0)
		return because(
			DECIDE_UNSUPPORTED,
			"gVisor: the program runs on a kernel of its own, which no probe reaches");
	if (strcmp(name, "runc") == 0 || strcmp(name, "crun") == 0 || strcmp(name, "youki") == 0 ||
	    strncmp(proc->exe, "/memfd:runc", 11) == 0)
		return because(DECIDE_NO,
			       "the container runtime's own process, before it starts the program");
	return d;
}

struct decision decide(const struct config *cfg, const struct decide_on *on)
{
	const struct pod *pod = on->pod;
	struct decision d;
	const char *names;

	if (on->proc->pid == getpid())
		return because(DECIDE_NO, "this agent itself");
	if (!on->kubernetes || !on->proc->container_id[0])
		return decide_plain(cfg, on->proc, on->kubernetes);
	if (!pod)
		return because(DECIDE_LATER, "the kubelet does not know container %.12s yet",
			       on->proc->container_id);
	d = decide_in_pod(cfg, pod, on->proc);
	if (d.state != DECIDE_TRACE)
		return d;
	names = annotation(cfg, pod, "containers");
	if (!on->container)
		return because(DECIDE_LATER,
			       "the kubelet does not know container %.12s of this pod yet",
			       on->proc->container_id);
	if (names && !in_list(names, on->container->name))
		return because(DECIDE_NO, "annotation %s/containers does not name \"%.60s\"",
			       cfg->annotation_prefix, on->container->name);
	return decide_runtime(on->proc, d);
}

struct decision decide_pod(const struct config *cfg, const struct pod *pod)
{
	struct decision d = decide_in_pod(cfg, pod, NULL);

	if (d.state != DECIDE_TRACE)
		return d;
	if (strcmp(pod->phase, "Succeeded") == 0 || strcmp(pod->phase, "Failed") == 0)
		return because(DECIDE_NO, "the pod has ended (phase %s)", pod->phase);
	if (strstr(pod->runtime_class, "gvisor") || strstr(pod->runtime_class, "runsc") ||
	    strstr(pod->runtime_class, "kata"))
		return because(DECIDE_UNSUPPORTED,
			       "runtimeClassName \"%.40s\": the program runs on a kernel of its "
			       "own, which no probe reaches",
			       pod->runtime_class);
	return d;
}
