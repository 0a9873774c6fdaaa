//! What is put into an archive comes out again.
#![allow(clippy::unwrap_used)]
use std::io::Cursor;

use super::*;

const SHAPE: TableShape = TableShape {
    rows: 50,
    dimension: 4,
};

fn table(step: f32) -> SharedTable {
    let values = (0..SHAPE.rows * SHAPE.dimension)
        .map(|place| place as f32 * step)
        .collect();
    Arc::new(Table::new(SHAPE, values))
}

fn reader(archive: &mut Archive) -> ArchiveReader {
    ArchiveReader::new(Box::new(Cursor::new(archive.take().unwrap())))
}

#[test]
fn what_is_put_in_comes_out_in_its_order_and_with_its_bits() {
    let mut archive = Archive::default();
    archive.put(&(7u32, "word".to_owned(), -0.0f64));
    archive.put_values(&[f32::from_bits(0x7fa0_0001), -0.0]);
    archive.put_bytes(&Bytes::from_static(&[1, 2, 3]));
    let mut reader = reader(&mut archive);
    let (number, word, zero): (u32, String, f64) = reader.take().unwrap();
    assert_eq!(
        (number, word.as_str(), zero.to_bits()),
        (7, "word", (-0.0f64).to_bits())
    );
    let bits: Vec<u32> = reader
        .take_values(2)
        .unwrap()
        .into_iter()
        .map(f32::to_bits)
        .collect();
    assert_eq!(bits, [0x7fa0_0001, (-0.0f32).to_bits()]);
    assert_eq!(reader.take_bytes().unwrap()[..], [1, 2, 3]);
    assert!(reader.take::<u32>().is_err(), "there is nothing more");
}

/// If this fails, a checkpoint of a population has as many tables as users, and so has the run that
/// is continued from it.
#[test]
fn a_table_that_many_share_is_written_once_and_shared_again() {
    let (one, other) = (table(1.0), table(2.0));
    let equal = table(1.0);
    let mut archive = Archive::default();
    for table in [&one, &other, &one, &equal, &other] {
        archive.put_table(table);
    }
    let two_tables = 2 * SHAPE.values() * VALUE_BYTES;
    assert!(
        (two_tables..two_tables + 200).contains(&archive.pending()),
        "{}",
        archive.pending()
    );
    let mut reader = reader(&mut archive);
    let read: Vec<SharedTable> = (0..5).map(|_| reader.take_table(SHAPE).unwrap()).collect();
    assert!(read[0] == one && read[1] == other);
    assert!(
        Arc::ptr_eq(&read[0], &read[2])
            && Arc::ptr_eq(&read[0], &read[3])
            && Arc::ptr_eq(&read[1], &read[4])
    );
}

/// If this fails, a run that was resumed writes other checkpoints than one that was never stopped,
/// since equal frames were made in other places.
#[test]
fn equal_bytes_are_written_once_wherever_they_are() {
    let (one, other) = (Bytes::from(vec![1; 1000]), Bytes::from(vec![2; 1000]));
    let equal = Bytes::from(vec![1; 1000]);
    assert_ne!(one.as_ptr(), equal.as_ptr());
    let mut archive = Archive::default();
    for bytes in [&one, &equal, &other, &one, &equal] {
        archive.put_shared_bytes(bytes);
    }
    assert!(
        (2000..2200).contains(&archive.pending()),
        "{}",
        archive.pending()
    );
    let mut reader = reader(&mut archive);
    for bytes in [&one, &one, &other, &one, &one] {
        assert_eq!(reader.take_shared_bytes().unwrap(), bytes);
    }
}

#[test]
fn a_wrong_length_or_shape_is_an_error_and_takes_no_memory() {
    let mut archive = Archive::default();
    archive.put_table(&table(1.0));
    let bytes = archive.take().unwrap();
    let read = |bytes: Vec<u8>| ArchiveReader::new(Box::new(Cursor::new(bytes)));
    let wide = TableShape {
        rows: 4,
        dimension: 50,
    };
    assert!(matches!(
        read(bytes.clone()).take_table(wide),
        Err(Error::Unrestorable(_))
    ));
    for cut in 0..bytes.len() {
        assert!(
            read(bytes[..cut].to_vec()).take_table(SHAPE).is_err(),
            "{cut}"
        );
    }
    for length in [u64::MAX, LONGEST, 1 << 35] {
        let mut long = bytes.clone();
        long[..8].copy_from_slice(&length.to_le_bytes());
        assert!(read(long).take::<u32>().is_err());
    }
}

/// If this fails, frames are copied on their way to another process, or a checkpoint lacks what is
/// attached to it.
#[test]
fn long_bytes_are_attached_where_that_is_possible() {
    let (long, short) = (
        Bytes::from(vec![7; ATTACHED_FROM]),
        Bytes::from_static(&[1, 2, 3]),
    );
    for (mut archive, attached) in [(Archive::default(), 0), (Archive::with_attachments(), 2)] {
        [&long, &short, &long]
            .into_iter()
            .for_each(|bytes| archive.put_bytes(bytes));
        archive.put(&5u32);
        assert!(archive.pending() > 2 * ATTACHED_FROM);
        let (bytes, beside) = (archive.take().unwrap(), archive.take_attached());
        assert!(
            beside.len() == attached && beside.iter().all(|bytes| bytes.as_ptr() == long.as_ptr())
        );
        assert_eq!(
            (bytes.len() < ATTACHED_FROM, archive.pending()),
            (attached > 0, 0)
        );
        let mut reader = ArchiveReader::of_bytes(bytes.clone(), beside);
        for expected in [&long, &short, &long] {
            assert_eq!(reader.take_bytes().unwrap(), expected);
        }
        assert_eq!(reader.take::<u32>().unwrap(), 5);
        assert_eq!(
            ArchiveReader::of_bytes(bytes, Vec::new())
                .take_bytes()
                .is_err(),
            attached > 0,
            "what is lacking is noticed"
        );
    }
}
