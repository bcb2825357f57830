/* Any bytes as the writable segment of a program: version and module lines. */
#include "fuzz_file.h"
#include "gobin/buildinfo.h"
#include "tests/elf_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image h = elf_image(64, sizeof(h), 0x401000 + sizeof(h), size, size);
	struct buildinfo b = { 0 };
	enum gobin_why why;
	struct exe e;

	if (exe_open(&e, fuzz_file(&h, sizeof(h), data, size), &why) == 0 &&
	    buildinfo_read(&e, &b) == 0) {
		for (size_t i = 0; i < b.nmodules; i++)
			if (strchr(b.modules[i].path, '\n') || strchr(b.modules[i].version, '\t'))
				abort();
		(void)buildinfo_minor(b.version);
		if (!b.main_path)
			abort();
	}
	buildinfo_clear(&b);
	exe_close(&e);
	return 0;
}
