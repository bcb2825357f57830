/* Any bytes as a record of the library grpc. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_decode(fuzz_lib("grpc"), data, size);
	return 0;
}
