//! Values by which the body of a function may be replaced.

use quote::ToTokens;
use syn::{GenericArgument, PathArguments, PathSegment, ReturnType, Type};

/// Returns expressions of a function's return type, each of which is to replace its body. There are
/// none for a type that names no single type (`impl Trait`) and for functions that do not return.
pub fn of_return_type(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, of) => of_type(of),
    }
}

fn of_type(of: &Type) -> Vec<String> {
    match of {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if path.qself.is_none() => of_segment(last),
            _ => vec!["Default::default()".to_owned()],
        },
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => words(&["\"\"", "\"xyzzy\""]),
            Type::Slice(slice) => {
                let lists = of_type(&slice.elem)
                    .into_iter()
                    .map(|value| format!("Vec::leak(vec![{value}])"));
                std::iter::once("Vec::leak(Vec::new())".to_owned())
                    .chain(lists)
                    .collect()
            }
            Type::TraitObject(_) => Vec::new(),
            elem => wrapped("Box::leak(Box::new(", &of_type(elem), "))"),
        },
        Type::Tuple(tuple) => {
            let empty = vec![String::new()];
            let rows = tuple.elems.iter().fold(empty, |rows, elem| {
                let values = of_type(elem);
                rows.iter()
                    .flat_map(|row| values.iter().map(move |value| format!("{row}{value}, ")))
                    .collect()
            });
            wrapped("(", &rows, ")")
        }
        Type::Array(array) => wrapped(
            "[",
            &of_type(&array.elem),
            &format!("; {}]", array.len.to_token_stream()),
        ),
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Group(inner) => of_type(&inner.elem),
        _ => Vec::new(),
    }
}

fn of_segment(segment: &PathSegment) -> Vec<String> {
    let inner = || {
        type_arguments(segment)
            .first()
            .map_or_else(Vec::new, |of| of_type(of))
    };
    match segment.ident.to_string().as_str() {
        "bool" => words(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => words(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => words(&["0", "1", "-1"]),
        "f32" | "f64" => words(&["0.0", "1.0", "-1.0"]),
        "String" => words(&["String::new()", "\"xyzzy\".into()"]),
        "Option" => [words(&["None"]), wrapped("Some(", &inner(), ")")].concat(),
        "Result" => wrapped("Ok(", &inner(), ")"),
        "Vec" => [words(&["Vec::new()"]), wrapped("vec![", &inner(), "]")].concat(),
        "Box" | "Rc" | "Arc" | "Cell" | "RefCell" | "Mutex" => {
            wrapped(&format!("{}::new(", segment.ident), &inner(), ")")
        }
        "Cow" => {
            let borrowed = type_arguments(segment)
                .first()
                .map_or_else(Vec::new, |of| match of {
                    Type::Path(path) if path.path.is_ident("str") => words(&["\"\"", "\"xyzzy\""]),
                    _ => Vec::new(),
                });
            wrapped("::std::borrow::Cow::Borrowed(", &borrowed, ")")
        }
        "BTreeMap" => match type_arguments(segment)[..] {
            [key, value] => {
                let keys = of_type(key);
                let pairs = of_type(value)
                    .into_iter()
                    .flat_map(|value| keys.iter().map(move |key| format!("({key}, {value})")));
                let pairs: Vec<String> = pairs.collect();
                let full = wrapped("::std::collections::BTreeMap::from([", &pairs, "])");
                [words(&["::std::collections::BTreeMap::new()"]), full].concat()
            }
            _ => Vec::new(),
        },
        "BTreeSet" => {
            let full = wrapped("::std::collections::BTreeSet::from([", &inner(), "])");
            [words(&["::std::collections::BTreeSet::new()"]), full].concat()
        }
        _ => words(&["Default::default()"]),
    }
}

/// Returns the types in the angle brackets of a path's segment.
fn type_arguments(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    });
    types.collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn wrapped(before: &str, values: &[String], after: &str) -> Vec<String> {
    values
        .iter()
        .map(|value| format!("{before}{value}{after}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(output: &str) -> Vec<String> {
        of_return_type(&syn::parse_str(output).unwrap())
    }

    #[test]
    fn a_function_gives_each_simple_value_of_its_type() {
        assert_eq!(values(""), ["()"]);
        assert_eq!(values("-> bool"), ["true", "false"]);
        assert_eq!(values("-> usize"), ["0", "1"]);
        assert_eq!(values("-> i64"), ["0", "1", "-1"]);
        assert_eq!(values("-> &'static str"), ["\"\"", "\"xyzzy\""]);
        assert_eq!(values("-> Self"), ["Default::default()"]);
    }

    #[test]
    fn a_generic_type_gives_each_value_of_what_it_holds() {
        assert_eq!(
            values("-> Option<bool>"),
            ["None", "Some(true)", "Some(false)"]
        );
        assert_eq!(values("-> Result<(), Error>"), ["Ok(())"]);
        assert_eq!(
            values("-> io::Result<Vec<u8>>"),
            ["Ok(Vec::new())", "Ok(vec![0])", "Ok(vec![1])"]
        );
        assert_eq!(values("-> (bool, String)").len(), 4);
        assert_eq!(values("-> (u8, bool)")[0], "(0, true, )");
        assert_eq!(values("-> [f64; N]")[0], "[0.0; N]");
        assert_eq!(
            values("-> &[Item]"),
            [
                "Vec::leak(Vec::new())",
                "Vec::leak(vec![Default::default()])"
            ]
        );
        assert_eq!(
            values("-> &mut T"),
            ["Box::leak(Box::new(Default::default()))"]
        );
        assert_eq!(values("-> BTreeMap<u8, ()>").len(), 3);
    }

    #[test]
    fn a_type_without_a_value_that_could_be_written_gives_none() {
        for output in [
            "-> !",
            "-> impl Iterator<Item = u8>",
            "-> &dyn Client",
            "-> Box<dyn Client>",
        ] {
            assert_eq!(values(output), [""; 0], "{output}");
        }
    }
}
