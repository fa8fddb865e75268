/* What this machine's CPU can run: the level of the kernels that may be used. */
#ifndef DI_BASE_CPU_H
#define DI_BASE_CPU_H

#include <stdbool.h>

/* Levels of one architecture include the ones before, AMX all but AVX512BF16. */
typedef enum di_isa {
    DI_ISA_REF,        /* plain C */
    DI_ISA_NEON,       /* aarch64: ASIMD */
    DI_ISA_AVX2,       /* x86-64-v3: AVX2, FMA, F16C, BMI2 */
    DI_ISA_AVX512,     /* x86-64-v4: AVX-512 F, CD, BW, DQ, VL */
    DI_ISA_AVX512VNNI, /* Ice Lake, Zen 4: and VBMI, VBMI2, VNNI, BITALG */
    DI_ISA_AVX512BF16, /* Zen 4: and VDPBF16PS as often as a multiply-add */
    DI_ISA_AMX,        /* Sapphire Rapids: and AMX tiles with bf16 and int8 */
    DI_N_ISAS
} di_isa;

/* "ref", "neon", "avx2", ... */
const char *di_isa_name(di_isa isa);
/* A machine of a level has what another level needs. */
bool di_isa_includes(di_isa level, di_isa needed);
/* Kernels of this level exist on the architecture this is built for. */
bool di_isa_is_built(di_isa isa);
/* The highest level of this machine that the operating system has enabled. Any thread; the first
 * call asks the system for AMX tiles, a permission of the whole process. */
di_isa di_cpu_isa(void);

#endif
