//! Ratings that somebody has in memory, and in no file.
//!
//! A scenario names them by `dataset.path = "memory:DIGEST"`, and the digest is that of their rows. So a
//! scenario still says exactly which ratings it is of, and nobody can run it on others by mistake. They are
//! found by that name as long as somebody holds them; this list only finds them, and keeps nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fedrecsim_core::{Error, Result};

/// What the path of ratings in memory begins with.
const PREFIX: &str = "memory:";

/// The name of ratings in memory in messages.
pub(super) const NAME: &str = "the ratings in memory";

/// The bytes that are hashed at once.
const BLOCK_BYTES: usize = 1 << 16;

/// Rows of ratings in memory. Their fields are read as those of a file are.
pub trait GivenRows: Send + Sync {
    /// Returns the names of the columns.
    fn columns(&self) -> &[String];

    /// Returns the number of rows.
    fn count(&self) -> usize;

    /// Calls `field` with each field of a row as text, in the order of the columns; nothing stands for a
    /// value that is missing.
    fn read(&self, row: usize, field: &mut dyn FnMut(&[u8]));
}

/// Ratings in memory that scenarios can name as long as this is there.
pub struct Given {
    path: PathBuf,
    rows: Arc<dyn GivenRows>,
}

impl Given {
    /// Returns the value of `dataset.path` for these ratings.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the ratings.
    pub fn rows(&self) -> &dyn GivenRows {
        &*self.rows
    }
}

static GIVEN: Mutex<BTreeMap<PathBuf, Weak<dyn GivenRows>>> = Mutex::new(BTreeMap::new());

/// Makes ratings known under their name. It reads all of them once, for their digest.
pub fn give(rows: Arc<dyn GivenRows>) -> Given {
    let path = PathBuf::from(format!("{PREFIX}{}", &digest(&*rows)[..32]));
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.retain(|_, rows| rows.strong_count() > 0);
    // Equal rows that are known already may be held longer by somebody else.
    let known = given.get(&path).and_then(Weak::upgrade);
    let rows = known.unwrap_or_else(|| {
        given.insert(path.clone(), Arc::downgrade(&rows));
        rows
    });
    Given { path, rows }
}

/// Returns whether a path names ratings in memory.
pub fn is_given(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(PREFIX))
}

/// Returns the ratings of this name; `None` if the path is that of a file.
///
/// # Errors
/// [`Error::Read`] if nobody holds them any more.
pub(super) fn find(path: &Path) -> Result<Option<Arc<dyn GivenRows>>> {
    if !is_given(path) {
        return Ok(None);
    }
    let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = given.get(path).and_then(Weak::upgrade);
    found.map(Some).ok_or_else(|| {
        Error::read(
            path,
            "these ratings were in the memory of the process that gave them, and are in no file: give the same \
             rows again, as with `ratings=` in Python, or write them to a file and name it with `dataset.path`",
        )
    })
}

