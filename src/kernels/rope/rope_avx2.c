#include "kernels/rope/rope_vec.h"
