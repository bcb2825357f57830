#include "discover/decide.h"

#include "base/config.h"
#include "discover/pod.h"
#include "discover/proc.h"
#include "trace/target.h"

#include <criterion/criterion.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct config cfg;
static struct process proc;
static struct pod_kv annotations[4], labels[2];
static struct container app;
static struct pod pod;
static struct decide_on on;

static struct list list_of(char **v)
{
	struct list l = { v, 0 };

	while (v[l.n])
		l.n++;
	return l;
}

#define LIST(...) list_of((char *[]){ __VA_ARGS__, NULL })

static void set_up(void)
{
	static char *exclude_ns[] = { "kube-system", NULL };
	static char *exclude_exe[] = { "*/otelcol*", "*/kubelet", NULL };

	cfg = (struct config){ .discovery_mode = "annotation",
			       .annotation_prefix = "spoor.dev",
			       .exclude_namespaces = list_of(exclude_ns),
			       .exclude_executables = list_of(exclude_exe) };
	proc = (struct process){ .pid = 100, .container_id = ID, .exe = "/app/server" };
	labels[0] = (struct pod_kv){ "app", "cart" };
	app = (struct container){ .name = "app", .id = ID };
	pod = (struct pod){ .uid = "u",
			    .name = "cart-1",
			    .namespace_ = "shop",
			    .phase = "Running",
			    .runtime_class = "",
			    .labels = labels,
			    .nlabels = 1,
			    .annotations = annotations,
			    .containers = &app,
			    .ncontainers = 1 };
	on = (struct decide_on){ &proc, &pod, &app, true };
}

static void annotate(const char *key, const char *value)
{
	annotations[pod.nannotations++] = (struct pod_kv){ key, value };
}

static void expect(enum decision_state state, const char *reason)
{
	struct decision d = decide(&cfg, &on);

	cr_expect_eq(d.state, state, "%s", d.reason);
	cr_expect_str_eq(d.reason, reason);
	cr_expect_eq(d.signals != 0, state == DECIDE_TRACE);
}

TestSuite(decide, .init = set_up);

Test(decide, an_annotated_pod_is_traced_and_no_other)
{
	expect(DECIDE_NO, "no annotation spoor.dev/instrument");
	annotate("spoor.dev/instrument", "true");
	expect(DECIDE_TRACE, "annotation spoor.dev/instrument is \"true\"");
}

Test(decide, a_value_that_is_neither_true_nor_false_is_shown_and_not_traced)
{
	annotate("spoor.dev/instrument", "yes");
	cfg.discovery_mode = "all";
	expect(DECIDE_NO, "annotation spoor.dev/instrument is \"yes\", which is neither \"true\" "
			  "nor \"false\"");
}

Test(decide, the_prefix_of_the_annotations_is_configured)
{
	cfg.annotation_prefix = "trace.example.com";
	annotate("spoor.dev/instrument", "true");
	expect(DECIDE_NO, "no annotation trace.example.com/instrument");
	annotate("trace.example.com/instrument", "true");
	expect(DECIDE_TRACE, "annotation trace.example.com/instrument is \"true\"");
}

Test(decide, false_wins_over_every_selector)
{
	annotate("spoor.dev/instrument", "false");
	cfg.discovery_mode = "all";
	expect(DECIDE_NO, "annotation spoor.dev/instrument is \"false\"");
	cfg.discovery_mode = "selector";
	cfg.select_namespaces = LIST("*");
	cfg.select_executables = LIST("*");
	cfg.select_pids = LIST("100");
	expect(DECIDE_NO, "annotation spoor.dev/instrument is \"false\"");
}

Test(decide, containers_are_chosen_by_name)
{
	annotate("spoor.dev/instrument", "true");
	annotate("spoor.dev/containers", " sidecar, app ,x");
	expect(DECIDE_TRACE, "annotation spoor.dev/instrument is \"true\"");
	app.name = "ap";
	expect(DECIDE_NO, "annotation spoor.dev/containers does not name \"ap\"");
	app.name = "apps";
	expect(DECIDE_NO, "annotation spoor.dev/containers does not name \"apps\"");
}

Test(decide, signals_are_switched_off_one_by_one)
{
	annotate("spoor.dev/instrument", "true");
	cr_expect_eq(decide(&cfg, &on).signals, SIGNAL_TRACES | SIGNAL_METRICS);
	annotate("spoor.dev/traces", "false");
	cr_expect_eq(decide(&cfg, &on).signals, SIGNAL_METRICS);
	annotate("spoor.dev/metrics", "false");
	expect(DECIDE_NO, "annotations spoor.dev/traces and spoor.dev/metrics are \"false\"");
}

