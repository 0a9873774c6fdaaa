//! Functions that are compiled for several instruction sets.

/// Compiles a function for several instruction sets, and chooses among the copies at run time: for wide vectors, or
/// for the sets that `targets(...):` names in front of it.
///
/// What a copy computes must not depend on the set (contract 1): no fused multiply-add, and a fixed order of every
/// sum. `--cfg fedrecsim_no_simd_dispatch` leaves the portable copy alone, so that a test can compare. Code inside is
/// out of rustfmt's reach: where it is long, keep it to a call of an `#[inline(always)]` function, which takes the
/// copy's instruction set over, as a closure that is not inlined would not.
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
        $crate::model::instruction_sets::per_instruction_set! {
            targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2", "aarch64+neon"):
            $($function)*
        }
    };
}
pub(super) use per_instruction_set;
