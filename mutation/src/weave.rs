//! Puts mutants into the text of a file, each behind a switch.

use std::cmp::Reverse;
use std::ops::Range;

use crate::mutant::{Edit, Mutant};

/// The environment variable that holds the number of the mutant that is on.
pub const VARIABLE: &str = "FEDRECSIM_MUTANT";

/// The module that the copy's `lib.rs` gets, on one line so that no line moves. It is read once, at
/// the first question.
pub const SWITCH: &str = concat!(
    "mod mutation_switch { ",
    "static ON: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| ",
    "std::env::var(\"FEDRECSIM_MUTANT\").ok().and_then(|on| on.parse().ok()).unwrap_or(usize::MAX)); ",
    "#[inline] pub fn is_on(mutant: usize) -> bool { *ON == mutant } }\n",
);

/// The attribute with which the copy's `lib.rs` begins, on its first line. Without it, a mutant
/// that always panics would not compile where the compiler sees that.
pub const ALLOWED: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)] ";

/// A text with mutants.
pub struct Woven {
    /// The text.
    pub text: String,
    /// Where each mutant is in it.
    pub pieces: Vec<Piece>,
}

/// The place of a mutant in the text that it was put into, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the mutant.
    pub mutant: usize,
    /// What was put before the code that is there without the mutant: the switch and the other
    /// code.
    pub added: Range<usize>,
    /// All of it, with the code that is there without the mutant.
    pub whole: Range<usize>,
}

/// What one mutant puts into the text.
struct Insertion {
    mutant: usize,
    range: Range<usize>,
    before: String,
    after: &'static str,
}

/// Puts `mutants`, with their numbers, into the text of their file. Where mutants are inside each
/// other, the inner ones are in the code that is there without the outer ones, since one mutant at
/// most is on.
pub fn weave<'a>(text: &str, mutants: impl IntoIterator<Item = (usize, &'a Mutant)>) -> Woven {
    let insertions: Vec<Insertion> = mutants
        .into_iter()
        .map(|(number, mutant)| insertion(number, &mutant.edit))
        .collect();
    // (byte of the text, order within the byte, insertion, whether it ends)
    let mut events = Vec::new();
    for (place, insertion) in insertions.iter().enumerate() {
        let Range { start, end } = insertion.range;
        if start == end {
            events.push(((start, 1, Reverse(0), Reverse(0), place), place, false));
        } else {
            // Inner ranges end first, and begin last.
            events.push(((start, 2, Reverse(end), Reverse(0), place), place, false));
            events.push(((end, 0, Reverse(start), Reverse(place), 0), place, true));
        }
    }
    events.sort_unstable_by_key(|(order, ..)| *order);
    let mut woven = String::with_capacity(text.len());
    let mut pieces: Vec<Piece> = insertions
        .iter()
        .map(|insertion| Piece {
            mutant: insertion.mutant,
            added: 0..0,
            whole: 0..0,
        })
        .collect();
    let mut copied = 0;
    for ((at, ..), place, ends) in events {
        woven.push_str(&text[copied..at]);
        copied = at;
        let (insertion, piece) = (&insertions[place], &mut pieces[place]);
        if ends {
            woven.push_str(insertion.after);
        } else {
            piece.added.start = woven.len();
            piece.whole.start = woven.len();
            woven.push_str(&insertion.before);
            piece.added.end = woven.len();
        }
        piece.whole.end = woven.len();
    }
    woven.push_str(&text[copied..]);
    Woven {
        text: woven,
        pieces,
    }
}