Test(decide, an_unknown_container_waits_unless_its_pod_is_known_not_to_want_it)
{
	on.pod = NULL;
	on.container = NULL;
	expect(DECIDE_LATER, "the kubelet does not know container 0123456789ab yet");
	on.pod = &pod;
	expect(DECIDE_NO, "no annotation spoor.dev/instrument");
	annotate("spoor.dev/instrument", "true");
	expect(DECIDE_LATER, "the kubelet does not know container 0123456789ab of this pod yet");
}

Test(decide, a_selector_wants_all_of_its_lists_to_match)
{
	cfg.discovery_mode = "selector";
	expect(DECIDE_NO, "discovery.mode is \"selector\", and no selector is given");
	cfg.select_namespaces = LIST("web", "sh*");
	expect(DECIDE_TRACE, "discovery.mode is \"selector\", and the selectors match");
	cfg.select_labels = LIST("app=cart", "tier");
	expect(DECIDE_NO, "discovery.labels: the pod has no \"tier\"");
	labels[1] = (struct pod_kv){ "tier", "back" };
	pod.nlabels = 2;
	expect(DECIDE_TRACE, "discovery.mode is \"selector\", and the selectors match");
	cfg.select_executables = LIST("/usr/*");
	expect(DECIDE_NO, "discovery.executables does not match");
	cfg.select_executables = LIST("/app/*");
	expect(DECIDE_TRACE, "discovery.mode is \"selector\", and the selectors match");
	pod.namespace_ = "other";
	expect(DECIDE_NO, "discovery.namespaces does not match");
}

Test(decide, excluded_namespaces_and_executables_are_only_traced_by_annotation)
{
	cfg.discovery_mode = "all";
	expect(DECIDE_TRACE, "discovery.mode is \"all\"");
	pod.namespace_ = "kube-system";
	expect(DECIDE_NO, "discovery.exclude_namespaces has \"kube-system\"");
	pod.namespace_ = "shop";
	strcpy(proc.exe, "/otelcol-contrib");
	expect(DECIDE_NO, "discovery.exclude_executables has \"*/otelcol*\"");
	annotate("spoor.dev/instrument", "true");
	expect(DECIDE_TRACE, "annotation spoor.dev/instrument is \"true\"");
	pod.namespace_ = "kube-system";
	expect(DECIDE_TRACE, "annotation spoor.dev/instrument is \"true\"");
}

Test(decide, without_kubernetes_executables_and_pids_select)
{
	on = (struct decide_on){ .proc = &proc };
	expect(DECIDE_NO, "neither discovery.executables nor discovery.pids names it");
	cfg.select_executables = LIST("*/other", "*/server");
	expect(DECIDE_TRACE, "discovery.executables has \"*/server\"");
	strcpy(proc.exe, "/usr/bin/kubelet");
	cfg.select_executables = LIST("*");
	expect(DECIDE_NO, "discovery.exclude_executables has \"*/kubelet\"");
	cfg.select_pids = LIST("99", "100");
	expect(DECIDE_TRACE, "discovery.pids has 100");
}

Test(decide, with_kubernetes_a_process_in_no_pod_needs_to_be_named)
{
	proc.container_id[0] = '\0';
	on = (struct decide_on){ .proc = &proc, .kubernetes = true };
	cfg.discovery_mode = "all";
	expect(DECIDE_NO, "in no pod");
	cfg.select_pids = LIST("100");
	expect(DECIDE_TRACE, "discovery.pids has 100");
}

Test(decide, the_agent_never_traces_itself)
{
	proc.pid = getpid();
	annotate("spoor.dev/instrument", "true");
	expect(DECIDE_NO, "this agent itself");
}

Test(decide, what_the_runtime_runs_in_a_container_is_not_its_program)
{
	annotate("spoor.dev/instrument", "true");
	strcpy(proc.exe, "/usr/sbin/runc");
	expect(DECIDE_NO, "the container runtime's own process, before it starts the program");
	strcpy(proc.exe, "/memfd:runc_cloned:/proc/self/exe");
	expect(DECIDE_NO, "the container runtime's own process, before it starts the program");
	strcpy(proc.exe, "/usr/local/bin/runsc");
	expect(DECIDE_UNSUPPORTED,
	       "gVisor: the program runs on a kernel of its own, which no probe reaches");
}

Test(decide, a_pod_is_judged_before_a_process_of_it_is_seen)
{
	struct decision d = decide_pod(&cfg, &pod);

	cr_expect_eq(d.state, DECIDE_NO);
	annotate("spoor.dev/instrument", "true");
	d = decide_pod(&cfg, &pod);
	cr_expect_eq(d.state, DECIDE_TRACE);
	pod.runtime_class = "gvisor";
	d = decide_pod(&cfg, &pod);
	cr_expect_eq(d.state, DECIDE_UNSUPPORTED);
	pod.phase = "Succeeded";
	d = decide_pod(&cfg, &pod);
	cr_expect_eq(d.state, DECIDE_NO);
	cr_expect_str_eq(d.reason, "the pod has ended (phase Succeeded)");
}
