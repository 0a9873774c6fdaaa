//! Compiles functions for several instruction sets.

/// Compiles a function for several instruction sets, and chooses among the copies at run time. The
/// sets are those with wide vectors, or those that `targets(...):` names in front of the function.
///
/// The results of a copy must not depend on the set (contract 1), so there is no fused multiply-add
/// and every sum has a fixed order. With `--cfg fedrecsim_no_simd_dispatch` there is only the
/// portable copy, for a test that compares the two. rustfmt does not format code inside the macro.
/// A long function should therefore only call an `#[inline(always)]` function, which is compiled
/// for the copy's instruction set, as a closure that is not inlined would not be.
#[macro_export]
macro_rules! per_instruction_set {
    (targets($($set:tt)*): $($function:tt)*) => {
        #[cfg_attr(
            not(fedrecsim_no_simd_dispatch),
            allow(unsafe_code, reason = "the generated dispatcher calls copies for features that it has detected"),
            multiversion::multiversion(targets($($set)*))
        )]
        $($function)*
    };
    ($($function:tt)*) => {
        $crate::per_instruction_set! {
            targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2", "aarch64+neon"):
            $($function)*
        }
    };
}

/// Ends the work on one block of lanes. Without it the compiler may take the same lane of many blocks at
/// once, which it gathers and scatters value by value: a round of FedMF with 128 dimensions took 2.5
/// times as long.
#[inline(always)]
pub fn end_of_block() {
    // Loads and stores do not move across. If one day they do, only time is lost.
    std::hint::black_box(());
}

/// Returns how much a vector register of the instruction set holds for which kernels are compiled
/// on this machine, in bytes: 64, 32 or 16. NEON counts as 32, as it has twice as many registers of
/// 16. A kernel may keep as many sums at hand as fit, which must change no bit.
#[inline]
pub(crate) fn register_bytes() -> usize {
    #[cfg(all(target_arch = "x86_64", not(fedrecsim_no_simd_dispatch)))]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
        {
            return 64;
        }
        if is_x86_feature_detected!("avx2") {
            return 32;
        }
    }
    if cfg!(target_arch = "aarch64") {
        32
    } else {
        16
    }
}