/// Returns a digest of the columns' names and of all fields, with their lengths.
fn digest(rows: &dyn GivenRows) -> String {
    let (mut hasher, mut block) = (blake3::Hasher::new(), Vec::with_capacity(BLOCK_BYTES));
    let mut add = |field: &[u8]| {
        block.extend_from_slice(&(field.len() as u64).to_le_bytes());
        block.extend_from_slice(field);
        if block.len() >= BLOCK_BYTES {
            hasher.update(&block);
            block.clear();
        }
    };
    let columns = rows.columns();
    add(&(columns.len() as u64).to_le_bytes());
    columns.iter().for_each(|name| add(name.as_bytes()));
    (0..rows.count()).for_each(|row| rows.read(row, &mut add));
    hasher.update(&block);
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::{Ratings, delimited};
    use fedrecsim_scenario::DelimitedSpec;

    /// A table of texts.
    struct Texts(Vec<String>, Vec<Vec<&'static str>>);

    impl GivenRows for Texts {
        fn columns(&self) -> &[String] {
            &self.0
        }
        fn count(&self) -> usize {
            self.1.len()
        }
        fn read(&self, row: usize, field: &mut dyn FnMut(&[u8])) {
            self.1[row].iter().for_each(|text| field(text.as_bytes()));
        }
    }

    fn given(names: &str, rows: &[&'static str]) -> Given {
        let names = names.split(',').map(str::to_owned).collect();
        let rows = rows.iter().map(|row| row.split(',').collect()).collect();
        give(Arc::new(Texts(names, rows)))
    }

    fn layout(text: &str) -> DelimitedSpec {
        toml::from_str(text).unwrap()
    }

    fn read(given: &Given, columns: &str) -> Result<Ratings> {
        delimited::read(given.path(), &layout(columns))
    }

    const ROWS: [&str; 3] = [
        "ann,NA,3.5,2020-01-02",
        "7,x,4,2020-01-01 00:00:01",
        "ann,x,1,2021-01-01",
    ];

    /// If this fails, a run on rows in memory is not the run on the file that has them.
    #[test]
    fn rows_in_memory_are_the_ratings_that_a_file_of_them_has() {
        let rows = ROWS.map(|row| row.replace("NA", "y").leak() as &'static str);
        let given = given("who,what,stars,when", &rows);
        let columns = "user = 'who'\nitem = 'what'\nrating = 'stars'\ntimestamp = 'when'";
        let text = format!("who,what,stars,when\n{}\n", rows.join("\n"));
        let of_file =
            delimited::parse(text.as_bytes(), Path::new("file"), &layout(columns)).unwrap();
        let in_memory = read(&given, columns).unwrap();
        assert_eq!(
            Ratings {
                told: Vec::new(),
                ..of_file
            },
            Ratings {
                told: Vec::new(),
                ..in_memory
            }
        );
        // A value in memory has a type, so that the text "NA" is a name.
        let with_na = super::tests::given("who,what,stars,when", &ROWS);
        assert_eq!(&*read(&with_na, columns).unwrap().item_names[0], "NA");
    }

    /// If this fails, a fault of a frame has no place, or the place is not that of `frame.iloc`.
    #[test]
    fn a_fault_names_the_row_and_the_column() {
        let columns = "user = 'who'\nitem = 'what'\nrating = 'stars'";
        for (rows, parts) in [
            (
                &["a,x,3", "b,,3"][..],
                ["row 1", "under \"what\"", "on_incomplete"],
            ),
            (&["a,x,many"], ["row 0", "under \"stars\"", "\"many\""]),
        ] {
            let given = given("who,what,stars", rows);
            let told = read(&given, columns).unwrap_err().to_string();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
        let skipping = format!("{columns}\non_incomplete = 'skip'");
        let given = given("who,what,stars", &["a,x,3", "b,,3"]);
        let warnings = read(&given, &skipping).unwrap().warnings;
        assert!(warnings[0].contains("the first in row 1"), "{warnings:?}");
    }

    /// If this fails, a scenario of rows in memory runs on others, or its fault does not say what to do.
    #[test]
    fn rows_are_named_by_their_content_and_found_while_somebody_holds_them() {
        let columns = "user = 1\nitem = 2";
        let (one, same) = (given("u,i", &["a,b"]), given("u,i", &["a,b"]));
        assert_eq!(one.path(), same.path());
        for other in [
            given("u,i", &["ab,"]),
            given("ui,", &["a,b"]),
            given("u,i", &["a,b", "a,b"]),
        ] {
            assert_ne!(one.path(), other.path());
        }
        let path = one.path().to_owned();
        drop(one);
        assert_eq!(delimited::read(&path, &layout(columns)).unwrap().users, [0]);
        drop(same);
        let told = delimited::read(&path, &layout(columns))
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("memory:") && told.contains("ratings="),
            "{told}"
        );
    }
}
