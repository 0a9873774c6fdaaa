/// A path that a file refers to, by its segments from the root of the crate, and the line (from 1)
/// of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub line: usize,
    pub path: Vec<String>,
}

/// Returns `text` with comments, and the insides of strings, replaced by blanks; lines stay where
/// they are.
pub fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(inside) = rest.strip_prefix("r#\"") {
            inside.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            let inside = rest[1..].char_indices();
            let mut escaped = false;
            let end = inside.into_iter().find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(end, _)| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(
            rest[..length]
                .chars()
                .map(|c| if c == '\n' { '\n' } else { ' ' }),
        );
        rest = &rest[length..];
    }
    code
}

/// Returns the length of the block that starts with the brace at the beginning of `code`.
fn block_length(code: &str) -> usize {
    let mut depth = 0;
    for (place, character) in code.char_indices() {
        depth += i32::from(character == '{') - i32::from(character == '}');
        if depth == 0 {
            return place + 1;
        }
    }
    code.len()
}

/// Returns every path below `prefix` (`crate::` or `super::`) in `code`, with groups in braces
/// written out.
fn references(code: &str, prefix: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    for (place, _) in code.match_indices(prefix) {
        let before = code[..place].chars().next_back();
        // This is part of a longer path or name (`super::super::`, `my_crate::`).
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
            continue;
        }
        let line = code[..place].matches('\n').count() + 1;
        let start = prefix.trim_end_matches("::").to_owned();
        spell_out(&code[place + prefix.len()..], &[start], line, &mut found);
    }
    found
}

/// Reads one path after `head`, or a group of them, and returns how much of `code` it took.
fn spell_out(code: &str, head: &[String], line: usize, found: &mut Vec<Reference>) -> usize {
    let trimmed = code.trim_start();
    let skipped = code.len() - trimmed.len();
    if trimmed.starts_with('{') {
        let length = block_length(trimmed);
        let inside = &trimmed[1..length.saturating_sub(1).max(1)];
        let mut at = 0;
        while !inside[at..].trim().is_empty() {
            at += spell_out(&inside[at..], head, line, found);
            at += inside[at..]
                .find(',')
                .map_or(inside.len() - at, |comma| comma + 1);
        }
        return skipped + length;
    }
    let name: String = trimmed
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '*')
        .collect();
    let path = [head, std::slice::from_ref(&name)].concat();
    let after = &trimmed[name.len()..];
    match after.strip_prefix("::") {
        Some(further)
            if further
                .starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '{' || c == '*') =>
        {
            skipped + name.len() + 2 + spell_out(further, &path, line, found)
        }
        _ => {
            found.push(Reference { line, path });
            skipped + name.len()
        }
    }
}

/// Returns every path in `code` that a file refers to, from the root of the crate. `module` is the
/// module of the file.
pub fn resolved(code: &str, module: &[String]) -> Vec<Reference> {
    let mut all: Vec<Reference> = references(code, "crate::");
    all.iter_mut()
        .for_each(|reference| drop(reference.path.remove(0)));
    for reference in references(code, "super::") {
        let ups = reference
            .path
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        // An inline module of the file (its tests) stands one level deeper. What it names is then
        // taken for something of the folder or of the root, where no layer has its name.
        let base = module.len().saturating_sub(ups);
        let path = [&module[..base], &reference.path[ups..]].concat();
        all.push(Reference {
            line: reference.line,
            path,
        });
    }
    all
}

/// Returns `code` without its inline modules, which are its tests in practice.
pub fn without_inline_modules(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find("\nmod ") {
        let head = rest[start + 1..]
            .find(['{', ';'])
            .map_or(rest.len(), |end| start + 1 + end);
        kept.push_str(&rest[..head]);
        rest = &rest[head..];
        if rest.starts_with('{') {
            let length = block_length(rest);
            kept.extend(rest[..length].chars().filter(|c| *c == '\n'));
            rest = &rest[length..];
        }
    }
    kept + rest
}

/// Returns the module of the file at `path` (below `src/`).
pub fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap();
    path.strip_suffix("/mod")
        .unwrap_or(path)
        .split('/')
        .map(str::to_owned)
        .collect()
}
