#include "kernels/quantize/quantize_vec.h"
