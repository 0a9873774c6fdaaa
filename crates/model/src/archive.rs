//! Writes and reads archives, which hold the state of a run as a sequence of values and tables.
//!
//! An archive is outside the simulated world: no actor reads it, nothing of it travels over a link,
//! and private parameters in it return only to their client (contract 4).
//!
//! The format is postcard, with the length in front of each value, so that an archive can be read
//! piece by piece. A table that many clients share is written once and shared again after reading,
//! since a million clients may hold a handful of tables.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kernel::little_endian_bytes;
use super::table::{SharedTable, Table, TableShape, TableUpdate, VALUE_BYTES, ValueType, floats};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;

/// The most bytes of a single value of an archive. A greater length means that the archive is
/// damaged.
const LONGEST: u64 = 1 << 36;

/// The number of bytes that are read at once, so that a damaged length allocates no memory for
/// bytes that are missing.
const READ_AT_ONCE: u64 = 1 << 20;

/// Stands in place of the length of bytes that are attached to an archive. It is greater than any
/// length.
const ATTACHED: u64 = u64::MAX;

/// The least number of bytes to attach. Copying fewer is faster than sending them separately.
const ATTACHED_FROM: usize = 32 << 10;

/// The fault of an archive that ends too early.
const ENDS_EARLY: &str = "it ends in the middle of a value";

/// The purpose of memory in reading.
const PURPOSE: &str = "the state that a checkpoint holds";

/// Writes an archive, in memory until it is taken.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    tables: Numbers,
    shared_bytes: Numbers,
    /// The long bytes that are attached instead of written, if the archive may have attachments.
    attached: Option<Vec<Bytes>>,
    /// The first error, after which nothing more is appended.
    failed: Option<Error>,
}

/// Numbers shared things, so that each is written once.
#[derive(Debug, Default)]
struct Numbers {
    /// The numbers by place in memory. Existing entries are kept, so that nothing else gets their
    /// place.
    by_place: BTreeMap<(usize, usize), (u32, Box<dyn Any + Send + Sync>)>,
    /// The numbers by content, so that an archive does not depend on how many equal copies exist.
    by_content: BTreeMap<[u8; blake3::OUT_LEN], u32>,
}

impl Numbers {
    /// Returns the number of `shared`, which is at this place and has this content, and whether it
    /// is a new one.
    fn of(
        &mut self,
        shared: impl Any + Send + Sync,
        place: (usize, usize),
        content: impl FnOnce() -> blake3::Hash,
    ) -> (u32, bool) {
        if let Some((number, _)) = self.by_place.get(&place) {
            return (*number, false);
        }
        let next = self.by_content.len() as u32;
        let number = *self.by_content.entry(content().into()).or_insert(next);
        self.by_place.insert(place, (number, Box::new(shared)));
        (number, number == next)
    }
}

