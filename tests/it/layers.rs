use std::collections::BTreeMap;
use std::path::Path;

use crate::import_paths::{Reference, code_of, module_of, resolved, without_inline_modules};
use crate::support::repository;

/// The layers from the ground up. Each may import from those before it. `lib.rs` only lists them,
/// and `main.rs` uses the crate from outside.
const LAYERS: &[&[&str]] = &[
    &["ids", "math", "stages", "units", "work"],
    &["error", "legs", "rng"],
    &["memory", "records"],
    &["metric"],
    &["scenario"],
    &["dataset"],
    &["population"],
    &["model"],
    &["method"],
    &["codec"],
    &["privacy"],
    &["sim"],
    &["testing"],
    &["checkpoint"],
    &["report"],
    &["study"],
    &["cli"],
];

/// Layers that a layer must not import although they come before it.
const HIDDEN: &[(&str, &[&str])] = &[
    // A method depends neither on time nor on the network nor on bytes.
    ("method", &["units", "legs", "population"]),
    // Users' machines do not depend on ratings.
    ("population", &["dataset"]),
    // Tables and kernels do not depend on where samples come from.
    (
        "model",
        &["scenario", "dataset", "population", "units", "ids"],
    ),
    // Frames carry tables, whoever made them.
    (
        "codec",
        &["dataset", "population", "method", "units", "legs"],
    ),
];

/// The actors, which depend on the messages and never on one another.
const ACTORS: &[&str] = &["client", "metrics", "network", "server", "third_party"];

/// Returns what is wrong with the imports of the file at `path` (below `src/`).
fn violations(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let module = module_of(path);
    let layer = module[0].as_str();
    let Some(own_height) = height(layer) else {
        return vec![format!("{path}: `{layer}` is in no layer")];
    };
    let mut wrong = Vec::new();
    for Reference {
        line,
        path: imported,
    } in resolved(&code, &module)
    {
        let Some(target) = imported.first().map(String::as_str) else {
            continue;
        };
        let shown = imported.join("::");
        let hidden = HIDDEN
            .iter()
            .any(|(from, targets)| *from == layer && targets.contains(&target));
        match height(target) {
            // The path names nothing of the root's, but something that an inline module takes from
            // its file.
            None => {}
            Some(_) if hidden => wrong.push(format!(
                "{path}:{line}: `{layer}` must know nothing of `{shown}`"
            )),
            Some(height) if height > own_height => {
                wrong.push(format!("{path}:{line}: `{layer}` stands below `{shown}`"));
            }
            Some(height) if height == own_height && target != layer => {
                wrong.push(format!("{path}:{line}: `{layer}` stands beside `{shown}`"));
            }
            Some(_)
                if layer == "report"
                    && target == "sim"
                    && imported.get(1).is_none_or(|m| m != "outcome") =>
            {
                wrong.push(format!("{path}:{line}: a report knows what a run leaves (`sim::outcome`), not `{shown}`"));
            }
            Some(_) if is_other_actor(&module, &imported) => {
                wrong.push(format!(
                    "{path}:{line}: actors know the messages, not `{shown}`"
                ));
            }
            Some(_) => {}
        }
    }
    if layer == "sim" {
        let files = code
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("std::fs") || line.contains("fs::"));
        wrong.extend(
            files.map(|(line, _)| format!("{path}:{}: `sim` must know nothing of files", line + 1)),
        );
    }
    wrong
}

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|layers| layers.contains(&layer))
}

