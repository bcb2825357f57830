/* `spoor config`: what is in effect, and why. */
#include "base/config.h"
#include "commands.h"

int config_main(int argc, char **argv)
{
	bool json = false, show_defaults = false;
	const struct config_switch switches[] = {
		{ "--json", &json, "as JSON" },
		{ "--defaults", &show_defaults, "a YAML file with every option at its default" },
		{ NULL, NULL, NULL },
	};
	auto_config struct config *cfg = NULL;
	int rest, r = config_load_with(&cfg, argc, argv, &rest, switches);

	if (r < 0)
		return 1;
	if (r == 0 && rest < argc) {
		(void)fprintf(stderr, "spoor config: '%s' is not a flag\n", argv[rest]);
		return EXIT_USAGE;
	}
	if (r == 0 && show_defaults)
		config_defaults(stdout);
	else if (r == 0)
		config_print(cfg, json);
	return fflush(stdout) == 0 ? 0 : 1;
}
