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
