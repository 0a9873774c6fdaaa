//! Writes a checkpoint file piece by piece, and reads one only if all of it is sound.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::build::Build;
use fedrecsim_core::{Error, Partial, Result, begin_file};
use fedrecsim_model::{Archive, ArchiveReader};

const MAGIC: [u8; 8] = *b"FEDRECSC";
/// The magic number of a part that another process of the run has written.
const MAGIC_OF_PART: [u8; 8] = *b"FEDRECSP";
const VERSION: u32 = 27;
/// Bytes before the archive: magic number and version.
const START: u64 = 12;
/// Bytes after the archive: length and checksum.
const END: u64 = 8 + blake3::OUT_LEN as u64;

/// Says which run a checkpoint is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The build of the program that wrote the checkpoint.
    pub build: Build,
    /// Descriptions of other builds that made earlier rounds; a run has some if it was resumed with
    /// another build.
    pub other_builds: Vec<String>,
    /// Name of the scenario.
    pub name: String,
    /// The scenario, resolved, as TOML.
    pub scenario: String,
    /// The keys of the method's parameters in the order that the report shows, which TOML does not
    /// keep.
    pub parameters: Vec<String>,
    /// Digest of what the run reads besides the scenario ([`fingerprint`](super::fingerprint)).
    pub fingerprint: String,
    /// The command that repeats the run, for its report.
    pub command: Vec<String>,
    /// The warnings about the scenario, for its report.
    pub warnings: Vec<String>,
    /// The folder that the run was started in, where relative paths of the scenario begin;
    /// absolute.
    pub directory: PathBuf,
    /// Folders where the run looked for data; absolute.
    pub data_directories: Vec<PathBuf>,
    /// BLAKE3 (hexadecimal) of the `run.json` that the run was to replace, so that it is not taken
    /// for the run's own.
    pub replaces: Option<String>,
    /// Number of rounds from one checkpoint to the next; 0 if there are none at regular intervals.
    pub every: u32,
    /// Whether the last checkpoint stays when the run is complete, so that rounds can be added to
    /// it.
    pub keep: bool,
    /// Number of rounds that are over.
    pub rounds: u32,
    /// Number of processes that have written the checkpoint, each its part.
    pub ranks: u32,
}

/// The checksum at the end of a file.
pub(super) type Checksum = [u8; blake3::OUT_LEN];

/// A checkpoint that is sound.
#[derive(Debug)]
pub struct Opened {
    /// The header, which says which run it is of.
    pub header: Header,
    /// The state of the simulated world.
    pub world: ArchiveReader,
}

/// A checkpoint that is being written under another name. It is removed again unless it is
/// published, since what is left of it would only take the room that is missing.
pub(super) struct Writing {
    partial: Partial,
    file: BufWriter<File>,
    digest: blake3::Hasher,
    length: u64,
}

impl Writing {
    /// Begins a checkpoint with this header, or a part of one, at `partial`. It holds what devices
    /// keep for themselves.
    pub(crate) fn create(partial: &Path, header: Option<&Header>) -> io::Result<Self> {
        let (file, partial) = begin_file(partial, true)?;
        let mut writing = Self {
            file: BufWriter::with_capacity(1 << 16, file),
            partial,
            digest: blake3::Hasher::new(),
            length: 0,
        };
        writing.put(&header.map_or(MAGIC_OF_PART, |_| MAGIC))?;
        writing.put(&VERSION.to_le_bytes())?;
        if let Some(header) = header {
            let mut archive = Archive::default();
            archive.put(header);
            writing.append(&archive.take().map_err(io::Error::other)?)?;
        }
        Ok(writing)
    }

    /// Goes on as if the disk had become full.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self) -> io::Result<()> {
        *self.file.get_mut() = File::options().write(true).open("/dev/full")?;
        Ok(())
    }

    /// Appends bytes of the archive.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.put(bytes)
    }

    /// Ends the checkpoint with the checksums of its parts, and returns when it is on the disk.
    pub(crate) fn finish(&mut self, parts: &[Checksum]) -> io::Result<()> {
        parts
            .iter()
            .try_for_each(|checksum| self.append(checksum))?;
        self.put(&self.length.to_le_bytes())?;
        let checksum = self.digest.finalize();
        self.file.write_all(checksum.as_bytes())?;
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }

    /// Gives the finished checkpoint its name, and returns when that is on the disk.
    pub(crate) fn publish(self, path: &Path) -> io::Result<()> {
        self.partial.persist(path)?;
        sync_names(path.parent().unwrap_or(path))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.file.write_all(bytes)
    }
}

