use super::*;

/// Returns the changes of a text, with their functions.
fn changes(text: &str) -> Vec<String> {
    let found = mutants("src/x.rs", text).unwrap();
    found
        .into_iter()
        .map(|mutant| format!("{}: {}", mutant.function, mutant.change))
        .collect()
}

/// Returns the changes of an expression, without those of the function around it.
fn changes_in(expression: &str) -> Vec<String> {
    let all = changes(&format!("fn f() {{ {expression} }}"));
    let inner = all
        .iter()
        .filter_map(|change| change.strip_prefix("f: "))
        .filter(|change| !change.contains("body"));
    inner.map(str::to_owned).collect()
}

#[test]
fn bodies_are_replaced_and_named_after_their_type() {
    let text = "impl Queue { fn is_empty(&self) -> bool { self.0.is_empty() } }";
    let expected =
        ["true", "false"].map(|value| format!("Queue::is_empty: replace the body with {value}"));
    assert_eq!(changes(text), expected);
    assert_eq!(
        changes("mod a { trait T { fn f(); fn g() { f() } } }"),
        ["a::T::g: replace the body with ()"]
    );
}

#[test]
fn a_body_that_would_stay_the_same_is_no_mutant() {
    assert_eq!(
        changes("fn f() -> bool { false }"),
        ["f: replace the body with true"]
    );
    assert_eq!(changes("fn f() {}"), [""; 0]);
    assert_eq!(
        changes("impl Default for X { fn default() -> Self { X } }"),
        [""; 0],
        "it would call itself"
    );
}

#[test]
fn operators_are_replaced_by_others_of_their_kind() {
    assert_eq!(changes_in("a == b"), ["replace == with != in `a == b`"]);
    assert_eq!(changes_in("a <= b;"), ["replace <= with > in `a <= b`"]);
    assert_eq!(
        changes_in("n += 1;"),
        [
            "replace += with -= in `n += 1`",
            "replace += with *= in `n += 1`"
        ]
    );
    assert_eq!(
        changes_in("if !a { b(-c) }"),
        ["delete ! in `!a`", "delete - in `-c`"]
    );
    assert_eq!(changes_in("*a = b;"), [""; 0]);
}

#[test]
fn the_place_is_that_of_the_operator_and_the_edit_keeps_operands_together() {
    let text = "fn f() {\n    g(é + 1 == b * 2)\n}";
    let found = mutants("src/x.rs", text).unwrap();
    let equal = found
        .iter()
        .find(|mutant| mutant.change.contains("== with"))
        .unwrap();
    assert_eq!((equal.line, equal.column), (2, 13));
    let start = text.find('é').unwrap();
    let range = start..start + "é + 1 == b * 2".len();
    assert_eq!(
        equal.edit,
        Edit::Expression {
            range,
            replacement: "(é + 1) != (b * 2)".to_owned()
        }
    );
}

#[test]
fn guards_are_always_or_never_true_and_arms_before_a_wildcard_are_deleted() {
    let guarded = "match a { X if b => 1, Y => 2, Z | W => 3 };";
    let guards = [
        "replace the match guard with true in `b`",
        "replace the match guard with false in `b`",
    ];
    assert_eq!(changes_in(guarded), guards);
    let with_wildcard = "match a { X => 1, Y | Z => 2, _ => 3 };";
    assert_eq!(
        changes_in(with_wildcard),
        ["delete the match arm `X`", "delete the match arm `Y | Z`"]
    );
}

#[test]
fn what_cannot_be_switched_at_run_time_is_left_out() {
    for text in [
        "const A: usize = 1 + 2;",
        "static A: usize = 1 + 2;",
        "const fn f() -> usize { 1 + 2 }",
        "impl X { const A: usize = 1 + 2; const fn f() -> bool { 1 < 2 } }",
        "enum A { B = 1 + 2 }",
        "type A = [u8; 1 + 2];",
        "unsafe fn f() {}",
    ] {
        assert_eq!(changes(text), [""; 0], "{text}");
    }
    for expression in [
        "let _ = [0; 1 + 2];",
        "let _: [u8; 1 + 2];",
        "const A: usize = 1 + 2;",
        "const { 1 + 2 };",
        "g::<{ 1 + 2 }>();",
        "assert!(a == b);",
        "if let Some(a) = b && let c = d {}",
        "match a { -1 => 1, _ if let Some(a) = b => 2, c => 3 };",
        "#[cfg(test)] let a = 1 + 2;",
    ] {
        assert_eq!(changes_in(expression), [""; 0], "{expression}");
    }
}

#[test]
fn conditions_beside_a_let_are_changed_but_not_their_chain() {
    assert_eq!(
        changes_in("if let Some(a) = b && c == d {}"),
        ["replace == with != in `c == d`"]
    );
    assert_eq!(
        changes_in("while c && !d {}"),
        ["replace && with || in `c && !d`", "delete ! in `!d`"]
    );
}

#[test]
fn code_for_tests_is_left_out() {
    for text in [
        "#[cfg(test)] mod tests { fn f() -> bool { a == b } }",
        "#[test] fn f() { a == b; }",
        "impl X { #[cfg(test)] fn f() -> bool { a == b } }",
        "#[cfg(test)] impl X { fn f() -> bool { a == b } }",
    ] {
        assert_eq!(changes(text), [""; 0], "{text}");
    }
    assert_eq!(changes("#[cfg(not(test))] fn f() {g()}").len(), 1);
    let text = "mod a; #[cfg(test)] mod tests; #[cfg(test)] mod small {}";
    assert_eq!(modules_of_tests(text).unwrap(), ["tests"]);
}

#[test]
fn a_result_is_kept_while_its_function_stays_as_it_is() {
    let key = |text: &str| mutants("src/x.rs", text).unwrap()[0].key();
    let before = key("fn f() -> bool { a() }\nfn g() {}");
    assert_eq!(before, key("fn f() -> bool { a() }\nfn g() { h() }"));
    assert_ne!(before, key("fn f() -> bool { b() }\nfn g() {}"));
}
