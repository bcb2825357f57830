/* Semantic conventions 1.44, "OS process metrics"; proc(5). */
#include "metrics/process.h"

#include "base/config.h"
#include "pipeline/resource.h"
#include "trace/target.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define SCOPE "spoor/process"

/* A process that was read before. */
struct known {
	struct known *next;
	int pid;
	uint64_t start_time;
	bool seen; /* in this round */
	struct process_switches switches;
};

struct process_source {
	const char *proc_root;
	struct targets *targets;
	pthread_mutex_t lock; /* of known */
	struct known *known;
};

int process_source_new(struct process_source **out, const struct config *cfg, struct targets *t)
{
	struct process_source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	(void)pthread_mutex_init(&s->lock, NULL);
	s->proc_root = cfg->proc_root;
	s->targets = t;
	*out = s;
	return 0;
}

/* Forgets those that were not seen. */
static void forget(struct process_source *s)
{
	for (struct known **at = &s->known; *at;) {
		struct known *k = *at;

		if (k->seen) {
			k->seen = false;
			at = &k->next;
			continue;
		}
		*at = k->next;
		free(k->switches.v);
		free(k);
	}
}

void process_source_free(struct process_source **p)
{
	struct process_source *s = take(*p);

	if (!s)
		return;
	forget(s);
	forget(s);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

/* NULL: no memory. */
static struct known *known_of(struct process_source *s, const struct target_ref *t)
{
	struct known *k = s->known;

	while (k && (k->pid != t->pid || k->start_time != t->start_time))
		k = k->next;
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->pid = t->pid;
	k->start_time = t->start_time;
	k->next = s->known;
	s->known = k;
	return k;
}

int process_switched(struct process_switches *s, int tid, int64_t voluntary, int64_t involuntary)
{
	struct process_thread *t = NULL;

	for (size_t i = 0; i < s->n && !t; i++)
		if (s->v[i].tid == tid)
			t = &s->v[i];
	if (!t) {
		t = reallocarray(s->v, s->n + 1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		s->v = t;
		t = &s->v[s->n++];
		*t = (struct process_thread){ .tid = tid };
	}
	if (voluntary + involuntary < t->voluntary + t->involuntary) { /* another of that number */
		s->voluntary += t->voluntary;
		s->involuntary += t->involuntary;
	}
	t->voluntary = voluntary;
	t->involuntary = involuntary;
	t->seen = true;
	return 0;
}

void process_switches(struct process_switches *s, int64_t *voluntary, int64_t *involuntary)
{
	size_t n = 0;

	*voluntary = *involuntary = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct process_thread t = s->v[i];

		if (!t.seen) { /* it has ended */
			s->voluntary += t.voluntary;
			s->involuntary += t.involuntary;
			continue;
		}
		*voluntary += t.voluntary;
		*involuntary += t.involuntary;
		t.seen = false;
		s->v[n++] = t;
	}
	s->n = n;
	*voluntary += s->voluntary;
	*involuntary += s->involuntary;
}

/* ---- /proc ---- */

/* A file of the folder, NUL-terminated. Its length or -errno. */
static ssize_t read_file(int folder, const char *name, char *out, size_t size)
{
	auto_close int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	if (n < 0)
		return -errno;
	out[n] = '\0';
	return n;
}

/* Numbers of stat behind the command, which may hold anything: the state, 3, is the first field. */
enum {
	STAT_STATE = 3,
	STAT_USER = 14,
	STAT_SYSTEM,
	STAT_THREADS = 20,
	STAT_START = 22,
	STAT_VIRTUAL,
	STAT_RESIDENT,
	STAT_FIELDS
};

static int read_stat(int folder, struct process_numbers *out, uint64_t *start_time)
{
	char text[1024], *p;
	ssize_t n = read_file(folder, "stat", text, sizeof(text));
	long long fields[STAT_FIELDS] = { 0 };
	long hz = sysconf(_SC_CLK_TCK);

	if (n < 0)
		return (int)n;
	p = strrchr(text, ')');
	if (!p || strlen(p) < 4 || hz <= 0)
		return -EBADMSG;
	p += 3; /* ") S" */
	for (int i = STAT_STATE + 1; i < STAT_FIELDS; i++) {
		char *end;

		fields[i] = strtoll(p, &end, 10);
		if (end == p)
			return -EBADMSG;
		p = end;
	}
	out->user_s = (double)fields[STAT_USER] / (double)hz;
	out->system_s = (double)fields[STAT_SYSTEM] / (double)hz;
	out->threads = fields[STAT_THREADS];
	*start_time = (uint64_t)fields[STAT_START];
	out->virtual_bytes = fields[STAT_VIRTUAL];
	out->resident_bytes = fields[STAT_RESIDENT] * sysconf(_SC_PAGESIZE);
	return 0;
}

/* The number behind a name of status, or -1. */
static int64_t number_of(const char *text, const char *name)
{
	const char *p = strstr(text, name);
	char *end;
	int64_t v;

	if (!p)
		return -1;
	p += strlen(name);
	v = strtoll(p, &end, 10);
	return end == p ? -1 : v;
}

static int read_switches(int folder, struct process_numbers *out)
{
	char text[4096];
	ssize_t n = read_file(folder, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	out->voluntary = number_of(text, "\nvoluntary_ctxt_switches:");
	out->involuntary = number_of(text, "\nnonvoluntary_ctxt_switches:");
	return out->voluntary < 0 || out->involuntary < 0 ? -EBADMSG : 0;
}

/* The kernel keeps switches by thread, and forgets those of a thread that has ended: what it had
 * when it was last seen is carried on, so that the sum never falls. */
static int add_threads(int folder, struct process_switches *of, struct process_numbers *out)
{
	int fd = openat(folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *threads = fd < 0 ? NULL : fdopendir(fd);
	int err = 0;

	if (!threads) {
		err = -errno;
		if (fd >= 0)
			(void)close(fd);
		return err;
	}
	for (struct dirent *d = readdir(threads); d && !err; d = readdir(threads)) {
		struct process_numbers one;
		auto_close int thread = -1;

		if (d->d_name[0] == '.')
			continue;
		thread = openat(dirfd(threads), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (thread >= 0 && read_switches(thread, &one) == 0)
			err = process_switched(of, (int)strtol(d->d_name, NULL, 10), one.voluntary,
					       one.involuntary);
	}
	(void)closedir(threads);
	process_switches(of, &out->voluntary, &out->involuntary);
	return err;
}

/* Since Linux 6.2 the folder's size is the number; else they are counted. */
static int64_t count_fds(int folder)
{
	auto_close int fd = openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int64_t n = 0;
	DIR *dir;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_size > 0)
		return st.st_size;
	dir = fdopendir(fd);
	if (!dir)
		return -1;
	(void)take_fd(fd); /* the folder's now */
	for (struct dirent *d = readdir(dir); d; d = readdir(dir))
		n += d->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

int process_numbers(struct process_numbers *out, const char *proc_root, int pid,
		    uint64_t start_time, struct process_switches *switches_of)
{
	struct process_numbers n = { 0 };
	auto_close int folder = -1;
	uint64_t began = 0;
	char path[256];
	int err;

	/* An open folder is of one process; of another that has the pid later nothing is read. */
	(void)snprintf(path, sizeof(path), "%s/%d", proc_root, pid);
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = read_stat(folder, &n, &began);
	if (!err && began != start_time)
		err = -ESRCH;
	if (!err)
		err = add_threads(folder, switches_of, &n);
	if (err)
		return err;
	n.fds = count_fds(folder);
	*out = n;
	return 0;
}

/* ---- points ---- */

static const struct instrument cpu = { .name = "process.cpu.time",
				       .unit = "s",
				       .help = "Total CPU seconds broken down by different states.",
				       .kind = INSTRUMENT_COUNTER,
				       .real = true };
static const struct instrument memory = { .name = "process.memory.usage",
					  .unit = "By",
					  .help = "The amount of physical memory in use.",
					  .kind = INSTRUMENT_UPDOWN };
static const struct instrument mapped = { .name = "process.memory.virtual",
					  .unit = "By",
					  .help = "The amount of committed virtual memory.",
					  .kind = INSTRUMENT_UPDOWN };
static const struct instrument nthreads = { .name = "process.thread.count",
					    .unit = "{thread}",
					    .help = "Process threads count.",
					    .kind = INSTRUMENT_UPDOWN };
static const struct instrument nfds = {
	.name = "process.unix.file_descriptor.count",
	.unit = "{file_descriptor}",
	.help = "Number of unix file descriptors in use by the process.",
	.kind = INSTRUMENT_UPDOWN
};
static const struct instrument switches = {
	.name = "process.context_switches",
	.unit = "{context_switch}",
	.help = "Number of times the process has been context switched.",
	.kind = INSTRUMENT_COUNTER
};

/* Where a process's points go. */
struct emitting {
	const struct point_sink *sink;
	void *arg;
	uint64_t start_ns, now_ns;
};

static void emit(const struct emitting *e, const struct instrument *of, const char *key,
		 const char *value, double real, int64_t number)
{
	struct attr attr = { .key = key, .type = ATTR_STR, .s = str_of(value) };
	struct point p = { .of = of,
			   .attrs = &attr,
			   .nattrs = key != NULL,
			   .cumulative = true,
			   .start_ns = e->start_ns,
			   .time_ns = e->now_ns };

	if (of->real)
		p.d = real;
	else
		p.i = number;
	e->sink->point(e->arg, &p);
}

static void emit_all(const struct emitting *e, const struct process_numbers *n)
{
	emit(e, &cpu, "cpu.mode", "user", n->user_s, 0);
	emit(e, &cpu, "cpu.mode", "system", n->system_s, 0);
	emit(e, &memory, NULL, NULL, 0, n->resident_bytes);
	emit(e, &mapped, NULL, NULL, 0, n->virtual_bytes);
	emit(e, &nthreads, NULL, NULL, 0, n->threads);
	if (n->fds >= 0)
		emit(e, &nfds, NULL, NULL, 0, n->fds);
	emit(e, &switches, "process.context_switch.type", "voluntary", 0, n->voluntary);
	emit(e, &switches, "process.context_switch.type", "involuntary", 0, n->involuntary);
}

static void collect_one(struct process_source *s, const struct target_ref *t,
			const struct emitting *e)
{
	struct known *k = known_of(s, t);
	struct process_numbers n = { 0 };

	if (!k)
		return;
	k->seen = true;
	if (process_numbers(&n, s->proc_root, t->pid, t->start_time, &k->switches) < 0)
		return;
	e->sink->begin(e->arg, t->resource, SCOPE);
	emit_all(e, &n);
}

void process_collect(void *state, const struct collecting *how, const struct point_sink *sink,
		     void *arg)
{
	struct process_source *s = state;
	struct targets_list *list = targets_list(s->targets);

	if (!list)
		return;
	(void)pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < list->n; i++) {
		struct emitting e = { .sink = sink,
				      .arg = arg,
				      .start_ns = list->v[i].born_ns,
				      .now_ns = how->now_ns };

		if (list->v[i].measured)
			collect_one(s, &list->v[i], &e);
	}
	forget(s);
	(void)pthread_mutex_unlock(&s->lock);
	targets_list_free(&list);
}
