#include "kernels/compress/compress_vec.h"
