use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::repository;

/// A block of code of a page.
struct Block<'p> {
    kind: &'p str,
    text: String,
    /// The last line before it that is not blank.
    before: &'p str,
    /// Whether it directly follows another block.
    follows: bool,
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut found, mut before, mut follows) = (Vec::new(), "", false);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let body = lines.by_ref().take_while(|line| *line != "```");
            let text = body.map(|line| format!("{line}\n")).collect();
            found.push(Block {
                kind,
                text,
                before,
                follows,
            });
            follows = true;
        } else if !line.trim().is_empty() {
            (before, follows) = (line, false);
        }
    }
    found
}

/// Returns the name of the file that a block shows: the line before it ends in the name, as in "Write
/// `mine.toml`:".
fn file_of<'p>(block: &Block<'p>) -> Option<&'p str> {
    let named = block.before.trim_end().strip_suffix("`:")?;
    Some(named.rsplit_once('`')?.1)
}

/// Returns the first line of `shown` that `printed` does not have where it should: all lines stand there
/// in this order, and `...` for any lines.
fn missing<'s>(shown: &'s str, printed: &str) -> Option<&'s str> {
    let mut printed = printed.lines();
    let wanted = shown.lines().filter(|line| line.trim() != "...");
    let mut wanted = wanted.map(str::trim_end);
    wanted.find(|line| !printed.any(|other| other.trim_end() == *line))
}

/// Does what a page says, in an empty folder, and compares what is printed with what the page shows. The
/// fault is the first of the page.
fn follow(page: &Path) -> Result<(), String> {
    follow_by(page, str::to_owned)
}

/// Does the same with what `tried` makes of the commands of each block. What other commands print is not
/// compared.
fn follow_by(page: &Path, tried: fn(&str) -> String) -> Result<(), String> {
    let text = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_fedrecsim");
    std::fs::hard_link(program, tools.path().join("fedrecsim"))
        .or_else(|_| std::fs::copy(program, tools.path().join("fedrecsim")).map(drop))
        .unwrap();
    let others = std::env::var("PATH").unwrap();
    let path = format!("{}:{others}", tools.path().display());
    let (mut printed, mut is_whole) = (String::new(), true);
    let blocks = blocks(&text);
    for (place, block) in blocks.iter().enumerate() {
        let at = format!("{}: after {:?}", page.display(), block.before);
        match (block.kind, file_of(block)) {
            ("sh", _) => {
                let commands = tried(&block.text);
                is_whole = commands == block.text;
                let output = Command::new("bash")
                    .args(["-e", "-c", &format!("exec 2>&1\n{commands}")])
                    .current_dir(folder.path())
                    .env("PATH", &path)
                    .env("NO_COLOR", "1")
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                printed = String::from_utf8_lossy(&output.stdout).into_owned();
                let next = blocks
                    .get(place + 1)
                    .filter(|next| next.follows && is_whole);
                let fails = next.is_some_and(|next| {
                    next.kind == "text" && next.text.lines().any(|line| line.starts_with("error"))
                });
                if output.status.success() == fails {
                    return Err(format!("{at}: {}: {printed}", output.status));
                }
            }
            ("text", _) if block.follows && blocks[place - 1].kind == "sh" && is_whole => {
                if let Some(line) = missing(&block.text, &printed) {
                    return Err(format!(
                        "{at}: {line:?} is shown and not printed here:\n{printed}"
                    ));
                }
            }
            (_, Some(name)) => std::fs::write(folder.path().join(name), &block.text).unwrap(),
            _ => {}
        }
    }
    Ok(())
}

