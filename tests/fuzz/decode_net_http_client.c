/* Any bytes as a record of the library net_http_client. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_decode(fuzz_lib("net_http_client"), data, size);
	return 0;
}
