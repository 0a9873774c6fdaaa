//! Measures what codecs make of a table: bytes, errors, and the time that it takes.

use std::path::Path;
use std::time::{Duration, Instant};

use ndarray::Array2;
use ndarray_npy::{ReadNpyError, ReadNpyExt};

use super::args::CodecBenchArgs;
use super::inputs::seekable;
use crate::model::{Layout, Model, ModelUpdate, Table, TableShape};
use crate::{Error, Result, Streams};
use fedrecsim_core::Direction;
use fedrecsim_model::codec::{
    BlockCodecs, CodecMemory, EncodeContext, Frame, FrameKind, Randomness,
};
use fedrecsim_report::{self as report, Block, Cell, Document};
use fedrecsim_scenario::{self as scenario, CodecSpec, MethodVocabulary};

/// The codecs that are measured, as values of `codec.uplink`, one a line.
const MEASURED: &str = include_str!("codecs.txt");

/// How long the command measures each codec in each direction.
pub(super) const MEASURED_FOR: Duration = Duration::from_millis(200);

/// The least scenario, for reading a codec.
const SCENARIO: &str =
    "method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n";

/// The results of a codec on a table.
struct Measured {
    frame: Frame,
    /// The root of the mean square of the errors, as a share of that of the values.
    relative_error: f64,
    largest_error: f64,
    encode_s: f64,
    decode_s: f64,
}

/// Returns a table of what each codec makes of the table in a file, and those that the user names
/// besides. Each is measured for `measured_for` in each direction, and at least once.
///
/// # Errors
/// [`Error::Read`] for a file that is no table of floating-point numbers, and [`Error::Scenario`]
/// for a codec that cannot be read.
pub(crate) fn bench(
    arguments: &CodecBenchArgs,
    vocabulary: &[MethodVocabulary],
    measured_for: Duration,
) -> Result<String> {
    let table = read(&arguments.file)?;
    let shape = table.shape();
    let named = arguments.codecs.iter().map(String::as_str);
    let specs: Vec<(&str, CodecSpec)> = MEASURED
        .lines()
        .chain(named)
        .map(|name| Ok((name, codec_of(name, vocabulary)?)))
        .collect::<Result<_>>()?;
    let (mut rows, mut remarks) = (Vec::new(), Vec::new());
    for (name, spec) in specs {
        let codecs = BlockCodecs::new(Direction::Up, &spec);
        let cells = match measure(&codecs, &table, measured_for) {
            Ok(measured) => measured.cells(shape).map(Cell::from).to_vec(),
            Err(error) => {
                remarks.push(Block::text(format!("{name}: {error}")));
                vec![Cell::from("-"); HEADER.len() - 1]
            }
        };
        rows.push([vec![Cell::from(name)], cells].concat());
    }
    let title = format!(
        "{}: {} x {} values, {} bytes in single precision",
        arguments.file.display(),
        shape.rows,
        shape.dimension,
        4 * shape.values()
    );
    let explained = "The error is the root mean square of the differences, as a share of that of the values.\nGB/s are of the \
                     values in single precision, on one core, in 10^9 bytes.";
    let mut blocks = vec![Block::Table(report::Table::new("", HEADER, rows))];
    blocks.append(&mut remarks);
    blocks.push(Block::text(explained));
    let document = Document {
        title,
        blocks,
        ..Document::default()
    };
    Ok(document.terminal(None))
}

/// The columns of the table.
const HEADER: [&str; 8] = [
    "codec",
    "bytes",
    "bits each",
    "of f32",
    "error",
    "largest",
    "enc. GB/s",
    "dec. GB/s",
];

impl Measured {
    /// Returns the figures in the order of the columns.
    fn cells(&self, shape: TableShape) -> [String; HEADER.len() - 1] {
        let (bytes, values) = (self.frame.bytes.len(), shape.values().max(1) as f64);
        let bits = 8.0 * bytes as f64 / values;
        let speed = |seconds: f64| format!("{:.3}", 4.0 * values / seconds.max(1e-12) / 1e9);
        [
            bytes.to_string(),
            format!("{bits:.3}"),
            format!("{:.2}%", 100.0 * bits / 32.0),
            format!("{:.2e}", self.relative_error),
            format!("{:.2e}", self.largest_error),
            speed(self.encode_s),
            speed(self.decode_s),
        ]
    }
}

/// Reads a codec as a scenario writes it.
fn codec_of(name: &str, vocabulary: &[MethodVocabulary]) -> Result<CodecSpec> {
    let overrides = [format!("codec.uplink={name}")];
    Ok(scenario::parse(SCENARIO, "codec bench", &overrides, vocabulary)?.codec)
}

