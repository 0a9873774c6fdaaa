//! Operators by which an operator may be replaced.

use syn::BinOp;

/// Returns how a binary operator is written, and the operators by which it is to be replaced, as
/// cargo-mutants does it.
pub fn instead_of(operator: &BinOp) -> (&'static str, &'static [&'static str]) {
    match operator {
        BinOp::Eq(_) => ("==", &["!="]),
        BinOp::Ne(_) => ("!=", &["=="]),
        BinOp::Lt(_) => ("<", &["==", ">", "<="]),
        BinOp::Gt(_) => (">", &["==", "<", ">="]),
        BinOp::Le(_) => ("<=", &[">"]),
        BinOp::Ge(_) => (">=", &["<"]),
        BinOp::And(_) => ("&&", &["||"]),
        BinOp::Or(_) => ("||", &["&&"]),
        BinOp::Add(_) => ("+", &["-", "*"]),
        BinOp::Sub(_) => ("-", &["+", "/"]),
        BinOp::Mul(_) => ("*", &["+", "/"]),
        BinOp::Div(_) => ("/", &["%", "*"]),
        BinOp::Rem(_) => ("%", &["/", "+"]),
        BinOp::BitAnd(_) => ("&", &["|", "^"]),
        BinOp::BitOr(_) => ("|", &["&", "^"]),
        BinOp::BitXor(_) => ("^", &["|", "&"]),
        BinOp::Shl(_) => ("<<", &[">>"]),
        BinOp::Shr(_) => (">>", &["<<"]),
        BinOp::AddAssign(_) => ("+=", &["-=", "*="]),
        BinOp::SubAssign(_) => ("-=", &["+=", "/="]),
        BinOp::MulAssign(_) => ("*=", &["+=", "/="]),
        BinOp::DivAssign(_) => ("/=", &["%=", "*="]),
        BinOp::RemAssign(_) => ("%=", &["/=", "+="]),
        BinOp::BitAndAssign(_) => ("&=", &["|=", "^="]),
        BinOp::BitOrAssign(_) => ("|=", &["&=", "^="]),
        BinOp::BitXorAssign(_) => ("^=", &["|=", "&="]),
        BinOp::ShlAssign(_) => ("<<=", &[">>="]),
        BinOp::ShrAssign(_) => (">>=", &["<<="]),
        _ => ("", &[]),
    }
}

/// Returns whether an operator changes its left side.
pub fn assigns(operator: &str) -> bool {
    operator.ends_with('=') && !["==", "!=", "<=", ">="].contains(&operator)
}
