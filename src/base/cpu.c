#include "base/cpu.h"

#include <pthread.h>

static const char *const names[DI_N_ISAS] = {"ref",        "neon",       "avx2", "avx512",
                                             "avx512vnni", "avx512bf16", "amx"};

const char *di_isa_name(di_isa isa)
{
    return names[isa];
}

bool di_isa_includes(di_isa level, di_isa needed)
{
    return needed <= level && !(level == DI_ISA_AMX && needed == DI_ISA_AVX512BF16);
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

bool di_isa_is_built(di_isa isa)
{
    return isa != DI_ISA_NEON;
}

/* Linux gives a process the tiles' state only when asked. */
static bool has_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };
    const unsigned wanted = AMX_BF16 | AMX_TILE | AMX_INT8;
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & wanted) != wanted)
        return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Intel's cores have VDPBF16PS too, but start one every second cycle where they start four FP32
 * multiply-adds; there the kernels without it are twice as fast. */
static bool has_fast_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
}

static di_isa detect(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return DI_ISA_REF;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512cd") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return DI_ISA_AVX2;
    if (!__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vbmi2") ||
        !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bitalg"))
        return DI_ISA_AVX512;
    if (has_amx())
        return DI_ISA_AMX;
    return has_fast_bf16() ? DI_ISA_AVX512BF16 : DI_ISA_AVX512VNNI;
}

#elif defined(__aarch64__)

bool di_isa_is_built(di_isa isa)
{
    return isa <= DI_ISA_NEON;
}

static di_isa detect(void)
{
    return DI_ISA_NEON; /* part of the architecture */
}

#else

bool di_isa_is_built(di_isa isa)
{
    return isa == DI_ISA_REF;
}

static di_isa detect(void)
{
    return DI_ISA_REF;
}

#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static di_isa found;

static void detect_once(void)
{
    found = detect();
}

di_isa di_cpu_isa(void)
{
    pthread_once(&once, detect_once);
    return found;
}