fn is_other_actor(module: &[String], imported: &[String]) -> bool {
    let actor = |path: &[String]| match path {
        [sim, name, ..] if sim == "sim" => ACTORS.iter().find(|actor| *actor == name).copied(),
        _ => None,
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

/// Returns every source file below `src/` with its path there, in order.
pub fn sources() -> Vec<(String, String)> {
    fn collect(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    collect(&repository("src"), &repository("src"), &mut found);
    found.retain(|(name, _)| name != "lib.rs" && name != "main.rs");
    found.sort();
    found
}

/// If this fails, a layer has come to depend on one that comes after it.
#[test]
fn imports_point_one_way() {
    let sources = sources();
    assert!(
        sources.len() > 50,
        "the sources are not where they are looked for"
    );
    let wrong: Vec<String> = sources
        .iter()
        .flat_map(|(path, text)| violations(path, text))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// If this fails, a new module of the crate is in no layer, or a layer is gone.
#[test]
fn every_module_of_the_crate_is_in_one_layer() {
    let lib = std::fs::read_to_string(repository("src/lib.rs")).unwrap();
    let mut modules: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    modules.sort_unstable();
    let mut layers = LAYERS.concat();
    layers.sort_unstable();
    assert_eq!(modules, layers);
}

/// If this fails, modules of one folder import each other in a circle, so that none of them can be
/// read first.
#[test]
fn modules_of_one_folder_form_no_circle() {
    let mut graphs: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (path, text) in sources() {
        let module = module_of(&path);
        let code = without_inline_modules(&code_of(&text));
        for depth in 1..module.len() {
            let (folder, name) = (&module[..depth], &module[depth]);
            let edges = graphs
                .entry(folder.to_vec())
                .or_default()
                .entry(name.clone())
                .or_default();
            for Reference { path: imported, .. } in resolved(&code, &module) {
                if imported.len() > depth
                    && imported[..depth] == *folder
                    && imported[depth] != *name
                {
                    edges.push(imported[depth].clone());
                }
            }
        }
    }
    assert!(graphs.contains_key(&vec!["sim".to_owned()]));
    for (folder, graph) in &graphs {
        assert_eq!(circle(graph), None, "in {}", folder.join("/"));
    }
}

mod checker {
    use super::*;

    #[track_caller]
    fn assert_wrong(path: &str, text: &str, part: &str) {
        let found = violations(path, text);
        assert!(
            found.len() == 1 && found[0].contains(part),
            "{found:?} for {text}"
        );
    }

    #[test]
    fn an_import_of_a_higher_layer_is_found_however_it_is_written() {
        for text in [
            "use crate::method::Client;",
            "use crate::{rng, method::Client};",
            "use crate::{\n    error::{Error, Result},\n    method::Client,\n};",
            "fn f() { crate::method::registry::build(); }",
            "pub use super::super::method::Client;",
            "type A = Vec<crate::method::Scratch>;",
        ] {
            assert_wrong("dataset/split.rs", text, "stands below `method");
        }
        assert_wrong(
            "dataset/mod.rs",
            "use super::method;",
            "stands below `method`",
        );
        assert_wrong(
            "rng.rs",
            "use super::scenario::Scenario;",
            "stands below `scenario::Scenario`",
        );
    }

    #[test]
    fn the_line_is_named() {
        let found = violations(
            "codec/rows.rs",
            "//! Rows.\n\nuse crate::error::Error;\nuse crate::sim::World;\n",
        );
        assert_eq!(
            found,
            ["codec/rows.rs:4: `codec` stands below `sim::World`"]
        );
    }

    #[test]
    fn what_a_layer_must_not_know_is_found_although_it_stands_lower() {
        assert_wrong(
            "codec/rows.rs",
            "use crate::method::Client;",
            "must know nothing of `method::Client`",
        );
        assert_wrong(
            "method/fedmf.rs",
            "use crate::units::Bytes;",
            "must know nothing of `units::Bytes`",
        );
        assert_wrong(
            "report/record.rs",
            "use crate::sim::ledger::Ledger;",
            "not `sim::ledger::Ledger`",
        );
        assert_wrong(
            "sim/run.rs",
            "fn f() { std::fs::read(\"x\"); }",
            "nothing of files",
        );
        assert_wrong("rng.rs", "use crate::error::Error;", "stands beside");
        assert_wrong("studio/mod.rs", "", "is in no layer");
    }

    #[test]
    fn an_actor_that_knows_another_one_is_found() {
        assert_wrong(
            "sim/metrics.rs",
            "use super::network::ASKED_AT_ONCE;",
            "actors know the messages",
        );
        assert_wrong(
            "sim/server.rs",
            "use crate::sim::client::ClientActor;",
            "actors know the messages",
        );
        assert_eq!(
            violations("sim/server.rs", "use super::messages::Run;"),
            [""; 0]
        );
        assert_eq!(
            violations("sim/run.rs", "use super::server::ServerActor;"),
            [""; 0],
            "the wiring knows them all"
        );
    }

    #[test]
    fn sound_imports_comments_and_strings_are_not_taken_for_violations() {
        for (path, text) in [
            (
                "codec/rows.rs",
                "use crate::error::{Error, Result};\nuse crate::model::table::TableUpdate;\nuse super::frame;",
            ),
            (
                "dataset/split.rs",
                "//! See [`crate::method`].\n/* crate::sim */ const A: &str = \"crate::sim::run\";",
            ),
            (
                "dataset/split.rs",
                "const A: &str = r#\"use crate::sim;\"#; const Q: char = '\"'; const B: &str = \"\\\"crate::sim\";",
            ),
            (
                "rng.rs",
                "use crate::math;\n#[cfg(test)]\nmod tests {\n    use super::*;\n    use super::Streams;\n}\n",
            ),
            (
                "method/mod.rs",
                "use my_crate::sim::x; pub use self::registry::Entry;",
            ),
        ] {
            assert_eq!(violations(path, text), [""; 0], "{text}");
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
