//! Writes the parameters of a trained model as a `.npz` file, which NumPy reads with `numpy.load`.
//!
//! The same parameters give the same bytes: the file is not compressed, and its entries carry no
//! date.

use std::error::Error;
use std::io::{self, Seek, SeekFrom, Write};
use std::iter;

use ndarray::{Array1, Array2};
use ndarray_npy::{NpzWriter, WriteNpzError};

use fedrecsim_methods::{PersonalTable, PersonalVector};
use fedrecsim_model::ValueType;
use fedrecsim_model::blocks::{BlockValues, Model};

/// The arrays of one user in the file.
#[derive(Clone, Debug)]
pub struct UserArrays {
    /// The user's name.
    pub name: String,
    /// The item table that it keeps for itself, in methods that have one.
    pub table: Option<PersonalTable>,
    /// The vector that it keeps for itself, in methods that have one.
    pub vector: Option<PersonalVector>,
    /// For each item 1 if the user trains on it, 2 and 3 if it is held out for validation and for
    /// the test, else 0.
    pub items: Vec<u8>,
}

/// Writes the blocks of `model` (rows x columns each, of the block's type) to `out` as an
/// uncompressed `.npz` archive with one array for each, under the block's name, and returns `out`.
/// Behind them come, of the user ann, the table that it keeps for itself, if there is one, as `D-ann`
/// if the table is called D, its vector in the same way, and as `items-ann` which items it rated.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_npz<W: Write + Seek>(out: W, model: &Model, users: &[UserArrays]) -> io::Result<W> {
    let mut out = archived(out, model, users).map_err(cause_of)?;
    // A buffer that is dropped tells nobody of an error.
    out.flush()?;
    Ok(out)
}

/// Returns the system's reason for an archive that could not be written, which names a full disk.
fn cause_of(error: WriteNpzError) -> io::Error {
    let first: &(dyn Error + 'static) = &error;
    let mut causes = iter::successors(Some(first), |error| (*error).source());
    let system = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    match system.map(|system| (system.raw_os_error(), system.to_string())) {
        Some((Some(code), _)) => io::Error::from_raw_os_error(code),
        Some((None, reason)) => io::Error::other(reason),
        None => io::Error::other(error),
    }
}

fn archived<W: Write + Seek>(
    out: W,
    model: &Model,
    users: &[UserArrays],
) -> std::result::Result<W, WriteNpzError> {
    let mut archive = NpzWriter::new(Quiet {
        out,
        failed: false,
        place: 0,
        end: 0,
    });
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
    for of_user in users {
        let UserArrays {
            name, table, items, ..
        } = of_user;
        if let Some(table) = table {
            archive.add_array(format!("{}-{name}", table.name), &table.values.view())?;
        }
        if let Some(vector) = &of_user.vector {
            let values = Array1::from_vec(vector.values.clone());
            archive.add_array(format!("{}-{name}", vector.name), &values)?;
        }
        archive.add_array(format!("items-{name}"), &Array1::from_vec(items.clone()))?;
    }
    Ok(archive.finish()?.out)
}

/// Takes everything after an error and writes nothing. The archive writes its end when it is dropped, and
/// would print the error of that, which has been returned.
struct Quiet<W> {
    out: W,
    failed: bool,
    /// The place of the next byte, which counts on after an error.
    place: u64,
    /// The end of what has been written.
    end: u64,
}

impl<W: Write> Write for Quiet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.failed {
            true => bytes.len(),
            false => {
                let written = self.out.write(bytes);
                written.inspect_err(|_| self.failed = true)?
            }
        };
        self.place += written as u64;
        self.end = self.end.max(self.place);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.failed {
            true => Ok(()),
            false => self.out.flush().inspect_err(|_| self.failed = true),
        }
    }
}

impl<W: Seek> Seek for Quiet<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let moved = match to {
            _ if !self.failed => {
                let place = self.out.seek(to);
                Some(place.inspect_err(|_| self.failed = true)?)
            }
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => self.place.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.place = moved.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.place)
    }
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
    use std::io::{BufWriter, Cursor};

    use ndarray::array;
    use ndarray_npy::NpzReader;

    use super::*;
    use fedrecsim_model::{BlockLayout, Layout};
    use fedrecsim_model::{Table, TableShape};

    fn model() -> Model {
        let shape = |rows, dimension| TableShape { rows, dimension };
        let layout = Layout::new(vec![
            BlockLayout::item_table("C", shape(3, 2)),
            BlockLayout::weights("mlp.0", shape(1, 2)),
            BlockLayout::item_table("counts", shape(3, 1)).of(ValueType::U64),
            BlockLayout::item_table("signs", shape(2, 1)).of(ValueType::U32),
            BlockLayout::weights("sketch", shape(1, 3)).of(ValueType::Bytes),
        ]);
        let items = Table::new(
            shape(3, 2),
            vec![1.5, -0.0, f32::MIN_POSITIVE, 3.25e8, 0.1, -7.0],
        );
        let layer = Table::new(shape(1, 2), vec![4.0, 5.0]);
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

    /// A disk that is full after this many bytes.
    struct Full {
        disk: Cursor<Vec<u8>>,
        room: u64,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.disk.position() + bytes.len() as u64 > self.room {
                // No space left on the device.
                true => Err(io::Error::from_raw_os_error(28)),
                false => self.disk.write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.disk.seek(to)
        }
    }

    /// If this fails, a full disk is told as a fault of an archive, or a file without its end as whole.
    #[test]
    fn a_full_disk_is_named_as_the_cause() {
        let whole = write_npz(Cursor::new(Vec::new()), &model(), &[]).unwrap();
        let length = whole.into_inner().len() as u64;
        for room in [0, 100, length / 2, length - 1] {
            let disk = || Full {
                disk: Cursor::default(),
                room,
            };
            let plain = write_npz(disk(), &model(), &[]).err();
            let buffered = write_npz(BufWriter::new(disk()), &model(), &[]).err();
            for error in [plain, buffered] {
                let code = error.and_then(|error| error.raw_os_error());
                assert_eq!(code, Some(28), "{room} of {length}");
            }
        }
    }
}
