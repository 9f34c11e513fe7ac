/* The tests of test_configs.c as a C++ program: the headers and the default functions work in C++. */
#include "test_configs.c"