fn insertion(mutant: usize, edit: &Edit) -> Insertion {
    let on = format!("crate::mutation_switch::is_on({mutant})");
    match edit {
        Edit::Expression { range, replacement } => {
            let before = format!("(if {on} {{ {replacement} }} else {{ ");
            Insertion {
                mutant,
                range: range.clone(),
                before,
                after: " })",
            }
        }
        Edit::Return { at, value } => Insertion {
            mutant,
            range: *at..*at,
            before: format!(" if {on} {{ return {value}; }}"),
            after: "",
        },
        Edit::Arm { at, guard: None } => Insertion {
            mutant,
            range: *at..*at,
            before: format!(" if !{on}"),
            after: "",
        },
        Edit::Arm {
            guard: Some(range), ..
        } => Insertion {
            mutant,
            range: range.clone(),
            before: format!("!{on} && ("),
            after: ")",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    /// Returns the text with all of its mutants whose change begins with one of `changes`, `is_on`
    /// written as `on`.
    fn woven(text: &str, changes: &[&str]) -> String {
        let found = find::mutants("src/x.rs", text).unwrap();
        let chosen = found.iter().filter(|mutant| {
            changes
                .iter()
                .any(|change| mutant.change.starts_with(change))
        });
        let woven = weave(text, chosen.enumerate());
        syn::parse_file(&woven.text).unwrap_or_else(|error| panic!("{error}: {}", woven.text));
        for piece in &woven.pieces {
            let (added, whole) = (
                &woven.text[piece.added.clone()],
                &woven.text[piece.whole.clone()],
            );
            assert!(
                added.contains(&format!("is_on({})", piece.mutant)) && whole.starts_with(added),
                "{whole}"
            );
        }
        assert_eq!(
            woven.text.lines().count(),
            text.lines().count(),
            "no line moves"
        );
        woven.text.replace("crate::mutation_switch::is_on", "on")
    }

    #[test]
    fn an_expression_is_put_behind_its_switch() {
        let text = woven("fn f() { if a < b + 1 {} }", &["replace < with <="]);
        assert_eq!(
            text,
            "fn f() { if (if on(0) { (a) <= (b + 1) } else { a < b + 1 }) {} }"
        );
        let text = woven("fn f() { a += b; }", &["replace += with -="]);
        assert_eq!(text, "fn f() { (if on(0) { a -= (b) } else { a += b }); }");
    }

    #[test]
    fn an_inner_change_stays_in_the_code_without_the_outer_one() {
        let text = woven("fn f() { g(a + b + c) }", &["replace + with -"]);
        let inner = "(if on(1) { (a) - (b) } else { a + b })";
        let either_inner = "(if on(0) { (a) - (b) } else { a + b })";
        let outer = |on: u8, inner: &str| {
            format!("fn f() {{ g((if on({on}) {{ (a + b) - (c) }} else {{ {inner} + c }})) }}")
        };
        assert!(
            [outer(0, inner), outer(1, either_inner)].contains(&text),
            "{text}"
        );
    }

    #[test]
    fn two_changes_of_one_expression_are_one_inside_the_other() {
        let text = woven("fn f() { g(a < b) }", &["replace <"]);
        let expected = "fn f() { g((if on(0) { (a) == (b) } else { (if on(1) { (a) > (b) } else { \
                        (if on(2) { (a) <= (b) } else { a < b }) }) })) }";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_body_returns_before_anything_else() {
        let text = woven(
            "fn f() -> bool {!a}",
            &["replace the body with true", "delete !"],
        );
        assert_eq!(
            text,
            "fn f() -> bool { if on(0) { return true; }(if on(1) { a } else { !a })}"
        );
    }

    #[test]
    fn an_arm_is_passed_over_whether_it_has_a_guard_or_not() {
        let text = woven(
            "fn f() { match a { X => 1, Y if b => 2, _ => 3 } }",
            &["delete", "replace the match guard with t"],
        );
        let expected = "fn f() { match a { X if !on(0) => 1, Y if !on(1) && ((if on(2) { true } else { b })) => 2, _ => 3 } }";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_switch_is_rust_and_reads_the_variable() {
        assert!(syn::parse_file(SWITCH).is_ok());
        assert!(SWITCH.contains(&format!("\"{VARIABLE}\"")));
    }
}