impl Archive {
    /// Makes an archive for another process, with long bytes attached instead of copied.
    pub fn with_attachments() -> Self {
        Self {
            attached: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Appends a value.
    pub fn put<T: Serialize + ?Sized>(&mut self, value: &T) {
        let start = self.bytes.len();
        self.bytes.extend([0; size_of::<u64>()]);
        // Postcard only refuses types that do not state their length, defects of the caller.
        self.bytes = postcard::to_extend(value, std::mem::take(&mut self.bytes))
            .unwrap_or_else(|reason| panic!("a value cannot be written: {reason}"));
        let length = (self.bytes.len() - start - size_of::<u64>()) as u64;
        self.bytes[start..start + size_of::<u64>()].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends bytes as they are, or attaches them if they are long and the archive may have
    /// attachments.
    pub fn put_bytes(&mut self, bytes: &Bytes) {
        match &mut self.attached {
            Some(attached) if bytes.len() >= ATTACHED_FROM => {
                attached.push(bytes.clone());
                self.bytes.extend(ATTACHED.to_le_bytes());
            }
            _ => self.copy(bytes),
        }
    }

    /// Appends values, bit for bit.
    pub(crate) fn put_values(&mut self, values: &[f32]) {
        self.copy(&little_endian_bytes(values));
    }

    /// Appends bytes behind their length, unless there is no room for them or an error before.
    fn copy(&mut self, bytes: &[u8]) {
        let (held, more) = (self.bytes.len(), bytes.len() + size_of::<u64>());
        if self.failed.is_none() && self.bytes.capacity() - held < more {
            // Growing by at least what is held makes the copies of many small values few.
            let purpose = "the state of the run in a checkpoint";
            self.failed = memory::reserve(&mut self.bytes, more.max(held), purpose).err();
        }
        if self.failed.is_none() {
            self.bytes.extend((bytes.len() as u64).to_le_bytes());
            self.bytes.extend(bytes);
        }
    }

    /// Appends a table, or the number of an equal one that was appended before.
    pub(crate) fn put_table(&mut self, table: &SharedTable) {
        let shape = table.shape();
        let place = (Arc::as_ptr(table) as usize, 0);
        let number = self
            .tables
            .of(Arc::clone(table), place, || digest_of(table));
        self.put(&number);
        if number.1 {
            self.put(&(shape.rows as u64, shape.dimension as u64));
            self.put_values(table.as_slice());
        }
    }

    /// Appends shared bytes, or their number if they were appended before.
    pub fn put_shared_bytes(&mut self, bytes: &Bytes) {
        let place = (bytes.as_ptr() as usize, bytes.len());
        let content = || blake3::hash(bytes);
        let number = self.shared_bytes.of(bytes.clone(), place, content);
        self.put(&number);
        if number.1 {
            self.copy(bytes);
        }
    }

    /// Appends an update.
    pub fn put_update(&mut self, update: &TableUpdate) {
        self.put(&(&update.rows, update.others_scale));
        self.put_bytes(&update.values);
    }

    /// Returns what was appended since the last call.
    ///
    /// # Errors
    /// [`Error::Memory`] if there was none for what was appended.
    pub fn take(&mut self) -> Result<Vec<u8>> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.bytes)),
        }
    }

    /// Returns what was attached since the last call.
    pub fn take_attached(&mut self) -> Vec<Bytes> {
        self.attached
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns the number of bytes that wait to be taken.
    pub fn pending(&self) -> usize {
        let attached = self.attached.iter().flatten().map(Bytes::len);
        self.bytes.len() + attached.sum::<usize>()
    }
}

/// Reads an archive in the order it was written.
#[derive(Default)]
pub struct ArchiveReader {
    /// Where the archive comes from, such as a file that is unpacked; `None` if it is in memory.
    stream: Option<Box<dyn Read + Send>>,
    /// The rest of an archive in memory. Bytes share it after reading.
    memory: Bytes,
    tables: Vec<SharedTable>,
    shared_bytes: Vec<Bytes>,
    attached: VecDeque<Bytes>,
    open_part: Option<OpenPart>,
}

/// Opens a part of an archive of several processes, by the number of its writer and the number of
/// writers. Returns the digest of its content with it.
pub(crate) type OpenPart = Box<dyn Fn(u32, u32) -> Result<(blake3::Hash, ArchiveReader)> + Send>;