/// Reads a table of two dimensions, of single or double precision.
fn read(path: &Path) -> Result<Table> {
    let mut file = seekable(path)?;
    let values = match Array2::<f32>::read_npy(&mut file) {
        Err(ReadNpyError::WrongDescriptor(_)) => file
            .rewind()
            .map_err(ReadNpyError::Io)
            .and_then(|()| Array2::<f64>::read_npy(&mut file))
            .map(|values| values.mapv(|value| value as f32)),
        single => single,
    };
    let values = values.map_err(|error| {
        let hint = "expected a NumPy array of two dimensions, of float32 or float64, saved with \
                    numpy.save";
        Error::read(path, format!("{error}; {hint}"))
    })?;
    Ok(Table::from_array(&values))
}

/// Encodes the whole table and decodes it again, several times.
fn measure(codecs: &BlockCodecs, table: &Table, measured_for: Duration) -> Result<Measured> {
    let layout = Layout::of_table("table", table.shape());
    let update = ModelUpdate::whole(&Model::of_table("table", table.clone()));
    let base = Model::of_table("table", Table::zeros(table.shape()));
    let encode = || {
        let mut context = EncodeContext {
            base: &base,
            memory: &mut CodecMemory::default(),
            randomness: Randomness::new(Streams::new(0), FrameKind::Upload, Some(0), 0),
        };
        codecs.encode(&update, &layout, &mut context)
    };
    let frame = encode()?;
    let decoded = codecs
        .decode(&frame.bytes, &layout, &base)?
        .apply(&layout, &base)?;
    let pairs = || table.as_slice().iter().zip(decoded.table(0).as_slice());
    let errors = || pairs().map(|(meant, has)| f64::from(*meant) - f64::from(*has));
    let square = |value: f64| value * value;
    let squares: f64 = pairs().map(|(meant, _)| square(f64::from(*meant))).sum();
    let of_errors: f64 = errors().map(square).sum();
    let relative_error = match squares > 0.0 {
        true => fedrecsim_core::math::sqrt(of_errors / squares),
        false => 0.0,
    };
    Ok(Measured {
        relative_error,
        largest_error: errors().fold(0.0, |largest, error| error.abs().max(largest)),
        encode_s: seconds(measured_for, || encode().map(drop))?,
        decode_s: seconds(measured_for, || {
            codecs.decode(&frame.bytes, &layout, &base).map(drop)
        })?,
        frame,
    })
}

/// Returns the least time that `work` takes, of as many times as `measured_for` lasts.
fn seconds(measured_for: Duration, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    let mut least = f64::INFINITY;
    while least.is_infinite() || began.elapsed() < measured_for {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ndarray_npy::write_npy;

    use super::*;
    use fedrecsim_methods::registry::vocabulary;

    /// If this fails, a codec that is listed cannot be measured, or its bytes and errors are not
    /// those of the table.
    #[test]
    fn every_codec_is_measured_on_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.npy");
        write_npy(
            &file,
            &Array2::from_shape_fn((20, 6), |(row, column)| (row * column) as f64 / 7.0 - 3.0),
        )
        .unwrap();
        let codecs = vec!["{ select = { top-share = 0.5 } }".to_owned()];
        let arguments = CodecBenchArgs {
            file: file.clone(),
            codecs,
        };
        let text = bench(&arguments, &vocabulary(), Duration::ZERO).unwrap();
        assert!(
            text.starts_with(&format!("{}: 20 x 6 values, 480 bytes", file.display())),
            "{text}"
        );
        let measured = |name: &str| {
            text.lines()
                .find(|line| line.starts_with(name))
                .unwrap()
                .to_owned()
        };
        for name in MEASURED.lines() {
            assert!(measured(name).contains('%'), "{text}");
        }
        assert!(measured("\"dense-f32\"").contains(" 508 "), "{text}");
        assert!(
            measured("\"dense-f32\"").contains("0.00e0") && text.contains("top-share = 0.5"),
            "{text}"
        );
    }

    /// If this fails, an array that another program hands over through a pipe cannot be measured.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_as_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let values = Array2::from_shape_fn((3, 2), |(row, column)| (row + column) as f64);
        let end = pipe.clone();
        let writer = std::thread::spawn(move || write_npy(end, &values));
        let table = read(&pipe).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(table.as_slice(), [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    }

    /// If this fails, a user whose file or codec is wrong is not told what is.
    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.npy");
        write_npy(&file, &ndarray::Array1::from_vec(vec![1.0f32, 2.0])).unwrap();
        let refused = |file: &Path, codecs: &[&str]| {
            let codecs = codecs.iter().map(|text| (*text).to_owned()).collect();
            bench(
                &CodecBenchArgs {
                    file: file.to_owned(),
                    codecs,
                },
                &vocabulary(),
                Duration::ZERO,
            )
            .unwrap_err()
            .to_string()
        };
        assert!(
            refused(&file, &[]).contains("array of two dimensions"),
            "{}",
            refused(&file, &[])
        );
        assert!(refused(&folder.path().join("absent.npy"), &[]).contains("absent.npy"));
        write_npy(&file, &Array2::<f32>::ones((2, 2))).unwrap();
        assert!(refused(&file, &["{ values = \"int5\" }"]).contains("did you mean `int8`?"));
    }
}
