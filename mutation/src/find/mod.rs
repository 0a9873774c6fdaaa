//! Finds the mutants of a source file.
//!
//! Left out is what cannot be switched at run time, or what no test can reach: constants,
//! `const fn`, lengths of arrays, patterns, types and attributes; the arguments of macros, which
//! are no expressions until the macro is expanded; chains with `let`, which no `||` may stand in;
//! functions that return `impl Trait`, since both ways would have to return one type; `unsafe fn`;
//! and whatever is built for tests only.

mod operators;
mod values;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, AttrStyle, Attribute, Block, Expr, ExprBinary, ExprMatch, ExprRepeat, ExprUnary,
    ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Local, Pat, Signature, TraitItemFn, Type,
    UnOp,
};

use crate::mutant::{Edit, Mutant};

/// The longest piece of source code in the name of a mutant, in characters.
const LONGEST_EXCERPT: usize = 100;

/// Returns every mutant of the file `file`, whose text is `text`, in the order of the text.
///
/// # Errors
///
/// Returns an error if the text is not Rust.
pub fn mutants(file: &str, text: &str) -> syn::Result<Vec<Mutant>> {
    let parsed = syn::parse_file(text)?;
    let mut finder = Finder {
        file,
        text,
        scope: Vec::new(),
        checksums: Vec::new(),
        found: Vec::new(),
    };
    finder.visit_file(&parsed);
    finder
        .found
        .sort_by_key(|mutant| (mutant.line, mutant.column));
    Ok(finder.found)
}

/// Returns the modules that the file declares for tests only (`#[cfg(test)] mod tests;`).
///
/// # Errors
///
/// Returns an error if the text is not Rust.
pub fn modules_of_tests(text: &str) -> syn::Result<Vec<String>> {
    let parsed = syn::parse_file(text)?;
    let modules = parsed.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_for_tests(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    Ok(modules.collect())
}

/// Returns whether attributes say that what they stand at is built for tests only.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && words.contains("test")
                && !words.contains("not"))
    })
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// The names of the modules, types and functions around the place, from the outside.
    scope: Vec<String>,
    /// The checksums of the functions around the place.
    checksums: Vec<u32>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn add(&mut self, place: Span, change: String, edit: Edit) {
        let start = place.start();
        self.found.push(Mutant {
            file: self.file.to_owned(),
            line: start.line,
            column: start.column + 1,
            function: self.scope.join("::"),
            change,
            edit,
            function_checksum: self.checksums.first().copied().unwrap_or(0),
        });
    }

    /// Returns the text of a piece of code on one line.
    fn excerpt(&self, code: &impl Spanned) -> String {
        let words: Vec<&str> = self.text[code.span().byte_range()]
            .split_whitespace()
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(LONGEST_EXCERPT) {
            Some((end, _)) => format!("`{}...`", &line[..end]),
            None => format!("`{line}`"),
        }
    }

    fn expression(&mut self, whole: &impl Spanned, place: Span, change: &str, replacement: String) {
        let change = format!("{change} in {}", self.excerpt(whole));
        self.add(
            place,
            change,
            Edit::Expression {
                range: whole.span().byte_range(),
                replacement,
            },
        );
    }

    /// Visits a named function, if it can be changed at run time.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if is_for_tests(attributes) || signature.constness.is_some() {
            return;
        }
        self.scope.push(signature.ident.to_string());
        let code = format!("{}{}", signature.to_token_stream(), block.to_token_stream());
        self.checksums.push(crc32fast::hash(code.as_bytes()));
        let has_inner_attributes = attributes
            .iter()
            .any(|attribute| matches!(attribute.style, AttrStyle::Inner(_)));
        // The replacement of a `default` would call itself.
        let replaceable =
            signature.unsafety.is_none() && signature.ident != "default" && !has_inner_attributes;
        if replaceable && !block.stmts.is_empty() {
            let present: String = block
                .stmts
                .iter()
                .map(|statement| statement.to_token_stream().to_string())
                .collect();
            for value in values::of_return_type(&signature.output) {
                let written =
                    syn::parse_str::<Expr>(&value).map(|value| value.to_token_stream().to_string());
                if written.is_ok_and(|written| written != present) {
                    let at = block.brace_token.span.open().byte_range().end;
                    let change = format!("replace the body with {value}");
                    self.add(signature.ident.span(), change, Edit::Return { at, value });
                }
            }
        }
        self.visit_block(block);
        self.checksums.pop();
        self.scope.pop();
    }

    fn arm(&mut self, arm: &Arm, may_be_deleted: bool) {
        let guard = arm.guard.as_ref().map(|(_, guard)| &**guard);
        if guard.is_some_and(has_let) {
            return;
        }
        if may_be_deleted && arm.attrs.is_empty() && !matches!(arm.pat, Pat::Wild(_)) {
            let change = format!("delete the match arm {}", self.excerpt(&arm.pat));
            let at = arm.pat.span().byte_range().end;
            self.add(
                arm.pat.span(),
                change,
                Edit::Arm {
                    at,
                    guard: guard.map(|guard| guard.span().byte_range()),
                },
            );
        }
        for value in ["true", "false"] {
            if let Some(guard) = guard {
                let change = format!("replace the match guard with {value}");
                self.expression(guard, guard.span(), &change, value.to_owned());
            }
        }
    }
}

/// Returns whether a condition is a chain that has a `let`.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Returns the name of the type that an `impl` is for.
fn name_of(of: &Type) -> String {
    match of {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .map_or_else(String::new, |last| last.ident.to_string()),
        Type::Reference(reference) => name_of(&reference.elem),
        other => other.to_token_stream().to_string(),
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            self.scope.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.scope.pop();
        }
    }

    fn visit_item_impl(&mut self, implementation: &'ast ItemImpl) {
        if !is_for_tests(&implementation.attrs) {
            self.scope.push(name_of(&implementation.self_ty));
            visit::visit_item_impl(self, implementation);
            self.scope.pop();
        }
    }

    fn visit_item_trait(&mut self, definition: &'ast ItemTrait) {
        if !is_for_tests(&definition.attrs) {
            self.scope.push(definition.ident.to_string());
            visit::visit_item_trait(self, definition);
            self.scope.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let (present, others) = operators::instead_of(&binary.op);
            let (left, right) = (
                binary.left.to_token_stream(),
                binary.right.to_token_stream(),
            );
            for other in others {
                // Parentheses keep the operands together whatever binds stronger now.
                let replacement = match operators::assigns(present) {
                    true => format!("{left} {other} ({right})"),
                    false => format!("({left}) {other} ({right})"),
                };
                self.expression(
                    binary,
                    binary.op.span(),
                    &format!("replace {present} with {other}"),
                    replacement,
                );
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let operator = match unary.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => "",
        };
        if !operator.is_empty() {
            let replacement = unary.expr.to_token_stream().to_string();
            self.expression(
                unary,
                unary.op.span(),
                &format!("delete {operator}"),
                replacement,
            );
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, of: &'ast ExprMatch) {
        let has_wildcard = of
            .arms
            .iter()
            .any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
        of.arms.iter().for_each(|arm| self.arm(arm, has_wildcard));
        visit::visit_expr_match(self, of);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast ExprRepeat) {
        // The length is a constant.
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[cfg(test)]
mod tests;