/// Opens the checkpoint at `path`, if all of it is there and undamaged, with the parts that other
/// processes have written. Without `checks_parts`, another process checks these, and this one
/// checks those that it reads.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be read, [`Error::Unrestorable`] for one that is no
/// checkpoint, incomplete, damaged, of another version of the layout, or has a part that was
/// written for another one.
pub(crate) fn open(path: &Path, checks_parts: bool) -> Result<Opened> {
    let mut world = sound(path, MAGIC, &mut |_| {})?;
    let header: Header = world.take()?;
    let (rounds, ranks) = (header.rounds, header.ranks);
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let others = ranks.saturating_sub(1);
    let before_end = END + u64::from(others) * blake3::OUT_LEN as u64;
    for (rank, checksum) in (1..).zip(checksums(path, before_end, others)?) {
        let part = folder.join(name_of_part(rounds, (rank, ranks)));
        if checksums(&part, blake3::OUT_LEN as u64, 1)? != [checksum] {
            return Err(Error::Unrestorable(format!(
                "{} is not the part that was written for the checkpoint",
                part.display()
            )));
        }
        if checks_parts {
            open_part(&part)?;
        }
    }
    let world = world.with_parts(Box::new(move |rank, ranks| {
        open_part(&folder.join(name_of_part(rounds, (rank, ranks))))
    }));
    Ok(Opened { header, world })
}

/// Returns whether these are the first bytes of a checkpoint.
pub(crate) fn is_checkpoint(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Opens a part of a checkpoint. The digest of its content comes with it.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_part(path: &Path) -> Result<(blake3::Hash, ArchiveReader)> {
    let mut digest = blake3::Hasher::new();
    let part = sound(path, MAGIC_OF_PART, &mut |piece| {
        digest.update(piece);
    })?;
    Ok((digest.finalize(), part))
}

/// Returns the `count` checksums that stand this many bytes before the end of the file at `path`,
/// without a look at the rest of it.
///
/// # Errors
/// [`Error::Read`], also for a file that is too short.
pub(super) fn checksums(path: &Path, before_end: u64, count: u32) -> Result<Vec<Checksum>> {
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-(before_end as i64)))?;
        let mut checksums = vec![Checksum::default(); count as usize];
        let mut all = checksums.iter_mut();
        all.try_for_each(|checksum| file.read_exact(checksum))?;
        Ok(checksums)
    };
    read().map_err(|reason: io::Error| Error::read(path, reason))
}

/// Returns the name of a part of a checkpoint.
pub(super) fn name_of_part(rounds: u32, (rank, ranks): (u32, u32)) -> String {
    format!("checkpoint-{rounds}.part-{rank}-of-{ranks}.bin")
}

/// Returns the archive in the file at `path`, if all of it is there and undamaged. Its content is
/// shown to `each` on the way.
fn sound(path: &Path, magic: [u8; 8], each: &mut dyn FnMut(&[u8])) -> Result<ArchiveReader> {
    let unreadable = |reason: io::Error| Error::read(path, reason);
    let refuse = |what: &str| Err(Error::Unrestorable(format!("{} {what}", path.display())));
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut start = [0; START as usize];
    if size < START + END {
        return refuse("is not a whole checkpoint");
    }
    file.read_exact(&mut start).map_err(unreadable)?;
    let (found, version) = start.split_at(magic.len());
    if found != magic {
        return refuse("is not a checkpoint");
    }
    let version = u32::from_le_bytes(version.try_into().unwrap_or_default());
    if version != VERSION {
        return refuse(&format!(
            "is a checkpoint of version {version}; this program reads version {VERSION}; go on with the program that \
             wrote it, or begin the run anew"
        ));
    }
    let mut digest = blake3::Hasher::new();
    digest.update(&start);
    let mut rest = size - START - END;
    let mut buffer = vec![0; 1 << 20];
    while rest > 0 {
        let piece = rest.min(buffer.len() as u64) as usize;
        file.read_exact(&mut buffer[..piece]).map_err(unreadable)?;
        digest.update(&buffer[..piece]);
        each(&buffer[..piece]);
        rest -= piece as u64;
    }
    let (mut last, mut checksum) = ([0; 8], [0; blake3::OUT_LEN]);
    file.read_exact(&mut last).map_err(unreadable)?;
    digest.update(&last);
    file.read_exact(&mut checksum).map_err(unreadable)?;
    if digest.finalize() != blake3::Hash::from_bytes(checksum) {
        return refuse("is damaged or incomplete: its checksum does not match its content");
    }
    if u64::from_le_bytes(last) != size - START - END {
        return refuse("has another length than it says");
    }
    file.seek(SeekFrom::Start(START)).map_err(unreadable)?;
    let body = BufReader::with_capacity(1 << 16, file).take(size - START - END);
    Ok(ArchiveReader::new(Box::new(body)))
}

/// Forces the names in `folder` to the disk, on systems that can do so.
pub(super) fn sync_names(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        // Some file systems cannot do this, which is no error.
        Err(reason)
            if matches!(
                reason.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}
