//! Writes seeds for every target to `corpus/`, and the words of scenario files to
//! `corpus/scenario.dict`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use fedrecsim_methods::registry::vocabulary;
use fedrecsim_model::codec::{self, Beginning, Codec, HEADER_BYTES, PositionCode};
use fedrecsim_model::{Table, TableShape, TableUpdate};
use fedrecsim_scenario::{self as scenario, CodecName};
use serde_json::Value;

#[path = "../tests/it/fuzz_case/composed.rs"]
mod composed;

fn main() -> Result<(), Box<dyn Error>> {
    for (target, name) in [
        ("decode-dense-f32", CodecName::DenseF32),
        ("decode-rows-f32", CodecName::RowsF32),
        ("decode-sparse-f32", CodecName::SparseF32),
    ] {
        frames(&folder(target)?, name)?;
    }
    composed(&folder("decode-composed")?)?;
    bundles(&folder("decode-bundle")?)?;
    row_requests(&folder("decode-row-request")?)?;
    scenarios(&folder("read-scenario")?)?;
    ratings(&folder("read-ratings")?)
}

fn folder(target: &str) -> Result<PathBuf, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A sound frame of each index encoding, for a few shapes, with mending and without.
fn frames(folder: &Path, name: CodecName) -> Result<(), Box<dyn Error>> {
    for (rows, dimension) in [
        (0, 4),
        (1, 1),
        (5, 0),
        (20, 3),
        (300, 1),
        (40, 8),
        (1000, 17),
    ] {
        let shape = TableShape { rows, dimension };
        // Every row, one, two that are far apart, one in ten (gaps), every other one (a bitmap).
        for (kind, every) in [
            ("all", 1),
            ("one", usize::MAX),
            ("two", 960),
            ("few", 10),
            ("most", 2),
        ] {
            let listed: Vec<u32> = (0..rows)
                .filter(|row| row % every == 0)
                .map(|row| row as u32)
                .collect();
            let values: Vec<f32> = (0..dimension * listed.len())
                .map(|value| (value % 5) as f32)
                .collect();
            let update = TableUpdate::listed(shape, listed, &values, 0.5)?;
            let frame = name.encode(&update, &Table::zeros(shape)).bytes;
            if frame.len() > 1000 {
                continue;
            }
            for mend in [0, 3] {
                let prefix = [rows as u8, dimension as u8, ((rows >> 8) as u8) << 6 | mend];
                fs::write(
                    folder.join(format!("{rows}x{dimension}-{kind}-{mend}")),
                    [&prefix[..], &frame].concat(),
                )?;
            }
        }
    }
    Ok(())
}

/// A sound block of every composition that an input can name.
fn composed(folder: &Path) -> Result<(), Box<dyn Error>> {
    for choices in 0..12 {
        for values in 0..9 {
            for (rows, columns) in [(1, 1), (9, 3), (40, 8)] {
                let prefix = [rows, columns, choices, values];
                let (codec, shape) = composed::of_prefix(prefix);
                let listed: Vec<u32> = (0..u32::from(rows)).filter(|row| row % 3 != 1).collect();
                let all: Vec<f32> = (0..shape.dimension * listed.len())
                    .map(|value| (value % 7) as f32 - 2.5)
                    .collect();
                let update = TableUpdate::listed(shape, listed, &all, 1.0)?;
                let frame = codec.encode(&update, &Table::zeros(shape)).bytes;
                let name = format!("{rows}x{columns}-{choices}-{values}");
                fs::write(
                    folder.join(name),
                    [&prefix[..], &frame[HEADER_BYTES..]].concat(),
                )?;
            }
        }
    }
    Ok(())
}

/// Frames of no, one and several frames, with each beginning.
fn bundles(folder: &Path) -> Result<(), Box<dyn Error>> {
    let shape = TableShape {
        rows: 4,
        dimension: 2,
    };
    let own = CodecName::RowsF32.encode(
        &TableUpdate::whole(Table::zeros(shape)),
        &Table::zeros(shape),
    );
    for count in [0u32, 1, 3] {
        for (number, beginning) in [Beginning::Held, Beginning::Whole, Beginning::Seed(7)]
            .into_iter()
            .enumerate()
        {
            let frame = codec::bundle(beginning, (0..count).map(|version| (version * 200, &own)));
            fs::write(folder.join(format!("{count}-{number}")), &frame.bytes)?;
        }
    }
    Ok(())
}

/// A sound request in each code of positions, for few and many rows of small and large tables.
fn row_requests(folder: &Path) -> Result<(), Box<dyn Error>> {
    let codes = [
        PositionCode::Bitmap,
        PositionCode::Gaps,
        PositionCode::Rice,
        PositionCode::EliasFano,
        PositionCode::Enumerative,
    ];
    for of_all in [1u16, 9, 100, 3000] {
        for (kind, every) in [
            ("all", 1),
            ("most", 0),
            ("half", 2),
            ("few", 40),
            ("one", u16::MAX),
        ] {
            let is_asked = |row: &u32| match every {
                0 => row % 30 != 7,
                every => row * row % u32::from(every) == 0,
            };
            let rows: Vec<u32> = (0..u32::from(of_all)).filter(is_asked).collect();
            for code in codes {
                let frame = codec::encode_row_request(&rows, usize::from(of_all), Some(code)).bytes;
                let input = [&of_all.to_le_bytes()[..], &frame[3..4], &frame[8..]].concat();
                fs::write(folder.join(format!("{of_all}-{kind}-{code:?}")), input)?;
            }
        }
    }
    Ok(())
}

/// The scenario files of the repository, and a dictionary of the schema's words.
fn scenarios(folder: &Path) -> Result<(), Box<dyn Error>> {
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios"))? {
        let file = file?;
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    let mut words = BTreeSet::new();
    collect_words(&scenario::schema(&vocabulary()), &mut words);
    let lines: String = words.iter().map(|word| format!("{word:?}\n")).collect();
    Ok(fs::write(folder.with_file_name("scenario.dict"), lines)?)
}

/// Keys, and the strings that a key may have.
fn collect_words(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                words.extend(properties.keys().cloned());
            }
            let literals = object
                .get("enum")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            words.extend(
                literals
                    .chain(object.get("const"))
                    .filter_map(Value::as_str)
                    .map(str::to_owned),
            );
            object
                .values()
                .for_each(|inner| collect_words(inner, words));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_words(inner, words)),
        _ => {}
    }
}

/// The same few ratings in several layouts.
fn ratings(folder: &Path) -> Result<(), Box<dyn Error>> {
    let lines = [
        "ann,x,5,30",
        "ann,y,3.5,-10",
        "bob,y,1,20",
        "ann,z,2,1.5",
        "bob,x,4,7",
        "bob,z,1,8",
    ];
    for (separator, text) in [",", "\t", "::", ";", " || ", "\"", "a", "aa"]
        .into_iter()
        .enumerate()
    {
        for (header, flags) in [("", 0x60), ("u,i,r,t\n", 0xf8)] {
            let file = (header.to_owned() + &lines.join("\n")).replace(',', text);
            let prefix = [flags | separator as u8, 0b10_01_00];
            fs::write(
                folder.join(format!("{separator}-{flags}")),
                [&prefix[..], file.as_bytes()].concat(),
            )?;
        }
    }
    Ok(())
}
