/* Any bytes as the configuration file: refused or taken, never a crash, and what is taken prints
 * and parses back. */
#include "base/log.h"
#include "base/settings.h"

#include <fcntl.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	(void)clearenv();
	log_setup(LOG_ERROR, false);
	return 0;
}

/* Lines of the log are made (that is what is tested), but not shown. */
static void hush(bool on)
{
	static int saved = -1, null = -1;

	if (saved < 0) {
		saved = dup(STDERR_FILENO);
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	}
	(void)dup2(on ? null : saved, STDERR_FILENO);
}

static void parses_back(const struct option *o, const struct config *cfg)
{
	auto_free char *text = NULL;
	char why[OPTION_WHY];
	union option_value value, again = { 0 };
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	value = option_value(o, cfg);
	option_print(f, o, &value);
	(void)fclose(f);
	if (o->type == OPTION_LIST ||
	    o->type == OPTION_MAP) /* items of a YAML sequence may hold commas */
		return;
	if (option_parse(o, text, &again, why) != 0)
		abort();
	if (o->type == OPTION_STRING || o->type == OPTION_ENUM)
		free(again.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings *s = calloc(1, sizeof(*s));
	struct config *cfg = (struct config *)s;

	if (!s)
		return 0;
	hush(true);
	settings_yaml(s, "fuzz", (const char *)data, size);
	hush(false);
	for (size_t i = 0; i < OPTION_COUNT && s->errors == 0; i++)
		if (s->origin[i].from == FROM_FILE)
			parses_back(&options[i], cfg);
	config_free(&cfg);
	return 0;
}
