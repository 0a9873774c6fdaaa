use std::collections::BTreeMap;
use std::path::Path;

use crate::import_paths::{Reference, code_of, module_of, resolved, without_inline_modules};
use crate::support::repository;

/// The actors, which depend on the messages and never on one another.
const ACTORS: &[&str] = &["client", "metrics", "network", "server", "third_party"];

/// Returns the imports of one actor from another in the file of the crate `sim` at `path` (below its
/// `src/`).
fn imports_of_actors(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    let wrong = |Reference {
                     line,
                     path: imported,
                 }| {
        is_other_actor(&module, &imported).then(|| {
            format!(
                "{path}:{line}: actors know the messages, not `{}`",
                imported.join("::")
            )
        })
    };
    resolved(&code_of(text), &module)
        .into_iter()
        .filter_map(wrong)
        .collect()
}

fn is_other_actor(module: &[String], imported: &[String]) -> bool {
    let actor = |path: &[String]| {
        ACTORS
            .iter()
            .find(|actor| path.first().is_some_and(|name| name == *actor))
    };
    matches!((actor(module), actor(imported)), (Some(one), Some(other)) if one != other)
}

/// Returns a circle among the modules of one folder, if there is one: `a -> b -> a`. `graph` says
/// which module imports which.
fn circle(graph: &BTreeMap<String, Vec<String>>) -> Option<String> {
    fn visit<'g>(
        graph: &'g BTreeMap<String, Vec<String>>,
        module: &'g str,
        way: &mut Vec<&'g str>,
        done: &mut Vec<&'g str>,
    ) -> Option<String> {
        if let Some(start) = way.iter().position(|other| *other == module) {
            return Some([&way[start..], &[module]].concat().join(" -> "));
        }
        if done.contains(&module) {
            return None;
        }
        way.push(module);
        let found = graph
            .get(module)
            .into_iter()
            .flatten()
            .find_map(|other| visit(graph, other, way, done));
        way.pop();
        done.push(module);
        found
    }
    let mut done = Vec::new();
    graph
        .keys()
        .find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}

/// Returns every source file of every crate: the crate's folder, the path below its `src/`, and the
/// text, in order.
pub fn sources() -> Vec<(String, String, String)> {
    fn collect(
        folder: &Path,
        root: &Path,
        crate_name: &str,
        found: &mut Vec<(String, String, String)>,
    ) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, crate_name, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push((
                    crate_name.to_owned(),
                    name,
                    std::fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    let mut found = Vec::new();
    let crates = repository("crates")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for folder in crates.chain([repository("")]) {
        let root = folder.join("src");
        collect(
            &root,
            &root,
            &folder.file_name().unwrap_or_default().to_string_lossy(),
            &mut found,
        );
    }
    found.retain(|(_, name, _)| name != "lib.rs" && name != "main.rs");
    found.sort();
    found
}

/// Returns the paths of what the root of a crate exports, by name: the root is a way to them.
fn exported(crate_name: &str) -> BTreeMap<String, Vec<String>> {
    let root = repository("crates").join(crate_name).join("src/lib.rs");
    let text = std::fs::read_to_string(root).unwrap_or_default();
    // Paths at the root begin there, with or without a word for it.
    let code = code_of(&text).replace("use ", "use crate::");
    let paths = resolved(&code, &[]).into_iter();
    paths
        .filter(|reference| reference.path.len() > 1)
        .filter_map(|Reference { path, .. }| Some((path.last()?.clone(), path)))
        .collect()
}

/// If this fails, an actor has come to depend on another one.
#[test]
fn actors_know_messages_alone() {
    let mut sources = sources();
    sources.retain(|(crate_name, ..)| crate_name == "sim");
    for actor in ACTORS {
        let is_of_actor = |path: &str| module_of(path).first().is_some_and(|name| name == actor);
        assert!(
            sources.iter().any(|(_, path, _)| is_of_actor(path)),
            "the sources of `{actor}` are not where they are looked for"
        );
    }
    let wrong: Vec<String> = sources
        .iter()
        .flat_map(|(_, path, text)| imports_of_actors(path, text))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// If this fails, modules of one crate or folder import each other in a circle, so that none of them
/// can be read first. The compiler sees to it that crates do not.
#[test]
fn modules_of_one_folder_form_no_circle() {
    let mut graphs: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (crate_name, path, text) in sources() {
        let module = module_of(&path);
        if module
            .iter()
            .any(|name| name == "tests" || name.ends_with("_tests"))
        {
            continue;
        }
        let code = without_inline_modules(&code_of(&text));
        let exported = exported(&crate_name);
        let references = resolved(&code, &module).into_iter().map(|reference| {
            let name = reference.path.first();
            let path = name.and_then(|name| exported.get(name)).cloned();
            path.unwrap_or(reference.path)
        });
        let references: Vec<Vec<String>> = references.collect();
        for depth in 0..module.len() {
            let (folder, name) = (&module[..depth], &module[depth]);
            let place = [std::slice::from_ref(&crate_name), folder].concat();
            let edges = graphs
                .entry(place)
                .or_default()
                .entry(name.clone())
                .or_default();
            for imported in &references {
                if imported.len() > depth
                    && imported[..depth] == *folder
                    && imported[depth] != *name
                {
                    edges.push(imported[depth].clone());
                }
            }
        }
    }
    assert!(graphs.contains_key(&vec!["sim".to_owned(), "server".to_owned()]));
    // What is imported by way of a crate's root is followed: `declare` has the tasks only so.
    let of_methods = &graphs[&vec!["methods".to_owned()]];
    assert!(of_methods["declare"].contains(&"task".to_owned()));
    let circles: Vec<(String, String)> = graphs
        .iter()
        .filter_map(|(folder, graph)| Some((folder.join("/"), circle(graph)?)))
        .collect();
    assert!(circles.is_empty(), "{circles:?}");
}

mod checker {
    use super::*;

    #[test]
    fn an_actor_that_knows_another_one_is_found() {
        for text in [
            "use super::network::ASKED_AT_ONCE;",
            "use crate::network::{A, B};",
        ] {
            let found = imports_of_actors("metrics.rs", text);
            assert!(
                found[0].contains("metrics.rs:1: actors know the messages"),
                "{found:?}"
            );
        }
        for (path, text) in [
            ("server.rs", "use super::messages::Run;"),
            ("run.rs", "use super::server::ServerActor;"),
            (
                "server.rs",
                "//! See [`super::client`].\nconst A: &str = \"super::client::B\";",
            ),
        ] {
            assert_eq!(imports_of_actors(path, text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let graph = |edges: &[(&str, &[&str])]| {
            let edge = |(from, to): &(&str, &[&str])| {
                (
                    from.to_string(),
                    to.iter().map(ToString::to_string).collect(),
                )
            };
            edges
                .iter()
                .map(edge)
                .collect::<BTreeMap<String, Vec<String>>>()
        };
        assert_eq!(
            circle(&graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])),
            None
        );
        let found = circle(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
        assert_eq!(found.as_deref(), Some("b -> c -> b"));
    }
}
