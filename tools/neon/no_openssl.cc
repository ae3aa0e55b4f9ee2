// Stands in for the one OpenSSL function that base/rng.cc names; no test of the kernels calls it.
#include <cstdlib>

extern "C" int RAND_bytes(unsigned char*, int) { std::abort(); }
