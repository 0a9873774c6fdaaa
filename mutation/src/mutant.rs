//! What a mutant is: one small change of the source code that a test should notice.

use std::fmt::{Display, Formatter, Result};
use std::ops::Range;

/// One change of one source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The file, from the root of the repository, such as `src/sim/calendar/mod.rs`.
    pub file: String,
    /// The line of the change, from 1.
    pub line: usize,
    /// The column of the change, from 1.
    pub column: usize,
    /// The function that is changed, with its type, such as `Calendar::cancel`.
    pub function: String,
    /// What is changed, such as "replace < with <= in `a < b`".
    pub change: String,
    /// How the text of the file is changed.
    pub edit: Edit,
    /// A checksum of the function's code. It tells whether a result of an earlier run is still
    /// about this code.
    pub function_checksum: u32,
}

/// How the text of a file is changed so that a mutant can be switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The expression at `range` becomes `replacement` while the mutant is on.
    Expression {
        /// The bytes of the expression.
        range: Range<usize>,
        /// The other expression, on one line unless a string in it has several.
        replacement: String,
    },
    /// The function whose body begins at `at` returns `value` at once while the mutant is on.
    Return {
        /// The byte behind the opening brace of the body.
        at: usize,
        /// An expression of the return type.
        value: String,
    },
    /// The arm of a `match` is passed over while the mutant is on.
    Arm {
        /// The byte behind the arm's pattern.
        at: usize,
        /// The bytes of the arm's guard, without `if`.
        guard: Option<Range<usize>>,
    },
}

impl Mutant {
    /// Returns the name by which `equivalent.toml` lists the mutant. It has no line number, so that
    /// it stays the same when lines move; mutants of the same change of the same text in one
    /// function share it.
    pub fn name(&self) -> String {
        format!("{}: {}: {}", self.file, self.function, self.change)
    }

    /// Returns the name by which results are kept. It changes when the function of the mutant
    /// changes or moves.
    pub fn key(&self) -> String {
        format!("{self} #{:08x}", self.function_checksum)
    }
}

impl Display for Mutant {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let Self {
            file,
            line,
            column,
            function,
            change,
            ..
        } = self;
        write!(formatter, "{file}:{line}:{column}: {change}, in {function}")
    }
}