impl ArchiveReader {
    /// Makes a reader of the archive that `source` holds.
    pub fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            stream: Some(source),
            ..Self::default()
        }
    }

    /// Makes a reader of the archive that is in memory, and of what was attached to it.
    pub fn of_bytes(bytes: impl Into<Bytes>, attached: Vec<Bytes>) -> Self {
        Self {
            memory: bytes.into(),
            attached: attached.into(),
            ..Self::default()
        }
    }

    /// Returns the reader with a way to the other parts of the archive.
    pub fn with_parts(self, open_part: OpenPart) -> Self {
        Self {
            open_part: Some(open_part),
            ..self
        }
    }

    /// Opens the part that number `writer` of `writers` has written, and checks its digest.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there is no such part.
    pub fn part(&self, writer: u32, writers: u32, digest: &[u8; blake3::OUT_LEN]) -> Result<Self> {
        let open = self
            .open_part
            .as_ref()
            .ok_or_else(|| damaged("it has parts, and this is only one of them"))?;
        let (found, part) = open(writer, writers)?;
        if found.as_bytes() != digest {
            return Err(damaged(format!(
                "part {writer} is not the one that was written with it"
            )));
        }
        Ok(part)
    }

    /// Shows everything that has not been read to `each`.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if it cannot be read.
    pub fn show_rest(mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        each(&self.memory);
        let mut buffer = vec![0; READ_AT_ONCE as usize];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer).map_err(unreadable)? {
                0 => break,
                read => each(&buffer[..read]),
            }
        }
        Ok(())
    }

    /// Returns digests of the shared tables that have been read, which do not depend on their order.
    pub fn shared_tables(&self) -> BTreeSet<[u8; blake3::OUT_LEN]> {
        let digest = |table: &SharedTable| digest_of(table).into();
        self.tables.iter().map(digest).collect()
    }

    /// Returns the next value.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there is none, or if it is of another type.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        match postcard::take_from_bytes(&self.take_bytes()?) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(damaged("a value is longer than its type")),
            Err(reason) => Err(damaged(reason)),
        }
    }

    /// Returns the next bytes, which share the memory of an archive that is in memory, or were
    /// attached to it.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there are none.
    pub fn take_bytes(&mut self) -> Result<Bytes> {
        let Some(stream) = &mut self.stream else {
            let length = self.memory.try_get_u64_le();
            let length = length.map_err(|_| damaged(ENDS_EARLY))?;
            if length == ATTACHED {
                let attached = self.attached.pop_front();
                return attached.ok_or_else(|| damaged("it lacks what was attached to it"));
            }
            if length > self.memory.len() as u64 {
                return Err(damaged(ENDS_EARLY));
            }
            return Ok(self.memory.split_to(length as usize));
        };
        let mut length = [0; size_of::<u64>()];
        stream.read_exact(&mut length).map_err(unreadable)?;
        let mut rest = u64::from_le_bytes(length);
        if rest > LONGEST {
            return Err(damaged("a value is longer than any can be"));
        }
        let mut bytes = Vec::new();
        while rest > 0 {
            let wanted = rest.min(READ_AT_ONCE);
            let read = stream.take(wanted).read_to_end(&mut bytes);
            if (read.map_err(unreadable)? as u64) < wanted {
                return Err(damaged(ENDS_EARLY));
            }
            rest -= wanted;
        }
        Ok(bytes.into())
    }

    /// Returns the next `count` values.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if another number of values was appended.
    pub(crate) fn take_values(&mut self, count: usize) -> Result<Vec<f32>> {
        let bytes = self.take_bytes()?;
        if Some(bytes.len()) != count.checked_mul(VALUE_BYTES) {
            return Err(damaged(format!(
                "{} bytes stand where {count} values should",
                bytes.len()
            )));
        }
        let mut values = Vec::new();
        memory::reserve(&mut values, count, PURPOSE)?;
        values.extend(floats(&bytes));
        Ok(values)
    }

    /// Returns the next table, which others may share.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there is none, or if it is of another shape.
    pub(crate) fn take_table(&mut self, shape: TableShape) -> Result<SharedTable> {
        let (number, follows): (u32, bool) = self.take()?;
        if follows {
            let (rows, dimension): (u64, u64) = self.take()?;
            let shape = TableShape {
                rows: rows as usize,
                dimension: dimension as usize,
            };
            let values = self.take_values(shape.rows.saturating_mul(shape.dimension))?;
            self.tables.push(Arc::new(Table::new(shape, values)));
        }
        match self.tables.get(number as usize) {
            Some(table) if table.shape() == shape => Ok(Arc::clone(table)),
            _ => Err(damaged(format!(
                "table {number} is not there, or not of {shape} values"
            ))),
        }
    }

    /// Returns the next bytes that others may share.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there are none.
    pub fn take_shared_bytes(&mut self) -> Result<Bytes> {
        let (number, follows): (u32, bool) = self.take()?;
        if follows {
            let bytes = self.take_bytes()?;
            self.shared_bytes.push(bytes);
        }
        let bytes = self.shared_bytes.get(number as usize).cloned();
        bytes.ok_or_else(|| damaged(format!("frame {number} is not there")))
    }

    /// Returns the next update, of a table of `shape` with values of this type.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if there is none, or if it does not fit such a table.
    pub fn take_update(&mut self, shape: TableShape, value_type: ValueType) -> Result<TableUpdate> {
        let (rows, others_scale) = self.take()?;
        let update = TableUpdate {
            shape,
            value_type,
            rows,
            values: self.take_bytes()?,
            others_scale,
        };
        update.check().map_err(damaged)?;
        Ok(update)
    }
}

impl std::fmt::Debug for ArchiveReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveReader").finish_non_exhaustive()
    }
}

/// Returns a digest of the shape and the values of a table.
fn digest_of(table: &Table) -> blake3::Hash {
    let mut digest = blake3::Hasher::new();
    digest
        .update(&(table.shape().dimension as u64).to_le_bytes())
        .update(&little_endian_bytes(table.as_slice()));
    digest.finalize()
}

/// Returns the error of an archive that cannot be read on.
fn unreadable(reason: io::Error) -> Error {
    match reason.kind() {
        io::ErrorKind::OutOfMemory => Error::Memory(format!("there is no memory for {PURPOSE}")),
        _ => damaged(reason),
    }
}

/// Returns the error of an archive whose content cannot be used.
pub fn damaged(reason: impl ToString) -> Error {
    Error::Unrestorable(format!(
        "its content cannot be used: {}",
        reason.to_string()
    ))
}

#[cfg(test)]
mod tests;
