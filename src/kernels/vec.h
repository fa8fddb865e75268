/* The sixteen lanes of the level a file is compiled for (CMakeLists.txt, by its suffix). */
#ifndef DI_KERNELS_VEC_H
#define DI_KERNELS_VEC_H

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "kernels/vec_avx512.h"
#elif defined(__AVX2__)
#include "kernels/vec_avx2.h"
#else
#error "no lanes for this level"
#endif

#endif