/// Returns what is tried of the commands of a page that explains. Those that take longer than a minute are
/// made short, and others than the program's are left out; each is told with what was done instead.
fn in_short(commands: &str) -> String {
    let joined = commands.replace("\\\n", " ");
    if joined
        .lines()
        .map(|line| of_command(line).1)
        .all(str::is_empty)
    {
        return commands.to_owned();
    }
    let lines = joined.lines().map(|line| {
        let (tried, why) = of_command(line);
        if !why.is_empty() {
            println!(
                "{line}\n    {why}: {}",
                tried.as_deref().unwrap_or("not run")
            );
        }
        tried.unwrap_or_else(|| "true".to_owned()) + "\n"
    });
    lines.collect()
}

/// Returns what is tried of a command, and why that is not all of it.
fn of_command(line: &str) -> (Option<String>, &'static str) {
    let command = line.split(" #").next().unwrap_or_default().trim_end();
    let has = |text: &str| command.contains(text);
    let with = |more: &str| Some(format!("{command} {more}"));
    match command.split_once(' ') {
        Some(("fedrecsim", rest)) if rest.starts_with("data fetch") => {
            (None, "loads from the network")
        }
        Some(("fedrecsim", _)) if has(" --no-run") => (
            Some(command.replace("--no-run", "--dry-run")),
            "puts together runs that take hours",
        ),
        Some(("fedrecsim", rest)) if rest.starts_with("study ") => {
            (with("--dry-run"), "has runs for minutes to days")
        }
        Some(("fedrecsim", rest)) if rest.starts_with("run ml100k-") => (
            with("--set training.rounds=1"),
            "trains for minutes in a build for tests",
        ),
        Some(("fedrecsim" | "grep", _)) | None => (Some(line.to_owned()), ""),
        Some(("cargo" | "pip" | "maturin" | "podman" | "npm", _)) => (None, "installs or builds"),
        Some(("curl", _)) => (None, "loads from the network"),
        Some(_) => (None, "is no command of the program"),
    }
}

