//! Writes the parameters of a trained model as a `.npz` file, which NumPy reads with `numpy.load`.
//!
//! The same parameters give the same bytes: the file is not compressed, and its entries carry no
//! date.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::PathBuf;

use ndarray::{Array1, Array2};
use ndarray_npy::{NpzWriter, WriteNpzError};

use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_methods::method::PersonalTable;
use fedrecsim_model::model::blocks::{BlockValues, Model};
use fedrecsim_model::model::layout::ValueType;

/// A file that the parameters of a model will be written to, opened before the run whose model it
/// is.
///
/// What is written appears whole under the file's name or not at all: it goes to a partial file
/// beside it, which is removed when this is dropped without [`Self::write`].
#[derive(Debug)]
#[must_use]
pub struct ModelFile {
    path: PathBuf,
    partial: PathBuf,
    /// The users whose own tables are written too.
    users: Vec<UserId>,
}

/// What the file says of one user.
#[derive(Clone, Debug)]
pub struct UserArrays {
    /// The user.
    pub user: UserId,
    /// The item table that it keeps for itself, in methods that have one.
    pub table: Option<PersonalTable>,
    /// For each item 1 if the user trains on it, 2 and 3 if it is held out for validation and for
    /// the test, else 0.
    pub items: Vec<u8>,
}

