// Included right after hwy/highway.h by every file that foreach_target compiles once per target,
// and before HWY_BEFORE_NAMESPACE. No include guard: it must act for each target.
//
// Highway 1.0.3 compiles AVX3_DL with avxvnni, another encoding, and without avx512vnni.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq,avx512vnni"
#endif

// Targets without fused multiply-add have no kernels: the reference serves there.
#undef MEADOW_HAVE_SIMD
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSSE3 || \
    HWY_TARGET == HWY_SSE4
#define MEADOW_HAVE_SIMD 0
#else
#define MEADOW_HAVE_SIMD 1
#endif

#undef MEADOW_UNROLL
#define MEADOW_UNROLL _Pragma("GCC unroll 16")

// gcc 12 reorders the sums of an unrolled tile until they no longer fit the registers; an empty asm
// pins one to its place (measured: half the speed without).
#undef MEADOW_PIN
#if HWY_ARCH_X86
#define MEADOW_PIN(v) asm volatile("" : "+v"((v).raw))
#else
#define MEADOW_PIN(v)
#endif