/// Follows the pages of these folders of the documents, all of them before it complains.
fn follow_all(folders: &[&str], tried: fn(&str) -> String) {
    let of_folder = |folder: &&str| {
        let entries = docs().join(folder).read_dir().unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut pages: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .collect();
        pages.sort();
        assert!(!pages.is_empty(), "there is no page in {folder}");
        pages
    };
    let pages = folders.iter().flat_map(of_folder);
    let faults: Vec<String> = pages
        .filter_map(|page| follow_by(&page, tried).err())
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// If this fails, somebody who follows the first lesson sees something else than it says.
#[test]
fn the_first_lesson_can_be_followed() {
    follow(&docs().join("tutorial/1-first-run.md")).unwrap();
}

/// If this fails, somebody with ratings of their own sees something else than the lesson says.
#[test]
fn the_lesson_on_own_ratings_can_be_followed() {
    follow(&docs().join("tutorial/3-own-ratings.md")).unwrap();
}

/// If this fails, a lesson or a how-to page shows what the program does not print.
#[test]
#[ignore = "takes minutes: cargo test --release --test it pages -- --ignored"]
fn every_lesson_and_how_to_page_can_be_followed() {
    follow_all(&["tutorial", "how-to"], str::to_owned);
}

/// If this fails, a command of the README, an explanation, the reference or a finding does not do what
/// is said there.
#[test]
#[ignore = "takes minutes: cargo test --release --test it pages -- --ignored --nocapture"]
fn every_command_of_the_other_pages_works() {
    follow_by(&repository("README.md"), in_short).unwrap();
    follow_all(&["explanation", "reference", "findings"], in_short);
}

/// If this fails, an example that a page shows is not run, or prints something else.
#[test]
#[ignore = "builds examples: cargo test --test it pages -- --ignored"]
fn the_examples_print_what_their_pages_show() {
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for page in ["how-to/write-a-codec.md", "how-to/write-a-method.md"] {
        let text = std::fs::read_to_string(docs().join(page)).unwrap();
        let blocks = blocks(&text);
        for pair in blocks.windows(2).filter(|pair| pair[0].kind == "bash") {
            let lines = pair[0].text.lines();
            for line in lines.filter(|line| line.starts_with("cargo run")) {
                // The build of the tests is there; reports go elsewhere.
                let line = line.replace(" --release", "");
                let out = folder.path().join("report").display().to_string();
                let line = line.replace("reports/fedbpr", &out);
                let output = Command::new("bash")
                    .args(["-c", &line])
                    .current_dir(repository(""))
                    .env("NO_COLOR", "1")
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{page}: {line}: {output:?}");
                let shown = &pair[1];
                if shown.follows && shown.kind == "text" {
                    assert_eq!(missing(&shown.text, &printed), None, "{page}: {printed}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= 2, "the pages have no example to run");
}

/// Returns the blocks of this kind on a page that a file of the repository does not have as they
/// stand, line by line.
fn not_in(page: &str, kind: &str, file: &str) -> Vec<String> {
    let source = std::fs::read_to_string(repository(file)).unwrap();
    let (source, mut other) = (format!("\n{source}"), Vec::new());
    for block in blocks(page).into_iter().filter(|block| block.kind == kind) {
        if !source.contains(&format!("\n{}", block.text)) {
            other.push(block.text);
        }
    }
    other
}

/// If this fails, the page of a method shows code that nobody has compiled, or the example that it
/// begins with cannot be copied to another place.
#[test]
fn the_page_of_a_method_shows_the_example_that_is_compiled() {
    let page = std::fs::read_to_string(docs().join("how-to/write-a-method.md")).unwrap();
    let other = not_in(&page, "rust", "examples/fedbpr/src/main.rs");
    assert!(other.is_empty(), "the example does not have {other:?}");
    let template = std::fs::read_to_string(repository("examples/fedbpr/Cargo.toml")).unwrap();
    assert!(
        blocks(&page).iter().any(|block| block.text == template),
        "the page does not show the Cargo.toml of the example"
    );
    let paths = template.matches("path = ").count();
    assert!(
        paths == 1 && !template.contains("workspace"),
        "a copy of the example takes more than another path: {template}"
    );
}

/// If this fails, the page of a package for Python shows code that nobody has compiled.
#[test]
fn the_page_of_a_package_shows_the_example_that_is_compiled() {
    let page = std::fs::read_to_string(docs().join("how-to/rust-from-python.md")).unwrap();
    let other = not_in(&page, "rust", "python/examples/rust-method/src/lib.rs");
    assert!(other.is_empty(), "the example does not have {other:?}");
    assert!(blocks(&page).iter().any(|block| block.kind == "rust"));
}

/// If this fails, the page of a codec shows code that nobody has compiled.
#[test]
fn the_page_of_a_codec_shows_the_example_that_is_compiled() {
    let page = std::fs::read_to_string(docs().join("how-to/write-a-codec.md")).unwrap();
    let other = not_in(&page, "rust", "examples/farthest_rows.rs");
    assert!(other.is_empty(), "the example does not have {other:?}");
    assert!(blocks(&page).iter().any(|block| block.kind == "rust"));
}

/// If this fails, the checks of the pages let anything pass.
#[test]
fn a_line_that_is_not_printed_is_found() {
    let printed = "one\ntwo\nthree  \nfour\n";
    assert_eq!(missing("one\n...\nthree\n", printed), None);
    assert_eq!(missing("three\none\n", printed), Some("one"));
    assert_eq!(missing("two\nthree\nfive\n", printed), Some("five"));
    let page = "Write `a.csv`:\n\n```csv\n1,2\n```\n\n```sh\ncat a.csv\n```\n\n```text\n1,2\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 3);
    assert_eq!(file_of(&found[0]), Some("a.csv"));
    assert!(found[2].follows && found[2].text == "1,2\n");
    let page = "```rust\nfn main() {\n```\n\n```rust\nmain() -> ExitCode {\n```\n";
    let other = not_in(page, "rust", "examples/fedbpr/src/main.rs");
    assert_eq!(other, ["fn main() {\n", "main() -> ExitCode {\n"]);
}