impl ModelFile {
    /// Makes sure that the model can be written to `path` later. A file that exists already stays
    /// as it is until then; it is an error unless `overwrite` is true.
    ///
    /// # Errors
    /// [`Error::Usage`] if a file of this name exists, or nothing can be written beside it.
    pub fn create(path: impl Into<PathBuf>, overwrite: bool) -> Result<Self> {
        let path = path.into();
        let shown = path.display();
        if !overwrite && fs::symlink_metadata(&path).is_ok() {
            return Err(Error::Usage(format!(
                "{shown} is there already; name another file with --save-model, or give --overwrite"
            )));
        }
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Error::Usage(format!(
                "the model cannot go to {shown}, which is not a file"
            )));
        };
        let partial = path.with_file_name(format!(".fedrecsim-{}.partial", name.to_string_lossy()));
        File::create(&partial).map_err(|reason| {
            Error::Usage(format!("the model cannot be written to {shown}: {reason}"))
        })?;
        Ok(Self {
            path,
            partial,
            users: Vec::new(),
        })
    }

    /// Has the file say what these users keep for themselves, too.
    pub fn with_users(mut self, users: &[u32]) -> Self {
        self.users = users.iter().map(|user| UserId(*user)).collect();
        self
    }

    /// Returns the users whose own tables are written too.
    pub fn users(&self) -> &[UserId] {
        &self.users
    }

    /// Writes every block of `model` under its name and what is said of users, as [`write_npz`]
    /// does.
    ///
    /// # Errors
    /// [`Error::Write`] with the file.
    pub fn write(self, model: &Model, users: &[UserArrays]) -> Result<()> {
        let written = File::create(&self.partial)
            .and_then(|file| {
                write_npz(BufWriter::new(file), model, users).map_err(io::Error::other)
            })
            .and_then(|_| fs::rename(&self.partial, &self.path));
        written.map_err(|reason| Error::write(&self.path, reason))
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        // There is no partial file after the model was written. One that cannot be removed is
        // hidden and has a telling name.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Writes the blocks of `model` (rows x columns each, of the block's type) to `out` as an
/// uncompressed `.npz` archive with one array for each, under the block's name, and returns `out`.
/// Behind them come, of user 7, the table that it keeps for itself, if there is one, as `D-7` if
/// its name is D, and as `items-7` which items it rated.
///
/// # Errors
/// Returns the error of `out`.
pub(crate) fn write_npz<W: Write + Seek>(
    out: W,
    model: &Model,
    users: &[UserArrays],
) -> std::result::Result<W, WriteNpzError> {
    let mut archive = NpzWriter::new(out);
    for (block, values) in model.layout().blocks().iter().zip(model.blocks()) {
        let (name, shape) = (&*block.name, (block.shape.rows, block.shape.dimension));
        match (values, block.value_type) {
            (BlockValues::Table(table), _) => archive.add_array(name, &table.view())?,
            (BlockValues::Raw(bytes), ValueType::U64) => {
                archive.add_array(name, &array(shape, bytes.as_chunks().0, u64::from_le_bytes))?;
            }
            (BlockValues::Raw(bytes), ValueType::U32) => {
                archive.add_array(name, &array(shape, bytes.as_chunks().0, u32::from_le_bytes))?;
            }
            (BlockValues::Raw(bytes), ValueType::F32) => {
                archive.add_array(name, &array(shape, bytes.as_chunks().0, f32::from_le_bytes))?;
            }
            (BlockValues::Raw(bytes), ValueType::Bytes) => {
                archive.add_array(name, &array(shape, bytes, |byte| byte))?;
            }
        }
    }
    for UserArrays { user, table, items } in users {
        if let Some(table) = table {
            archive.add_array(format!("{}-{}", table.name, user.0), &table.values.view())?;
        }
        archive.add_array(
            format!("items-{}", user.0),
            &Array1::from_vec(items.clone()),
        )?;
    }
    archive.finish()
}

/// Returns an array of `shape` with the values that `read` makes of `stored`, row-major.
fn array<S: Copy, V>(shape: (usize, usize), stored: &[S], read: impl Fn(S) -> V) -> Array2<V> {
    // The index is valid: a model's blocks have as many values as their shapes say, in row-major
    // order.
    Array2::from_shape_fn(shape, |(row, column)| read(stored[row * shape.1 + column]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;
    use std::path::Path;

    use ndarray::array;
    use ndarray_npy::NpzReader;

    use super::*;
    use fedrecsim_model::model::layout::{BlockLayout, Layout};
    use fedrecsim_model::model::table::{Table, TableShape};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn model() -> Model {
        let shape = |rows, dimension| TableShape { rows, dimension };
        let layout = Layout::new(vec![
            BlockLayout::item_table("C", shape(3, 2)),
            BlockLayout::weights("mlp.0", shape(1, 2)),
            BlockLayout::item_table("counts", shape(3, 1)).of(ValueType::U64),
            BlockLayout::item_table("signs", shape(2, 1)).of(ValueType::U32),
            BlockLayout::weights("sketch", shape(1, 3)).of(ValueType::Bytes),
        ]);
        let items = Table::from_values(
            shape(3, 2),
            vec![1.5, -0.0, f32::MIN_POSITIVE, 3.25e8, 0.1, -7.0],
        )
        .unwrap();
        let layer = Table::from_values(shape(1, 2), vec![4.0, 5.0]).unwrap();
        let counts: Vec<u8> = [7u64, u64::MAX, 0]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let signs: Vec<u8> = [3u32, u32::MAX]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        let values = vec![
            BlockValues::Table(items.into()),
            BlockValues::Table(layer.into()),
            BlockValues::Raw(counts.into()),
            BlockValues::Raw(signs.into()),
            BlockValues::Raw(vec![1, 2, 255].into()),
        ];
        Model::new(layout, values).unwrap()
    }

    /// If this fails, NumPy reads other parameters than the run ended with.
    #[test]
    fn every_block_is_read_back_to_the_bit_under_its_name() {
        let bytes = write_npz(Cursor::new(Vec::new()), &model(), &[]).unwrap();
        let mut reader = NpzReader::new(Cursor::new(bytes.into_inner())).unwrap();
        let mut names = reader.names().unwrap();
        names.sort();
        assert_eq!(names, ["C", "counts", "mlp.0", "signs", "sketch"]);
        let back: Array2<f32> = reader.by_name("C").unwrap();
        assert_eq!(back.dim(), (3, 2));
        assert!(
            back.iter()
                .zip(model().table(0).as_slice())
                .all(|(back, value)| back.to_bits() == value.to_bits())
        );
        let back: Array2<f32> = reader.by_name("mlp.0").unwrap();
        assert_eq!(back, array![[4.0, 5.0]]);
        let back: Array2<u64> = reader.by_name("counts").unwrap();
        assert_eq!(back, array![[7], [u64::MAX], [0]]);
        let back: Array2<u32> = reader.by_name("signs").unwrap();
        assert_eq!(back, array![[3], [u32::MAX]]);
        let back: Array2<u8> = reader.by_name("sketch").unwrap();
        assert_eq!(back, array![[1, 2, 255]]);
    }

    /// If this fails, two runs with the same digest leave different model files.
    #[test]
    fn no_date_is_in_the_file() {
        let bytes = write_npz(Cursor::new(Vec::new()), &model(), &[])
            .unwrap()
            .into_inner();
        // A zip entry's time and date stand after its signature, version, flags and method; these
        // are midnight of 1 January 1980.
        assert_eq!(bytes[10..14], [0, 0, 0x21, 0]);
    }

    /// If this fails, a run that fails leaves half a model, or removes an earlier one.
    #[test]
    fn a_model_that_is_not_written_leaves_everything_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("model.npz");
        drop(ModelFile::create(&path, false).unwrap());
        assert!(names(root.path()).is_empty());
        fs::write(&path, "an earlier one").unwrap();
        assert!(
            matches!(ModelFile::create(&path, false), Err(Error::Usage(text)) if text.contains("--overwrite"))
        );
        drop(ModelFile::create(&path, true).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "an earlier one");
        ModelFile::create(&path, true)
            .unwrap()
            .write(&model(), &[])
            .unwrap();
        assert_eq!(names(root.path()), ["model.npz"]);
        assert_eq!(NpzReader::new(File::open(&path).unwrap()).unwrap().len(), 5);
        let nowhere = root.path().join("nowhere/model.npz");
        assert!(matches!(
            ModelFile::create(nowhere, false),
            Err(Error::Usage(_))
        ));
    }
}
